"""`agentreplay mv OLD NEW`: what moves, what is refused with which exit code, and that nothing moves by halves."""

import os

import pytest

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, layout
from tests.support.kept_files import contents

DONE, USAGE, DAMAGED = 0, 2, 4
OLD, NEW = "tests/test_old.py::test_a", "tests/test_new.py::test_a"
FILES = ("mv", "tests/test_old.py", "tests/test_new.py")


def text_of(test, say="hi"):
    return codec.dumps(Run(Header(test, seed=7), (Exchange(ToolCall("t", {"say": say}), ToolReply(say), 1, 2),)))


@pytest.fixture
def root(root):
    """A project with two test files."""
    (root / "tests").mkdir()
    for name in ("test_old.py", "test_new.py"):
        (root / "tests" / name).touch()
    return root


def home(root, test, directory=layout.DIRECTORY):
    return layout.snapshot_path(root, test.partition("::")[0], test, directory)


def put(root, test, place=None):
    file = place or home(root, test)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text_of(test), encoding="utf-8")
    return file


def states(file):
    snapshot = codec.loads(file.read_bytes(), file=str(file))
    assert snapshot.sealed
    return snapshot.run.header.test


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        (OLD, "tests/test_old.py::test_b"),
        (OLD, "tests/test_new.py::TestX::test_a[it's $HOME \\ [1]]"),
        ("tests/test_old.py::TestA::test_a[p]", "tests/test_old.py::TestA::test_a[P]"),
    ],
)
def test_one_snapshot_moves_and_the_emptied_folder_goes(root, typed, old, new):
    was = put(root, old)
    (root / "tests" / "old").mkdir()
    told = typed("mv", old, new)
    assert (told.code, new in told.out, was.exists()) == (DONE, True, False)
    assert states(home(root, new)) == new
    assert home(root, new).read_text(encoding="utf-8") == text_of(new)
    assert was.parent.exists() == (was.parent == home(root, new).parent)
    assert (root / "tests" / "old").is_dir(), "no other folder goes"


RESTS = ["test_a", "TestX::test_a[p]", "TestX::test_b", "test_a_b"]


@pytest.mark.parametrize(
    ("old", "new", "rests"),
    [
        ("tests/test_old.py", "tests/test_new.py::", RESTS),
        ("tests/test_old.py::TestX", "tests/test_old.py::TestY", ["::test_a[p]", "::test_b"]),
        ("tests/test_old.py::TestX::test_a", "tests/test_old.py::TestX::test_c", ["[p]"]),
    ],
)
def test_a_file_a_class_and_a_parametrised_test_move_whole(root, typed, old, new, rests):
    for rest in RESTS:
        put(root, f"tests/test_old.py::{rest}")
    assert typed("mv", old, new.removesuffix("::")).code == DONE
    found = {states(file) for file in root.rglob(f"*{layout.SUFFIX}")}
    assert {f"{new}{rest}" for rest in rests} <= found
    assert len(found) == len(RESTS)
    assert not any(test.startswith((f"{old}::", f"{old}[")) for test in found)
    assert all(home(root, test).is_file() for test in found)


def test_the_pending_run_is_taken_along(root, typed):
    put(root, OLD)
    waiting = put(root, OLD, layout.pending_path(root, home(root, OLD)))
    assert typed("mv", OLD, NEW).code == DONE
    assert not waiting.exists()
    assert states(layout.pending_path(root, home(root, NEW))) == NEW
    assert typed("accept", home(root, NEW)).code == DONE


def test_names_are_taken_with_either_slash_and_from_the_folder_where_one_types(root, typed, monkeypatch):
    for old in (r"tests\test_old.py::test_a", "./tests/test_old.py::test_a", r".\tests\test_old.py::test_a"):
        put(root, OLD)
        assert typed("mv", old, old.replace("old.py", "new.py")).code == DONE
        assert states(home(root, NEW)) == NEW
        home(root, NEW).unlink()
    there = put(root, "gone/test_new.py::test_a", home(root, NEW))  # it went with its folder
    assert typed("mv", "gone/test_new.py::test_a", NEW).code == DONE
    assert states(there) == NEW
    monkeypatch.chdir(root / "tests")
    assert typed("mv", "test_new.py::test_a", "test_old.py::test_a").code == DONE
    assert states(home(root, OLD)) == OLD


def test_the_folder_that_the_project_has_chosen(root, typed):
    (root / "pytest.ini").unlink()
    for name, text in (
        ("pytest.ini", "[pytest]\nagentreplay_dir = data/runs\n"),
        ("pytest.toml", '[pytest]\nagentreplay_dir = "data/runs"\n'),
        ("pyproject.toml", '[tool.pytest.ini_options]\nagentreplay_dir = "data/runs"\n'),
        ("pyproject.toml", '[tool.pytest]\nagentreplay_dir = "data/runs"\n'),
        ("tox.ini", "[pytest]\nagentreplay_dir: data/runs\n"),
        ("setup.cfg", "[tool:pytest]\nagentreplay_dir = data/runs\n"),
    ):
        (root / name).write_text(text, encoding="utf-8")
        put(root, OLD, home(root, OLD, "data/runs"))
        assert typed("mv", OLD, NEW).code == DONE
        assert states(home(root, NEW, "data/runs")) == NEW
        assert not (root / "tests" / layout.DIRECTORY).exists()
        home(root, NEW, "data/runs").unlink()
        (root / name).unlink()


