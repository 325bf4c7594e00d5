"""What a test leaves behind calls too late: nothing runs, the call is reported, and the process fails."""

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import asyncio, atexit, gc, multiprocessing.util, os, pathlib, socket, threading, time, weakref
from atexit import register
from concurrent.futures import ThreadPoolExecutor
import httpx2

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
KEPT = []

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

async def arefund(why):
    note(f"refund {why}")

def later(wait, work, *args):
    time.sleep(wait)
    work(*args)

class Session:
    def __del__(self):
        refund("__del__")

def by_atexit():
    atexit.register(refund, "atexit")

def by_atexit_a_model():
    atexit.register(ask, "atexit")

def by_import():
    "The handlers at the end of this file: what they call is no test's."

def by_import_a_model():
    "As above."

def by_a_library_a_model():
    "No line of the agent's is on the stack."

def by_a_socket_to_a_model():
    "No HTTP library is on the stack."

def by_a_coroutine_at_exit():
    atexit.register(lambda: asyncio.run(arefund("coroutine")))

def by_finalize():
    KEPT.append(Kept := type("Kept", (), {}))
    weakref.finalize(Kept, refund, "finalize")

def by_finalize_in_the_next_test():
    kept = type("Kept", (), {})
    weakref.finalize(kept, refund, "finalize")
    KEPT.append(kept)
    del kept
    KEPT.append("drop")

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

match os.environ["WAY"]:
    case "by_import":
        register(refund, "import")
    case "by_import_a_model":
        register(ask, "import")
    case "by_a_library_a_model":
        register(httpx2.post, os.environ["MODEL_URL"] + "/v1/chat/completions", json={"model": "m", "messages": []})
    case "by_a_socket_to_a_model":
        register(connect)
    case "telemetry":
        register(httpx2.post, os.environ["MODEL_URL"] + "/v1/traces", json={"spans": []})
"""

TESTS = """
import gc, os
import pytest, agent

gc.disable()  # garbage waits for the session's end

@pytest.mark.parametrize("way", [os.environ["WAY"]])
def test_way(way, agentreplay):
    agent.look_up()
    getattr(agent, way)()

def test_next(agentreplay):
    if "drop" in agent.KEPT:
        agent.KEPT.clear()
        gc.collect()
    agent.look_up()
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools =
    agent.look_up = read
    agent.refund
    agent.arefund
"""

NOBODYS = ["by_del_of_a_cycle", "by_import", "by_import_a_model", "by_a_library_a_model", "by_a_socket_to_a_model"]
WAYS = [line.split()[1].partition("(")[0] for line in AGENT.splitlines() if line.startswith("def by_")]


@pytest.fixture(scope="module")
def leaving(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_leaving=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return project


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_and_fails_the_process(leaving, way):
    before = leaving.ledger, leaving.server.hits
    recorded = leaving.record("--agentreplay-no-prove", WAY=way)
    done = leaving.replay(WAY=way)
    for each in (recorded, done):
        assert each.returncode == 1, each.stdout + each.stderr
        told = [line for line in (each.stdout + each.stderr).splitlines() if "[AR-LATE]" in line]
        assert told, each.stdout + each.stderr
        whose = "after the last test" if way in NOBODYS else "test_leaving.py::test_way"
        assert whose in told[0]
        what = ": look-up of api.openai.com" if "socket" in way else ": POST 127.0.0.1" if "model" in way else ": tool "
        assert what in told[0]
    assert not [line for line in leaving.ledger[len(before[0]) :] if "refund" in line]
    assert leaving.server.hits == before[1]


@pytest.mark.parametrize("way", ["by_atexit", "by_a_thread", "by_del_of_a_cycle"])
def test_a_worker_of_xdist_hands_it_to_the_controller(leaving, way):
    leaving.record("--agentreplay-no-prove", WAY=way)
    before = leaving.ledger
    done = leaving.replay("-p", "xdist.plugin", "-n", "1", WAY=way)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[AR-LATE]" in done.stdout
    assert leaving.ledger == before


def test_what_the_interpreter_takes_apart_runs_no_tool(leaving):
    before = leaving.ledger
    leaving.record(WAY="left_in_a_module")
    leaving.replay(WAY="left_in_a_module")
    assert leaving.ledger == before


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


def test_what_calls_no_tool_stays_as_it_is(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_leaving=ORDINARY)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    for done in (project.record(WAY="telemetry"), project.replay(WAY="telemetry")):
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr
    assert [line for line in project.ledger if line == "refund live"] == ["refund live"] * 2
    assert project.server.hits == 3, (
        "what a library sends at exit goes out: of the recording, of its proof, of the replay"
    )
