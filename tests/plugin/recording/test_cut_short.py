"""Recordings that are killed, crash, are interrupted or have nowhere to write: the old snapshot stays, what was seen is kept."""

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
from tests.support.exhaustive import rare

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals and processes of POSIX"),
    pytest.mark.real_process,
    pytest.mark.proves,
]

ROOT = Path(__file__).resolve().parents[3]
SNAPSHOT = "__agent_snapshots__/test_shop/test_refund.snapshot.json"

CONFTEST = """
import ctypes, errno, os, resource, signal, socket, threading, time
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
        from tests.store.faults.disk import LASTING, Disk, fails
        code, counted = (errno.ENOSPC, {"write"}) if HOW == "full" else (errno.EROFS, LASTING[errno.EROFS])
        files.os = Disk(int(WHEN), fails(code), counted=counted, lasting=counted)
        files.os.struck = "" if HOW == "full" else HOW

def pytest_unconfigure():
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


INTERRUPTED_FIXTURE = """
@pytest.fixture
def broken(agentreplay):
    import agent
    agent.lookup_order("A-1")
    signal.raise_signal(signal.SIGINT)
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    project.write(conftest=CONFTEST)
    project.edit("agent.py", "def note(line):", "def note(line):\n    import conftest\n    conftest.bad_end('tool')")
    project.environ |= {"PYTHONPATH": str(ROOT), "SERVER_PORT": project.server.url.rpartition(":")[2]}
    done = project.record("--agentreplay-no-prove")
    assert done.returncode == 0, done.stdout + done.stderr
    (home,) = project.files
    project.home, project.old = home, home.read_bytes()
    return project


@pytest.fixture
def recorded(shop):
    """The shop with its old snapshot, and an agent that says something new."""
    shop.home.write_bytes(shop.old)
    for file in (*shop.root.rglob("*.jsonl"), *shop.root.rglob(".pytest_agentreplay/pending/**/*.json")):
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


@pytest.mark.parametrize(
    ("fault", "code", "calls"), [("kill:teardown", -9, 6), ("exit:body", 0, 1), *rare(("segfault:body", -11, 1))]
)
def test_a_process_that_goes_away_leaves_the_old_snapshot_and_a_journal_that_can_be_recovered(
    recorded, fault, code, calls
):
    done = recorded.record(FAULT=fault)
    assert "recorded " not in done.stdout
    assert done.returncode == code
    assert intact(recorded)
    ((run, torn),) = journals(recorded)
    assert torn == 0
    assert len(run.exchanges) == calls
    assert all(x.outcome is not None for x in run.exchanges[:-1])
    assert not leftovers(recorded)
    listed = recorded.command("recover")
    assert listed.returncode == 0
    assert f"test_shop.py::test_refund, {calls} call" in listed.stdout
    made = recorded.command(*re.search(r"agentreplay (recover \S+)", listed.stdout)[1].split())
    assert made.returncode == 0, made.stderr
    assert recorded.home.read_bytes() == recorded.old, "never promoted by itself"
    assert journals(recorded) == [], "what it held is pending now"
    assert recorded.command("recover").returncode == 5
    taken = recorded.command(*re.search(r"agentreplay (accept \S+)", made.stdout)[1].split())
    assert taken.returncode == 0, taken.stderr
    header = recorded.snapshots[0].run.header
    assert header.outcome == {"status": "interrupted"}
    assert header.recorded
    assert header.clock
    assert header.seed
    assert ("[AR-EXTRA]" in recorded.offline().stdout) == (calls < 6)


def test_memory_that_runs_out_fails_the_test_and_tears_nothing(recorded):
    done = recorded.record("--agentreplay-no-prove", FAULT="memory:body")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MemoryError" in done.stdout
    assert intact(recorded)
    assert not leftovers(recorded)


@pytest.mark.parametrize(
    "fault",
    ["interrupt:tool", "twice:body", "interrupt:teardown", *rare("twice:tool", "twice:teardown")],
)
def test_ctrl_c_keeps_the_old_snapshot_and_tells_of_the_journal(recorded, fault):
    place = fault.partition(":")[2]
    done = recorded.record(FAULT=fault)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert recorded.home.read_bytes() == recorded.old, "an interrupted run is never promoted"
    assert not [*recorded.root.rglob(".pytest_agentreplay/pending/**/*.json"), *leftovers(recorded)]
    assert "the way to the world is open again" in done.stdout
    assert "recorded  nothing of test_shop.py::test_refund: it was cut short" in done.stdout
    if place != "tool":
        assert re.search(r"to keep what it saw: +agentreplay recover \S+jsonl", done.stdout)
        ((run, torn),) = journals(recorded)
        assert (len(run.exchanges), torn) == (1 if place == "body" else 6, 0)


