"""A frozen tool that is called between two tests: refused when garbage of the ended test calls it, else left alone."""

import pytest

AGENT = """
import pathlib

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def look_up():
    return 1

def refund(why):
    with LEDGER.open("a") as ledger:
        ledger.write(f"refund {why}\\n")

class Session:
    def __init__(self, why):
        self.why = why

    def __del__(self):
        refund(self.why)

def session_left_open(why):
    try:
        yield
    finally:
        refund(why)
"""

TESTS = """
import pytest, agent

def left_open(why):
    generator = agent.session_left_open(why)
    next(generator)
    return generator

@pytest.fixture
def left(request):
    return {"__del__": agent.Session, "generator": left_open}[request.param](request.param)

@pytest.mark.parametrize("left", ["__del__", "generator"], indirect=True)
def test_first(left, agentreplay):
    agent.look_up()

def test_second(agentreplay):
    agent.look_up()
"""
"""pytest holds the values of fixtures until the teardown of their test has been reported."""

INI = """[pytest]
pythonpath = .
agentreplay_tools =
    agent.look_up = read
    agent.refund
"""


@pytest.fixture(scope="module")
def leaving(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_leaving=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return project


@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "1")], ids=["one process", "xdist"])
def test_garbage_of_an_ended_test_runs_no_tool(leaving, options):
    recorded = leaving.record("--agentreplay-no-prove")
    for done in (recorded, leaving.replay(*options)):
        assert done.returncode == 1, done.stdout + done.stderr
        late = [line for line in done.stdout.splitlines() if "[AR-LATE]" in line]
        assert len(late) == 2, done.stdout
        assert "test_leaving.py::test_first[__del__]: tool refund" in late[0]
        assert "test_leaving.py::test_first[generator]: tool refund" in late[1]
        assert "3 passed" in done.stdout
    assert not leaving.ledger


def test_garbage_of_the_last_test_runs_no_tool(leaving):
    leaving.record("--agentreplay-no-prove")
    done = leaving.replay("-k", "test_first and __del__")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[AR-LATE] test_leaving.py::test_first[__del__]: tool refund" in done.stdout
    assert not leaving.ledger


ORDINARY = """
import unittest
import pytest, agent

def test_frozen(agentreplay):
    agent.look_up()
    agent.refund("frozen")

@pytest.fixture(scope="class")
def wide():
    agent.refund("class set-up")
    yield
    agent.refund("class teardown")

@pytest.fixture
def narrow():
    agent.Session("set-up")
    yield
    agent.refund("teardown")

class TestWithout:
    def test_it(self, wide, narrow):
        agent.refund("body")

def test_frozen_too(agentreplay):
    agent.look_up()

class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        agent.refund("setUpClass")

    def test_it(self):
        pass

def test_frozen_last(agentreplay):
    agent.look_up()
"""

CONFTEST = """
from concurrent.futures import ThreadPoolExecutor
import agent

POOL = ThreadPoolExecutor(1)

def pytest_sessionstart():
    POOL.submit(agent.look_up).result()

def pytest_runtest_logreport(report):
    if report.when == "teardown" and report.nodeid.endswith("test_frozen"):
        agent.refund("hook")
        POOL.submit(agent.refund, "thread of the suite").result()

def pytest_sessionfinish():
    agent.refund("end of the session")
    POOL.shutdown()
"""

LIVE = ["hook", "thread of the suite", "class set-up", "set-up", "body", "teardown", "class teardown", "setUpClass"]


def test_hooks_threads_of_the_suite_and_tests_without_the_plugin_call_their_tools(shared_project):
    project = shared_project()
    project.write(agent=AGENT, conftest=CONFTEST, test_ordinary=ORDINARY)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    before = len(project.ledger)
    replayed = project.replay()
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert project.ledger[before:] == [f"refund {why}" for why in [*LIVE, "end of the session"]]
