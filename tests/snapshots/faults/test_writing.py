"""Whatever call to the disk fails, once or for good: the old file or the new one is there, whole, and what failed is told."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from pytest_agentreplay.errors import AgentReplayError, CannotWrite
from pytest_agentreplay.model.exchanges import Exchange, Header, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.snapshots.faults.disk import LASTING, Disk, each_call, fails, instead_of, interrupts, refusing, takes_little
from tests.snapshots.faults.power import Recorded, after, states
from tests.support.exhaustive import rare
from tests.support.stored_runs import tool_run

ROOT = Path(__file__).resolve().parents[3]
NODE = "test_a.py::test_b"
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files and signals")


OLD, NEW = (codec.dumps(tool_run(NODE, word * 2000)) for word in ("old ", "new "))


def write_whole(path):
    files.write_whole(path, NEW)


def seal(path):
    store = Store(path.parents[2])
    store.load(path, NODE)
    store.save(path, NEW)


def record(path):
    """As one test does: a journal, its exchanges, the seal, and the journal is gone."""
    store = Store(path.parents[2])
    store.load(path, NODE)
    journal = store.journal_for(path, Header(NODE))
    journal.write(Exchange(ToolCall("t", {}), ToolReply("x" * 99), 1, 2))
    try:
        store.save(path, NEW)
    finally:
        journal.close(keep=False)


def take_back(path):
    store = Store(path.parents[2])
    store.load(path, NODE)
    saved = store.save(path, NEW)
    store.restore(path, OLD.encode(), saved)


def move(path):
    files.move_all([(path, path.with_name("moved.json"), NEW)])
    os.replace(path.with_name("moved.json"), path)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # a real one takes most of the time; one that fails, fails
    path = tmp_path / "__agent_snapshots__" / "test_a" / "test_b.snapshot.json"
    path.parent.mkdir(parents=True)
    path.write_text(OLD, encoding="utf-8")
    return path


CODES = [errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EIO, *rare(errno.EDQUOT, errno.EACCES, errno.EPERM)]


def leftovers(path):
    return [file for file in path.parents[2].rglob(".ar-*") if file.is_file()]


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@pytest.mark.parametrize("work", [write_whole, seal, record, take_back, move])
def test_the_old_file_or_the_new_one_is_there_and_a_failure_is_told(path, work, code, lasting):
    more = {"lasting": LASTING[code], "counted": LASTING[code]} if lasting else {}
    for disk in each_call(fails(code), **more):
        path.write_text(OLD, encoding="utf-8")
        error = None
        with instead_of(disk):
            try:
                work(path)
            except AgentReplayError as caught:
                error = caught
        assert not disk.open_handles, "every file is closed again"
        found = path.read_text(encoding="utf-8")
        if found == OLD and work is not take_back:
            assert error is not None, f"{disk.struck}, call {disk.at}, failed unseen"
        assert found in {OLD, NEW}
        if error is not None:
            assert os.strerror(code).lower() in str(error).lower()
            assert path.name in str(error) or ".pytest_agentreplay" in str(error) or "moved.json" in str(error)
        if not {disk.struck} & {"unlink", "lstat", "fstat"} and not (lasting and {"unlink"} & LASTING[code]):
            assert not leftovers(path)
        for name in leftovers(path):
            name.unlink()
    assert disk.at > 1, "there was something to fail"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_sync_that_failed_is_an_error_and_not_asked_again(path, code):
    """The system may drop what it could not write, and say yes the second time: a `Disk` sees whoever asks again."""
    synced = []
    for number in (1, 2):
        path.write_text(OLD, encoding="utf-8")
        with instead_of(Disk(number, fails(code), counted={"fsync"})), pytest.raises(CannotWrite) as caught:
            files.write_whole(path, NEW)
        synced.append((path.read_text(encoding="utf-8"), str(caught.value)))
    (file, told), (folder, told_folder) = synced
    assert file == OLD
    assert "cannot be written" in told
    assert folder == NEW, "the rename has happened"
    assert "is written, but the disk did not confirm it" in told_folder


@posix
@pytest.mark.parametrize("code", [errno.EINVAL, errno.EACCES, errno.ENOTSUP])
def test_a_folder_that_cannot_be_synced_at_all_is_no_failure(path, code):
    with instead_of(Disk(2, fails(code), counted={"fsync"})) as disk:
        files.write_whole(path, NEW)
    assert disk.struck


@pytest.mark.parametrize("work", [write_whole, seal, record])
def test_short_writes_are_finished(path, work):
    for disk in itertools.islice(each_call(takes_little, counted={"write"}), 50):
        path.write_text(OLD, encoding="utf-8")
        with instead_of(disk):
            work(path)
        assert path.read_text(encoding="utf-8") == NEW
    with instead_of(Disk(1, takes_little, counted={"write"}, lasting={"write"})):
        files.write_whole(path, "byte by byte")
    assert path.read_text(encoding="utf-8") == "byte by byte"


def test_a_system_that_takes_nothing_is_not_asked_for_ever(path):
    with instead_of(Disk(1, lambda *_: 0, counted={"write"}, lasting={"write"})), pytest.raises(CannotWrite):
        files.write_whole(path, NEW)
    assert path.read_text(encoding="utf-8") == OLD


@posix
@pytest.mark.parametrize("work", [write_whole, seal, record, take_back])
def test_ctrl_c_at_any_call_leaves_a_whole_file_and_nothing_else(path, work):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for disk in each_call(interrupts):
            path.write_text(OLD, encoding="utf-8")
            interrupted = False
            with instead_of(disk):
                try:
                    work(path)
                except KeyboardInterrupt:
                    interrupted = True
            assert interrupted == bool(disk.struck)
            assert path.read_text(encoding="utf-8") in {OLD, NEW}
            assert len(leftovers(path)) <= 1
            for handle in disk.open_handles:  # one that came back at the very moment; the process ends soon
                os.close(handle)
            files.write_whole(path, OLD)
            assert not [*path.parent.glob(".ar-*")], "the next writer clears away what is left"
            for left in leftovers(path):  # elsewhere, where nobody writes again in this test
                left.unlink()
    finally:
        signal.signal(signal.SIGINT, before)


@posix
def test_ctrl_c_at_any_call_leaves_a_folder_of_several_files_whole_or_not_there(tmp_path):
    """Errors of the disk instead are tried in tests/cli/test_crashes."""
    new = {"case.yaml": b"new", "fixtures/a-1.yaml": b"a"}
    for number, disk in enumerate(each_call(interrupts, counted={"open", "write", "replace"})):
        folder = tmp_path / str(number) / "x"
        with instead_of(disk), suppress(KeyboardInterrupt):
            files.make_folder(folder, new)
        left = [file for file in folder.parent.rglob("*") if file.is_file()]
        found = {file.relative_to(folder).as_posix(): file.read_bytes() for file in left}
        assert found in ({}, new)
    assert found == new


SIGNALS = """
import pathlib, signal, sys
from pytest_agentreplay.snapshots.store import files
signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
for n in range(20): files.write_whole(pathlib.Path(sys.argv[1]), str(n) * 1_000_000)
signal.setitimer(signal.ITIMER_REAL, 0)
"""
TOO_LARGE = """
import pathlib, resource, signal, sys
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.snapshots.store import files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try: files.write_whole(pathlib.Path(sys.argv[1]), "x" * 100_001)
except CannotWrite as error: print(error)
"""


def child(code, path):
    command = [sys.executable, "-c", code, path]
    return subprocess.run(command, cwd=ROOT, check=True, timeout=60, capture_output=True, encoding="utf-8").stdout


@posix
@pytest.mark.process
def test_signals_that_keep_coming_do_no_harm(path):
    child(SIGNALS, path)
    assert path.read_text(encoding="utf-8") == "19" * 1_000_000


@posix
@pytest.mark.process
def test_a_file_that_is_larger_than_the_process_may_write(path):
    said = child(TOO_LARGE, path)
    assert "cannot be written: file too large" in said
    assert "record a shorter run" in said
    assert path.read_text(encoding="utf-8") == OLD
    assert not leftovers(path)


@pytest.mark.parametrize("code", [5, 32], ids=["access denied", "sharing violation"])
@pytest.mark.parametrize("call", ["open", "replace", "unlink"])
def test_a_file_that_another_process_of_windows_holds_is_tried_again_and_not_for_ever(path, call, code, monkeypatch):
    monkeypatch.setattr(files, "LOCK_PAUSE", 0)
    with instead_of(Disk(1, refusing("held by another process", code, 1), counted={call})):
        files.write_whole(path, NEW)
    assert path.read_text(encoding="utf-8") == NEW
    path.write_text(OLD, encoding="utf-8")
    for_ever = Disk(1, refusing("held by another process", code, 10**9), counted={call}, lasting={call})
    stays = call == "unlink"  # a lock that stays does no harm
    with instead_of(for_ever), nullcontext() if stays else pytest.raises(CannotWrite, match="held by another process"):
        files.write_whole(path, OLD if stays else NEW)
    assert path.read_text(encoding="utf-8") == OLD
    assert for_ever.count <= (files.LOCK_TRIES if call == "open" else 3 * files.TRIES)


@posix
@pytest.mark.parametrize("work", [write_whole, seal, record])
def test_a_power_cut_leaves_the_old_file_or_the_new_one(path, work):
    disk = Recorded()
    before = {path: OLD.encode()}
    with instead_of(disk):
        work(path)
    assert {OLD.encode(), NEW.encode()} == {folder[path] for folder in states(disk.log, before)}
    done = disk.log[: max(n for n, call in enumerate(disk.log) if call[0] == "sync folder") + 1]
    assert {folder[path] for folder in after(done, before)} == {NEW.encode()}, "what was told as written stays"


@posix
def test_without_its_sync_a_power_cut_would_tear_the_file(path):
    """The model above is one in which the test can fail."""
    disk = Recorded()
    with instead_of(disk):
        files.write_whole(path, NEW)
    careless = [call for call in disk.log if call[0] != "sync"]
    assert b"" in {folder[path] for folder in states(careless, {path: OLD.encode()})}
