"""Recordings that come to a bad end in a real pytest: killed, crashed, interrupted, raced by another one."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.codec import journal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and processes of POSIX")

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOT = "__agent_snapshots__/test_shop/test_refund.snapshot.json"

CONFTEST = """
import ctypes, os, resource, signal, socket, threading, time
import pytest

HOW, _, WHEN = os.environ.get("FAULT", "").partition(":")

def bad_end(place):
    if place != WHEN:
        return
    match HOW:
        case "exit":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), resource.RLIM_INFINITY))
            bytearray(1 << 30)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "interrupt":
            signal.raise_signal(signal.SIGINT)
        case "twice":
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)

@pytest.fixture
def around(agentreplay):
    yield
    bad_end("teardown")

def pytest_sessionstart():
    if WHEN.isdigit():
        from pytest_agentreplay.store import files
        from tests.store.faults.disk import TOUCHES as COUNTED, Disk, dies, interrupts
        files.os = Disk(int(WHEN), dies if HOW == "kill" else interrupts, counted=COUNTED)

def pytest_unconfigure():
    if HOW == "log":
        from pytest_agentreplay.store import files
        with open("calls", "w") as log:
            log.write(" ".join(files.os.calls))
    if "SERVER_PORT" in os.environ:
        socket.create_connection(("127.0.0.1", int(os.environ["SERVER_PORT"]))).close()
        print("\\nthe way to the world is open again")
"""

STREAMS = """import json, os, pathlib, httpx2

def test_refund(agentreplay):
    pathlib.Path("pid").write_text(str(os.getpid()))
    asked = {"model": "m", "stream": os.environ["STREAM"] == "True", "messages": [{"role": "user", "content": "hi"}]}
    with httpx2.stream("POST", os.environ["MODEL_URL"] + "/v1/chat/completions", json=asked, timeout=60) as reply:
        assert [*reply.iter_lines()]

def one_like_before"""

TESTS = """
import agent, conftest

def test_refund(agentreplay, around):
    agent.lookup_order("A-17")
    conftest.bad_end("body")
    assert "refund" in agent.answer("Where is A-17?")
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    project.write(conftest=CONFTEST)
    project.edit("agent.py", "def note(line):", "def note(line):\n    import conftest\n    conftest.bad_end('tool')")
    project.environ |= {"PYTHONPATH": str(ROOT), "SERVER_PORT": project.server.url.rpartition(":")[2]}
    done = project.record()
    assert done.returncode == 0, done.stdout + done.stderr
    (home,) = project.files
    project.home, project.old = home, home.read_bytes()
    return project


@pytest.fixture
def recorded(shop):
    """The shop with its old snapshot, and an agent that says something new."""
    shop.home.write_bytes(shop.old)
    for file in shop.root.rglob("*.jsonl"):
        file.unlink()
    if "Be brief." in (shop.root / "agent.py").read_text(encoding="utf-8"):
        shop.edit("agent.py", "Be brief.", "Be new.")
    return shop


def intact(project):
    """Whether the snapshot is the old one, whole; else the new one, whole."""
    data = project.home.read_bytes()
    if data == project.old:
        return True
    snapshot = codec.loads(data, file="x")
    assert snapshot.sealed
    assert "Be new." in data.decode()
    return False


def journals(project):
    return [journal.read(file.read_bytes()) for file in project.root.rglob("*.jsonl")]


def leftovers(project):
    return [file for file in project.root.rglob(".ar-*") if file.is_file()]


@pytest.mark.parametrize("fault", ["exit:tool", "segfault:body", "kill:teardown"])
def test_a_process_that_goes_away_leaves_the_old_snapshot_and_a_journal_that_can_be_read(recorded, fault):
    done = recorded.record(FAULT=fault)
    assert "recorded " not in done.stdout
    assert done.returncode == (0 if fault.startswith("exit") else -11 if "segfault" in fault else -9)
    assert intact(recorded)
    ((run, torn),) = journals(recorded)
    assert torn == 0
    assert len(run.exchanges) == {"tool": 0, "body": 1, "teardown": 6}[fault.partition(":")[2]] or "tool" in fault
    assert all(x.outcome is not None for x in run.exchanges[:-1])
    assert "test_shop.py::test_refund" in recorded.command("recover").stdout
    assert not leftovers(recorded)


def test_memory_that_runs_out_fails_the_test_and_tears_nothing(recorded):
    done = recorded.record("--agentreplay-no-prove", FAULT="memory:body")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MemoryError" in done.stdout
    assert intact(recorded)
    assert not leftovers(recorded)


@pytest.mark.parametrize(
    "fault", ["interrupt:tool", "twice:tool", "twice:body", "interrupt:teardown", "twice:teardown"]
)
def test_ctrl_c_keeps_the_old_snapshot_and_tells_of_the_journal(recorded, fault):
    place = fault.partition(":")[2]
    done = recorded.record(FAULT=fault)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert intact(recorded)
    assert recorded.home.read_bytes() == recorded.old, "an interrupted run is never promoted"
    assert not leftovers(recorded)
    assert "the way to the world is open again" in done.stdout
    assert "recorded  nothing of test_shop.py::test_refund: it was cut short" in done.stdout
    if place != "tool":
        assert re.search(r"to keep what it saw: +agentreplay recover \S+jsonl", done.stdout)
        ((run, torn),) = journals(recorded)
        assert (len(run.exchanges), torn) == (1 if place == "body" else 6, 0)


