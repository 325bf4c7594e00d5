"""Recordings that are killed, crash, are interrupted or fill the disk: the old snapshot stays, what was seen is kept."""

import os
import re
import signal
import threading
from pathlib import Path

import pytest

from pytest_agentreplay.snapshots.codec import journal
from tests.support.exhaustive import rare
from tests.support.small_projects import passed, recorded

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and processes of POSIX")

ROOT = Path(__file__).resolve().parents[3]

CONFTEST = """
import ctypes, errno, os, resource, signal, socket, sys, threading, time
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
    import agent
    agent.lookup_order("A-17")
    bad_end("setup")
    yield
    bad_end("teardown")

def pytest_sessionstart():
    if HOW == "full":
        sys.path.append(os.environ["CHECKOUT"])
        from pytest_agentreplay.snapshots.store import files
        from tests.snapshots.faults.disk import Disk, fails
        files.os = Disk(int(WHEN), fails(errno.ENOSPC), counted={"write"}, lasting={"write"})
        files.os.struck = ""

def pytest_unconfigure():
    if "SERVER_PORT" in os.environ:
        socket.create_connection(("127.0.0.1", int(os.environ["SERVER_PORT"]))).close()
        print("\\nthe way to the world is open again")
"""

TESTS = """
import os, pathlib
import agent, conftest, httpx2

def test_refund(agentreplay, around):
    conftest.bad_end("body")
    if "STREAM" in os.environ:
        pathlib.Path("pid").write_text(str(os.getpid()))
        body = {"model": "m", "stream": os.environ["STREAM"] == "True", "messages": [{"role": "user", "content": "hi"}]}
        with httpx2.stream("POST", os.environ["MODEL_URL"] + "/v1/chat/completions", json=body, timeout=60) as reply:
            assert [*reply.iter_lines()]
    assert "refund" in agent.answer("Where is A-17?")
"""


