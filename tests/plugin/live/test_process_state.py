"""A test that leaves state behind: found by two frozen runs, and judged in a process of its own for each run."""

import os
import signal
import sys

import pytest

from pytest_agentreplay.backends.perturbation import Perturbation
from pytest_agentreplay.plugin.own_processes import can_fork, run_in_fork
from pytest_agentreplay.runs.fuzz.invariants import Violation
from pytest_agentreplay.runs.fuzz.plan import TRIES, FuzzFailure, Trial, TrialResult, confirm
from tests.support.project import NOBODY
from tests.support.small_projects import flat, passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

LINE = "test_shop.py::test_refund: the test leaves state in the process: its second frozen run differs from its first: "
CACHE = """
import functools, agent

agent.TOOLS["lookup_order"] = functools.lru_cache(agent.lookup_order)

def test_refund(agentreplay):
    agent.answer("Where is A-17?")
"""
FIXTURE = """
import agent, pytest

@pytest.fixture(scope="session")
def box():
    yield (box := [])
    box.clear()

def test_refund(agentreplay, box):
    box.append("!")
    agent.answer("Where is A-17?" + "".join(box))
"""
LOOP = """
import asyncio, agent

LOOP = asyncio.new_event_loop()

async def answer():
    return agent.answer("Where is A-17?")

def test_refund(agentreplay):
    LOOP.run_until_complete(answer())
    LOOP.close()
"""
FILE = """
import pathlib, agent

def test_refund(agentreplay):
    file = pathlib.Path("runs.txt")
    file.write_text((file.read_text() if file.exists() else "") + "!")
    agent.answer("Where is A-17?" + file.read_text())
"""
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"


def furnish(project, tests):
    project.furnish(tests)
    project.edit(
        "agent.py", "reply.json()", "reply.raise_for_status().json()"
    )  # so that errors are no crash of its own
    recorded(project)
    project.hits = project.server.hits
    return project


def count_calls(project):
    """Return how many calls reached the model since the recording."""
    return project.server.hits - project.hits


@pytest.mark.parametrize(
    ("tests", "why", "words"),
    [
        (CACHE, "turn 1/3: tool lookup_order was not called before model m-1", ["--junitxml=junit.xml"]),
        pytest.param(CACHE, "turn 1/3: tool lookup_order was not called", ["-p", "xdist", "-n2"], id="xdist"),
        (FIXTURE, "turn 1/3: model m-1: user text $.messages[1].content changed, added !", []),
        (LOOP, "RuntimeError: Event loop is closed", []),
    ],
)
def test_a_live_run_finds_nothing_of_an_earlier_one(project, tests, why, words):
    furnish(project, tests)
    done = passed(project.run("--replay=live", "--replay-runs=2", "-v", *words))
    assert LINE + why in flat(done)
    assert "same 2/2" in flat(done)
    assert count_calls(project) == 6
    assert done.stdout.count("PASSED") == 3
    if "--junitxml=junit.xml" in words:
        assert 'tests="3"' in (project.root / "junit.xml").read_text(encoding="utf-8")


def test_a_run_that_is_skipped_in_its_process_is_reported_as_skipped(project):
    furnish(project, f"import os, pytest\n{CACHE}    if 'SKIP' in os.environ:\n        pytest.skip('enough')\n")
    done = passed(project.run("--replay=live", "-rs", SKIP="1"))
    assert "SKIPPED [1] test_shop.py:10: enough" in done.stdout
    assert LINE in flat(done)


def test_where_no_fork_is_safe_each_run_is_a_pytest_of_its_own(project):
    furnish(project, CACHE)
    project.put(project.root / "conftest.py", THREAD)
    done = passed(project.run("--replay=live", "--replay-runs=1", "-v"))
    assert LINE in flat(done)
    assert "same 1/1" in flat(done)
    assert (count_calls(project), done.stdout.count("PASSED")) == (3, 2)


def test_state_outside_of_the_process_is_not_judged_and_nothing_is_asked(project):
    furnish(project, FILE)
    (project.root / "runs.txt").unlink()
    done = project.run("--replay=live", "--replay-runs=2")
    assert done.returncode == 1
    assert "the test leaves state outside of its process, so nothing is judged: a second frozen run" in flat(done)
    assert "1 error" in done.stdout
    assert count_calls(project) == 0


def test_fuzz_assertions_and_lineup_blame_nobody_for_it(project):
    furnish(project, CACHE)
    for words, verdict in {
        ("check", "fuzz", "--budget", "2"): "2 neighbours, 2 hold",
        ("check", "assertions"): " CHECKED: ",
        ("live", "lineup", "--runs", "1"): "no layer is guilty",
    }.items():
        done = project.command(*words[:2], "test_shop.py::test_refund", *words[2:])
        assert LINE in flat(done), done.stdout + done.stderr
        assert verdict in flat(done)


def test_a_test_that_leaves_nothing_is_run_in_the_process_and_nothing_is_said(project):
    furnish(project, CACHE.replace("functools.lru_cache(agent.lookup_order)", "agent.lookup_order"))
    done = passed(project.run("--agentreplay-fuzz=3", MODEL_URL=NOBODY))
    assert "leaves state" not in done.stdout
    assert "4 passed" in done.stdout


FAILURE = FuzzFailure(Violation("ends as recorded", "the test ended"), (Perturbation("unknown-field", 1),), 2)
OTHER = FAILURE._replace(neighbour=(Perturbation("member-order", 3),))
ORDER = FAILURE._replace(neighbour=(Perturbation("completion-order", 1, 2),))


@pytest.mark.parametrize(
    ("shows", "kept", "gone"),
    [
        ({FAILURE: TRIES, OTHER: TRIES}, [FAILURE, OTHER], 0),
        ({FAILURE: 0, OTHER: TRIES}, [OTHER], 1),
        ({FAILURE: 1, OTHER: 2}, [OTHER._replace(race=True, shown_by=4)], 0),
        ({FAILURE: 2, ORDER: TRIES}, [ORDER._replace(race=True, shown_by=4)], 0),
    ],
)
def test_a_failure_is_kept_where_it_shows_again_and_races_are_one(shows, kept, gone):
    left = {failure.neighbour: count for failure, count in shows.items()}

    def run(trials):
        for trial in trials:
            left[trial.neighbour] = left.get(trial.neighbour, 0) - 1
            yield TrialResult(trial, (FAILURE.violation,) if left[trial.neighbour] >= 0 else ())

    assert confirm([*shows], Trial(0, ()), run) == (kept, gone)


@pytest.mark.process
@pytest.mark.skipif(not can_fork() and sys.platform != "linux", reason="this system does not fork")
def test_a_fork_returns_its_result_and_one_that_dies_says_how():
    left = []
    assert run_in_fork(lambda: left.append(1) or {"left": left}) == ({"left": [1]}, 0)
    assert run_in_fork(lambda: os._exit(3)) == (None, 3)
    assert run_in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL)) == (None, -signal.SIGKILL)
    assert left == []
