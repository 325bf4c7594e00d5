"""What a test leaves behind calls too late: nothing runs, the call is told on its test, and the process fails."""

import re

import pytest

from tests.support.small_projects import passed

pytestmark = [
    pytest.mark.env("main"),  # nothing in it depends on the release of a dependency
    pytest.mark.real_process,
]

AGENT = """
import asyncio, atexit, multiprocessing.util, os, pathlib, socket, threading, weakref
from atexit import register
from concurrent.futures import ThreadPoolExecutor
import httpx2

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
KEPT, DROPPED, ENDING = [], [], threading.Event()
threading._register_atexit(ENDING.set)  # after the session, before threads are joined

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")

def look_up():
    return 1

def refund(why):
    note(f"refund {why}")

def ask(why):
    try:
        httpx2.post(os.environ["MODEL_URL"] + "/v1/x", json={"why": why})
    finally:
        note(f"asked {why}")

async def aask(why):
    async with httpx2.AsyncClient() as client:
        await client.post(os.environ["MODEL_URL"] + "/v1/x", json={"why": why})

async def arefund(why):
    note(f"refund {why}")

def late(why):
    ENDING.wait()
    refund(why)

def kept(value):
    KEPT.append(value)
    return value

class Session:
    def __init__(self, why="__del__"):
        self.why = why

    def __del__(self):
        refund(self.why)

def session_left_open(why):
    try:
        yield
    finally:
        refund(why)

def finalized_in_the_next_test():
    DROPPED.append(session := threading.Event())
    weakref.finalize(session, refund, "finalize")

def cycle():
    session = Session()
    session.itself = session

def daemon():
    thread = threading.Thread(target=late, args=("daemon",), daemon=True)
    thread.start()
    atexit.register(thread.join, 5)

def callback():
    kept(ThreadPoolExecutor(1)).submit(ENDING.wait).add_done_callback(lambda done: refund("callback"))

WAYS = {
    "atexit": lambda: atexit.register(refund, "atexit"),
    "atexit_model": lambda: atexit.register(ask, "atexit"),
    "coroutine": lambda: atexit.register(lambda: asyncio.run(arefund("coroutine"))),
    "finalize": lambda: weakref.finalize(kept(type("Kept", (), {})), refund, "finalize"),
    "finalize_in_the_next_test": finalized_in_the_next_test,
    "multiprocessing": lambda: multiprocessing.util.Finalize(None, refund, ("multiprocessing",), exitpriority=1),
    "module": lambda: kept(Session()),
    "cycle": cycle,
    "thread": lambda: threading.Thread(target=late, args=("thread",)).start(),
    "timer": lambda: threading.Timer(0, late, ["timer"]).start(),
    "daemon": daemon,
    "executor": lambda: kept(ThreadPoolExecutor(1)).submit(late, "executor"),
    "callback": callback,
    "threading": lambda: threading._register_atexit(refund, "threading"),
}

if "LEAVES" in os.environ:
    register(refund, "import")
    register(ask, "import")
    register(socket.create_connection, ("api.openai.com", 443))
if "TELEMETRY" in os.environ:
    register(httpx2.post, os.environ["MODEL_URL"] + "/v1/traces", json={"spans": []})
"""

TESTS = """
import gc, os
import pytest, agent

gc.disable()  # garbage waits for the session's end

@pytest.mark.parametrize("way", agent.WAYS)
def test_way(way, agentreplay):
    agent.look_up()
    agent.WAYS[way]()

def left_open():
    generator = agent.session_left_open("generator")
    next(generator)
    return generator

@pytest.fixture
def left(request):
    return agent.Session() if request.param == "__del__" else left_open()

@pytest.mark.parametrize("left", ["__del__", "generator"], indirect=True)
def test_value_of_a_fixture(left, agentreplay):
    "pytest holds the values of fixtures until the teardown of their test has been reported."
    agent.look_up()

def test_next(agentreplay):
    agent.DROPPED.clear()
    agent.look_up()
"""

INI = """[pytest]
pythonpath = .
asyncio_default_fixture_loop_scope = function
agentreplay_tools =
    agent.look_up = read
    agent.refund
    agent.arefund
"""
NOBODYS = {"module", "cycle"}
"""Nobody can tell the test of what Python itself calls when all is over."""