@pytest.fixture(scope="module")
def made(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    project.write(conftest=CONFTEST)
    project.edit("agent.py", "def note(line):", "def note(line):\n    import conftest\n    conftest.bad_end('tool')")
    project.edit("agent.py", "Be brief.", 'Be " + os.environ["WORD"] + ".')
    project.environ |= {"CHECKOUT": str(ROOT), "SERVER_PORT": project.server.url.rpartition(":")[2], "WORD": "new"}
    recorded(project, WORD="brief")
    (project.home,) = project.files
    project.old = project.home.read_bytes()
    return project


@pytest.fixture
def shop(made, request):
    """The shop with its old snapshot, and an agent that says something new; what is recorded of it replaces nothing."""
    made.forks = request.node.get_closest_marker("real_process") is None
    for file in (*made.root.rglob("*.jsonl"), *made.root.rglob(".pytest_agentreplay/pending/**/*.json")):
        file.unlink()
    yield made
    assert not [file for file in made.root.rglob(".ar-*") if file.is_file()], "no temporary file is left"
    made.home.write_bytes(made.old)


def intact(project, done, code):
    """Whether the process ended with `code` and a clear word, and the snapshot is the old one."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return project.home.read_bytes() == project.old


def journals(project):
    return [journal.read_journal(file.read_bytes()) for file in project.root.rglob("*.jsonl")]


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("fault", "code", "calls"),
    [("kill:body", -9, 1), *rare(("kill:teardown", -9, 6), ("exit:body", 0, 1), ("segfault:body", -11, 1))],
)
def test_a_process_that_goes_away_leaves_the_old_snapshot_and_a_journal_that_can_be_recovered(shop, fault, code, calls):
    done = shop.record(FAULT=fault)
    assert "recorded " not in done.stdout
    assert intact(shop, done, code)
    ((run, torn),) = journals(shop)
    assert (len(run.exchanges), torn) == (calls, 0)
    assert all(x.outcome is not None for x in run.exchanges[:-1])
    listed = passed(shop.command("verify", "--recover")).stdout
    assert f"test_shop.py::test_refund, {calls} call" in listed
    recovered = passed(shop.command(*re.search(r"agentreplay (verify --recover \S+)", listed)[1].split()))
    assert shop.home.read_bytes() == shop.old, "never promoted by itself"
    assert journals(shop) == [], "what it held is pending now"
    assert shop.command("verify", "--recover").returncode == 5
    passed(shop.command(*re.search(r"agentreplay (accept \S+)", recovered.stdout)[1].split()))
    header = shop.snapshots[0].run.header
    assert header.outcome == {"status": "interrupted"}
    assert header.recorded
    assert header.clock
    assert header.seed
    assert ("[AR-EXTRA]" in shop.offline().stdout) == (calls < 6)


@pytest.mark.exhaustive
def test_memory_that_runs_out_fails_the_test_and_tears_nothing(shop):
    done = shop.record(FAULT="memory:body")
    assert intact(shop, done, 1)
    assert "MemoryError" in done.stdout


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ("interrupt:tool", None),
        ("interrupt:setup", 1),
        ("twice:body", 1),
        *rare(("interrupt:teardown", 6), ("twice:tool", None), ("twice:teardown", 6)),
    ],
)
def test_ctrl_c_keeps_the_old_snapshot_and_tells_of_the_journal(shop, fault, calls):
    done = shop.record(FAULT=fault)
    assert intact(shop, done, 2), "an interrupted run is never promoted"
    assert not [*shop.root.rglob(".pytest_agentreplay/pending/**/*.json")]
    assert "the way to the world is open again" in done.stdout
    assert "recorded  nothing of test_shop.py::test_refund: it was cut short" in done.stdout
    if calls:
        assert re.search(r"to keep what it saw: +agentreplay verify --recover \S+jsonl", done.stdout)
        assert [(len(run.exchanges), torn) for run, torn in journals(shop)] == [(calls, 0)]


@pytest.mark.real_process
@pytest.mark.parametrize("fault", ["twice:body", *rare("interrupt:teardown")])
def test_ctrl_c_in_a_replay_opens_the_way_again_and_writes_nothing(shop, fault):
    done = shop.offline(FAULT=fault, WORD="brief")
    assert intact(shop, done, 2)
    assert "the way to the world is open again" in done.stdout
    assert journals(shop) == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_ctrl_c_while_the_model_answers_keeps_the_old_snapshot(shop, stream):
    """The model types it: when it has been asked, and a few words into a long answer."""

    def interrupting(body, number):
        child = int((shop.root / "pid").read_text(encoding="utf-8"))
        if stream:
            threading.Timer(0.2, os.kill, (child, signal.SIGINT)).start()
        else:
            os.kill(child, signal.SIGINT)
        return "refund " * 20

    before, shop.server._replies, shop.server.pace = shop.server._replies, interrupting, 0.05
    try:
        done = shop.record(STREAM=str(stream))
    finally:
        shop.server._replies, shop.server.pace = before, 0.0
    assert intact(shop, done, 2)
    assert "the way to the world is open again" in done.stdout
    assert "it was cut short" in done.stdout


@pytest.mark.parametrize("left", [3, *rare(0, 1, 2, 4, 5, 6, 7)])
def test_a_full_disk_leaves_the_old_snapshot_and_a_journal_that_can_be_read(shop, left):
    """What is written: the journal's header, each of six calls, the snapshot."""
    hits = shop.server.hits
    done = shop.record(FAULT=f"full:{left + 1}")
    assert intact(shop, done, 1)
    assert "Traceback" not in done.stdout
    assert "no space left on device" in done.stdout
    assert "Free some space and record again" in done.stdout
    if left == 0:
        assert journals(shop) == []
        assert shop.server.hits == hits, "said before the model was asked"
    if left > 1:
        (file,) = shop.root.rglob("*.jsonl")
        assert f"agentreplay verify --recover {file.relative_to(shop.root)}" in done.stdout
        assert f"{left - 1} call" in shop.command("verify", "--recover").stdout
