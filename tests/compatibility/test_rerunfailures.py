"""pytest-rerunfailures: each try is a run of its own, the last one counts, and a divergence is not tried again."""

from xml.etree import ElementTree as ET

import pytest

from tests.support.case_project import opened
from tests.support.finished import ended

pytestmark = pytest.mark.env("main")

TESTS = """
import os, pathlib, random
import pytest, agent

def tries(name, file=pathlib.Path("tries.txt")):
    with file.open("a") as out:
        out.write(name + "\\n")
    return file.read_text().split().count(name)

@pytest.mark.flaky(reruns=2)
def test_flaky(agentreplay):
    agent.answer(f"Where is A-{random.randint(1, 999)}?")
    assert tries("flaky") > int(os.environ.get("FAILS", 0))

@pytest.mark.flaky(reruns=1, rerun_except="never")
def test_own_rule(agentreplay):
    agent.answer("Where is A-17?")

def test_calm(agentreplay):
    agent.answer("Where is A-17?")
"""


@pytest.fixture(scope="module")
def flaky(shop):
    """Recorded by a test that passes at its second try."""
    project = shop(TESTS, "pytest_rerunfailures")
    project.recorded = project.record(FAILS="1")
    return project


def test_the_last_try_is_recorded_and_replays(flaky):
    told = flaky.recorded.stdout
    assert "3 passed, 1 rerun" in told, told
    assert "test_flaky.snapshot.json (created, 5 calls, test passed at try 2)" in told
    assert told.count("recorded  ") == 3
    (run,) = [one.run for one in flaky.snapshots if one.run.header.test.endswith("test_flaky")]
    assert run.header.outcome == {"status": "passed"}
    assert len(run.exchanges) == 5, "nothing of the first try"
    assert not list(flaky.root.rglob("*.jsonl"))
    # Each try of a replay starts anew.
    (flaky.root / "tries.txt").unlink()
    done = ended(flaky.offline(FAILS="1"))
    assert "3 passed, 1 rerun" in done.stdout
    assert "replayed 3 tests (9 turns, 15 calls served, 0 live)" in done.stdout


def test_a_divergence_is_not_tried_again_but_where_a_marker_decides_itself(flaky):
    told, done = flaky.diverged("--junitxml=junit.xml")
    assert told.keys() == {"test_flaky", "test_calm", "test_own_rule"}
    assert all("[AR-PROMPT] turn 1/3: model m-1" in said for said in told.values())
    assert "3 failed, 1 rerun" in done.stdout.splitlines()[-1]
    assert "replayed 3 tests (0 turns, 0 calls served, 0 live)   diverged 3 [3 AR-PROMPT]" in done.stdout
    for case in ET.parse(flaky.root / "junit.xml").iter("testcase"):
        names = [one.get("name") for one in case.iter("property")]
        assert len(names) == len({*names}), "nothing of an earlier try"


def test_tries_that_all_fail_leave_the_snapshot_alone(flaky):
    before = {file: file.read_bytes() for file in flaky.files}
    (flaky.root / "tries.txt").unlink(missing_ok=True)
    done = ended(flaky.record("-k", "test_flaky", FAILS="9"), 1)
    assert "1 failed" in done.stdout
    assert "2 rerun" in done.stdout
    assert {file: file.read_bytes() for file in flaky.files} == before


def test_a_case_is_run_again_like_any_test(shared_project):
    made = opened(shared_project())
    made.case(expect="fixed")
    made.project.plugins += ("pytest_rerunfailures",)
    done = made.pytest("--reruns", "1", "-q")
    assert "1 failed, 1 rerun" in done.stdout
    assert "cases: 1 changed" in done.stdout
