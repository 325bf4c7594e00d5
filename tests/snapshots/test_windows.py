"""Windows takes 259 characters of a path, and any number in the extended form; the store reaches its files either way."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotMisplaced
from pytest_agentreplay.model.exchanges import Exchange, Header, ToolCall, ToolReply
from pytest_agentreplay.runs import accept
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, snapshots
from pytest_agentreplay.snapshots.store.snapshots import Store
from pytest_agentreplay.snapshots.store.system import EXTENDED, LONGEST, to_extended, to_short
from tests.snapshots.faults.disk import Disk, instead_of, refusing
from tests.support.stored_runs import tool_run

DEEP = "\\".join(["folder"] * 40)


TAKEN = [
    (r"C:\short\x.json", r"C:\short\x.json"),
    ("C:\\" + "x" * (LONGEST - 3), "C:\\" + "x" * (LONGEST - 3)),
    ("C:\\" + "x" * (LONGEST - 2), "\\\\?\\C:\\" + "x" * (LONGEST - 2)),
    ("C:\\" + "\U0001f600" * (LONGEST // 2), "\\\\?\\C:\\" + "\U0001f600" * (LONGEST // 2)),
    (rf"C:\{DEEP}\x.json", rf"\\?\C:\{DEEP}\x.json"),
    ("c:/" + DEEP.replace("\\", "/") + "/./a/../x.json", rf"\\?\c:\{DEEP}\x.json"),
    (rf"\\server\share\{DEEP}\x", rf"\\?\UNC\server\share\{DEEP}\x"),
    (f"//server/share/{DEEP}/x", rf"\\?\UNC\server\share\{DEEP}\x"),
    (rf"\\?\C:\{DEEP}", rf"\\?\C:\{DEEP}"),
    (rf"\\.\pipe\{DEEP}", rf"\\.\pipe\{DEEP}"),
]


def test_long_paths_take_the_extended_form():
    for path, taken in TAKEN:
        assert to_extended(path) == taken
        assert to_extended(taken) == taken, "twice is once"
        assert path.startswith(EXTENDED) or to_extended(to_short(taken)) == taken


class Windows:
    """`os` as on a Windows without long paths: what is too long does not exist, unless it comes in the extended form."""

    TAKES = ("lstat", "open", "makedirs", "replace", "unlink", "listdir", "scandir", "rmdir")

    def __init__(self):
        self.extended = 0
        self.path = SimpleNamespace(
            samestat=os.path.samestat,
            lexists=lambda path: os.path.lexists(self.inner(path)),
            islink=lambda path: os.path.islink(self.inner(path)),
            realpath=lambda path, **how: EXTENDED + os.path.realpath(self.inner(path), **how),
        )

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.TAKES:
            return real

        def call(*args, **kwargs):
            count = 2 if name == "replace" else 1
            return real(*(self.inner(arg, name) for arg in args[:count]), *args[count:], **kwargs)

        return call

    def inner(self, path, name=""):
        text = os.fspath(path)
        if text.startswith(EXTENDED):
            self.extended += 1
            return text.removeprefix(EXTENDED)
        if len(text) > (247 if name == "makedirs" else 259):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", text)
        return text


@pytest.fixture
def windows(monkeypatch):
    system = Windows()
    for module in (files, snapshots):
        monkeypatch.setattr(module, "os", system)
    return system


@pytest.fixture
def deep(tmp_path):
    """A project so deep that no file of ours is within Windows' limit."""
    return tmp_path.joinpath(*["a_folder_of_the_project"] * 11)


@pytest.fixture
def extending(monkeypatch):
    monkeypatch.setattr(
        files, "to_system_path", lambda path: EXTENDED + str(path) if len(str(path)) > LONGEST else path
    )


NODE = "tests/test_shop.py::test_refund"


