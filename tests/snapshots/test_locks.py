"""The lock of a folder: what it holds, what it catches, and that hostile ones are one typed line."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotError, SnapshotUnreadable
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, locks, projects
from tests.support.stored_runs import tool_run

D = "a" * 64


def snapshot(test, *results):
    return codec.dumps(tool_run(test, *results))


@pytest.fixture
def folder(tmp_path):
    """Three snapshots in two folders, locked."""
    for path, results in (("b/x/one", ["1", "2"]), ("b/x/two", ["2"]), ("a/x/three", [])):
        file = tmp_path / f"{path}.snapshot.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(snapshot(f"test_{path}.py::test", *results), encoding="utf-8", newline="")
    assert locks.write(tmp_path) == 3
    return tmp_path


def told(folder):
    return locks.check(folder / projects.LOCK)


def test_a_line_is_the_seal_the_path_and_the_number_of_exchanges_sorted_by_path(folder):
    data = (folder / projects.LOCK).read_bytes()
    lines = [line.split("  ") for line in data.decode().splitlines()]
    assert [line[1:] for line in lines] == [
        ["a/x/three.snapshot.json", "0"],
        [ONE, "2"],
        ["b/x/two.snapshot.json", "1"],
    ]
    for digest, path, _ in lines:
        assert json.loads((folder / path).read_text("utf-8"))["integrity"]["self"] == digest[:16]
    assert b"\r" not in data
    assert data.endswith(b"\n")
    assert told(folder) == []
    before = (folder / projects.LOCK).stat().st_mtime_ns
    assert locks.write(folder) == 3
    assert (folder / projects.LOCK).stat().st_mtime_ns == before, "the same lock is not written twice"


def test_line_ends_and_reformatting_change_nothing(folder):
    lock, one = folder / projects.LOCK, folder / ONE
    lock.write_bytes(lock.read_bytes().replace(b"\n", b"\r\n"))
    one.write_text(json.dumps(json.loads(one.read_text("utf-8"))), encoding="utf-8")
    assert told(folder) == []


ONE, TWO = "b/x/one.snapshot.json", "b/x/two.snapshot.json"


def rename(folder):
    (folder / ONE).rename(folder / "b/x/uno.snapshot.json")


def swap(folder):
    one, two = (folder / ONE).read_bytes(), (folder / TWO).read_bytes()
    (folder / ONE).write_bytes(two)
    (folder / TWO).write_bytes(one)


def put(text):
    return lambda folder: (folder / ONE).write_text(text, encoding="utf-8")


def edit(folder):
    put((folder / ONE).read_text("utf-8").replace('"value": "1"', '"value": "3"'))(folder)


def reseal(folder):
    edit(folder)
    put(codec.reseal((folder / ONE).read_bytes(), "why not", file="f"))(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "a/x/three.snapshot.json").unlink(), ["a/x/three.snapshot.json: is gone"]),
        (lambda f: shutil.rmtree(f / "a"), ["a/x/three.snapshot.json: is gone"]),
        (lambda f: shutil.copy(f / "a/x/three.snapshot.json", f / "a/four.snapshot.json"), ["a/four.snapshot.json: is new"]),
        (rename, ["b/x/one.snapshot.json: was renamed to b/x/uno.snapshot.json"]),
        (swap, [f"{ONE}: holds what was locked as {TWO}", f"{TWO}: holds what was locked as {ONE}"]),
        (edit, ["b/x/one.snapshot.json: was edited after it was recorded"]),
        (reseal, ["b/x/one.snapshot.json: is another one"]),
        (put(snapshot("test_b/x/one.py::test", "9", "9")), ["b/x/one.snapshot.json: is another one"]),
        (put("{"), ["one.snapshot.json: 1:2: not JSON any more"]),
    ],
)  # fmt: skip
def test_what_is_not_as_locked_is_named(folder, change, said):
    change(folder)
    found = told(folder)
    assert len(found) == len(said)
    assert all(line in one for line, one in zip(said, found, strict=True)), found


def test_a_revision_made_up_is_another_snapshot_for_the_lock(folder):
    one = folder / ONE
    text = one.read_text("utf-8")
    digest = codec.loads(text, file="f").digest
    run = codec.loads(text, file="f").run
    one.write_text(codec.dumps(run, revisions=[{"from": digest, "to": digest, "reason": "all fine"}]), encoding="utf-8")
    assert codec.loads(one.read_bytes(), file="f").digest == digest
    assert told(folder) == ["b/x/one.snapshot.json: is another one"]
    put(codec.dumps(run))(folder)
    assert told(folder) == []
    lock = folder / projects.LOCK
    lock.write_text(lock.read_text("utf-8").replace("one.snapshot.json  2", "one.snapshot.json  1"), encoding="utf-8")
    assert told(folder) == ["b/x/one.snapshot.json: is another one"], "a number of exchanges that was edited"


@pytest.mark.parametrize("change", [edit, put("{"), put("")])
def test_what_is_not_sealed_is_not_locked(folder, change):
    before = (folder / projects.LOCK).read_bytes()
    change(folder)
    (why,) = locks.write(folder)
    assert "one.snapshot.json" in why
    assert (folder / projects.LOCK).read_bytes() == before


def test_folders_that_are_not_the_projects_are_left_out(folder):
    one = folder / ONE
    for place in (".pytest_agentreplay/pending", "node_modules/x", ".git", "env/lib"):
        (folder / place).mkdir(parents=True)
        shutil.copy(one, folder / place / "one.snapshot.json")
    (folder / "env/pyvenv.cfg").touch()
    assert told(folder) == []
    (folder / ".hidden").mkdir()
    shutil.copy(one, folder / ".hidden/one.snapshot.json")
    assert told(folder) == [".hidden/one.snapshot.json: is new"]


def test_branches_that_change_different_snapshots_merge_line_by_line():
    one = {"a.snapshot.json": locks.LockEntry(D, 1), "b.snapshot.json": locks.LockEntry(D, 1)}
    other = {**one, "b.snapshot.json": locks.LockEntry("b" * 64, 2)}
    before, after = locks.text(one).splitlines(), locks.text(other).splitlines()
    assert [old for old, new in zip(before, after, strict=True) if old != new] == [before[1]]


PATHS = ["../x", "a/../../x", "/etc/x", "C:/x", "a\\x", "//server/x", "./x", "a//x", "a\x1b[31m", "a\0", "x" * 5000]
COUNTS = ["  -1", "  1e9", "  9999999999", "  \u0661", "", "  1\r", "  1 "]
HOSTILE = [
    *(f"{D}  {path}.snapshot.json  1" for path in PATHS),
    *(f"{D}  x.snapshot.json{count}" for count in COUNTS),
    *(f"{digest}  x.snapshot.json  1" for digest in ("A" * 64, "a" * 63)),
    *(f"{D} x.snapshot.json 1", f"{D}  conftest.py  1", f"{D}  a.snapshot.json  1"),
    *("# a remark", "", "<<<<<<< ours", "======="),
]


def test_a_hostile_lock_is_one_typed_line_with_its_place():
    for line in HOSTILE:
        data = f"{D}  a.snapshot.json  1\n{line}\n{D}  b.snapshot.json  1\n".encode()
        with pytest.raises(SnapshotUnreadable) as caught:
            locks.parse_lock(data, "agentreplay.lock")
        assert caught.value.place == "line 2", line
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 200
    for data in (b"\xff\xfe", b"\x80abc", b"{}", D.encode() * 100_000):
        with pytest.raises(SnapshotUnreadable):
            locks.parse_lock(data, "agentreplay.lock")


def test_a_huge_lock_is_refused_unread(folder):
    with (folder / projects.LOCK).open("wb") as file:
        file.truncate(files.LARGEST + 1)
    with pytest.raises(SnapshotUnreadable, match="larger"):
        told(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_links_and_pipes_are_not_followed(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    shutil.copytree(folder / "b", outside / "b")
    (folder / "linked").symlink_to(outside / "b", target_is_directory=True)
    assert told(folder) == []
    (folder / "link.snapshot.json").symlink_to(outside / ONE)
    os.mkfifo(folder / "pipe.snapshot.json")
    assert [line.partition(": ")[2] for line in told(folder)] == [
        "is not a plain file; links, folders and pipes are not followed"
    ] * 2
    (folder / projects.LOCK).unlink()
    (folder / projects.LOCK).symlink_to(outside / "lock")
    with pytest.raises(SnapshotError):
        told(folder)
    (folder / "link.snapshot.json").unlink()
    (folder / "pipe.snapshot.json").unlink()
    with pytest.raises((CannotWrite, SnapshotError)):
        locks.write(folder)
    assert not (outside / "lock").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_path_that_a_line_cannot_hold_is_refused_when_it_is_written(folder):
    for name in ("a\nb", "a\\b", "a:b", "a\x1bb"):
        (folder / name).mkdir()
        shutil.copy(folder / ONE, folder / name)
        with pytest.raises(CannotWrite, match="no path that a lock can hold"):
            locks.write(folder)
        shutil.rmtree(folder / name)


def test_two_at_once_write_one_whole_lock(folder):
    (folder / projects.LOCK).unlink()
    with ThreadPoolExecutor(6) as pool:
        assert [*pool.map(locks.write, [folder] * 6)] == [3] * 6
    assert told(folder) == []
    assert [name for name in files.list_names(folder) if name.startswith(files.TEMPORARY)] == []


def test_the_locks_over_a_snapshot_and_within_a_folder(folder):
    assert locks.write(folder / "b") == 2
    one = folder / ONE
    assert projects.locks_over(one, folder) == [folder / projects.LOCK, folder / "b" / projects.LOCK]
    assert projects.locks_over(one, folder / "b") == [folder / "b" / projects.LOCK]
    assert locks.find_locks(folder) == [folder / projects.LOCK, folder / "b" / projects.LOCK]
    assert locks.list_faults(folder / "a" / projects.LOCK) == []
    shutil.rmtree(folder / "b/x")
    assert locks.find_locks(folder) == [folder / projects.LOCK, folder / "b" / projects.LOCK], "all below it are gone"
