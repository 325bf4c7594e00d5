"""pytest-xdist: workers record, replay and prove; the controller says what one process would have said."""

import re

import pytest

from tests.support.exhaustive import rare
from tests.support.finished import ended

pytestmark = [pytest.mark.env("main"), pytest.mark.proves]

TESTS = """
import os, signal
import pytest, agent

def where(agentreplay):
    with open("workers.txt", "a") as file:
        file.write(f"{os.environ.get('PYTEST_CURRENT_TEST')} {os.environ.get('PYTEST_XDIST_WORKER')}\\n")

@pytest.mark.parametrize("n", ["a b", "\\u00fc/x", "C:\\\\d"])
def test_it(n, agentreplay):
    where(agentreplay)
    agent.answer(n)

@pytest.mark.xdist_group("till")
@pytest.mark.parametrize("n", ["a@b", "c"])
def test_grouped(n, agentreplay):
    agent.answer(n)

def test_crash(agentreplay):
    agent.answer("crash?")
    if how := os.environ.get("CRASH"):
        os._exit(3) if how == "exit" else os.kill(os.getpid(), signal.SIGTERM)
"""

IDS = {
    *(rf"test_shop.py::test_it[{n}]" for n in ("a b", r"\xfc/x", r"C:\\d")),
    *("test_shop.py::test_grouped[a@b]", "test_shop.py::test_grouped[c]", "test_shop.py::test_crash"),
}


def footer(done):
    """Our lines; the order of tests is a matter of luck between workers."""
    lines = done.stdout.partition("- agentreplay -")[2].partition("\n=")[0].splitlines()[1:]
    return sorted(line for line in lines if line)


@pytest.fixture(scope="module")
def crashed(shop):
    """Recorded under two workers, one of which died in a test; then what was missing is recorded."""
    project = shop(TESTS, "xdist.plugin")
    first = project.record("-n", "2", CRASH="exit")
    left = [snapshot.run.header.test for snapshot in project.snapshots]
    journal = re.search(r"\S*test_crash\S*\.jsonl", project.command("verify", "--recover").stdout)[0]
    recovered = project.command("verify", "--recover", journal)  # the next recording of the test would clear it away
    again = project.record("-n", "2", "--dist=loadgroup")
    return project, first, left, recovered, again


def test_a_worker_that_dies_takes_no_other_recording_with_it(crashed):
    _, first, left, recovered, _ = crashed
    assert first.returncode == 1
    assert set(left) == IDS - {"test_shop.py::test_crash"}
    assert first.stdout.count("test passed)   replays") == 5
    assert "incomplete: the worker process crashed in test_shop.py::test_crash" in first.stdout
    assert "agentreplay verify --recover" in first.stdout
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert "5 calls" in recovered.stdout, recovered.stdout


def test_ids_are_those_of_one_process_whatever_the_distribution(crashed):
    project, *_, again = crashed
    assert again.returncode == 0, again.stdout
    assert again.stdout.count("(replaced, ") == 5, "loadgroup renames tests in its workers; their snapshots are theirs"
    assert again.stdout.count("(created, ") == 1
    assert {snapshot.run.header.test for snapshot in project.snapshots} == IDS


def test_the_proof_runs_in_a_process_of_its_own(crashed):
    project, *_ = crashed
    lines = (project.root / "workers.txt").read_text(encoding="utf-8").splitlines()
    workers = [line.rpartition(" ")[2] for line in lines if "[a b]" in line]
    assert len(workers) == 4, "twice recorded, twice proven"
    assert [workers[1], workers[3]] == ["None", "None"], "one process proves what all workers recorded"
    assert {workers[0], workers[2]} <= {"gw0", "gw1", "gw2"}


@pytest.mark.parametrize("dist", ["load", *rare("loadgroup", "loadfile", "worksteal")])
def test_the_controller_says_what_one_process_says(crashed, dist):
    project, *_ = crashed
    spread = ended(project.offline("-v", "-n", "2", f"--dist={dist}"))
    assert footer(spread) == ["replayed 6 tests (18 turns, 30 calls served, 0 live)"]


def test_divergences_are_counted_and_told_once(crashed):
    project, *_ = crashed
    told, done = project.diverged("-n", "2")
    alone, single = project.diverged()
    assert told == alone
    assert len(told) == 6
    assert all(said.startswith("FAILED [AR-PROMPT] turn 1/3: model m-1") for said in told.values())
    assert footer(done) == footer(single)
    assert "diverged 6 [6 AR-PROMPT]" in done.stdout


def test_a_worker_that_dies_in_a_replay_is_told(crashed):
    project, *_ = crashed
    done = ended(project.offline("-n", "2", CRASH="kill"), 1)
    assert {
        "incomplete: the worker process crashed in test_shop.py::test_crash, which told nothing",
        "replayed 5 tests (15 turns, 25 calls served, 0 live)",
    } <= {*footer(done)}