@pytest.fixture
def made(shared_project):
    """Makes projects of the agent."""

    def make(**files):
        project = shared_project()
        project.write(agent=AGENT, **files)
        (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
        project.plugins += ("pytest_asyncio.plugin", "xdist.plugin")
        return project

    return make


def test_what_is_called_at_exit_or_by_threads_that_outlive_the_session_is_refused_and_told(made):
    project = made(test_leaving=TESTS)
    ways = re.findall(r'^    "(\w+)": ', AGENT.partition("\nWAYS = ")[2], re.MULTILINE)
    tests = [f"test_way[{way}]" for way in ways if way not in NOBODYS]
    tests += ["test_value_of_a_fixture[__del__]", "test_value_of_a_fixture[generator]"]
    for words in (("--snapshot-record",), ("--replay=model", "-n", "1")):
        done = project.run(*words, LEAVES="all")
        assert done.returncode == 1, done.stdout + done.stderr
        told = re.findall(r"^\[AR-LATE\] (.+?): (.*?) *(?:called from .*)?$", done.stdout + done.stderr, re.MULTILINE)
        whose = {test for test, _ in told if test != "after the last test"}
        assert whose == {f"test_leaving.py::{test}" for test in tests}, told
        nobodys = {said.partition(":")[0] for test, said in told if test == "after the last test"}
        assert nobodys == {"tool refund", "POST 127.0.0.1", "look-up of api.openai.com"}, told
        assert "[AR-LATE] after the last test: tool refund   called from agent.py:" in done.stdout
    assert not [line for line in project.ledger if "refund" in line]
    assert project.server.hits == 0


LATE = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
import pytest
import agent

POOL = ThreadPoolExecutor(1)
go, reporting = threading.Event(), threading.Event()

def straggle(wait):
    wait()
    agent.ask("late?")

def straggler(wait, **more):
    return threading.Thread(target=straggle, args=(wait,), daemon=True, **more)

def test_soon(agentreplay):
    agent.ask("soon?")
    straggler(lambda: time.sleep(0.01)).start()

def test_soon_in_a_pool(agentreplay):
    agent.ask("soon?")
    POOL.submit(straggle, lambda: time.sleep(0.01))

def test_soon_in_teardown(agentreplay, joined):
    joined.append(straggler(lambda: time.sleep(0.1)))
    joined[0].start()

@pytest.fixture
def joined():
    threads = []
    yield threads
    threads[0].join()

def test_thread(agentreplay):
    agent.ask("one?")
    straggler(go.wait, name="straggler").start()

@pytest.mark.asyncio(loop_scope="module")
async def test_task(agentreplay):
    await agent.aask("one?")
    async def drop():
        while not go.is_set():
            await asyncio.sleep(0.01)
        await agent.aask("late?")
    test_task.kept = asyncio.create_task(drop())

def test_job(agentreplay):
    agent.ask("one?")
    POOL.submit(straggle, go.wait)

def test_between(agentreplay):
    agent.ask("one?")
    test_between.thread = straggler(reporting.wait)
    test_between.thread.start()

@pytest.mark.asyncio(loop_scope="module")
async def test_other(agentreplay):
    go.set()
    await asyncio.sleep(0.2)
    next((t.join() for t in threading.enumerate() if t.name == "straggler"), None)
    POOL.shutdown()
    assert await agent.aask("two?")

def test_none():
    pass
"""
BETWEEN = """
def pytest_runtest_makereport(item, call):
    "After the last check of the test, before its report."
    if call.when == "teardown" and item.name == "test_between":
        item.module.reporting.set()
        item.function.thread.join()
"""
STRAGGLERS = ("test_thread", "test_task", "test_job", "test_between")
SOON = ["test_soon", "test_soon_in_a_pool", "test_soon_in_teardown"]
NOISE = ("Traceback", "ExceptionGroup", "Warning", "exception was", "never retrieved", "Captured", "Exception ignored")


def check_late(done):
    """A straggler is told at the session's end; one that comes at once fails its test."""
    assert done.returncode == 1, done.stdout + done.stderr
    for name in STRAGGLERS:
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"[AR-LATE] test_late.py::{name}: ")]
        assert "/v1/x   called from agent.py:" in line
    # It fails the body or, on a slow machine, its teardown; on a very slow one it is told at the session's end.
    summary = done.stdout.partition("short test summary")[2]
    told = re.findall(r"^(?:FAILED|ERROR) test_late\.py::(\w+) - \[AR-LATE\] 1 call after", summary, re.MULTILINE)
    told += re.findall(r"^\[AR-LATE\] test_late\.py::(test_soon\w*): ", done.stdout, re.MULTILINE)
    assert sorted(told) == SOON, done.stdout
    assert not [word for word in NOISE if word in done.stdout + done.stderr]


def test_a_straggler_is_refused_told_on_its_own_test_and_never_recorded(made):
    project = made(test_late=LATE, conftest=BETWEEN)
    check_late(project.record())
    asked = {one.run.header.test.partition("::")[2]: one.run.exchanges for one in project.snapshots}
    assert {*STRAGGLERS, "test_other"} <= set(asked)
    assert all(len(exchanges) == 1 for exchanges in asked.values())
    assert b"two?" in asked["test_other"][0].call.body.data
    hits = project.server.hits
    check_late(project.replay("-n", "1", CI="1"))
    assert project.server.hits == hits == 7


# What stays as it is.

ORDINARY = """
import atexit, tempfile, threading, weakref
import agent

class Thing:
    pass

THING = Thing()

def test_it(agentreplay):
    agent.look_up()
    atexit.register(agent.note, "closed")
    atexit.register(agent.note, "never")
    atexit.unregister(agent.note)
    atexit.register(agent.LEDGER.touch)
    closing = weakref.finalize(THING, agent.note, "finalized")
    assert closing.peek()[1] is agent.note
    assert weakref.finalize(THING, print).detach()[1] is print
    closing()
    with tempfile.TemporaryDirectory():
        pass
    thread = threading.Thread(target=agent.look_up)
    thread.start()
    thread.join()

def test_without():
    agent.refund("live")
"""
WITHOUT = """
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


def test_what_calls_no_tool_and_tools_of_tests_without_the_plugin_stay_as_they_are(made):
    project = made(conftest=CONFTEST, test_a_leaving=ORDINARY, test_b_without=WITHOUT)
    for run in (project.record, project.replay):
        before = project.ledger
        assert not passed(run(TELEMETRY="1")).stderr
    live = [line for line in project.ledger[len(before) :] if line.startswith("refund")]
    assert live == [f"refund {why}" for why in ["live", *LIVE, "end of the session"]]
    assert project.server.hits == 2, "what a library sends at exit goes out, of the recording and of the replay"