def damage(file):
    file.write_text(file.read_text(encoding="utf-8")[:-40], encoding="utf-8")


def edit(file):
    file.write_text(file.read_text(encoding="utf-8").replace('"hi"', '"ho"'), encoding="utf-8")


def occupy(file):
    put(file.parents[3], NEW)


REFUSED = [
    ("tests/test_old.py::test_z", NEW, None, USAGE, f"no snapshot states tests/test_old.py::test_z; the nearest: agentreplay mv {OLD} {NEW}"),
    ("tests/test_odl.py", "tests/test_new.py", None, USAGE, "the nearest: agentreplay mv tests/test_old.py tests/test_new.py"),
    (OLD, NEW, damage, DAMAGED, "not JSON any more"),
    (OLD, NEW, edit, DAMAGED, "was edited after it was recorded; if the edit is meant: agentreplay verify"),
    (OLD, NEW, occupy, USAGE, f"{NEW} has one already, so nothing was moved"),
    (OLD, "tests/test_new.py", None, USAGE, "mv takes two node ids, or two test files"),
    (OLD, OLD, None, USAGE, "is its name already"),
    (OLD, "tests/test_none.py::test_a", None, USAGE, "tests/test_none.py: there is no such test file"),
    (OLD, "../test_new.py::test_a", None, USAGE, "is no node id of a test"),
    (OLD, "/test_new.py::test_a", None, USAGE, "is no node id of a test"),
    (OLD, "tests/test_new.py::", None, USAGE, "is no node id of a test"),
    ("::test_a", NEW, None, USAGE, "is no node id of a test"),
]  # fmt: skip


def test_what_is_refused_moves_nothing(root, typed):
    for old, new, spoil, code, said in REFUSED:
        home(root, NEW).unlink(missing_ok=True)
        file = put(root, OLD)
        if spoil:
            spoil(file)
        before = contents(root)
        told = typed("mv", old, new)
        assert (told.code, told.out, contents(root) == before) == (code, "", True)
        assert said in told.err.replace("\\\\", "/").replace(os.sep, "/")


def test_copies_that_state_the_same_test_are_left_where_the_snapshot_has_its_own_name(root, typed):
    put(root, OLD)
    copies = [put(root, OLD, home(root, OLD).with_name(f"{name}{layout.SUFFIX}")) for name in "abz"]
    assert typed("mv", OLD, NEW).code == DONE
    assert states(home(root, NEW)) == NEW
    assert not home(root, OLD).exists()
    assert all(file.exists() for file in copies)


def test_one_that_cannot_move_keeps_all_where_they_are(root, typed):
    for name in "abc":
        put(root, f"tests/test_old.py::test_{name}")
    taken = put(root, "tests/test_new.py::test_c")
    before = contents(root)
    assert (typed(*FILES).code, contents(root) == before) == (USAGE, True)
    taken.unlink()
    home(root, OLD).unlink()
    for name in ("one", "two"):  # two files that state one test
        put(root, OLD, home(root, OLD).with_name(f"{name}{layout.SUFFIX}"))
    before = contents(root)
    assert (typed(*FILES).code, contents(root) == before) == (USAGE, True)


def test_a_disk_that_fails_midway_leaves_all_where_they_were(root, typed, monkeypatch):
    for name in "abc":
        put(root, f"tests/test_old.py::test_{name}")
    before = contents(root)
    for call in ("replace", "unlink"):
        real = getattr(os, call)
        for at in range(3):
            calls = iter(range(100))

            def failing(*words, real=real, calls=calls, at=at, **more):
                if not str(words[0]).endswith(".lock") and next(calls) == at:
                    raise PermissionError(13, "Permission denied")
                return real(*words, **more)

            with monkeypatch.context() as patch:
                patch.setattr(files.os, call, failing)
                told = typed(*FILES)
            assert (told.code, "ermission denied" in told.err) == (USAGE, True), (call, at)
            assert contents(root) == before, (call, at)


def test_a_text_put_back_is_the_one_that_was_there(tmp_path, monkeypatch):
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"as it was")
    other.write_bytes(b"other")
    real = files.unlink
    monkeypatch.setattr(files, "unlink", lambda path: real(path / "no"))
    with pytest.raises(CannotWrite):
        files.move_all([(file, file, "new"), (other, tmp_path / "c", "moved")])
    assert contents(tmp_path) == {"a": b"as it was", "b": b"other"}


def test_a_link_that_leads_out_is_nobodys(root, typed, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    put(root, OLD, outside / "test_old" / "test_a.snapshot.json")
    (root / "tests" / layout.DIRECTORY).symlink_to(outside, target_is_directory=True)
    before = contents(outside)
    assert (typed("mv", OLD, NEW).code, contents(outside) == before) == (USAGE, True)
