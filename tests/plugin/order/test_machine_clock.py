"""The machine's clock is moved, and the machine is another one: each prompt comes back, or the report names the cause.

A recording passes midnight in UTC, a change of summer time, the end of a month, or into 29 February; its replay happens
another year, in another zone, by another user, from another checkout.
"""

import json
import shutil
import time

import pytest

pytestmark = pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process is not to be moved here")

MACHINE = '''
"""The machine's clock as the test's name says it: whoever reads the time sees it, the plugin too."""

import datetime, os
import time_machine

STARTS = {
    "utc_midnight": "2027-05-10T23:59:58.9+00:00",
    "summer_time": "2027-03-28T00:59:58.9+00:00",
    "winter_time": "2027-10-31T00:59:58.9+00:00",
    "month_end": "2027-01-31T22:59:58.9+00:00",
    "leap_day": "2028-02-28T22:59:58.9+00:00",
    "leap_day_ends": "2028-02-29T22:59:58.9+00:00",
    "new_year": "2026-12-31T22:59:58.9+00:00",
}
ELSEWHEN = "2031-08-17T11:12:13.4+00:00"

journey = time_machine.travel(0, tick=True)
machine = journey.start()
# It is no journey of a test: the plugin's own clock may stop above it.
time_machine.escape_hatch.is_travelling = lambda: len(time_machine.traveller_stack) > 1

def pytest_runtest_logstart(nodeid):  # the recording of a test begins with its set-up
    moment = STARTS.get(nodeid.rpartition("::test_")[2], STARTS["utc_midnight"])
    moment = os.environ.get("ELSEWHEN") or moment
    machine.move_to(datetime.datetime.fromisoformat(moment).timestamp())
'''

AGENT = """
import calendar, datetime, email.utils, getpass, http.cookiejar, os, pathlib, random, secrets, socket, tempfile, time, uuid
import httpx2

def dates():
    now, today = datetime.datetime.now(), datetime.date.today()
    try:
        a_year_ago = str(today.replace(year=today.year - 1))
    except ValueError as error:
        a_year_ago = str(error)
    return {
        "now": now.isoformat(), "utc": datetime.datetime.now(datetime.UTC).isoformat(), "today": str(today),
        "said": today.strftime("%A, %d %B %Y"), "zone": now.astimezone().isoformat(), "names": time.tzname,
        "local": tuple(time.localtime()), "gm": tuple(time.gmtime()), "ctime": time.ctime(), "epoch": time.time(),
        "mail": email.utils.formatdate(localtime=True), "cookie": http.cookiejar.time2isoz(),
        "file": time.strftime("report-%Y%m%d-%H%M%S.txt"), "days": calendar.monthrange(today.year, today.month),
        "a year ago": a_year_ago, "tomorrow": str(today + datetime.timedelta(1)),
        "in 100 days": (now + datetime.timedelta(100)).astimezone().isoformat(),
        "stamp": str(uuid.uuid1()), "id": str(uuid.uuid4()), "pick": random.choice(range(10**9)),
    }

def places(folder):
    return {
        "home": str(pathlib.Path.home()), "user": getpass.getuser(), "host": socket.gethostname(), "cwd": os.getcwd(),
        "tmp": str(folder), "tempdir": tempfile.gettempdir(), "rc": os.path.expanduser("~/.config/agent.toml"),
    }

def ask(text):
    with httpx2.Client(headers={"Date": email.utils.formatdate(usegmt=True)}) as client:
        reply = client.post(
            os.environ["MODEL_URL"] + "/v1/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": text}]},
        )
    return reply.json()["choices"][0]["message"]["content"]

def turns(folder):
    for n in range(5):  # a stepped clock shows the last call's time: the fifth turn sees all three pauses
        if 0 < n < 4:
            time.sleep(0.4)  # after a second without a call the clock would run on when it is read
        facts = dates() | places(folder)
        ask("\\n".join(f"{name}: {value}" for name, value in facts.items()))

def unheld(kind):
    tags = {"eu", "vip", "new", "late", "paid"}
    return ask({
        "set": f"The tags are {tags}.",
        "set_by_lines": "The tags:\\n" + "\\n".join(f"- {tag}" for tag in tags),
        "file": f"Read {tempfile.mkdtemp()} first.",
        "user": f"You work for {getpass.getuser()}.",
        "token": f"Your session is {secrets.token_hex(8)}.",
        "object": f"Use {object()!r}.",
    }[kind])
"""

TESTS = """
import time
import agent, pytest

""" + "\n".join(
    f"def test_{name}(agentreplay, tmp_path):\n    agent.turns(tmp_path)\n"
    for name in ("utc_midnight", "summer_time", "winter_time", "month_end", "leap_day", "leap_day_ends", "new_year")
)

WARM = """
import agent

def test_first(agentreplay):
    agent.ask("Ready?")
"""

UNHELD = """
import agent, pytest

@pytest.mark.parametrize("kind", ["set", "set_by_lines", "file", "user", "token", "object"])
def test_unheld(agentreplay, kind):
    agent.unheld(kind)
"""

CONFTEST = """
import os, platform, socket

if os.environ.get("OTHER_HOST"):
    platform.node = socket.gethostname = lambda: os.environ["OTHER_HOST"]
"""

