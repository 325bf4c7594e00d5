"""pytest-timeout: a test that is cut off leaves nothing half done, by either method, recording or replaying."""

import re
import signal

import pytest

from tests.support.finished import ended

pytestmark = [pytest.mark.env("main"), pytest.mark.proves]
SIGNAL = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the method needs SIGALRM")

UNPROVED = ("--agentreplay-checks=unproved=ignore",)

TESTS = """
import os, time
import pytest, agent

def test_warm(agentreplay):
    agent.answer("Where is A-17?")

@pytest.mark.timeout(float(os.environ.get("LIMIT", 1)))
def test_slow(agentreplay):
    agent.answer("Where is A-18?")
    time.sleep(float(os.environ.get("SLOW", 0)))

def test_calm(agentreplay):
    agent.answer("Where is A-19?")
"""


@pytest.fixture(scope="module")
def slow(shop):
    return shop(TESTS, "pytest_timeout")


@SIGNAL
def test_a_test_that_the_signal_cuts_off_is_not_recorded(slow):
    done = ended(slow.record("--timeout-method=signal", *UNPROVED, SLOW="60"), 1)
    assert "1 failed, 2 passed" in done.stdout, "the run is closed: the next test is recorded"
    assert "recorded  nothing of test_shop.py::test_slow: it was cut short" in done.stdout
    assert [one.run.header.test for one in slow.snapshots] == ["test_shop.py::test_calm", "test_shop.py::test_warm"]
    journal = re.search(r"agentreplay verify --recover (\S+\.jsonl)", done.stdout)[1]
    assert slow.command("verify", "--recover", journal).returncode == 0


def test_a_process_that_the_thread_ends_leaves_a_journal(slow):
    ended(slow.record("--timeout-method=thread", "-k", "slow", SLOW="60"), 1)
    assert "test_slow.snapshot.json" not in {file.name for file in slow.files}
    (journal,) = slow.root.glob(".pytest_agentreplay/journal/**/test_slow.*.jsonl")
    recovered = ended(slow.command("verify", "--recover", journal))
    assert "5 calls" in recovered.stdout


@SIGNAL
def test_a_proof_has_the_time_of_a_test_and_a_divergence_comes_before_any_timeout(slow):
    # What the recording took is not taken from its proof, and one timer does not outlive the other.
    recorded = ended(slow.record(SLOW="1.5", LIMIT="2.6"))
    assert recorded.stdout.count(" 5 calls, test passed)   replays") == 3
    told, _ = slow.diverged(SLOW="60")
    assert len(told) == 3
    assert all(said.startswith("FAILED [AR-PROMPT] turn 1/3: model m-1") for said in told.values())
    done = slow.offline("--timeout-method=signal", SLOW="60")
    assert "1 failed, 2 passed" in done.stdout
    assert "FAILED test_shop.py::test_slow - Failed: Timeout (>1.0s)" in done.stdout
    assert "replayed 3 tests" in done.stdout
