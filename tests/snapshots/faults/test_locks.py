"""Two processes and one file: one wins, the other is told, nobody waits for a dead one, and a killed one leaves a whole file."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Exchange, Header, ToolCall, ToolReply
from pytest_agentreplay.runs import accept
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, snapshots, system
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.snapshots.faults.racing import outcomes
from tests.support.stored_runs import tool_run

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[3]
NODE = "test_a.py::test_b"

HOLDS = """
import pathlib, sys
from pytest_agentreplay.snapshots.store import files
with files.hold_lock(pathlib.Path(sys.argv[1])) as token:
    (pathlib.Path(sys.argv[1]).parent / f"{token}-0.tmp").write_text("half of a fi")
    print("held", flush=True)
    sys.stdin.read()
"""
WRITES = """
import pathlib, sys
from pytest_agentreplay.model.exchanges import Exchange, Header, ToolCall, ToolReply
from pytest_agentreplay.snapshots.store.snapshots import Store
root = pathlib.Path(sys.argv[1])
store = Store(root)
journal = store.journal_for(store.path_of(root / "test_a.py", "test_a.py::test_b"), Header("test_a.py::test_b"))
journal.write(Exchange(ToolCall("t", {}), ToolReply(1), 1, 2))
print("up", flush=True)
sys.stdin.read()
"""


@contextmanager
def child(code, *words):
    """A process of its own that has said its first line; ended at the end, whatever it does."""
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()
        if not process.stdin.closed:
            process.stdin.close()


def killed(process):
    process.kill()
    process.wait(30)


def test_the_lock_of_a_killed_process_holds_nobody_up(tmp_path, monkeypatch):
    path = tmp_path / "x"
    files.write_whole(path, "old")
    monkeypatch.setattr(files, "LOCK_TRIES", 3)
    monkeypatch.setattr(files, "LOCK_PAUSE", 0)
    with child(HOLDS, path) as process:
        assert process.stdout.readline() == "held\n"
        for write in (files.write_whole, lambda p, t: files.write_if_unchanged(p, t, files.sha256_of(p))):
            with pytest.raises(CannotWrite, match="another process is writing it"):
                write(path, "new")
        assert path.read_text(encoding="utf-8") == "old"
        killed(process)
        monkeypatch.setattr(files, "LOCK_TRIES", 1)
        (lock,) = tmp_path.glob("*.lock")
        os.utime(lock, (time.time() + 9e6, time.time() + 9e6))
        assert len(os.listdir(tmp_path)) == 3, "its lock, and half of its file"
        files.write_if_unchanged(path, "new", files.sha256_of(path))
    assert path.read_text(encoding="utf-8") == "new"
    assert os.listdir(tmp_path) == ["x"]


def test_a_writer_waits_for_one_that_is_alive(tmp_path):
    with child(HOLDS, tmp_path / "x") as process:
        assert process.stdout.readline() == "held\n"
        threading.Timer(0.3, process.stdin.close).start()
        files.write_whole(tmp_path / "x", "new")
    assert (tmp_path / "x").read_text(encoding="utf-8") == "new"


def test_a_lock_that_somebody_committed_is_taken_over(tmp_path):
    path = tmp_path / "x"
    with files.hold_lock(path) as token:
        lock = tmp_path / f"{token}.lock"
    lock.write_text("1\nanother machine\n", encoding="utf-8")
    files.write_whole(path, "new")
    assert os.listdir(tmp_path) == ["x"]
    lock.mkdir()
    with pytest.raises(CannotWrite, match="x: cannot be written"):
        files.write_whole(path, "newer")
    assert path.read_text(encoding="utf-8") == "new"


def test_of_two_processes_one_wins_and_the_other_is_told(tmp_path):
    assert [*outcomes(str(tmp_path), 10)] == ["one winner"] * 10


def test_one_of_several_threads_wins_too(tmp_path):
    path, told = tmp_path / "x", []
    files.write_if_unchanged(path, "first", None)
    before = files.sha256_of(path)

    def write(text):
        try:
            files.write_if_unchanged(path, text, before)
        except CannotWrite as error:
            told.append(str(error))

    with ThreadPoolExecutor(8) as pool:
        pool.map(write, [f"by {n}" for n in range(8)])
    assert len(told) == 7
    assert all("changed underneath" in one for one in told)
    assert path.read_text(encoding="utf-8").startswith("by ")
    assert os.listdir(tmp_path) == ["x"]


def test_where_the_file_system_knows_no_locks_the_content_still_decides(tmp_path, monkeypatch):
    def unknown(handle):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(system, "_lock", unknown)
    path = tmp_path / "x"
    files.write_if_unchanged(path, "first", None)
    with pytest.raises(CannotWrite, match="changed underneath"):
        files.write_if_unchanged(path, "second", None)
    assert os.listdir(tmp_path) == ["x"]
    with files.hold_lock(path) as token:
        (tmp_path / f"{token}-1.tmp").write_text("perhaps somebody is writing it", encoding="utf-8")
    files.write_whole(path, "second")
    assert len(os.listdir(tmp_path)) == 2, "nobody can tell, so it waits until it is old"


def test_a_take_back_leaves_alone_what_another_process_has_written(tmp_path):
    path = tmp_path / "x"
    for before in (None, b"old"):
        store = Store(tmp_path)
        saved = store.save(path, "ours")
        files.write_whole(path, "theirs")
        with pytest.raises(CannotWrite, match="changed underneath") if before else nullcontext():
            store.restore(path, before, saved)
        assert path.read_text(encoding="utf-8") == "theirs"
        store = Store(tmp_path)
        store.restore(path, before, store.save(path, "ours"))
        assert (path.read_bytes() if path.exists() else None) == before
        files.remove(path)


def seal(store, path, result):
    store.save(path, codec.dumps(tool_run(NODE, result)))


def test_the_journal_of_a_living_recording_is_left_alone_and_that_of_a_dead_one_waits_for_a_person(tmp_path):
    store = Store(tmp_path)
    path = store.path_of(tmp_path / "test_a.py", NODE)
    with child(WRITES, tmp_path) as process:
        assert process.stdout.readline() == "up\n"
        (journal,) = tmp_path.rglob("*.jsonl")
        assert accept.list_journals(tmp_path) == []
        with pytest.raises(SnapshotUnreadable, match="still being recorded"):
            accept.recover(journal, {})
        seal(store, path, 1)
        assert journal.exists()
        killed(process)
    with child(WRITES, tmp_path) as second:
        assert second.stdout.readline() == "up\n"
        killed(second)
    assert len(accept.list_journals(tmp_path)) == 2, "a second one keeps the first"
    assert all("1 call" in line for line in accept.list_journals(tmp_path))
    other = store.path_of(tmp_path / "test_a.py", f"{NODE}.c")
    seal(store, other, 1)
    assert len(accept.list_journals(tmp_path)) == 2, "another test has nothing to do with them"
    store.save_pending(path, "a run that waits is no reason either")
    assert len(accept.list_journals(tmp_path)) == 2
    seal(store, path, 2)
    assert accept.list_journals(tmp_path) == [], "the test is recorded now"


def test_journals_that_nobody_has_looked_at_go_after_some_weeks(tmp_path):
    store = Store(tmp_path)
    path, other = (store.path_of(tmp_path / "test_a.py", f"test_a.py::{name}") for name in ("test_b", "test_c"))
    left = [store.journal_for(other, Header("test_a.py::test_c")) for _ in range(2)]
    for journal in left:
        journal.write(Exchange(ToolCall("t", {}), ToolReply(1), 1, 2))
        journal.close(keep=True)
    old = time.time() - snapshots.JOURNALS_KEPT - 60
    os.utime(left[0].path, (old, old))
    seal(store, path, 1)
    assert [file.name for file in tmp_path.rglob("*.jsonl")] == [left[1].path.name]


def test_a_journal_that_cannot_be_read_does_not_hide_the_others(tmp_path):
    store = Store(tmp_path)
    path = store.path_of(tmp_path / "test_a.py", NODE)
    for _ in range(2):
        journal = store.journal_for(path, Header(NODE))
        journal.write(Exchange(ToolCall("t", {}), ToolReply(1), 1, 2))
        journal.close(keep=True)
    first, _ = sorted(tmp_path.rglob("*.jsonl"))
    first.unlink()
    first.mkdir()
    (first.parent / "0.jsonl").symlink_to(tmp_path / "nowhere")
    unreadable, readable = accept.list_journals(tmp_path)
    assert "not a plain file" in unreadable
    assert "1 call" in readable


@pytest.mark.skipif(os.name != "posix", reason="processes are forked and killed")
@pytest.mark.parametrize(("how", "many"), [("steps", 60), ("delays", 8)])
def test_a_killed_recording_leaves_a_whole_snapshot_and_a_journal_that_can_be_read(tmp_path, how, many):
    """60 steps are all calls to the disk of such a recording, and some again."""
    command = [sys.executable, "-m", "tests.snapshots.faults.killing", str(tmp_path), how, str(many)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == many
    assert not any(row["torn"] for row in rows)
    if how == "steps":  # where a delay ends is up to the machine
        assert {True, False} == {row["new"] for row in rows}, "some came to their end"
        assert max(row["temporary"] for row in rows) == 1, "some were killed between their file and its rename"
        assert max(row["journals"] for row in rows) == 1
    assert max(row["temporary"] for row in rows) <= 1
    assert max(row["journals"] for row in rows) <= 1
    assert not any(row["unread"] for row in rows)
    assert all(row["green"] for row in rows), "the next recording is as good as any"
    assert [row["left"] for row in rows] == [[]] * many, "and clears all away"
