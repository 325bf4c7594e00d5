"""`agentreplay mv OLD NEW`: what moves, what is refused with which exit code, and that nothing moves by halves."""

import os

import pytest

from pytest_agentreplay import cli, codec
from pytest_agentreplay.core.model import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.store import files, layout

DONE, USAGE, DAMAGED = 0, 2, 4
OLD, NEW = "tests/test_old.py::test_a", "tests/test_new.py::test_a"


def text_of(test, say="hi"):
    return codec.dumps(Run(Header(test, seed=7), (Exchange(ToolCall("t", {"say": say}), ToolReply(say), 1, 2),)))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with two test files, in whose root a person types."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "tests").mkdir()
    for name in ("test_old.py", "test_new.py"):
        (tmp_path / "tests" / name).write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def home(root, test, directory=layout.DIRECTORY):
    return layout.snapshot_path(root, test.partition("::")[0], test, directory)


def put(root, test, place=None):
    file = place or home(root, test)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text_of(test), encoding="utf-8")
    return file


def all_of(root):
    return {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}


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
def test_one_snapshot_moves(root, capsys, old, new):
    was = put(root, old)
    assert cli.main(["mv", old, new]) == DONE
    assert not was.exists()
    assert states(home(root, new)) == new
    assert home(root, new).read_text(encoding="utf-8") == text_of(new)
    assert new in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "rests"),
    [
        ("tests/test_old.py", "tests/test_new.py", ["test_a", "TestX::test_a[p]", "TestX::test_b", "test_a_b"]),
        ("tests/test_old.py::TestX", "tests/test_old.py::TestY", ["::test_a[p]", "::test_b"]),
        ("tests/test_old.py::TestX::test_a", "tests/test_old.py::TestX::test_c", ["[p]"]),
    ],
)
def test_a_file_a_class_and_a_parametrised_test_move_whole(root, old, new, rests):
    tests = [f"tests/test_old.py::{rest}" for rest in ("test_a", "TestX::test_a[p]", "TestX::test_b", "test_a_b")]
    for test in tests:
        put(root, test)
    assert cli.main(["mv", old, new]) == DONE
    wanted = {f"{new}::{rest}" if "::" not in new else f"{new}{rest}" for rest in rests}
    found = {states(file) for file in root.rglob(f"*{layout.SUFFIX}")}
    assert wanted <= found
    assert len(found) == len(tests)
    assert not any(test.startswith((f"{old}::", f"{old}[")) for test in found)
    for test in found:
        assert home(root, test).is_file()


def test_the_emptied_folders_go_and_no_other(root):
    put(root, OLD)
    (root / "tests" / "old").mkdir()
    assert cli.main(["mv", OLD, NEW]) == DONE
    assert not home(root, OLD).parent.exists()
    assert (root / "tests" / "old").is_dir()


def test_the_pending_run_is_taken_along(root):
    put(root, OLD)
    waiting = put(root, OLD, layout.pending_path(root, home(root, OLD)))
    assert cli.main(["mv", OLD, NEW]) == DONE
    assert not waiting.exists()
    assert states(layout.pending_path(root, home(root, NEW))) == NEW
    assert cli.main(["accept", str(home(root, NEW))]) == DONE


@pytest.mark.parametrize(
    "old", ["tests\\test_old.py::test_a", "./tests/test_old.py::test_a", ".\\tests\\test_old.py::test_a"]
)
def test_slashes_are_taken_either_way(root, old):
    put(root, OLD)
    assert cli.main(["mv", old, old.replace("old.py", "new.py")]) == DONE
    assert states(home(root, NEW)) == NEW


def test_names_are_taken_from_the_folder_where_one_types_too(root, monkeypatch):
    put(root, OLD)
    monkeypatch.chdir(root / "tests")
    assert cli.main(["mv", "test_old.py::test_a", "test_new.py::test_a"]) == DONE
    assert states(home(root, NEW)) == NEW


def test_a_snapshot_that_went_with_its_folder_is_found(root):
    there = put(root, "gone/test_new.py::test_a", home(root, NEW))
    assert cli.main(["mv", "gone/test_new.py::test_a", NEW]) == DONE
    assert states(there) == NEW


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\nagentreplay_dir = data/runs\n"),
        ("pytest.toml", '[pytest]\nagentreplay_dir = "data/runs"\n'),
        ("pyproject.toml", '[tool.pytest.ini_options]\nagentreplay_dir = "data/runs"\n'),
        ("pyproject.toml", '[tool.pytest]\nagentreplay_dir = "data/runs"\n'),
        ("tox.ini", "[pytest]\nagentreplay_dir: data/runs\n"),
        ("setup.cfg", "[tool:pytest]\nagentreplay_dir = data/runs\n"),
    ],
)
def test_the_folder_that_the_project_has_chosen(root, name, text):
    (root / "pytest.ini").unlink()
    (root / name).write_text(text, encoding="utf-8")
    put(root, OLD, home(root, OLD, "data/runs"))
    assert cli.main(["mv", OLD, NEW]) == DONE
    assert states(home(root, NEW, "data/runs")) == NEW
    assert not (root / "tests" / layout.DIRECTORY).exists()


