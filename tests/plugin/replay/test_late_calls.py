"""What a test leaves behind calls too late: nothing runs, the call is told on its test, and the process fails."""

import re

import pytest

pytestmark = [
    pytest.mark.env("main"),  # nothing in it depends on the release of a dependency
    pytest.mark.real_process,
]

AGENT = """
import asyncio, atexit, gc, multiprocessing.util, os, pathlib, socket, threading, time, weakref
from atexit import register
from concurrent.futures import ThreadPoolExecutor
import httpx2

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
KEPT, DROPPED = [], []

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

def later(wait, work, *args):
    time.sleep(wait)
    work(*args)

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

def by_atexit():
    atexit.register(refund, "atexit")

def by_atexit_a_model():
    atexit.register(ask, "atexit")

def by_a_coroutine_at_exit():
    atexit.register(lambda: asyncio.run(arefund("coroutine")))

def by_finalize():
    KEPT.append(Kept := type("Kept", (), {}))
    weakref.finalize(Kept, refund, "finalize")

def by_finalize_in_the_next_test():
    DROPPED.append(session := threading.Event())
    weakref.finalize(session, refund, "finalize")

def by_a_finalizer_of_multiprocessing():
    multiprocessing.util.Finalize(None, refund, ("multiprocessing",), exitpriority=1)

def left_in_a_module():
    KEPT.append(Session())

def by_del_of_a_cycle():
    session = Session()
    session.itself = session

def by_a_thread():
    threading.Thread(target=later, args=(1.5, refund, "thread")).start()

def by_a_timer():
    threading.Timer(1.5, refund, ["timer"]).start()

def by_a_daemon():
    threading.Thread(target=later, args=(0.6, refund, "daemon"), daemon=True).start()
    atexit.register(time.sleep, 1)

def by_an_executor():
    KEPT.append(pool := ThreadPoolExecutor(1))
    pool.submit(later, 1.5, refund, "executor")

def by_a_callback_of_a_future():
    KEPT.append(pool := ThreadPoolExecutor(1))
    pool.submit(time.sleep, 1.5).add_done_callback(lambda done: refund("callback"))

def by_shutdown_of_threads():
    threading._register_atexit(refund, "threading")

def connect():
    socket.create_connection(("api.openai.com", 443))

if "LEAVES" in os.environ:
    register(refund, "import")
    register(ask, "import")
    register(httpx2.post, os.environ["MODEL_URL"] + "/v1/chat/completions", json={"model": "m", "messages": []})
    register(connect)
if "TELEMETRY" in os.environ:
    register(httpx2.post, os.environ["MODEL_URL"] + "/v1/traces", json={"spans": []})
"""

TESTS = """
import gc, os
import pytest, agent

gc.disable()  # garbage waits for the session's end

@pytest.mark.parametrize("way", os.environ["LEAVES"].split())
def test_way(way, agentreplay):
    agent.look_up()
    getattr(agent, way)()

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

LEFT = "left_in_a_module"
WAYS = [line.split()[1].partition("(")[0] for line in AGENT.splitlines() if line.startswith("def by_")]
NOISE = ("Traceback", "ExceptionGroup", "Warning", "exception was", "never retrieved", "Captured", "Exception ignored")


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


def check_left(done):
    """Each way is told on its test; garbage in a cycle and what an import registered are nobody's."""
    assert done.returncode == 1, done.stdout + done.stderr
    told = re.findall(r"^\[AR-LATE\] (.+?): (.*?) *(?:called from .*)?$", done.stdout + done.stderr, re.MULTILINE)
    whose = {test: said for test, said in told if test != "after the last test"}
    tests = [f"test_way[{way}]" for way in WAYS if "cycle" not in way]
    tests += ["test_value_of_a_fixture[__del__]", "test_value_of_a_fixture[generator]"]
    assert whose.keys() == {f"test_leaving.py::{test}" for test in tests}, told
    nobodys = {said.partition(":")[0] for test, said in told if test == "after the last test"}
    assert nobodys == {"tool refund", "POST 127.0.0.1", "look-up of api.openai.com"}, told
    assert "[AR-LATE] after the last test: tool refund   called from agent.py:" in done.stdout