def test_ctrl_c_in_a_fixture_keeps_what_it_saw(recorded):
    recorded.edit("conftest.py", "def pytest_sessionstart", f"{INTERRUPTED_FIXTURE}\ndef pytest_sessionstart")
    recorded.edit("test_shop.py", "(agentreplay, around)", "(agentreplay, broken)")
    try:
        done = recorded.record()
    finally:
        recorded.edit("test_shop.py", "(agentreplay, broken)", "(agentreplay, around)")
        recorded.edit("conftest.py", INTERRUPTED_FIXTURE, "")
    assert done.returncode == 2
    assert "KeyboardInterrupt" in done.stdout
    assert "recorded  nothing of test_shop.py::test_refund: it was cut short" in done.stdout
    assert recorded.home.read_bytes() == recorded.old
    ((run, _),) = journals(recorded)
    assert len(run.exchanges) == 1


@pytest.mark.parametrize("fault", ["twice:body", *rare("interrupt:teardown")])
def test_ctrl_c_in_a_replay_opens_the_way_again_and_writes_nothing(recorded, fault):
    recorded.edit("agent.py", "Be new.", "Be brief.")
    done = recorded.offline(FAULT=fault)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the way to the world is open again" in done.stdout
    assert recorded.home.read_bytes() == recorded.old
    assert journals(recorded) == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_ctrl_c_while_the_model_answers(recorded, stream):
    """The model types it: when it has been asked, and a few words into a long answer."""

    def slow(body, number):
        child = int((recorded.root / "pid").read_text(encoding="utf-8"))
        threading.Timer(0.2, os.kill, (child, signal.SIGINT)).start()
        if not stream:
            time.sleep(1)  # a whole answer comes all at once
        return "refund " * 20

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


@pytest.mark.parametrize("left", [0, 3, 7, *rare(1, 2, 4, 5, 6)])
def test_a_full_disk_leaves_the_old_snapshot_and_a_journal_that_can_be_read(recorded, left):
    """What is written: the journal's header, each of six calls, the snapshot."""
    hits = recorded.server.hits
    done = recorded.record("--agentreplay-no-prove", FAULT=f"full:{left + 1}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "no space left on device" in done.stdout
    assert "Free some space and record again" in done.stdout
    assert recorded.home.read_bytes() == recorded.old
    assert not leftovers(recorded), "no temporary file is left"
    if left == 0:
        assert journals(recorded) == []
        assert recorded.server.hits == hits, "said before the model was asked"
    if left > 1:
        (file,) = recorded.root.rglob("*.jsonl")
        assert f"agentreplay recover {file.relative_to(recorded.root)}" in done.stdout
        assert f"{left - 1} call" in recorded.command("recover").stdout


def test_a_read_only_tree_replays_and_says_why_it_cannot_record(recorded):
    recorded.edit("agent.py", "Be new.", "Be brief.")
    hits = recorded.server.hits
    replayed, done = recorded.replay(FAULT="read-only:0"), recorded.record(FAULT="read-only:0")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "read-only file system" in done.stdout
    assert "replay works here, recording needs a writable checkout" in done.stdout
    assert ".pytest_agentreplay" in done.stdout
    assert recorded.server.hits == hits, "said before the model was asked"
    assert recorded.home.read_bytes() == recorded.old


def test_a_recording_that_nobody_could_read_again_is_not_written(recorded):
    recorded.edit("test_shop.py", '"Where is A-17?"', "','.join(map(str, range(3_500)))")
    done = recorded.record("-o", "agentreplay_largest=20000")
    recorded.edit("test_shop.py", "','.join(map(str, range(3_500)))", '"Where is A-17?"')
    assert done.returncode == 1
    assert f"{SNAPSHOT}: " in done.stdout
    assert "bytes are more than the 20,000 that are read again" in " ".join(done.stdout.split())
    assert recorded.home.read_bytes() == recorded.old