def damage(file):
    file.write_text(file.read_text(encoding="utf-8")[:-40], encoding="utf-8")


def edit(file):
    file.write_text(file.read_text(encoding="utf-8").replace('"hi"', '"ho"'), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "spoil", "code", "said"),
    [
        ("tests/test_old.py::test_z", NEW, None, USAGE, f"no snapshot states tests/test_old.py::test_z; the nearest: agentreplay mv {OLD} {NEW}"),
        ("tests/test_odl.py", "tests/test_new.py", None, USAGE, "the nearest: agentreplay mv tests/test_old.py tests/test_new.py"),
        (OLD, NEW, damage, DAMAGED, "not JSON any more"),
        (OLD, NEW, edit, DAMAGED, "was edited after it was sealed; if the edit is meant: agentreplay reseal"),
        (OLD, NEW, lambda file: put(file.parents[3], NEW), USAGE, f"{NEW} has one already, so nothing was moved"),
        (OLD, "tests/test_new.py", None, USAGE, "mv takes two node ids, or two test files"),
        (OLD, OLD, None, USAGE, "is its name already"),
        (OLD, "tests/test_none.py::test_a", None, USAGE, "tests/test_none.py: there is no such test file"),
        (OLD, "../test_new.py::test_a", None, USAGE, "is no node id of a test"),
        (OLD, "/test_new.py::test_a", None, USAGE, "is no node id of a test"),
        (OLD, "tests/test_new.py::", None, USAGE, "is no node id of a test"),
        ("::test_a", NEW, None, USAGE, "is no node id of a test"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_what_is_refused_moves_nothing(root, capsys, old, new, spoil, code, said):  # noqa: PLR0917  one table
    file = put(root, OLD)
    if spoil:
        spoil(file)
    before = all_of(root)
    assert cli.main(["mv", old, new]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err.replace("\\\\", "/").replace(os.sep, "/")
    assert all_of(root) == before


def test_one_that_cannot_move_keeps_all_where_they_are(root):
    tests = [f"tests/test_old.py::test_{name}" for name in "abc"]
    for test in tests:
        put(root, test)
    put(root, "tests/test_new.py::test_c")
    before = all_of(root)
    assert cli.main(["mv", "tests/test_old.py", "tests/test_new.py"]) == USAGE
    assert all_of(root) == before


@pytest.mark.parametrize("call", ["replace", "unlink"])
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_a_disk_that_fails_midway_leaves_all_where_they_were(root, monkeypatch, capsys, call, nth):
    for name in "abc":
        put(root, f"tests/test_old.py::test_{name}")
    before = all_of(root)
    real, calls = getattr(os, call), iter(range(100))

    def failing(*words, **more):
        if not str(words[0]).endswith(".lock") and next(calls) == nth:
            raise PermissionError(13, "Permission denied")
        return real(*words, **more)

    monkeypatch.setattr(files.os, call, failing)
    assert cli.main(["mv", "tests/test_old.py", "tests/test_new.py"]) == USAGE
    monkeypatch.undo()
    assert "ermission denied" in capsys.readouterr().err
    assert all_of(root) == before


def test_two_files_that_state_one_test_are_a_question_for_people(root):
    for name in ("one", "two"):
        put(root, OLD, home(root, OLD).with_name(f"{name}{layout.SUFFIX}"))
    before = all_of(root)
    assert cli.main(["mv", "tests/test_old.py", "tests/test_new.py"]) == USAGE
    assert all_of(root) == before


def test_a_text_put_back_is_the_one_that_was_there(tmp_path, monkeypatch):
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"as it was")
    other.write_bytes(b"other")
    real = files.unlink
    monkeypatch.setattr(files, "unlink", lambda path: real(path / "no"))
    with pytest.raises(CannotWrite):
        files.move_all([(file, file, "new"), (other, tmp_path / "c", "moved")])
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"a": b"as it was", "b": b"other"}


def test_a_link_that_leads_out_is_nobodys(root, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    put(root, OLD, outside / "test_old" / "test_a.snapshot.json")
    (root / "tests" / layout.DIRECTORY).symlink_to(outside, target_is_directory=True)
    before = all_of(outside)
    assert cli.main(["mv", OLD, NEW]) == USAGE
    assert all_of(outside) == before