def test_what_is_called_at_exit_or_by_threads_that_outlive_the_session_is_refused_and_told(made):
    project = made(test_leaving=TESTS)
    ways = " ".join([*WAYS, LEFT])
    for words in (("--snapshot-record", "--agentreplay-no-prove"), ("--replay=model",), ("--replay=model", "-n", "1")):
        done = project.run(*words, LEAVES=ways)
        check_left(done)
    assert not [line for line in project.ledger if "refund" in line]
    assert project.server.hits == 0


LATE = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
import pytest
import agent

POOL = ThreadPoolExecutor(1)
go = threading.Event()

def straggle(wait):
    wait()
    agent.ask("late?")

def test_soon(agentreplay):
    agent.ask("soon?")
    threading.Thread(target=straggle, args=(lambda: time.sleep(0.01),), daemon=True).start()

def test_soon_in_a_pool(agentreplay):
    agent.ask("soon?")
    POOL.submit(straggle, lambda: time.sleep(0.01))

def test_soon_in_teardown(agentreplay, joined):
    joined.append(threading.Thread(target=straggle, args=(lambda: time.sleep(0.1),), daemon=True))
    joined[0].start()

@pytest.fixture
def joined():
    threads = []
    yield threads
    threads[0].join()

def test_thread(agentreplay):
    agent.ask("one?")
    threading.Thread(target=straggle, args=(go.wait,), name="straggler", daemon=True).start()

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


STRAGGLERS = ("test_thread", "test_task", "test_job")
SOON = ["test_soon", "test_soon_in_a_pool", "test_soon_in_teardown"]


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
    project = made(test_late=LATE)
    check_late(project.record("--agentreplay-no-prove"))
    runs = {snapshot.run.header.test.partition("::")[2]: snapshot.run for snapshot in project.snapshots}
    assert {*STRAGGLERS, "test_other"} <= set(runs)
    asked = {name: [x.call.body.data for x in run.exchanges] for name, run in runs.items()}
    assert all(len(bodies) == 1 for bodies in asked.values())
    assert b"two?" in asked["test_other"][0]
    hits = project.server.hits
    check_late(project.replay())
    check_late(project.replay("-n", "1", CI="1"))
    assert project.server.hits == hits == 6


BETWEEN = """
import threading
import agent

go = threading.Event()

def straggle():
    go.wait()
    agent.ask("late?")

def test_between(agentreplay):
    agent.ask("soon?")
    test_between.thread = threading.Thread(target=straggle, daemon=True)
    test_between.thread.start()
"""

MAKES_REPORT = """
def pytest_runtest_makereport(item, call):
    if call.when == "teardown" and item.name == "test_between":
        item.module.go.set()
        item.function.thread.join()
"""


def test_a_straggler_between_the_last_check_and_the_report_fails_the_session(made):
    project = made(test_late=BETWEEN, conftest=MAKES_REPORT)
    for done in (project.record("--agentreplay-no-prove"), project.replay()):
        assert done.returncode == 1, done.stdout
        assert "1 passed" in done.stdout
        (line,) = re.findall(r"^\[AR-LATE\] test_late\.py::test_between: .*$", done.stdout, re.MULTILINE)
        assert "/v1/x   called from agent.py:" in line


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
    for words in (("--snapshot-record", "--agentreplay-no-prove"), ("--replay=model",)):
        before = project.ledger
        done = project.run(*words, TELEMETRY="1")
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr
    live = [line for line in project.ledger[len(before) :] if line.startswith("refund")]
    assert live == [f"refund {why}" for why in ["live", *LIVE, "end of the session"]]
    assert project.server.hits == 2, "what a library sends at exit goes out, of the recording and of the replay"
