"""A new recording is proved as CI will replay it: on another day and in another order; what differs names its cause."""

import re

import pytest

from tests.support.small_projects import flat, furnished, passed

pytestmark = [pytest.mark.env("main"), pytest.mark.proves(forked=True)]

ASKS = """
import functools, os, httpx

def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return httpx.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).text
"""

AGENT = """
import dataclasses, datetime, enum, functools, time
import times
from asks import ask

CONSTANT = f"Today is {datetime.date.today()}."
MONTH = f"It is {datetime.datetime.now():%B}."
WEEKDAY = time.strftime("%A")
GREETING = "Good morning" if time.localtime().tm_hour < 12 else "Good evening"
HELPED = f"Today is {times.today()}."
CALLED = datetime.datetime.fromtimestamp(time.time()).strftime("%d.%m.")

class Prompt:
    attribute = f"Today is {datetime.datetime.utcnow().date()}."

@dataclasses.dataclass
class Question:
    day: str = time.ctime()[:10]

class Day(enum.Enum):
    TODAY = str(datetime.date.today())

def by_default(day=str(datetime.date.today())):
    ask(f"By default {day}")

def now():
    ask(f"Now it is {datetime.datetime.now()}, {time.time()}, {time.strftime('%c')}")
"""

TIMES = """
import datetime, functools

@functools.lru_cache
def today():
    return datetime.date.today()
"""

CONFTEST = """
import datetime, pytest

HERE = f"{datetime.date.today()}"

@pytest.fixture(scope="session")
def today():
    yield str(datetime.date.today())

@pytest.fixture(scope="class", autouse=True)
def year(request):
    request.node.day = str(datetime.date.today())

@pytest.fixture
def mine():
    return str(datetime.date.today())

def pytest_generate_tests(metafunc):
    if "generated" in metafunc.fixturenames:
        metafunc.parametrize("generated", [str(datetime.date.today())])
"""

TESTS = """
import datetime, time
import agent, pytest
from agent import ask
from conftest import HERE

TEXTS = {
    "constant": agent.CONSTANT, "month": agent.MONTH, "weekday": agent.WEEKDAY, "greeting": agent.GREETING,
    "helped": agent.HELPED, "attribute": agent.Prompt.attribute, "dataclass": agent.Question().day,
    "enum": agent.Day.TODAY.value, "conftest": HERE,
}

@pytest.mark.parametrize("name", TEXTS)
def test_text(name, agentreplay):
    ask(TEXTS[name])

def test_default(agentreplay):
    agent.by_default()

def test_session(today, agentreplay):
    ask(today)

class TestOfClass:
    def test_class(self, request, agentreplay):
        ask(request.node.parent.day)

DAY = str(datetime.date.today())

@pytest.mark.parametrize("day", [DAY])
def test_parameter(day, agentreplay):
    ask(day)

def test_generated(generated, agentreplay):
    ask(generated)

def test_now(mine, agentreplay):
    ask(mine)
    agent.now()

@pytest.mark.agentreplay(clock="real")
def test_real(agentreplay):
    ask(f"Today is {datetime.date.today()}")

@pytest.mark.agentreplay(clock="real")
def test_real_without(agentreplay):
    assert time.time() - datetime.datetime.now().timestamp() < 5
    ask("nothing")
"""


def list_proofs(done):
    """Return what is said of each recording, by the name of its test."""
    lines = re.findall(r"^recorded .*/test_\w+/(.+?)(?:-\w{10})?\.snapshot\.json \(.*?\)   (.*)$", done.stdout, re.M)
    return dict(lines)


