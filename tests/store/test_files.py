from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.store import files

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")
not_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")


class Faulty:
    """`os`, whose n-th call that touches the disk fails."""

    COUNTED = ("open", "write", "fsync", "replace", "makedirs", "lstat", "close", "unlink")

    def __init__(self, fail_at, code=errno.ENOSPC):
        self.fail_at = fail_at
        self.code = code
        self.count = 0
        self.failed = ""

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.COUNTED:
            return real

        def call(*args, **kwargs):
            self.count += 1
            if self.count == self.fail_at:
                self.failed = name
                if name == "close":
                    real(*args, **kwargs)  # the descriptor is gone whatever close says
                raise OSError(self.code, os.strerror(self.code))
            return real(*args, **kwargs)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("write", [files.write_whole, lambda p, t: files.write_if_unchanged(p, t, files.sha256_of(p))])
def test_whatever_call_fails_the_old_file_or_the_new_one_is_there_whole(tmp_path, monkeypatch, code, write):
    path = tmp_path / "a" / "x.json"
    for fail_at in range(1, 100):
        monkeypatch.setattr(files, "os", os)
        files.write_whole(path, "old")
        faulty = Faulty(fail_at, code)
        monkeypatch.setattr(files, "os", faulty)
        error = None
        try:
            write(path, "new")
        except (CannotWrite, SnapshotUnreadable) as caught:
            error = caught
        monkeypatch.setattr(files, "os", os)
        if not faulty.failed:
            assert path.read_text(encoding="utf-8") == "new"
            assert error is None
            break
        if path.read_text(encoding="utf-8") == "old":
            assert error is not None, f"call {fail_at} ({faulty.failed}) failed unseen"
            assert path.as_posix() in str(error)
        else:
            assert path.read_text(encoding="utf-8") == "new"
            assert faulty.failed in {"fsync", "open", "close", "unlink"}, "only what follows the rename"
            assert error is None, "what is written is not told as failed"
        if faulty.failed != "unlink":
            assert os.listdir(path.parent) == ["x.json"], f"left behind after {faulty.failed}"
        for name in os.listdir(path.parent):
            if name != "x.json":
                os.unlink(path.parent / name)
    else:
        pytest.fail("never ran through")


def test_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "os", Faulty(1, errno.EROFS))
    with pytest.raises(CannotWrite, match="read-only file system") as caught:
        files.write_whole(tmp_path / "x.json", "new")
    assert (tmp_path / "x.json").as_posix() in str(caught.value)
    assert "writable checkout" in str(caught.value)


def test_short_writes_are_finished(tmp_path, monkeypatch):
    class Short:
        def __getattr__(self, name):
            return (lambda handle, data: os.write(handle, data[:3])) if name == "write" else getattr(os, name)

    monkeypatch.setattr(files, "os", Short())
    files.write_whole(tmp_path / "x", "0123456789")
    assert (tmp_path / "x").read_text(encoding="utf-8") == "0123456789"


def test_a_file_that_is_open_elsewhere_is_tried_again(tmp_path, monkeypatch):
    class Busy:
        left = 3

        def __getattr__(self, name):
            return getattr(os, name)

        def replace(self, *args):
            if self.left:
                self.left -= 1
                error = PermissionError(errno.EACCES, "busy")
                error.winerror = 32
                raise error
            os.replace(*args)

    monkeypatch.setattr(files, "os", Busy())
    files.write_whole(tmp_path / "x", "new")
    assert (tmp_path / "x").read_text(encoding="utf-8") == "new"
    Busy.left = 99
    monkeypatch.setattr(files, "os", Busy())
    with pytest.raises(CannotWrite):
        files.write_whole(tmp_path / "x", "newer")
    assert (tmp_path / "x").read_text(encoding="utf-8") == "new"


@posix
def test_permissions_are_kept_and_new_files_follow_the_umask(tmp_path):
    path = tmp_path / "x"
    old = os.umask(0o027)
    try:
        files.write_whole(path, "a")
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(old)
    path.chmod(0o600)
    files.write_whole(path, "b")
    assert path.stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("kind", ["symlink", "dangling", "fifo", "folder"])
def test_what_is_no_plain_file_is_neither_read_nor_replaced(tmp_path, kind):
    path = tmp_path / "x"
    (tmp_path / "secret").write_text("s", encoding="utf-8")
    match kind:
        case "symlink":
            path.symlink_to(tmp_path / "secret")
        case "dangling":
            path.symlink_to(tmp_path / "nowhere")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    with pytest.raises(SnapshotUnreadable, match="plain file"):
        files.read(path)
    with pytest.raises(CannotWrite):
        files.write_whole(path, "new")
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "s"
    assert sorted(os.listdir(tmp_path)) == ["secret", "x"]


