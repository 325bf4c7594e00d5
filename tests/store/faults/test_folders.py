"""A folder of several files: whatever call to the disk fails, it is there whole or not at all, and an old one as it was."""

from __future__ import annotations

import errno

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotUnreadable
from pytest_agentreplay.store import files
from tests.store.faults.disk import LASTING, each_call, fails, instead_of, interrupts

NEW = {"case.yaml": b"new", "fixtures/a-1.yaml": b"a", "run.snapshot.json": b"run"}
CODES = [errno.ENOSPC, errno.EACCES, errno.EIO]


def contents(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_a_new_folder_is_whole_or_not_there(tmp_path, code, lasting):
    more = {"lasting": LASTING[code], "counted": LASTING[code]} if lasting else {}
    for number, disk in enumerate(each_call(fails(code), **more)):
        folder = tmp_path / str(number) / "cases" / "x"
        error = None
        with instead_of(disk):
            try:
                files.make_folder(folder, NEW)
            except CannotWrite as caught:
                error = caught
        assert contents(folder) in ({}, NEW)
        assert error is not None or contents(folder) == NEW
        if contents(folder) == {}:
            assert not folder.exists()
        if disk.struck not in {"unlink", "rmdir", "listdir", "lstat", "fstat"} and not lasting:
            assert set(contents(folder.parent)) <= {f"x/{name}" for name in NEW}
    assert disk.at > len(NEW), "there was something to fail"


def test_an_interrupt_leaves_no_half(tmp_path):
    for number, disk in enumerate(each_call(interrupts, counted={"open", "write", "replace"})):
        folder = tmp_path / str(number) / "x"
        with instead_of(disk):
            try:
                files.make_folder(folder, NEW)
            except KeyboardInterrupt:
                assert contents(tmp_path / str(number)) in ({}, {f"x/{name}": data for name, data in NEW.items()})
    assert contents(folder) == NEW


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_files_of_an_old_folder_are_all_written_or_none(tmp_path, code):
    old = {"case.yaml": b"old", "notes.md": b"mine"}
    for number, disk in enumerate(each_call(fails(code), counted={"open", "write", "fsync", "replace"})):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in old.items():
            (folder / name).write_bytes(data)
        error = None
        with instead_of(disk):
            try:
                files.write_all_whole({folder / name: data for name, data in NEW.items()})
            except (CannotWrite, SnapshotUnreadable) as caught:
                error = caught
        found = contents(folder)
        if error is None:
            assert found == old | NEW
        elif "did not confirm" not in str(error):
            assert found == old
