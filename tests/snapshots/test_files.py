from __future__ import annotations

import errno
import os

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.snapshots.store import files
from tests.snapshots.faults.disk import Disk, fails, instead_of

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")
not_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")


def test_the_message_says_what_to_do(tmp_path):
    with instead_of(Disk(1, fails(errno.EROFS))), pytest.raises(CannotWrite, match="read-only file system") as caught:
        files.write_whole(tmp_path / "x.json", "new")
    assert (tmp_path / "x.json").as_posix() in str(caught.value)
    assert "writable checkout" in str(caught.value)


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
def test_what_is_no_plain_file_is_neither_read_nor_replaced(tmp_path):
    secret, path = tmp_path / "secret", tmp_path / "x"
    secret.write_text("s", encoding="utf-8")
    for make in (
        lambda: path.symlink_to(secret),
        lambda: path.symlink_to(tmp_path / "no"),
        lambda: os.mkfifo(path),
        path.mkdir,
    ):
        make()
        with pytest.raises(SnapshotUnreadable, match="plain file"):
            files.read_file(path)
        with pytest.raises(CannotWrite):
            files.write_whole(path, "new")
        assert secret.read_text(encoding="utf-8") == "s"
        assert sorted(os.listdir(tmp_path)) == ["secret", "x"]
        path.rename(tmp_path.with_name(f"{tmp_path.name}-done")) if path.is_dir() else path.unlink()


def test_reading_is_bounded_and_absent_is_absent(tmp_path, monkeypatch):
    with pytest.raises(SnapshotMissing):
        files.read_file(tmp_path / "none")
    monkeypatch.setattr(files, "LARGEST", 10)
    (tmp_path / "x").write_bytes(b"0" * 10)
    assert files.read_file(tmp_path / "x") == b"0" * 10
    (tmp_path / "x").write_bytes(b"0" * 11)
    with pytest.raises(SnapshotUnreadable, match="larger than"):
        files.read_file(tmp_path / "x")


@posix
@not_root
def test_what_may_not_be_read_says_so(tmp_path):
    (tmp_path / "x").write_text("a", encoding="utf-8")
    (tmp_path / "x").chmod(0)
    with pytest.raises(SnapshotUnreadable, match="ermission"):
        files.read_file(tmp_path / "x")


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


def test_shared_lines_are_added_behind_the_last_whole_one(tmp_path):
    path = tmp_path / "folder" / "x.jsonl"
    with files.shared_lines(path) as (lines, add):
        assert lines == []
        add(b"1")
        add(b"2")
    path.write_bytes(path.read_bytes() + b"torn")
    with files.shared_lines(path) as (lines, add):
        assert lines == [b"1", b"2"]
        add(b"3")
        add(b"4")
    assert path.read_bytes() == b"1\n2\n3\n4\n"
    assert sorted(os.listdir(path.parent)) == ["x.jsonl"]
    path.unlink()
    path.mkdir()
    with pytest.raises(SnapshotUnreadable, match="plain file"), files.shared_lines(path):
        pass


def test_private_folders_keep_out_of_git(tmp_path):
    files.make_private_folder(tmp_path / ".p")
    assert (tmp_path / ".p" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    (tmp_path / ".p" / ".gitignore").write_text("mine\n", encoding="utf-8")
    files.make_private_folder(tmp_path / ".p")
    assert (tmp_path / ".p" / ".gitignore").read_text(encoding="utf-8") == "mine\n"