def test_reading_is_bounded_and_absent_is_absent(tmp_path, monkeypatch):
    with pytest.raises(SnapshotMissing):
        files.read(tmp_path / "none")
    monkeypatch.setattr(files, "LARGEST", 10)
    (tmp_path / "x").write_bytes(b"0" * 10)
    assert files.read(tmp_path / "x") == b"0" * 10
    (tmp_path / "x").write_bytes(b"0" * 11)
    with pytest.raises(SnapshotUnreadable, match="larger than"):
        files.read(tmp_path / "x")


@posix
@not_root
def test_what_may_not_be_read_says_so(tmp_path):
    (tmp_path / "x").write_text("a", encoding="utf-8")
    (tmp_path / "x").chmod(0)
    with pytest.raises(SnapshotUnreadable, match="ermission"):
        files.read(tmp_path / "x")


def test_one_of_two_writers_wins_and_the_other_is_told(tmp_path):
    path = tmp_path / "x"
    files.write_if_unchanged(path, "first", None)
    with pytest.raises(CannotWrite, match="changed underneath"):
        files.write_if_unchanged(path, "second", None)
    before = files.sha256_of(path)
    told = []

    def write(text):
        try:
            files.write_if_unchanged(path, text, before)
        except CannotWrite as error:
            told.append(str(error))

    threads = [threading.Thread(target=write, args=(f"by {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 7
    assert path.read_text(encoding="utf-8").startswith("by ")
    assert os.listdir(tmp_path) == ["x"]


def test_the_lock_of_a_killed_process_is_broken(tmp_path, monkeypatch):
    path = tmp_path / "x"
    with files.locked(path):
        lock = next(tmp_path.iterdir())
    lock.write_text("", encoding="utf-8")
    monkeypatch.setattr(files, "LOCK_PATIENCE", 0.05)
    with pytest.raises(CannotWrite, match="another process"):
        files.write_if_unchanged(path, "a", None)
    os.utime(lock, (1, 1))
    files.write_if_unchanged(path, "a", None)
    assert os.listdir(tmp_path) == ["x"]


def test_leftovers_are_swept_when_they_are_old(tmp_path):
    for name in (".ar-1.tmp", ".ar-2.tmp", ".ar-3.lock", "other.tmp"):
        (tmp_path / name).write_text("", encoding="utf-8")
    for name in (".ar-1.tmp", ".ar-3.lock", "other.tmp"):
        os.utime(tmp_path / name, (1, 1))
    files.sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".ar-2.tmp", "other.tmp"]
    files.sweep(tmp_path / "none")


def test_appending(tmp_path):
    journal = files.Appending(tmp_path / "j" / "x.jsonl")
    journal.append(b"a\n")
    assert journal.path.read_bytes() == b"a\n", "there before it is closed"
    journal.append(b"b\n")
    if os.name == "posix":
        assert journal.path.stat().st_mode & 0o777 == 0o600
    journal.close()
    assert journal.path.read_bytes() == b"a\nb\n"
    with pytest.raises(CannotWrite):
        files.Appending(journal.path)
    journal.close(keep=False)
    assert not journal.path.exists()


def test_private_folders_keep_out_of_git(tmp_path):
    files.private(tmp_path / ".p")
    assert (tmp_path / ".p" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    (tmp_path / ".p" / ".gitignore").write_text("mine\n", encoding="utf-8")
    files.private(tmp_path / ".p")
    assert (tmp_path / ".p" / ".gitignore").read_text(encoding="utf-8") == "mine\n"


@posix
def test_a_process_killed_while_writing_leaves_the_old_file_or_the_new_one(tmp_path):
    """Twenty kills, each somewhere in a loop that writes two texts in turn; every file found is one of them."""
    path = tmp_path / "x"
    code = (
        "import sys, pathlib; from pytest_agentreplay.store import files; path = pathlib.Path(sys.argv[1]);"
        "print('up', flush=True)\n"
        "while True:\n    files.write_whole(path, 'a' * 200_000); files.write_whole(path, 'b' * 300_000)"
    )
    seeds = random.Random(20)
    files.write_whole(path, "a" * 200_000)
    for _ in range(4):
        children = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
            )
            for _ in range(5)
        ]
        for child in children:
            assert child.stdout.readline() == b"up\n"
        for child in children:
            time.sleep(seeds.uniform(0, 0.03))
            child.send_signal(signal.SIGKILL)
            child.wait(10)
            child.stdout.close()
            assert path.read_bytes() in {b"a" * 200_000, b"b" * 300_000}
    left = [name for name in os.listdir(tmp_path) if name != "x"]
    assert len(left) <= 20
    for name in left:
        os.utime(tmp_path / name, (1, 1))
    files.sweep(tmp_path)
    assert os.listdir(tmp_path) == ["x"]
