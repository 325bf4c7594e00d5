"""A test, class, parameter or file that was renamed: the failure offers `agentreplay mv`, and that is all it takes."""

import re
import shlex
import shutil

import pytest

from tests.support.exhaustive import rare

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
RECORDED = {}


@pytest.fixture
def recorded(project):
    """Four recorded tests of two files; recorded once for this module."""
    (project.root / "test_shop.py").unlink()
    project.write(test_flat=FLAT, test_deep=DEEP)
    if not RECORDED:
        done = project.record("--agentreplay-no-prove")
        assert done.returncode == 0, done.stdout
        RECORDED.update({file.relative_to(project.root): file.read_bytes() for file in project.files})
        assert len(RECORDED) == 4
        shutil.rmtree(project.root / ".pytest_agentreplay")
    for name, data in RECORDED.items():
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).write_bytes(data)
    project.server.stop()
    return project


def offered(done):
    """The moves that a failed session offers, in reports and footer, each once and as the words of a shell."""
    lines = dict.fromkeys(re.findall(r"agentreplay mv .*", done.stdout))
    return [shlex.split(line)[2:] for line in lines]


def test_the_failure_offers_the_move_and_the_move_is_enough(recorded):
    before = (recorded.root / BESIDE / "test_flat" / "test_one.snapshot.json").read_text(encoding="utf-8")
    for file, was, now, _, _ in RENAMES:
        recorded.edit(file, was, now)
    failed = recorded.replay()
    assert failed.returncode == 1
    assert TOLD in failed.stdout.replace("\\", "/")
    for *_, old, new in RENAMES:
        assert [old, new] in offered(failed)
        moved = recorded.command("mv", old, new)
        assert moved.returncode == 0, moved.stderr
        assert new in moved.stdout
    replayed = recorded.replay()
    assert replayed.returncode == 0, replayed.stdout
    assert "4 passed" in replayed.stdout
    assert len(recorded.files) == 4
    after = (recorded.root / BESIDE / "test_flat" / "test_first.snapshot.json").read_text(encoding="utf-8")
    moved = [(one, two) for one, two in zip(before.splitlines(), after.splitlines(), strict=True) if one != two]
    assert [re.match(r' *"(\w+)"', one)[1] for one, _ in moved] == ["test", "digest", "parts", "self"]


def test_the_file_was_renamed_and_one_command_moves_all_of_it(recorded):
    folder = recorded.root / "deeper"
    folder.mkdir()
    (recorded.root / "test_deep.py").rename(folder / "test_deeper.py")
    failed = recorded.replay()
    assert [f"test_deep.py::TestShop::test_late[{one}]" for one in ("a 1", "b/2")] == [
        old for old, _ in offered(failed)
    ]
    moved = recorded.command("mv", "test_deep.py", "deeper/test_deeper.py")
    assert moved.returncode == 0, moved.stderr
    assert len(moved.stdout.splitlines()) == 2
    assert recorded.replay().returncode == 0
    assert not (recorded.root / BESIDE / "test_deep").exists()
    assert len(list((folder / BESIDE / "test_deeper").iterdir())) == 2


def test_a_folder_that_was_moved_with_its_snapshots(recorded):
    folder = recorded.root / "inner"
    folder.mkdir()
    for name in ("test_flat.py", "test_deep.py", BESIDE):
        (recorded.root / name).rename(folder / name)
    failed = recorded.replay()
    assert "[AR-UNREADABLE]" in failed.stdout, "a plain name lies where the new one looks, with the old id in it"
    assert len(offered(failed)) == 4
    for file in ("test_flat.py", "test_deep.py"):
        assert recorded.command("mv", file, f"inner/{file}").returncode == 0
    assert recorded.replay().returncode == 0
    assert len(recorded.files) == 4


@pytest.mark.parametrize("words", [("-n", "2"), *rare((("test_flat.py::test_three",),), (("-k", "three"),), ((),))])
def test_a_snapshot_whose_test_is_there_is_never_offered(recorded, words):
    recorded.plugins += ("xdist.plugin",)
    new = "def test_three(agentreplay):\n    agent.answer('What?')\n"
    recorded.edit("test_flat.py", "def test_two", f"{new}\ndef test_two")
    failed = recorded.replay(*words)
    assert "[AR-NEW]" in failed.stdout
    assert offered(failed) == []


def test_parameters_are_only_missed_where_all_of_them_were_collected(recorded):
    recorded.edit("test_deep.py", 'id="a 1"', 'id="zzz"')
    typed = recorded.replay("test_deep.py::TestShop::test_late[zzz]")
    assert "[AR-NEW]" in typed.stdout
    assert offered(typed) == []
    assert offered(recorded.replay("test_deep.py::TestShop")) != []


def test_an_inherited_test_is_there(project):
    (project.root / "test_shop.py").unlink()
    project.write(
        base="import agent\n\nclass Base:\n    def test_late(self, agentreplay):\n        agent.answer('Hm?')\n"
    )
    project.write(test_heirs="from base import Base\n\nclass TestShop(Base): pass\n\nclass TestMore(Base): pass\n")
    assert project.record("--agentreplay-no-prove", "test_heirs.py::TestShop").returncode == 0
    failed = project.replay("test_heirs.py::TestMore")
    assert "[AR-NEW]" in failed.stdout
    assert offered(failed) == []
    project.edit("test_heirs.py", "class TestShop(Base): pass", "")
    assert offered(project.replay("test_heirs.py::TestMore")) == [
        ["test_heirs.py::TestShop::test_late", "test_heirs.py::TestMore::test_late"]
    ]


def test_nothing_is_looked_for_before_a_call_is_refused(recorded):
    recorded.write(conftest="from pytest_agentreplay.store import snapshots as nearby\nnearby.around = None\n")
    recorded.write(test_flat="import agent\ndef test_it(agentreplay): pass\n")
    assert recorded.replay("test_flat.py").returncode == 0
    recorded.write(test_flat="import agent\ndef test_it(agentreplay): agent.answer('What?')\n")
    assert "'NoneType' object is not callable" in recorded.replay("test_flat.py").stdout
