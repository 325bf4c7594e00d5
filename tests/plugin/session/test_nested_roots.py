"""A package of a monorepo that configures pytest itself: its snapshots replay from its own root and from the outer one."""

import re
import shutil

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.store import layout
from tests.support.exhaustive import rare

BESIDE = "__agent_snapshots__"
TESTS = """
import random, uuid
import pytest
import agent

@pytest.fixture(scope="module")
def warm():
    return agent.answer("Are you there?")

def test_one(agentreplay):
    agent.answer(f"Where is A-17? {uuid.uuid4()} {random.random()}")

@pytest.mark.parametrize("order", ["A-1", "B/2"])
def test_late(agentreplay, order):
    agent.answer(f"Where is {order}?")

class TestShop:
    def test_warm(self, agentreplay, warm):
        agent.answer("And now?")
"""
INNER = """
[tool.pytest.ini_options]
pythonpath = ["../.."]
agentreplay_tools = ["agent.lookup_order = read", "agent.refund"]
"""
PACKAGE = "packages/shop"
RECORDED = {}


PATHS = """
import agent, pathlib, os
import pytest

DATA = pathlib.Path(__file__).parent.parent / "data" / "orders.csv"

@pytest.fixture(scope="module")
def warm():
    return agent.answer(f"Is {DATA} there?")

def test_paths(agentreplay, warm, tmp_path):
    agent.answer(f"Read {DATA}, and write into {tmp_path}.")
"""


