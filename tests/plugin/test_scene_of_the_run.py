"""A prompt holds the time, an id, a pick and a path; a replay elsewhere and later sends the very same bytes."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = '''
import datetime, os, pathlib, random, socket, tempfile, time, uuid
import httpx2, openai

ROOT = pathlib.Path(__file__).parent

def here(folder):
    return {
        "tmp": str(folder), "cwd": os.getcwd(), "root": str(ROOT), "home": str(pathlib.Path.home()),
        "file": str(folder / "notes" / "a b.txt"), "tempdir": tempfile.gettempdir(), "host": socket.gethostname(),
    }

def scene(folder):
    return {
        "now": datetime.datetime.now().isoformat(), "utc": datetime.datetime.now(datetime.UTC).isoformat(),
        "time": time.time(), "ns": time.time_ns(), "today": str(datetime.date.today()),
        "id": str(uuid.uuid4()), "short": uuid.uuid4().hex[:8], "stamp": str(uuid.uuid1()),
        "pick": random.choice(range(10**9)), "draw": random.random(), "order": random.sample(range(99), 5),
        **here(folder),
    }

def write_report(path: str) -> str:
    pathlib.Path(path).write_text("a report")
    return f"written to {path} at {datetime.datetime.now().isoformat()} as {random.random()}"

def ask(messages):
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k") as client:
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content

def agent(folder):
    """Three turns, the scene told in each; gives what the model said about the places."""
    said = []
    for n in range(3):
        told = "\\n".join(f"{name}: {value}" for name, value in scene(folder).items())
        messages = [{"role": "system", "content": told}, {"role": "user", "content": f"Where are we? ({n})"}]
        said.append(ask(messages))
        messages.append({"role": "user", "content": write_report(str(folder / f"report-{n}.txt"))})
        ask(messages)
    return said

def impatient():
    """Waits on wall time, which stands still."""
    ask([{"role": "user", "content": "hello"}])
    deadline = time.time() + 0.2
    while time.time() < deadline:
        time.sleep(0.02)
'''

TESTS = """
import datetime, time
import agent

def test_scene(agentreplay, tmp_path):
    for said in agent.agent(tmp_path):
        for name, place in agent.here(tmp_path).items():
            assert f"{name} is at {place}." in said, (name, place, said)

def test_impatient(agentreplay):
    agent.impatient()

def test_real_time_is_back():
    assert abs(time.time() - datetime.datetime.now().timestamp()) < 5
    assert time.time() > 1_700_000_000
"""

CONFTEST = """
import os, pathlib, platform, random, socket, time, types, pytest

if os.environ.get("SECONDS_AGO"):
    # A recording takes its start from here, and its agent sees no other time.
    from pytest_agentreplay.runs import recording_session as recording
    ago = int(os.environ["SECONDS_AGO"]) * 10**9
    recording.time = types.SimpleNamespace(time_ns=lambda: time.time_ns() - ago)

if os.environ.get("OTHER_HOST"):
    platform.node = socket.gethostname = lambda: os.environ["OTHER_HOST"]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    random.seed(7)
    before = random.getstate()
    result = yield
    with pathlib.Path(__file__).with_name("states.txt").open("a") as states:
        states.write(f"{random.getstate() == before}\\n")
    return result
"""

INI = """
[pytest]
pythonpath = .
agentreplay_tools = agent.write_report
"""

YEAR = 365 * 24 * 3600


def echo(body, number):
    """A model that says where everything is."""
    told = dict(line.split(": ", 1) for line in body["messages"][0]["content"].splitlines() if ": " in line)
    places = ("tmp", "cwd", "root", "home", "file", "tempdir", "host")
    return f"({number}) " + " ".join(f"{name} is at {told[name]}." for name in places if name in told)


def folders_of_a_user(home, temp):
    """The environment that moves both, on POSIX and on Windows."""
    return dict.fromkeys(("HOME", "USERPROFILE"), home) | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), temp)


@pytest.fixture(scope="module")
def recorded(shared_project):
    """Recorded a year ago and proved, and its server gone."""
    project = shared_project(echo)
    project.write(agent=AGENT, test_scene=TESTS, conftest=CONFTEST)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    for name in ("home", "tmp"):
        (project.root.parent / f"{project.root.name}-{name}").mkdir()
    project.environ |= {
        **folders_of_a_user(f"{project.root}-home", f"{project.root}-tmp"),
        "PYTHONHASHSEED": "1",
        "TZ": "Europe/Berlin",
        "OTHER_HOST": "maple-7",
    }
    project.recording = project.record(SECONDS_AGO=str(YEAR))
    project.server.stop()
    return project


def states(project):
    return (project.root / "states.txt").read_text(encoding="utf-8").split()


def run_of(project):
    return next(s.run for s in project.snapshots if "test_scene.py::test_scene" in s.run.header.test)


def test_it_is_recorded_and_proved(recorded):
    done = recorded.recording
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("   replays") == 2, done.stdout
    assert "the clock ran on" in done.stdout
    assert set(states(recorded)) == {"True"}


def test_no_place_of_this_machine_is_in_the_file(recorded):
    for file in recorded.files:
        text = file.read_text(encoding="utf-8")
        assert str(recorded.root) not in text
        assert "maple-7" not in text


def test_the_prompts_hold_the_time_of_the_recording(recorded):
    run = run_of(recorded)
    then = datetime.now(UTC) - timedelta(seconds=YEAR)
    assert abs(datetime.fromisoformat(run.header.recorded) - then) < timedelta(minutes=10)
    told = [
        dict(line.split(": ", 1) for line in json.loads(x.call.body.data)["messages"][0]["content"].splitlines())
        for x in run.exchanges
        if x.call.boundary == "http"
    ]
    times = [float(one["time"]) for one in told]
    assert all(abs(time - then.timestamp()) < 600 for time in times)
    assert times == sorted(times)
    assert len(set(times)) == 3, "each turn has a time of its own, the request with a tool result repeats it"
    for name in ("id", "short", "stamp", "pick", "draw", "now", "ns"):
        assert len({one[name] for one in told}) == 3, name


def test_a_year_later_it_replays(recorded):
    done = recorded.replay()
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert set(states(recorded)) == {"True"}


def test_elsewhere_it_replays_and_names_the_places_of_today(recorded, tmp_path):
    other = tmp_path / "checkout" / "elsewhere"
    shutil.copytree(recorded.root, other, ignore=shutil.ignore_patterns(".pytest_agentreplay"))
    home, temp = tmp_path / "h", tmp_path / "t"
    home.mkdir()
    temp.mkdir()
    there = type(recorded)(other, recorded.server)
    there.environ |= {
        **folders_of_a_user(str(home), str(temp)),
        "PYTHONHASHSEED": "99",
        "OTHER_HOST": "oak-12.example",
        "TZ": "Asia/Kolkata",
    }
    done = there.replay()
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    again = there.replay("-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base temp"))
    assert again.returncode == 0, again.stdout


def test_another_draw_is_a_divergence(recorded):
    """The seeds do not hide what the agent draws beside its recording."""
    recorded.edit("agent.py", "def scene(folder):\n", "def scene(folder):\n    random.random()\n")
    try:
        done = recorded.replay()
    finally:
        recorded.edit("agent.py", "def scene(folder):\n    random.random()\n", "def scene(folder):\n")
    assert done.returncode == 1
    assert "[AR-" in done.stdout
    assert "turn 1/" in done.stdout
