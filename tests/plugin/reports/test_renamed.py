"""A test, class, parameter or file that was renamed: the failure offers `agentreplay mv`, and that is all it takes."""

import re
import shlex
import shutil
from types import SimpleNamespace

import pytest

from pytest_agentreplay.runs.unused_snapshots import Suite
from tests.support.exhaustive import rare
from tests.support.small_projects import passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

BESIDE = "__agent_snapshots__"
FLAT = """
import random, uuid
import agent

def test_one(agentreplay):
    agent.answer(f"Where is A-17? {uuid.uuid4()} {random.random()}")

def test_two(agentreplay):
    agent.answer("Where is B-2?")
"""
DEEP = """
import pytest
import agent

class TestShop:
    @pytest.mark.parametrize("order", [pytest.param("A-1", id="a 1"), pytest.param("B-2", id="b/2")])
    def test_late(self, agentreplay, order):
        agent.answer(f"Where is {order}?")
"""
RENAMES = [
    ("test_flat.py", "def test_one", "def test_first", "test_flat.py::test_one", "test_flat.py::test_first"),
    ("test_deep.py", "TestShop", "TestStore", "test_deep.py::TestShop::test_late[b/2]", "test_deep.py::TestStore::test_late[b/2]"),
    ("test_deep.py", 'id="a 1"', 'id="a $1"', "test_deep.py::TestShop::test_late[a 1]", "test_deep.py::TestStore::test_late[a $1]"),
]  # fmt: skip
"""What was renamed: a test, a class, a class and a parameter of it."""
TOLD = """\
[AR-NEW] no snapshot is recorded for this test

  first call    model m-1
  called from   agent.py:26 in ask
  looked for    __agent_snapshots__/test_flat/test_first.snapshot.json
  __agent_snapshots__/test_flat/test_one.snapshot.json is that of
    test_flat.py::test_one, which is gone: was it renamed?

  if it was renamed:
    agentreplay mv test_flat.py::test_one test_flat.py::test_first
  record it, with the model and the tools live:
    pytest --snapshot-record test_flat.py::test_first
"""


@pytest.fixture(scope="module")
def made(shared_project):
    project = shared_project()
    project.furnish()
    (project.root / "test_shop.py").unlink()
    project.write(test_flat=FLAT, test_deep=DEEP)
    assert len(recorded(project).files) == 4
    project.server.stop()
    shutil.copytree(project.root / BESIDE, project.root.with_name(f"{project.root.name}-kept"))
    return project


@pytest.fixture
def renaming(made):
    """Four recorded tests of two files."""
    shutil.rmtree(made.root)
    shutil.copytree(made.root.with_name(f"{made.root.name}-kept"), made.root / BESIDE)
    made.furnish(tests="")
    made.write(test_flat=FLAT, test_deep=DEEP)
    return made


def offered(done):
    """The moves that a failed session offers, in reports and footer, each once and as the words of a shell."""
    lines = dict.fromkeys(re.findall(r"agentreplay mv .*", done.stdout))
    return [shlex.split(line)[2:] for line in lines]


def test_the_failure_offers_the_move_and_the_move_is_enough(renaming):
    before = (renaming.root / BESIDE / "test_flat" / "test_one.snapshot.json").read_text(encoding="utf-8")
    for file, was, now, _, _ in RENAMES:
        renaming.edit(file, was, now)
    failed = renaming.replay()
    assert failed.returncode == 1
    assert TOLD in failed.stdout.replace("\\", "/")
    for *_, old, new in RENAMES:
        assert [old, new] in offered(failed)
        assert new in passed(renaming.command("mv", old, new)).stdout
    assert "4 passed" in passed(renaming.replay()).stdout
    assert len(renaming.files) == 4
    after = (renaming.root / BESIDE / "test_flat" / "test_first.snapshot.json").read_text(encoding="utf-8")
    moved = [(one, two) for one, two in zip(before.splitlines(), after.splitlines(), strict=True) if one != two]
    assert [re.match(r' *"(\w+)"', one)[1] for one, _ in moved] == ["test", "integrity"]


CROSSED = """
import pytest
import agent

@pytest.mark.parametrize("size", ["x", "y"])
@pytest.mark.parametrize("order", ["1", "2"])
def test_both(agentreplay, size, order):
    agent.answer(f"Where is {order} in {size}?")

@pytest.mark.parametrize("size", ["x", "y"])
@pytest.mark.parametrize("order", ["1", "2"])
def test_order(agentreplay, size, order):
    agent.answer(f"Where is {order}?")
"""


