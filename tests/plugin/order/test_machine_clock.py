"""The machine's clock is moved, and the machine is another one: each prompt comes back, or the report names the cause.

A recording passes midnight in UTC, a change of summer time, the end of a month, or into 29 February; its replay happens
another year, in another zone, by another user, from another checkout.
"""

import json
import shutil
import time

import pytest

from tests.support.small_projects import flat, furnished, passed, recorded, runs, sections

pytestmark = pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process is not to be moved here")

MACHINE = '''
"""The machine's clock as the test's name says it: whoever reads the time sees it, the plugin too."""

import datetime, os
import time_machine

STARTS = {
    "utc_midnight": "2027-05-10T23:59:58.9+00:00",
    "summer_time": "2027-03-28T00:59:58.9+00:00",
    "winter_time": "2027-10-31T00:59:58.9+00:00",
    "leap_day": "2028-02-28T22:59:58.9+00:00",
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
    for name in ("utc_midnight", "summer_time", "winter_time", "leap_day", "new_year")
)

WARM = """
import agent

def test_first(agentreplay):
    agent.ask("Ready?")
"""

UNHELD = """
import agent, pytest

@pytest.mark.parametrize("kind", ["set", "file", "user", "token", "object"])
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
def machine(shared_project):
    project = shared_project(lambda body, number: f"noted ({number})")
    # The first test loads what a recording needs. The others have 1.1 s for their set-up before their moment passes:
    # with 0.1 s, a loaded machine passed it before the first turn.
    tests = {"test_a_first": WARM, "test_dates": TESTS, "test_unheld": UNHELD}
    furnished(project, agent=AGENT, machine=MACHINE, conftest=CONFTEST, **tests)
    project.plugins = ("machine", *project.plugins)
    project.environ |= at_home(project.root.parent / f"{project.root.name}-here", HERE)
    return recorded(project)


def told(project, name):
    """What the first and the last turn of a test's prompt said, by fact."""
    texts = [json.loads(x.call.body.data)["messages"][0]["content"] for x in runs(project)[name].exchanges]
    return [dict(line.split(": ", 1) for line in text.splitlines()) for text in (texts[0], texts[-1])]


def test_each_recording_passes_its_moment(machine):
    seen = {
        name: told(machine, name) for name in ("utc_midnight", "summer_time", "winter_time", "leap_day", "new_year")
    }
    assert [turn["utc"][:10] for turn in seen["utc_midnight"]] == ["2027-05-10", "2027-05-11"]
    assert [turn["zone"][-6:] for turn in seen["summer_time"]] == ["+01:00", "+02:00"]
    assert [turn["zone"][-6:] for turn in seen["winter_time"]] == ["+02:00", "+01:00"]
    assert [turn["today"] for turn in seen["new_year"]] == ["2026-12-31", "2027-01-01"]
    assert [turn["said"] for turn in seen["leap_day"]] == ["Monday, 28 February 2028", "Tuesday, 29 February 2028"]


@pytest.mark.parametrize("surroundings", [HERE, THERE, FAR], ids=["here", "there", "far"])
def test_another_year_elsewhere_it_replays(machine, tmp_path, surroundings):
    there = machine
    if surroundings is not HERE:
        root = tmp_path / "check out" / "elsewhere"
        shutil.copytree(machine.root, root, ignore=shutil.ignore_patterns(".pytest_agentreplay"))
        there = type(machine)(root, machine.server)
        there.plugins, there.environ = machine.plugins, there.environ | at_home(tmp_path / "machine", surroundings)
    if surroundings is THERE:
        # The user is called root there: too common a word to be told from others, so that the prompt differs.
        done = there.offline("test_dates.py", ELSEWHEN=ELSEWHEN)
        assert done.stdout.count("both sides look like a place") == 5, done.stdout
        assert "no user or host name that is a common word" in flat(done)
        there.environ |= {"USER": "bjarne", "LOGNAME": "bjarne"}
    assert "5 passed" in passed(there.offline("test_dates.py", ELSEWHEN=ELSEWHEN)).stdout


CAUSES = {
    "set": "the order of a set: such values differ in every run. Sort it before it is sent, or run with PYTHONHASHSEED=0",
    "file": "a place: such values differ in every run. Places are put back only where they are known",
    "user": "a place: such values differ in every run.",
    "token": "a random id: such values differ in every run.",
    "object": "a random id: such values differ in every run.",
}


def test_what_is_not_held_is_named(machine):
    environ = {name: THERE[name] for name in ("PYTHONHASHSEED", "USER")}
    done = machine.offline("test_unheld.py", LOGNAME="root", **environ)
    found = sections(done)
    for kind, cause in CAUSES.items():
        assert "[AR-NOISE]" in found[f"unheld[{kind}]"]
        assert f"both sides look like {cause}" in found[f"unheld[{kind}]"], found
    assert "changed since order of sets: PYTHONHASHSEED=1 -> PYTHONHASHSEED=2" in flat(done)