@pytest.mark.usefixtures("extending")
def test_every_file_of_ours_is_reached_however_deep_the_project_lies(windows, deep):
    store = Store(deep)
    home = store.path_of(deep / "tests" / "test_shop.py", NODE)
    assert len(str(home)) > 300
    store.save(home, codec.dumps(tool_run(NODE, 1)))
    assert store.load(home, NODE).run == tool_run(NODE, 1)
    home.chmod(0o640)
    mode = home.stat().st_mode
    (home.parent / ".ar-left.tmp").write_text("of a killed process", encoding="utf-8")
    os.utime(home.parent / ".ar-left.tmp", (1, 1))
    store.save(home, codec.dumps(tool_run(NODE, 1)))  # under its lock
    assert home.stat().st_mode == mode
    assert store.find_around(deep / "tests" / "test_shop.py") == [(home, NODE)]
    journal = store.journal_for(home, Header(NODE))
    journal.write(Exchange(ToolCall("t", {}), ToolReply(2), 1, 2))
    journal.close(keep=True)
    assert journal.path.name in accept.list_journals(deep)[0]
    said = accept.recover(journal.path, {})
    (pending,) = accept.list_pending(deep)
    assert pending.name in said
    assert accept.read_pending(home).accept() == f"{home.as_posix()}: taken for {NODE}"
    assert accept.list_pending(deep) == accept.list_journals(deep) == []
    assert windows.extended > 40
    files.delete(home, deep)
    left = [file for file in tmp_files(deep) if file.name not in {home.name, ".gitignore"}]
    assert left == []


def tmp_files(root):
    return [file for file in root.rglob("*") if file.is_file()]


@pytest.mark.usefixtures("windows")
def test_without_the_extended_form_nothing_would_be_there(deep):
    """The system above is one in which the test before can fail; and people are told the path as they know it."""
    path = deep / "x.snapshot.json"
    with pytest.raises(CannotWrite) as caught:
        files.write_whole(path, "x")
    assert str(caught.value).startswith(f"{path.as_posix()}: cannot be written")


@pytest.mark.usefixtures("extending")
def test_messages_never_show_the_extended_form(deep, windows):
    path = deep / "x.snapshot.json"
    files.write_whole(path, codec.dumps(tool_run("t.py::other", 1)))
    with pytest.raises(SnapshotMisplaced) as caught:
        Store(deep).load(path, NODE)
    assert "?" not in str(caught.value).partition(": ")[0]
    assert str(caught.value).startswith(path.as_posix())


def test_a_lock_that_is_being_removed_is_waited_for(tmp_path, monkeypatch):
    """Windows refuses, for a moment, to create a file whose removal is under way."""
    for name, times in (("x", 3), ("y", 10_000)):
        removing = Disk(1, refusing("being removed", 5, times, ".lock"), counted={"open"}, lasting={"open"})
        with instead_of(removing), nullcontext() if times == 3 else pytest.raises(CannotWrite, match="being removed"):
            files.write_if_unchanged(tmp_path / name, "new", None)
        monkeypatch.setattr(files, "LOCK_TRIES", 3)
    assert (tmp_path / "x").read_text(encoding="utf-8") == "new"


def test_a_file_that_a_scanner_holds_is_tried_again(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"there")
    for name, call in (("open", files.read_file), ("unlink", files.remove)):
        with instead_of(Disk(1, refusing("held", 32, 2), counted={name}, lasting={name})):
            assert call(path) == (b"there" if name == "open" else None)
    assert not path.exists()


def test_the_store_alone_walks_folders():
    """What lists or opens files elsewhere would not reach the long ones.

    The demo's folder is its own, those of a process's descriptors are POSIX's. `init` reads the project's Python files,
    whose names are short enough to be imported.
    """
    package = Path(files.__file__).parents[2]
    walks = (".rglob(", ".glob(", ".iterdir(", "os.walk(", "os.scandir(", "os.listdir(")
    found = {
        f"{file.relative_to(package).as_posix()}: {walk}"
        for file in package.rglob("*.py")
        for walk in walks
        if walk in file.read_text(encoding="utf-8") and file.parent.name not in {"demo", "shop"}
    }
    walking = {
        "intercept/network": ["in_process.py: os.listdir("],
        "cli/project_setup": ["project_modules.py: os.walk("],
        "snapshots/store": ["files.py: os.scandir(", "projects.py: .glob(", "snapshots.py: .glob("],
    }
    assert found == {f"{folder}/{file}" for folder, files_of_it in walking.items() for file in files_of_it}