def find_line(text, words):
    """Return the number of the line that holds `words`."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def test_a_date_that_is_read_outside_of_the_test_is_named_with_its_line(project):
    furnished(project, asks=ASKS, agent=AGENT, times=TIMES, conftest=CONFTEST, test_shop=TESTS)
    done = passed(project.record(COLUMNS="300"))
    proofs = {name.removeprefix("test_"): text for name, text in list_proofs(done).items()}
    imported = "reads the date while it is imported: build the prompt in a function"
    at = {name: f"agent.py:{find_line(AGENT, words)}" for name, words in {
        "constant": "CONSTANT =", "month": "MONTH =", "weekday": "WEEKDAY =", "greeting": "GREETING =",
        "attribute": "attribute =", "dataclass": "day: str", "enum": "TODAY =", "default": "def by_default",
    }.items()}  # fmt: skip
    at["helped"] = f"times.py:{find_line(TIMES, 'return')} (called by agent.py:{find_line(AGENT, 'HELPED =')})"
    at["conftest"] = f"conftest.py:{find_line(CONFTEST, 'HERE =')}"
    assert {name: proofs.get(f"text-{name}", proofs.get(name)) for name in at} == {
        name: f"does not replay: {line} {imported}" for name, line in at.items()
    }
    line, wide = find_line(CONFTEST, "yield"), "reads the date in a fixture wider than the test"
    assert proofs["session"].startswith(f"does not replay: conftest.py:{line} {wide}: read it in the test")
    assert proofs["testofclass.test_class"].startswith(f"does not replay: conftest.py:{line + 4} {wide}")
    in_id = "does not replay: the id of the test holds the date of"
    days = {
        name.partition("-")[0]: text
        for name, text in proofs.items()
        if name.partition("-")[0] in {"parameter", "generated"}
    }
    assert days == {
        "parameter": f"{in_id} test_shop.py:{find_line(TESTS, 'DAY = str')}: read the date in the test",
        "generated": f"{in_id} conftest.py:{find_line(CONFTEST, 'parametrize')}: read the date in the test",
    }
    line = find_line(TESTS, "Today is")
    assert proofs["real"].startswith(
        f"does not replay: test_shop.py:{line} reads the date in a test whose clock is real"
    )
    assert (proofs["now"], proofs["real_without"]) == ("replays", "replays")


CACHED = """
import functools, json, pathlib
import pytest
from asks import ask

cached = functools.lru_cache(ask)
STATE = []

def test_first(agentreplay):
    cached("shared")

def test_second(agentreplay):
    cached("shared")
    ask("own")

def test_on_disk(agentreplay):
    file = pathlib.Path("cache.json")
    if not file.exists():
        file.write_text(ask("to keep"))
    ask("after " + str(len(file.read_text()) > 0))

@pytest.mark.incremental
class TestSteps:
    def test_step(self, agentreplay):
        STATE.append("step")
        ask("one")

    def test_next(self, agentreplay):
        ask(f"after {STATE}")

def test_begins(agentreplay):
    STATE.append("begun")
    ask("begin")

def test_asserts_what_another_did(agentreplay):
    ask("end")
    assert "begun" in STATE
"""

INCREMENTAL = """
import pytest

def pytest_runtest_makereport(item, call):
    if "incremental" in item.keywords and call.excinfo is not None:
        item.parent.failed_before = item

def pytest_runtest_setup(item):
    if "incremental" in item.keywords and hasattr(item.parent, "failed_before"):
        pytest.xfail("a step before failed")
"""


def test_a_test_that_needs_a_warm_cache_is_named_and_declared_orders_are_no_alarm(project):
    ini = "markers = incremental\n"
    furnished(project, ini, asks=ASKS, test_shop=CACHED, conftest=INCREMENTAL)
    proofs = list_proofs(passed(project.record(COLUMNS="300")))
    second, on_disk = proofs.pop("test_second"), proofs.pop("test_on_disk")
    warm = "a cache was warm: test_shop.py::test_first made this call before"
    assert second.startswith("does not replay: alone, or in another order: [AR-EXTRA] turn 1/1: model m called")
    assert second.endswith(
        f"; {warm}; clear what outlives a test (a cache, a list of a module) in the test or a fixture"
    )
    assert on_disk.startswith("does not replay: [AR-MISSING] turn 1/2: model m, last message: to keep was not called")
    assert on_disk.endswith("; a cache may have answered (on disk, or of another test)")
    assert {*proofs.values()} == {"replays"}

    assert project.offline("-k", "first or second").returncode == 0
    alone = project.offline("-k", "second", COLUMNS="300")
    assert warm in alone.stdout
    assert "accept --requests" not in alone.stdout
    assert "pytest --snapshot-record test_shop.py::test_second" in alone.stdout
    project.record("-k", "second")
    after = project.offline("-k", "first or second", COLUMNS="300")
    assert "perhaps a cache: test_shop.py::test_first made this call before" in flat(after)