class Monorepo:
    """The same tests, run from one root of two: `repo/pytest.ini` and `repo/packages/shop/pyproject.toml`."""

    def __init__(self, project):
        self.project = project
        project.server._replies = lambda body, number: "It is late."
        self.inner = project.root / "packages" / "shop"
        self.inner.mkdir(parents=True)
        (self.inner / "pyproject.toml").write_text(INNER, encoding="utf-8")
        (project.root / "test_shop.py").unlink(missing_ok=True)
        project.write(packages__shop__tests__test_a=TESTS)

    def run(self, root, *words, **environ):
        """Run pytest with its root at the `root` named "outer", "inner", or "typed": inner, but typed in the outer."""
        words = (*words, f"{PACKAGE}/tests") if root == "typed" else words
        cwd = self.inner if root == "inner" else self.project.root
        done = self.project.child("pytest", *self.project.options, "-rA", *words, cwd=cwd, **environ)
        rootdir = re.search(r"^rootdir: (.*)$", done.stdout, re.MULTILINE)
        assert rootdir is None or rootdir[1].endswith("shop") == (root != "outer")
        return done

    def command(self, root, *words):
        """Run `agentreplay` in the folder of a root."""
        environ = {"PYTEST_ADDOPTS": " ".join(self.project.options)}
        cwd = self.inner if root == "inner" else self.project.root
        return self.project.child("pytest_agentreplay", *words, cwd=cwd, **environ)

    def record(self, root, *words):
        done = self.run(root, "--snapshot-record", "--agentreplay-no-prove", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def replay(self, root, *words):
        """Replay offline."""
        return self.run(root, "--replay=model", *words, MODEL_URL="http://127.0.0.1:9")

    @property
    def snapshots(self):
        return {file.relative_to(self.inner).as_posix(): file.read_bytes() for file in self.project.files}

    def recorded(self, root):
        """Record the tests from a root; once for this module."""
        if root not in RECORDED:
            self.record(root)
            RECORDED[root] = self.snapshots
            shutil.rmtree(self.project.root / ".pytest_agentreplay", ignore_errors=True)
            shutil.rmtree(self.inner / ".pytest_agentreplay", ignore_errors=True)
        for name, data in RECORDED[root].items():
            (self.inner / name).parent.mkdir(parents=True, exist_ok=True)
            (self.inner / name).write_bytes(data)
        return self


@pytest.fixture
def repo(project):
    return Monorepo(project)


ROOTS = ["outer", "inner", "typed"]
WARM = f"tests/{BESIDE}/test_a/warm-89125313e3.snapshot.json"
ONE = f"tests/{BESIDE}/test_a/test_one.snapshot.json"
IDS = {"outer": f"{PACKAGE}/tests/test_a.py", "inner": "tests/test_a.py"}


@pytest.mark.parametrize("recorded", ["outer", "inner", *rare("typed")])
def test_a_snapshot_replays_from_each_root_and_by_workers(repo, recorded):
    repo.recorded(recorded).project.plugins += ("xdist.plugin",)
    before = repo.snapshots
    assert len(before) == 5  # four tests and a fixture
    for root, words in ((root, words) for root in ROOTS for words in ([], ["-n", "2"])):
        if words and root != recorded:
            continue
        done = repo.replay(root, *words)
        assert done.returncode == 0, done.stdout
        assert "4 passed" in done.stdout
        assert "agentreplay mv" not in done.stdout
        assert "unused" not in done.stdout
    assert repo.snapshots == before


@pytest.mark.parametrize(("first", "second"), [("outer", "inner"), *rare(("inner", "outer"))])
def test_recording_again_from_the_other_root_changes_nothing(repo, first, second):
    before = repo.recorded(first).snapshots
    repo.record(second)
    after = repo.snapshots
    assert after.keys() == before.keys()
    # The snapshot of a fixture is always written: its time tells which session recorded it.
    assert [name for name in after if after[name] != before[name]] == [WARM]
    assert repo.replay(first).returncode == 0


@pytest.mark.parametrize("root", ["outer", *rare("inner")])
def test_a_renamed_test_is_reported_moved_and_pruned_from_each_root(repo, root):
    repo.recorded("outer" if root == "inner" else "inner")
    assert "no snapshot is unused" in repo.command(root, "prune").stderr
    before = repo.snapshots
    repo.project.edit(IDS["outer"], "def test_one", "def test_first")
    repo.project.edit(IDS["outer"], '"B/2"', '"B/3"')
    failed = repo.replay(root)
    assert failed.returncode == 1
    for old, new in (("test_one", "test_first"), ("test_late[B/2]", "test_late[B/3]")):
        offered = f"agentreplay mv {IDS[root]}::{old} {IDS[root]}::{new}"
        assert offered in failed.stdout.replace('"', "")
        moved = repo.command(root, "mv", f"{IDS[root]}::{old}", f"{IDS[root]}::{new}")
        assert moved.returncode == 0, moved.stderr
    stated = {codec.loads(data, file=name).run.header.test for name, data in repo.snapshots.items()}
    assert {"tests/test_a.py::test_first", "tests/test_a.py::test_late[B/3]"} <= stated
    repo.project.edit(IDS["outer"], 'f"Where is {order}?"', 'f"Where is {order}?".replace("3", "2")')
    for each in ("outer", "inner"):
        done = repo.replay(each)
        assert done.returncode == 0, done.stdout
    repo.project.edit(IDS["outer"], "def test_first", "def helper")
    assert repo.command(root, "prune").returncode == 0
    assert len(repo.snapshots) == len(before) - 1


@pytest.mark.parametrize("root", ["outer", *rare("inner", "typed")])
def test_snapshots_that_state_the_outer_id_replay_as_well(repo, root):
    """Versions before this one wrote the id from pytest's root, and its hash into the name of the file."""
    repo.recorded("inner")
    for file in repo.project.files:
        test = f"{PACKAGE}/" + codec.loads(file.read_bytes(), file="").run.header.test
        home = layout.snapshot_path(repo.project.root, IDS["outer"], test)
        text = codec.restated(file.read_bytes(), test, file="")
        file.unlink()
        home.write_text(text, encoding="utf-8")
    before = repo.snapshots
    assert WARM not in before
    done = repo.replay(root)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
    assert "unused" not in done.stdout
    assert repo.snapshots == before


@pytest.mark.parametrize("root", ["inner", *rare("outer")])
def test_commands_find_the_test_of_a_snapshot_and_of_a_pending_run(repo, root):
    repo.recorded("outer" if root == "inner" else "inner")
    file = ONE if root == "inner" else f"{PACKAGE}/{ONE}"
    done = repo.command(root, "replay", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    repo.project.edit("agent.py", "Be brief.", "Be short.")
    done = repo.command(root, "accept", "--requests", f"{IDS[root]}::test_one", "--reason", "shorter")
    assert done.returncode == 0, done.stdout + done.stderr
    for each in ("outer", "inner"):
        assert repo.replay(each, "-k", "test_one").returncode == 0
    before = repo.snapshots[ONE]
    repo.project.edit(IDS["outer"], '{random.random()}")', '{random.random()}")\n    assert not agent.PROMPT')
    failed = repo.run(root, "--snapshot-record", "-k", "test_one")
    assert failed.returncode == 1
    assert repo.snapshots[ONE] == before
    done = repo.command(root, "accept", f"{IDS[root]}::test_one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"taken for {IDS[root]}::test_one" in done.stdout
    assert repo.snapshots[ONE] != before


@pytest.mark.parametrize(("first", "second"), [("outer", "inner"), *rare(("inner", "outer"), ("typed", "outer"))])
def test_paths_of_the_package_are_the_same_from_each_root(repo, first, second):
    repo.project.write(packages__shop__tests__test_a=PATHS)
    repo.record(first)
    assert b"orders.csv" in repo.snapshots[f"tests/{BESIDE}/test_a/test_paths.snapshot.json"]
    assert not [data for data in repo.snapshots.values() if str(repo.inner).encode() in data]
    done = repo.replay(second)
    assert done.returncode == 0, done.stdout
