"""pytest-rerunfailures: each try is a run of its own, the last one counts, and a divergence is not tried again."""

from xml.etree import ElementTree as ET

import pytest

from tests.docket import opened

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
    recorded = project.record(FAILS="1")
    return project, recorded


def test_the_last_try_is_recorded_and_proven(flaky):
    project, recorded = flaky
    assert recorded.returncode == 0, recorded.stdout
    assert "3 passed, 1 rerun" in recorded.stdout
    assert "test_flaky.snapshot.json (created, 5 calls, test passed at try 2)   replays" in recorded.stdout
    assert recorded.stdout.count("recorded  ") == 3
    (run,) = [one.run for one in project.snapshots if one.run.header.test.endswith("test_flaky")]
    assert run.header.outcome == {"status": "passed"}
    assert len(run.exchanges) == 5, "nothing of the first try"
    assert not list(project.root.rglob("*.jsonl"))


def test_each_try_of_a_replay_starts_anew(flaky):
    project, _ = flaky
    (project.root / "tries.txt").unlink()
    done = project.offline(FAILS="1")
    assert done.returncode == 0, done.stdout
    assert "3 passed, 1 rerun" in done.stdout
    assert "replayed 3 tests (9 turns, 15 calls served, 0 live)" in done.stdout


def test_a_divergence_is_not_tried_again(flaky, headline):
    project, _ = flaky
    told, done = project.diverged("--deselect=test_shop.py::test_own_rule")
    assert told.keys() == {"test_flaky", "test_calm"}
    assert all(said.startswith(f"FAILED {headline}") for said in told.values())
    assert "rerun" not in done.stdout.splitlines()[-1]
    assert "replayed 2 tests (0 turns, 0 calls served, 0 live)   diverged 2 [2 AR-PROMPT]" in done.stdout


def test_a_marker_that_decides_itself_gets_its_tries_and_one_count(flaky):
    project, _ = flaky
    told, done = project.diverged("-k", "own_rule", "--junitxml=junit.xml")
    assert told.keys() == {"test_own_rule"}
    assert "1 failed, 1 rerun" in done.stdout or "1 failed, 2 deselected, 1 rerun" in done.stdout
    assert "replayed 1 test (0 turns, 0 calls served, 0 live)   diverged 1 [1 AR-PROMPT]" in done.stdout
    for case in ET.parse(project.root / "junit.xml").iter("testcase"):
        names = [one.get("name") for one in case.iter("property")]
        assert len(names) == len({*names}), "nothing of an earlier try"


def test_tries_that_all_fail_leave_the_snapshot_alone(flaky):
    project, _ = flaky
    before = {file: file.read_bytes() for file in project.files}
    (project.root / "tries.txt").unlink()
    done = project.record("-k", "test_flaky", FAILS="9")
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "2 rerun" in done.stdout
    assert {file: file.read_bytes() for file in project.files} == before


def test_a_case_is_run_again_like_any_test(shared_project):
    project = shared_project()
    docket = opened(project)
    docket.case(expect="fixed")
    project.plugins += ("pytest_rerunfailures",)
    done = docket.pytest("--reruns", "1", "-q")
    assert "2 failed, 2 rerun" in done.stdout
    assert "1 case: 1 reproduced, 1 not fixed" in done.stdout
