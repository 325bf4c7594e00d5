"""What is around a run: times, ids, picks, paths, files, variables, flags. A replay elsewhere and later sends the same."""

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.exhaustive import rare
from tests.support.small_projects import edited, furnished, passed, recorded, runs

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = '''
import datetime, os, pathlib, random, socket, tempfile, time, uuid
import numpy, openai

ROOT = pathlib.Path(__file__).parent
PROMPT = "You sort orders."

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
        "numpy": f"{numpy.random.rand()} {numpy.random.default_rng().integers(10**9)}",
        **here(folder),
    }

def write_report(path: str) -> str:
    pathlib.Path(path).write_text("a report")
    numpy.random.rand()
    return f"written to {path} at {datetime.datetime.now().isoformat()} as {random.random()}"

def ask(*contents):
    messages = [{"role": "user", "content": content} for content in contents]
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k") as client:
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content

def agent(folder):
    """Three turns, the scene told in each; gives what the model said about the places."""
    said = []
    for n in range(3):
        told = "\\n".join(f"{name}: {value}" for name, value in scene(folder).items())
        said.append(ask(told, f"Where are we? ({n})"))
        ask(told, write_report(str(folder / f"report-{n}.txt")))
    return said

def impatient():
    """Waits on wall time, which stands still."""
    ask("hello")
    deadline = time.time() + 0.2
    while time.time() < deadline:
        time.sleep(0.02)

def traced():
    from opentelemetry.sdk.trace import TracerProvider
    ask("before any span")
    with TracerProvider().get_tracer("agent").start_as_current_span("turn"):
        ask("inside a span")
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

def test_traced(agentreplay):
    agent.traced()

def test_sorts(agentreplay):
    agentreplay.annotate(new_prompt=False, tenant="acme")
    assert agentreplay.keep_file("data/rates.json").read_text() != ""
    agent.ask(agent.PROMPT)

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

platform.node = socket.gethostname = lambda: os.environ["OTHER_HOST"]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    random.seed(7)
    before = random.getstate()
    result = yield
    assert random.getstate() == before
    return result
"""

INI = """
agentreplay_keep =
    env:SHOP_*
    file:data/orders*.json
agentreplay_tools = agent.write_report
"""

YEAR = 365 * 24 * 3600


def echo(body, number):
    """A model that says where everything is."""
    told = dict(line.split(": ", 1) for line in body["messages"][0]["content"].splitlines() if ": " in line)
    places = ("tmp", "cwd", "root", "home", "file", "tempdir", "host")
    return f"({number}) " + " ".join(f"{name} is at {told[name]}." for name in places if name in told)


def folders_of_a_user(folder):
    """The environment that moves home and the temporary folder, on POSIX and on Windows."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    homes, temps = ("HOME", "USERPROFILE"), ("TMPDIR", "TEMP", "TMP")
    return dict.fromkeys(homes, str(folder / "home")) | dict.fromkeys(temps, str(folder / "tmp"))


@pytest.fixture(scope="module")
def made(shared_project, tmp_path_factory):
    """Recorded a year ago."""
    project = furnished(shared_project(echo), INI, agent=AGENT, test_scene=TESTS, conftest=CONFTEST)
    (project.root / "data").mkdir()
    for name in ("orders", "orders-2", "rates"):
        (project.root / "data" / f"{name}.json").write_text(f'["{name}"]', encoding="utf-8")
    (project.root / "uv.lock").write_text("version = 1\n", encoding="utf-8")
    project.environ |= folders_of_a_user(tmp_path_factory.mktemp("user") / "of")
    project.environ |= {"TZ": "Europe/Berlin", "OTHER_HOST": "maple-7"}
    project.environ |= {"SHOP_REGION": "eu", "SHOP_API_KEY": "k-99119911"}
    return recorded(project, SECONDS_AGO=str(YEAR), PYTHONHASHSEED="3")


def test_the_prompts_hold_the_time_of_the_recording_and_the_file_no_place_of_this_machine(made):
    text = "".join(file.read_text(encoding="utf-8") for file in made.files)
    assert not [place for place in (str(made.root), "maple-7") if place in text]
    run = runs(made)["scene"]
    then = datetime.now(UTC) - timedelta(seconds=YEAR)
    assert abs(datetime.fromisoformat(run.header.recorded) - then) < timedelta(minutes=10)
    contents = [
        json.loads(x.call.body.data)["messages"][0]["content"] for x in run.exchanges if x.call.boundary == "http"
    ]
    told = [dict(line.split(": ", 1) for line in content.splitlines()) for content in contents]
    times = [float(one["time"]) for one in told]
    assert all(abs(time - then.timestamp()) < 600 for time in times)
    assert times == sorted(times)
    for name in ("time", "id", "short", "stamp", "pick", "draw", "now", "ns", "numpy"):
        assert len({one[name] for one in told}) == 3, "each turn has its own, the request with a tool result repeats it"


def test_the_kit_holds_what_was_declared(made):
    kit = runs(made)["sorts"].header.kit
    sha256 = {name: hashlib.sha256(f'["{name}"]'.encode()).hexdigest() for name in ("orders", "orders-2", "rates")}
    assert kit["fixtures"] == {f"data/{name}.json": digest for name, digest in sha256.items()}
    assert kit["environment"] == {"SHOP_REGION": "eu"}
    assert kit["annotations"] == {"new_prompt": False, "tenant": "acme"}
    assert kit["hash"] == {"seed": 3}
    assert "variables" in kit["locale"]
    assert list(kit["locks"]) == ["uv.lock"]
    assert "numpy" in runs(made)["scene"].header.kit["generators"]
    trace = runs(made)["traced"].header.kit["trace"]
    assert (len(trace["trace_id"]), len(trace["span_id"])) == (32, 16)
    assert "trace" not in kit


def test_a_year_later_it_replays(made):
    """With another hash seed, as each replay here that names none."""
    done = passed(made.offline(OTHER_HOST="oak-12.example", TZ="Asia/Kolkata"))
    assert "5 passed" in done.stdout
    assert "changed" not in done.stdout


@pytest.mark.parametrize("draws", ["random.random()", *rare("numpy.random.rand()")])
def test_another_draw_is_a_divergence(made, draws):
    """The seeds do not hide what the agent draws beside its recording."""
    with edited(made, "agent.py", "def scene(folder):\n", f"def scene(folder):\n    {draws}\n"):
        done = made.offline("-k", "scene")
    assert done.returncode == 1
    assert re.search(r"\[AR-\w+\] turn 1/", done.stdout), done.stdout


@pytest.fixture
def elsewhere(made):
    """Another machine: other variables, flags, locale and files."""
    with (
        edited(made, "data/orders.json", "orders", "other"),
        edited(made, "test_scene.py", "new_prompt=False", "new_prompt=True"),
    ):
        yield {"SHOP_REGION": "us", "SHOP_API_KEY": "k-00000000"}


def test_a_divergence_names_what_has_changed_around_it(made, elsewhere):
    with edited(made, "agent.py", "You sort orders.", "You sort all orders."):
        done = made.offline("-k", "sorts", PYTHONHASHSEED="0", **elsewhere)
    assert done.returncode == 1
    assert '  changed since environment SHOP_REGION: "eu" -> "us"' in done.stdout
    assert "  changed since kept file data/orders.json has another content" in done.stdout
    assert "  changed since annotation new_prompt: false -> true" in done.stdout
    assert "  changed since order of sets: PYTHONHASHSEED=3 -> PYTHONHASHSEED=0" in done.stdout
    assert "k-00000000" not in done.stdout
    report = done.stdout.partition("[AR-PROMPT]")[2].partition("- agentreplay -")[0]
    assert len(report.strip().splitlines()) <= 24 + 2


def test_a_green_replay_tells_of_changed_files(made, elsewhere):
    before, after = (made.root / "data" / f"orders-{number}.json" for number in (2, 3))
    before.rename(after)
    done = passed(made.offline(**elsewhere))
    after.rename(before)
    told = "kept file data/orders.json has another content since it was recorded; 4 tests replayed all the same"
    assert f"changed   {told}" in done.stdout
    assert "kept file data/orders-2.json is no longer named" in done.stdout
    assert "kept file data/orders-3.json is new" in done.stdout


def test_in_mode_off_a_kept_file_is_where_it_was(made, tmp_path):
    passed(made.child("pytest", *made.options, "--replay=off", "-k", "sorts", made.root, cwd=tmp_path))


JUMPS = """
import itertools, os, time

AT = itertools.cycle([1.7e9, 1.7e9 - 7200, 1.8e9, -5.0, 1.7e9 + 1, 0.0])
time.time = lambda: next(AT)
time.time_ns = lambda: int(next(AT) * 1e9)

def pytest_fixture_setup(fixturedef):
    os.environ["TZ"] = "Pacific/Kiritimati" if os.environ.get("TZ") != "Pacific/Kiritimati" else "America/Lima"
    time.tzset()
"""


def test_clocks_that_jump_neither_order_nor_end_anything(project):
    """Back and forth by hours, before 1970, and to other zones: what came first is told by numbers."""
    test = "\n@pytest.mark.agentreplay(clock='{0}')\ndef test_{0}():\n    assert agent.answer('Where is A-17?')\n"
    project.write(conftest=JUMPS, test_shop="import agent, pytest\n" + test.format("stepped") + test.format("real"))
    recorded(project)
    for snapshot in project.snapshots:
        assert [x.call.boundary for x in snapshot.run.exchanges] == ["http", "tool", "http", "tool", "http"]
        assert [x.start for x in snapshot.run.exchanges] == sorted(x.start for x in snapshot.run.exchanges)
    project.write(conftest="")
    passed(project.offline())
