"""A test that opted in is intercepted from its first fixture to its last finalizer, whatever the order of its arguments."""

import re

import pytest

from tests.support.asking_tool import AGENT, INI, asked
from tests.support.small_projects import flat, furnished, passed, recorded, summary

pytestmark = pytest.mark.env("main")

CONFTEST = """
import pytest, agent

@pytest.fixture
def early():
    return agent.ask("early")

@pytest.fixture
def closes():
    yield agent.ask("before")
    agent.ask("after")

@pytest.fixture
def through(agentreplay):
    return agentreplay

def pytest_runtest_setup(item):
    if "hooked" in item.name:
        agent.ask("hook")

def pytest_runtest_teardown(item):
    if "hooked" in item.name:
        agent.ask("teardown hook")
"""

FIXTURES = """
import unittest
import pytest, agent

def setup_function(function):
    agent.ask("setup_function")

def teardown_function(function):
    agent.ask("teardown_function")

def test_named_before(early, agentreplay):
    assert early == "early: 5"

def test_torn_down_after(closes, agentreplay):
    agent.ask("body")

def test_through_another_fixture(early, through):
    agent.ask("body")

def test_by_request(request, early, through):
    assert request.getfixturevalue("closes") == "before: 6"

def test_hooked(agentreplay):
    agent.ask("body")

@pytest.mark.usefixtures("agentreplay")
class TestMethods:
    def setup_method(self):
        self.answer = agent.ask("setup_method")

    def teardown_method(self):
        agent.ask("teardown_method")

    def test_method(self, early):
        assert self.answer == "setup_method: 12"

class TestCase(unittest.TestCase):
    pytestmark = pytest.mark.agentreplay

    def setUp(self):
        self.answer = agent.ask("setUp")
        self.addCleanup(agent.ask, "cleanup")

    def tearDown(self):
        agent.ask("tearDown")

    def test_case(self):
        self.assertEqual(self.answer, "setUp: 5")
"""

ASYNC = """
import pytest, pytest_asyncio, agent

@pytest_asyncio.fixture
async def asked():
    yield agent.ask("asyncio before")
    agent.ask("asyncio after")

@pytest.mark.asyncio
async def test_asyncio(asked, agentreplay):
    agent.ask("body")

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def asked_by_anyio(anyio_backend):
    yield agent.ask("anyio before")
    agent.ask("anyio after")

@pytest.mark.anyio
async def test_anyio(asked_by_anyio, agentreplay):
    agent.ask("body")
"""

AUTOUSE = """
import pytest, agent

@pytest.fixture(autouse=True)
def around():
    agent.ask("autouse before")
    yield
    agent.ask("autouse after")
"""

CALLS = {
    "test_named_before": ["setup_function", "early", "teardown_function"],
    "test_torn_down_after": ["setup_function", "before", "body", "after", "teardown_function"],
    "test_through_another_fixture": ["setup_function", "early", "body", "teardown_function"],
    "test_by_request": ["setup_function", "early", "before", "after", "teardown_function"],
    "test_hooked": ["hook", "setup_function", "body", "teardown hook", "teardown_function"],
    "test_method": ["setup_method", "early", "teardown_method"],
    "test_case": ["setUp", "tearDown", "cleanup"],
    "test_asyncio": ["asyncio before", "body", "asyncio after"],
    "test_anyio": ["anyio before", "body", "anyio after"],
    "test_autouse": ["autouse before", "body", "autouse after"],
    "auto.answers.shown": ["autouse before", "doctest", "autouse after"],
}


MORE = "addopts = --doctest-modules\nagentreplay_paths = auto\n"
DOCTEST = '''
def shown():
    """
    >>> import agent
    >>> agent.ask("doctest")
    'doctest: 7'
    """
'''


@pytest.fixture(scope="module")
def made(shared_project):
    project = furnished(
        shared_project(), INI + MORE, agent=AGENT, conftest=CONFTEST, test_fixtures=FIXTURES, test_async=ASYNC
    )
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin")
    project.forked_proofs = True
    project.write(auto__conftest=AUTOUSE, auto__answers=DOCTEST)
    project.write(auto__test_autouse="import agent\n\ndef test_autouse(agentreplay):\n    agent.ask('body')\n")
    (project.root / "auto" / "__init__.py").touch()
    return recorded(project, "--agentreplay-checks=unproved=warn")


