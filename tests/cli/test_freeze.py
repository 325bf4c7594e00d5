"""`agentreplay freeze`: the failing run that a test has just had, as a case, with the real agent and plugin."""

from __future__ import annotations

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.schema import parse

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

FAILING = """
import agent

def test_sorry(agentreplay):
    answer = agent.answer("Where is A-17?")
    assert "sorry" in answer
"""
NODE = "test_shop.py::test_sorry"


def case_in(folder):
    case = parse.read((folder / "case.yaml").read_bytes(), file="case.yaml", folder=folder)
    return case, codec.loads((folder / "run.snapshot.json").read_bytes(), file="run").run


def test_a_failing_run_becomes_a_case_that_is_true_of_it(project):
    project.furnish(FAILING)
    assert project.record().returncode == 1

    done = project.command("freeze", NODE, "--runner", "refunds")

    assert done.returncode == 0, done.stderr
    case, run = case_in(project.root / "cases" / "test_sorry")
    assert (case.source.format, case.source.id, case.source.fidelity) == ("snapshot", NODE, "bytes")
    assert case.runners == {"observed": "refunds", "desired": "refunds"}
    assert case.input == {"messages": [{"role": "user", "content": "Where is A-17?"}]}
    assert ("output", {"not_contains": "sorry"}) in [(check.word, check.wanted) for check in case.observed]
    assert ("output", {"contains": "sorry"}) in [(check.word, check.wanted) for check in case.desired]
    assert judge(case, "observed", frozen(run)).holds
    assert not judge(case, "desired", frozen(run)).holds
    assert run.header.test == "cases/test_sorry/case.yaml::observed"
    assert sorted(file.name for file in (project.root / "cases/test_sorry/fixtures").iterdir()) == [
        "lookup_order-1.yaml",
        "refund-1.yaml",
    ]
    assert done.stdout.endswith("next: read cases/test_sorry/case.yaml, then\n  pytest cases/test_sorry\n")


def test_the_run_that_waits_is_the_one_that_was_just_seen(project):
    assert project.record().returncode == 0
    project.edit("test_shop.py", 'assert "refund" in', 'assert "refunded at last" in')
    assert project.record().returncode == 1

    done = project.command("freeze", "test_shop.py::test_refund", "--out", "cases/last")

    assert done.returncode == 0, done.stderr
    _, run = case_in(project.root / "cases" / "last")
    assert run.header.outcome["status"] == "failed"
    assert "has passed" not in done.stderr


def test_a_passing_run_is_taken_with_a_word_and_an_unknown_test_is_told(project):
    assert project.record().returncode == 0

    done = project.command("freeze", "test_shop.py::test_refund", "--out", "cases/passed")
    assert done.returncode == 0
    assert "its test has passed" in done.stderr

    done = project.command("freeze", "test_shop.py::test_nobody")
    assert done.returncode == 2
    near = "near are test_shop.py::test_refund: agentreplay freeze test_shop.py::test_refund\n"
    assert done.stderr == f"agentreplay: test_shop.py::test_nobody: there is no such test; {near}"
    assert not (project.root / "cases" / "test_nobody").exists()
    assert near in project.command("freeze", "test_shop.py::test_refunds").stderr
    said = project.command("freeze", "test_shop.py").stderr
    assert "test_shop.py: is no test by itself: name test_shop.py::test_refund\n" in said


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


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("test_others.py::test_early", "no run of this test is kept; record it: pytest --snapshot-record {node}"),
        (
            "test_others.py::TestPay::test_late",
            "no run of this test is kept; record it: pytest --snapshot-record {node}",
        ),
        ("test_others.py::test_early[a]", 'no run of this test is kept; record it: pytest --snapshot-record "{node}"'),
        (
            "test_others.py::TestPay::test_lately",
            "there is no such test; near are {near}, without a run: pytest --snapshot-record {near}",
        ),
        (
            "test_inherits.py::TestShop::test_of_base",
            "no run of this test is kept; record it: pytest --snapshot-record {node}",
        ),
        ("nowhere.py::test_nothing", "there is no such test; these are all: pytest --collect-only -q"),
        ("nothing", "there is no such test; these are all: pytest --collect-only -q"),
    ],
)
def test_a_test_without_a_run_is_told_by_a_command_that_works(project, node, said):
    project.write(test_others=OTHERS, test_inherits="from base import Base\nclass TestShop(Base): pass\n")
    done = project.command("freeze", node)
    assert done.returncode == 2
    assert done.stderr == f"agentreplay: {node}: {said.format(node=node, near='test_others.py::TestPay::test_late')}\n"


def test_a_test_that_others_resemble_is_recorded_or_another_is_frozen(project):
    assert project.record().returncode == 0
    project.write(test_shop="def test_refunds(agentreplay): pass\n")
    said = project.command("freeze", "test_shop.py::test_refunds").stderr
    assert "record it: pytest --snapshot-record test_shop.py::test_refunds; or freeze one that is near: " in said
    assert said.endswith("agentreplay freeze test_shop.py::test_refund\n")


def test_an_edited_snapshot_is_no_evidence(project):
    project.furnish(FAILING)
    project.record()
    file = project.files[0]
    file.write_text(file.read_text(encoding="utf-8").replace("18.5", "81.5"), encoding="utf-8")

    done = project.command("freeze", NODE)

    assert done.returncode == 4
    assert "agentreplay reseal" in done.stderr
    assert not (project.root / "cases").exists()
