"""A package of a monorepo that configures pytest itself: its snapshots replay from its own root and from the outer one."""

import re
import shutil

import pytest

from pytest_agentreplay.snapshots import codec
from tests.support.exhaustive import rare
from tests.support.project import NOBODY
from tests.support.small_projects import passed

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

    def child(self, module, root, *words, **environ):
        cwd = self.inner if root == "inner" else self.project.root
        return self.project.child(module, *words, cwd=cwd, **environ)

    def run(self, root, *words, **environ):
        """Run pytest with its root at the `root` named "outer", "inner", or "typed": inner, but typed in the outer."""
        words = (*words, f"{PACKAGE}/tests") if root == "typed" else words
        done = self.child("pytest", root, *self.project.options, "-rA", *words, **environ)
        rootdir = re.search(r"^rootdir: (.*)$", done.stdout, re.MULTILINE)
        assert rootdir is None or rootdir[1].endswith("shop") == (root != "outer")
        return done

    def command(self, root, *words):
        """Run `agentreplay` in the folder of a root."""
        return self.child("pytest_agentreplay", root, *words, PYTEST_ADDOPTS=" ".join(self.project.options))

    def record(self, root):
        passed(self.run(root, "--snapshot-record"))

    def replay(self, root, *words):
        """Replay offline."""
        return self.run(root, "--replay=model", *words, MODEL_URL=NOBODY)

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
OTHER = {"outer": "inner", "inner": "outer"}


def unchanged(done):
    """Return whether all four tests passed and nothing is said of their snapshots."""
    return "4 passed" in passed(done).stdout and not re.search("agentreplay mv|unused", done.stdout)


@pytest.mark.parametrize("recorded", ["inner", *rare("outer", "typed")])
def test_a_snapshot_replays_from_each_root_and_by_workers(repo, recorded):
    before = repo.recorded(recorded).snapshots
    assert len(before) == 5  # four tests and a fixture
    assert all(unchanged(repo.replay(root)) for root in ROOTS if root != recorded)
    assert unchanged(repo.replay(recorded, "-p", "xdist.plugin", "-n", "2"))
    assert repo.snapshots == before


@pytest.mark.parametrize("first", ["outer", *rare("inner")])
def test_recording_again_from_the_other_root_changes_nothing(repo, first):
    before = repo.recorded(first).snapshots
    repo.record(OTHER[first])
    after = repo.snapshots
    assert after.keys() == before.keys()
    # The snapshot of a fixture is always written: its time tells which session recorded it.
    assert [name for name in after if after[name] != before[name]] == [WARM]
    passed(repo.replay(first))


@pytest.mark.parametrize("root", ["outer", *rare("inner")])
def test_a_renamed_test_is_reported_moved_and_pruned_from_each_root(repo, root):
    repo.recorded(OTHER[root])
    before = repo.snapshots
    repo.project.edit(IDS["outer"], "def test_one", "def test_first")
    repo.project.edit(IDS["outer"], '"B/2"', '"B/3"')
    failed = repo.replay(root)
    assert failed.returncode == 1
    for old, new in (("test_one", "test_first"), ("test_late[B/2]", "test_late[B/3]")):
        names = f"{IDS[root]}::{old}", f"{IDS[root]}::{new}"
        assert "agentreplay mv {} {}".format(*names) in failed.stdout.replace('"', "")
        passed(repo.command(root, "mv", *names))
    stated = {codec.loads(data, file=name).run.header.test for name, data in repo.snapshots.items()}
    assert {"tests/test_a.py::test_first", "tests/test_a.py::test_late[B/3]"} <= stated
    repo.project.edit(IDS["outer"], 'f"Where is {order}?"', 'f"Where is {order}?".replace("3", "2")')
    assert all(unchanged(repo.replay(each)) for each in OTHER)
    repo.project.edit(IDS["outer"], "def test_first", "def helper")
    passed(repo.command(root, "prune"))
    assert len(repo.snapshots) == len(before) - 1


@pytest.mark.parametrize("root", ["inner", *rare("outer")])
def test_commands_find_the_test_of_a_snapshot_and_of_a_pending_run(repo, root):
    repo.recorded(OTHER[root])
    done = passed(repo.command(root, "replay", ONE if root == "inner" else f"{PACKAGE}/{ONE}"))
    assert "1 passed" in done.stdout
    repo.project.edit("agent.py", "Be brief.", "Be short.")
    passed(repo.command(root, "accept", "--requests", f"{IDS[root]}::test_one", "--reason", "shorter"))
    for each in OTHER:
        passed(repo.replay(each, "-k", "test_one"))
    before = repo.snapshots[ONE]
    repo.project.edit(IDS["outer"], '{random.random()}")', '{random.random()}")\n    assert not agent.PROMPT')
    assert repo.run(root, "--snapshot-record", "-k", "test_one").returncode == 1
    assert repo.snapshots[ONE] == before
    done = passed(repo.command(root, "accept", f"{IDS[root]}::test_one"))
    assert f"taken for {IDS[root]}::test_one" in done.stdout
    assert repo.snapshots[ONE] != before
