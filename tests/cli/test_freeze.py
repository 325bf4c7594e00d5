"""`agentreplay case new`: the failing run that a test has just had, as a case, with the real agent and plugin."""

from __future__ import annotations

import pytest

from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.snapshots import codec
from tests.support.kept_files import contents, put_back

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

TESTS = """
import agent

def test_refund(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

def test_sorry(agentreplay):
    answer = agent.answer("Where is A-17?")
    assert "sorry" in answer
"""
REFUND, SORRY = "test_shop.py::test_refund", "test_shop.py::test_sorry"
OTHERS = """
import unittest
from unittest import TestCase

class TestPay:
    async def test_late(self, agentreplay):
        raise NotImplementedError

class Shop(TestCase):
    def test_sorry(self):
        raise NotImplementedError

if True:
    def test_early(agentreplay):
        raise NotImplementedError
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    assert project.record().returncode == 1
    project.write(test_others=OTHERS, test_inherits="from base import Base\nclass TestShop(Base): pass\n")
    project.kept = contents(project.root)
    return project


@pytest.fixture
def project(shop, monkeypatch):
    """Recorded, with a test that passes and one that fails; commands are typed in its root."""
    put_back(shop.root, shop.kept)
    monkeypatch.chdir(shop.root)
    for name, value in shop.surroundings(PYTEST_ADDOPTS=" ".join(shop.options)).items():
        monkeypatch.setenv(name, value)
    return shop


def case_in(folder):
    case = parse.read_case((folder / "case.yaml").read_bytes(), file="case.yaml", folder=folder)
    return case, codec.loads((folder / "run.snapshot.json").read_bytes(), file="run").run


def test_a_failing_run_becomes_a_case_that_is_true_of_it(project, typed):
    done = typed("case", "new", SORRY, "--runner", "refunds")
    assert done.code == 0, done.err
    folder = project.root / "cases/test_sorry"
    case, run = case_in(folder)
    assert (case.source.format, case.source.id, case.source.fidelity) == ("snapshot", SORRY, "bytes")
    assert case.runners == {"observed": "refunds", "desired": "refunds"}
    assert case.input == {"messages": [{"role": "user", "content": "Where is A-17?"}]}
    assert ("output", {"not_contains": "sorry"}) in [(check.word, check.wanted) for check in case.observed]
    assert ("output", {"contains": "sorry"}) in [(check.word, check.wanted) for check in case.desired]
    assert judge(case, "observed", frozen(run)).holds
    assert not judge(case, "desired", frozen(run)).holds
    assert run.header.test == "cases/test_sorry/case.yaml::test_sorry"
    assert [*contents(folder / "fixtures")] == ["lookup_order-1.yaml", "refund-1.yaml"]
    assert done.out.endswith("next: read cases/test_sorry/case.yaml, then\n  pytest cases/test_sorry\n")


def test_a_passing_run_is_taken_with_a_word_and_of_two_the_one_that_waits_and_was_just_seen(project, typed):
    done = typed("case", "new", REFUND, "--out", "cases/passed")
    assert (done.code, "its test has passed" in done.err) == (0, True)
    project.edit("test_shop.py", 'assert "refund" in', 'assert "refunded at last" in')
    assert project.offline("test_shop.py", "-k", "refund").returncode == 1
    done = typed("case", "new", REFUND, "--out", "cases/replayed")
    assert (done.code, "has passed" in done.err) == (0, False)
    case, run = case_in(project.root / "cases/replayed")
    assert run.header.outcome["type"] == "AssertionError"
    assert "refunded at last" in run.header.outcome["message"]
    assert ("output", {"contains": "refunded at last"}) in [(check.word, check.wanted) for check in case.desired]
    project.edit("test_shop.py", 'assert "refunded at last"', '1 / 0; assert "refunded at last"')
    assert project.offline("test_shop.py", "-k", "refund").returncode == 1
    assert typed("case", "new", REFUND, "--out", "cases/raised").code == 0
    outcome = case_in(project.root / "cases/raised")[1].header.outcome
    assert outcome == {"status": "failed", "type": "ZeroDivisionError", "message": "division by zero"}
    project.edit("test_shop.py", "1 / 0; assert", "assert")
    assert project.record("test_shop.py", "-k", "refund").returncode == 1
    done = typed("case", "new", REFUND, "--out", "cases/last")
    assert (done.code, "has passed" in done.err) == (0, False)
    assert case_in(project.root / "cases/last")[1].header.outcome["status"] == "failed"


NO_RUN = "no run of this test is kept; record it: pytest --snapshot-record {node}"
ALL = "there is no such test; these are all: pytest --collect-only -q"
LATE = "test_others.py::TestPay::test_late"
WITHOUT_RUN = {
    "test_others.py::test_early": NO_RUN,
    LATE: NO_RUN,
    "test_others.py::test_early[a]": NO_RUN.replace("{node}", '"{node}"'),
    "test_inherits.py::TestShop::test_of_base": NO_RUN,
    f"{LATE}ly": f"there is no such test; near are {LATE}, without a run: pytest --snapshot-record {LATE}",
    "nowhere.py::test_nothing": ALL,
    "nothing.py": ALL,
    "test_shop.py::test_refunds": f"there is no such test; near are {REFUND}, {SORRY}: agentreplay case new {REFUND}",
}


def test_a_test_without_a_run_is_told_by_a_command_that_works(project, typed):
    for node, said in WITHOUT_RUN.items():
        assert typed("case", "new", node) == (2, "", f"agentreplay: {node}: {said.format(node=node)}\n")
    assert "test_shop.py: is no test by itself: name " in typed("case", "new", "test_shop.py").err
    project.write(test_shop="def test_refunds(agentreplay): pass\n")
    said = typed("case", "new", "test_shop.py::test_refunds").err
    assert "record it: pytest --snapshot-record test_shop.py::test_refunds; or take one that is near: " in said
    assert said.endswith(f"agentreplay case new {REFUND}\n")
    assert not (project.root / "cases").exists()


def test_an_edited_snapshot_is_no_evidence(project, typed):
    file = next(project.root.rglob("test_sorry.snapshot.json"))
    file.write_text(file.read_text(encoding="utf-8").replace("18.5", "81.5"), encoding="utf-8")
    done = typed("case", "new", SORRY)
    assert (done.code, "agentreplay verify" in done.err) == (4, True)
    assert not (project.root / "cases").exists()