def test_of_several_parameters_the_first_call_says_which_snapshot_is_meant_and_else_none_is_offered(shared_project):
    project = shared_project()
    project.furnish(CROSSED)
    recorded(project)
    project.server.stop()
    size, order = CROSSED.splitlines()[4:6]
    project.edit("test_shop.py", f"{size}\n{order}", f"{order}\n{size}")
    done = project.replay()
    pairs = [[f"test_shop.py::test_both[{a}-{b}]", f"test_shop.py::test_both[{b}-{a}]"] for a in "12" for b in "xy"]
    assert sorted(offered(done)) == pairs
    assert done.stdout.count("agentreplay mv") == 2 * len(pairs), "in its report, and in the footer"


def test_the_file_was_renamed_and_one_command_moves_all_of_it(renaming):
    folder = renaming.root / "deeper"
    folder.mkdir()
    (renaming.root / "test_deep.py").rename(folder / "test_deeper.py")
    old = [old for old, _ in offered(renaming.replay())]
    assert old == [f"test_deep.py::TestShop::test_late[{one}]" for one in ("a 1", "b/2")]
    moved = passed(renaming.command("mv", "test_deep.py", "deeper/test_deeper.py"))
    assert len(moved.stdout.splitlines()) == 2
    passed(renaming.replay())
    assert not (renaming.root / BESIDE / "test_deep").exists()
    assert len(list((folder / BESIDE / "test_deeper").iterdir())) == 2


def test_a_folder_that_was_moved_with_its_snapshots(renaming):
    folder = renaming.root / "inner"
    folder.mkdir()
    for name in ("test_flat.py", "test_deep.py", BESIDE):
        (renaming.root / name).rename(folder / name)
    failed = renaming.replay()
    assert "[AR-UNREADABLE]" in failed.stdout, "a plain name lies where the new one looks, with the old id in it"
    assert len(offered(failed)) == 4
    for file in ("test_flat.py", "test_deep.py"):
        passed(renaming.command("mv", file, f"inner/{file}"))
    passed(renaming.replay())
    assert len(renaming.files) == 4


@pytest.mark.parametrize("words", [("-n", "2"), *rare((("test_flat.py::test_three",),), (("-k", "three"),), ((),))])
def test_a_snapshot_whose_test_is_there_is_never_offered(renaming, words):
    new = "def test_three(agentreplay):\n    agent.answer('What?')\n"
    renaming.edit("test_flat.py", "def test_two", f"{new}\ndef test_two")
    failed = renaming.replay("-p", "xdist.plugin", *words)
    assert "[AR-NEW]" in failed.stdout
    assert offered(failed) == []


LATE = "test_deep.py::TestShop::test_late"


@pytest.mark.parametrize(
    ("words", "module", "test", "there"),
    [
        ([], None, f"{LATE}[a]", True),
        ([], None, f"{LATE}[b]", False),
        ([], None, "test_gone.py::test_it", False),
        ([], None, "test_not_collected.py::test_it", True),
        ([f"{LATE}[a]"], None, f"{LATE}[b]", True),  # whether its parameters are all there is not known
        (["test_deep.py::TestShop"], None, f"{LATE}[b]", False),
        (["test_deep.py::TestMore"], SimpleNamespace(TestHeir=SimpleNamespace(test_it=1)), "test_deep.py::TestHeir::test_it", True),
        (["test_deep.py::TestMore"], SimpleNamespace(TestHeir=SimpleNamespace()), "test_deep.py::TestHeir::test_it", False),
        ([], SimpleNamespace(), "test_deep.py::@warm", False),
        ([], SimpleNamespace(warm=1), "test_deep.py::@warm[a]", True),
    ],
)  # fmt: skip
def test_what_a_session_over_a_part_of_the_tests_cannot_tell_is_taken_for_there(tmp_path, words, module, test, there):
    for name in ("test_deep.py", "test_not_collected.py"):
        (tmp_path / name).touch()
    modules = {} if module is None else {"test_deep.py": module}
    assert Suite(tmp_path, frozenset({f"{LATE}[a]", "test_deep.py::test_other"}), words, modules).has(test) == there