def test_every_call_is_recorded_and_proved_and_none_is_made_again(made):
    assert made.recording.stdout.count("test passed)   replays") == len(CALLS), made.recording.stdout
    assert {s.run.header.test.rpartition("::")[2]: asked(s) for s in made.snapshots} == CALLS
    passed(made.offline())


FIRST = {
    "named_before": "early",
    "torn_down_after": "after",
    "through_another_fixture": "early",
    "by_request": "early",
    "hooked": "teardown hook",
    "TestMethods::test_method": "setup_method",
    "TestCase::test_case": "tearDown",
    "asyncio": "asyncio before",
    "anyio": "anyio after",
}
"""The first call of each test that is another one when the calls of these words are."""


def test_another_call_outside_of_the_body_fails_the_test(made):
    kept = {file: file.read_text(encoding="utf-8") for file in made.root.glob("*.py")}
    changed = re.compile('"({})"'.format("|".join(FIRST.values())))
    for file, text in kept.items():
        made.put(file, changed.sub('"another"', text))
    try:
        done = made.offline("test_fixtures.py", "test_async.py", COLUMNS="200")
    finally:
        for file, text in kept.items():
            made.put(file, text)
    assert summary(done).keys() == FIRST.keys(), done.stdout
    told = re.findall(r"tool ask: \$.question changed, (.*?) -> another", done.stdout.replace('"', ""))
    assert {*told} == {*FIRST.values()}


SKIPPED = """
import pytest, agent

@pytest.mark.xfail(run=False)
def test_not_run(early, agentreplay):
    pass

@pytest.fixture
def skips():
    pytest.skip("not here")

def test_skipped_by_a_fixture(skips, agentreplay):
    agent.ask("never")
"""


def test_a_test_that_is_skipped_before_it_calls_leaves_nothing(made):
    made.write(test_skipped=SKIPPED)
    files = made.files
    done = made.record("test_skipped.py")
    assert "1 skipped, 1 xfailed" in done.stdout
    assert "recorded" not in done.stdout.partition("test session starts")[2].partition("collected")[2]
    assert "replayed" not in made.offline("test_skipped.py").stdout
    assert made.files == files


LATE = """
import agent, pytest

@pytest.fixture(scope="module")
def shared():
    agent.ask("shared")

@pytest.fixture
def late(request):
    agent.ask("unheard")
    return request.getfixturevalue("agentreplay")

@pytest.fixture
def first(request):
    return request.getfixturevalue("agentreplay")

def test_body(request):
    agent.ask("unheard")
    request.getfixturevalue("agentreplay")
    agent.ask("heard")

def test_fixture(late):
    agent.ask("heard")

def test_shared(shared, first):
    agent.ask("heard")

def test_same_call(late):
    agent.ask("unheard")

def test_nothing_before(first):
    agent.ask("heard")

def test_without_calls(late):
    pass
"""


def test_what_a_test_does_before_it_asks_for_the_fixture_is_refused_in_a_replay(made):
    made.write(test_late=LATE)
    made.proves = True
    done = made.record("test_late.py")
    told = (
        "late      test_late.py::test_body asked for agentreplay while it ran: its calls before that were not recorded"
    )
    assert told in done.stdout, done.stdout
    late = [asked(s) for s in made.snapshots if "test_late.py" in s.run.header.test]
    assert late == [["heard"], ["heard"], ["heard"], ["unheard"], ["heard"]]
    assert (done.stdout.count("   does not replay: [AR-"), done.stdout.count("   replays\n")) == (4, 1)
    done = made.offline("test_late.py", "-k", "not without_calls")
    assert "1 passed, 1 deselected" in done.stdout, "one did nothing before it asked"
    assert summary(done)["same_call"].startswith("[AR-EXTRA]")
    assert flat(done).count("name the fixture among its arguments, or mark it, and record again") == 2
    assert "the same change in 2 tests: test_late.py::test_body, test_late.py::test_fixture" in done.stdout
    told = (
        "[AR-UNFROZEN] this test asked for agentreplay while it ran: what it did before ran for real, in a replay too."
    )
    assert told in flat(made.replay("test_late.py", "-k", "without_calls"))