HERE = {"TZ": "Europe/Berlin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "1", "USER": "annalena", "OTHER_HOST": "maple-7"}
THERE = {"TZ": "Africa/Lagos", "LANG": "C", "PYTHONHASHSEED": "2", "USER": "root", "OTHER_HOST": "oak-12"}
FAR = {"TZ": "America/New_York", "LC_ALL": "C", "PYTHONHASHSEED": "3", "USER": "bjarne", "OTHER_HOST": "ash-3"}
ELSEWHEN = "2031-08-17T11:12:13.4+00:00"


def at_home(folder, surroundings):
    """A machine with a home, a temp directory and a user of its own, on POSIX."""
    for name in ("home", "temp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    named = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "temp"), "LOGNAME": surroundings["USER"]}
    return surroundings | named


@pytest.fixture(scope="module")
def recorded(shared_project):
    project = shared_project(lambda body, number: f"noted ({number})")
    # The first test loads what a recording needs. The others have 1.1 s for their set-up before their moment passes:
    # with 0.1 s, a loaded machine passed it before the first turn.
    project.write(
        agent=AGENT, machine=MACHINE, test_a_first=WARM, test_dates=TESTS, test_unheld=UNHELD, conftest=CONFTEST
    )
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    project.plugins = ("machine", *project.plugins)
    project.environ |= at_home(project.root.parent / f"{project.root.name}-here", HERE)
    project.recording = project.record()
    return project


def told(project, name):
    """What each turn of a test's prompt said, by fact."""
    run = next(s.run for s in project.snapshots if s.run.header.test.endswith(f"::test_{name}"))
    texts = [json.loads(x.call.body.data)["messages"][0]["content"] for x in run.exchanges]
    return [dict(line.split(": ", 1) for line in text.splitlines()) for text in texts]


def test_each_recording_passes_its_moment_and_is_proved(recorded):
    assert recorded.recording.returncode == 0, recorded.recording.stdout
    proofs = [line for line in recorded.recording.stdout.splitlines() if "/test_dates/" in line]
    assert len([line for line in proofs if line.endswith("   replays")]) == len(proofs) == 7, proofs
    first, *_, last = told(recorded, "utc_midnight")
    assert (first["utc"][:10], last["utc"][:10]) == ("2027-05-10", "2027-05-11")
    first, *_, last = told(recorded, "summer_time")
    assert (first["zone"][-6:], last["zone"][-6:]) == ("+01:00", "+02:00")
    first, *_, last = told(recorded, "winter_time")
    assert (first["zone"][-6:], last["zone"][-6:]) == ("+02:00", "+01:00")
    first, *_, last = told(recorded, "month_end")
    assert (first["said"], last["said"]) == ("Sunday, 31 January 2027", "Monday, 01 February 2027")
    first, *_, last = told(recorded, "leap_day")
    assert (first["a year ago"], last["today"]) == ("2027-02-28", "2028-02-29")
    assert last["a year ago"] != "2027-02-28"
    first, *_, last = told(recorded, "new_year")
    assert (first["today"], last["today"]) == ("2026-12-31", "2027-01-01")


@pytest.mark.parametrize("surroundings", [HERE, THERE, FAR], ids=["here", "there", "far"])
def test_another_year_elsewhere_it_replays(recorded, tmp_path, surroundings):
    if surroundings is HERE:
        done = recorded.offline("test_dates.py", ELSEWHEN=ELSEWHEN)
    else:
        root = tmp_path / "check out" / "elsewhere"
        shutil.copytree(recorded.root, root, ignore=shutil.ignore_patterns(".pytest_agentreplay"))
        there = type(recorded)(root, recorded.server)
        there.plugins, there.environ = recorded.plugins, there.environ | at_home(tmp_path / "machine", surroundings)
        done = there.offline("test_dates.py", ELSEWHEN=ELSEWHEN)
        if surroundings is THERE:
            # The user is called root there: too common a word to be told from others, so that the prompt differs.
            assert done.returncode == 1
            assert done.stdout.count("both sides look like a place") == 7, done.stdout
            assert "no user or host name that is a common word" in " ".join(done.stdout.split())
            done = there.offline("test_dates.py", ELSEWHEN=ELSEWHEN, USER="bjarne", LOGNAME="bjarne")
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


CAUSES = {
    "set": "the order of a set: such values differ in every run. Sort it before it is sent, or run with PYTHONHASHSEED=0",
    "set_by_lines": "the order of a set: such values differ in every run.",
    "file": "a place: such values differ in every run. Places are put back only where they are known",
    "user": "a place: such values differ in every run.",
    "token": "a random id: such values differ in every run.",
    "object": "a random id: such values differ in every run.",
}


def test_what_is_not_held_is_named(recorded):
    done = recorded.offline(
        "test_unheld.py", **{name: THERE[name] for name in ("PYTHONHASHSEED", "USER")}, LOGNAME="root"
    )
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    for kind, cause in CAUSES.items():
        report = said.partition(f" test_unheld[{kind}] _")[2].partition(" _ test_unheld[")[0]
        assert "[AR-NOISE]" in report, f"{kind}: {report[:2000]}"
        assert f"both sides look like {cause}" in report, f"{kind}: {report[:2000]}"
    assert "changed since order of sets: PYTHONHASHSEED=1 -> PYTHONHASHSEED=2" in said