@pytest.mark.parametrize("fault", ["twice:body", "interrupt:teardown"])
def test_ctrl_c_in_a_replay_opens_the_way_again(recorded, fault):
    recorded.edit("agent.py", "Be new.", "Be brief.")
    done = recorded.offline(FAULT=fault)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the way to the world is open again" in done.stdout
    assert intact(recorded)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_ctrl_c_while_the_model_answers(recorded, stream):
    """The model types it: when it has been asked, and a few words into a long answer."""

    def slow(body, number):
        child = int((recorded.root / "pid").read_text(encoding="utf-8"))
        threading.Timer(0.3, os.kill, (child, signal.SIGINT)).start()
        if not stream:
            time.sleep(2)  # a whole answer comes all at once
        return "refund " * 40

    recorded.edit("test_shop.py", "def test_refund", STREAMS)
    before, recorded.server._replies, recorded.server.pace = recorded.server._replies, slow, 0.1
    try:
        done = recorded.record(STREAM=str(stream))
    finally:
        recorded.server._replies, recorded.server.pace = before, 0.0
        recorded.edit("test_shop.py", STREAMS, "def test_refund")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert recorded.home.read_bytes() == recorded.old
    assert not leftovers(recorded)
    assert "the way to the world is open again" in done.stdout
    assert "it was cut short" in done.stdout


FROM_RENAME = {"write": -3, "sync": -2, "rename": 0, "unlock": 2, "folder": 4, "clear": 10}
"""Where the calls to the disk that matter stand in a recording, counted from that which puts the snapshot in its place."""


@pytest.fixture(scope="module")
def calls(shop):
    """The place of each of these calls among all; the old snapshot is there up to the rename."""
    done = shop.record("--agentreplay-no-prove", FAULT="log:0")
    assert done.returncode == 0, done.stdout + done.stderr
    made = (shop.root / "calls").read_text(encoding="utf-8").split()
    rename = len(made) - made[::-1].index("replace")
    return {"journal": made.index("write") + 1} | {name: rename + far for name, far in FROM_RENAME.items()}


@pytest.mark.parametrize("call", ["journal", "sync", "folder", "clear"])
def test_ctrl_c_at_a_call_to_the_disk_leaves_a_whole_snapshot(calls, recorded, call):
    at = calls[call]
    done = recorded.record("--agentreplay-no-prove", FAULT=f"interrupt:{at}")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert intact(recorded) == (at <= calls["rename"])
    assert not leftovers(recorded)
    assert "the way to the world is open again" in done.stdout


@pytest.mark.parametrize("call", ["write", "rename", "unlock"])
def test_a_kill_at_a_call_to_the_disk_leaves_a_whole_snapshot_and_the_next_run_is_green(calls, recorded, call):
    at = calls[call]
    done = recorded.record("--agentreplay-no-prove", FAULT=f"kill:{at}")
    assert done.returncode == -9, f"{at} is no call of a recording any more"
    assert intact(recorded) == (at <= calls["rename"])
    assert len([file for file in leftovers(recorded) if file.suffix == ".tmp"]) <= 1
    assert len(journals(recorded)) <= 1
    done = recorded.record()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "replays" in done.stdout
    assert not intact(recorded)
    assert not leftovers(recorded)
    assert journals(recorded) == []


JUMPS = """
import itertools, os, time

AT = itertools.cycle([1.7e9, 1.7e9 - 7200, 1.8e9, -5.0, 1.7e9 + 1, 0.0])
time.time = lambda: next(AT)
time.time_ns = lambda: int(next(AT) * 1e9)

def pytest_fixture_setup(fixturedef):
    os.environ["TZ"] = "Pacific/Kiritimati" if os.environ.get("TZ") != "Pacific/Kiritimati" else "America/Lima"
    time.tzset()
"""


@pytest.mark.parametrize("clock", ["stepped", "real"])
def test_clocks_that_jump_neither_order_nor_end_anything(project, clock):
    """Back and forth by hours, before 1970, and to other zones: what came first is told by numbers."""
    project.write(conftest=JUMPS)
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write(f"agentreplay_clock = {clock}\n")
    done = project.record()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "replays" in done.stdout
    (snapshot,) = project.snapshots
    assert [x.call.boundary for x in snapshot.run.exchanges] == ["http", "tool", "http", "tool", "http"]
    assert [x.start for x in snapshot.run.exchanges] == sorted(x.start for x in snapshot.run.exchanges)
    (project.root / "conftest.py").unlink()
    done = project.offline()
    assert done.returncode == 0, done.stdout + done.stderr
