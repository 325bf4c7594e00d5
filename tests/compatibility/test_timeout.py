"""pytest-timeout: a test that is cut off leaves nothing half done, by either method, recording or replaying."""

import re
import signal

import pytest

pytestmark = pytest.mark.env("main")

TESTS = """
import os, time
import pytest, agent

def test_warm(agentreplay):
    agent.answer("Where is A-17?")

@pytest.mark.timeout(8)
def test_slow(agentreplay):
    agent.answer("Where is A-18?")
    if os.environ.get("SLOW"):
        time.sleep(60)

def test_calm(agentreplay):
    agent.answer("Where is A-19?")
"""


@pytest.fixture(scope="module")
def slow(shop):
    return shop(TESTS, "pytest_timeout")


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the method needs SIGALRM")
def test_a_test_that_the_signal_cuts_off_is_not_recorded(slow):
    done = slow.record("--timeout-method=signal", SLOW="1")
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout, "the scene is closed: the next test is recorded"
    assert "recorded  nothing of test_shop.py::test_slow: it was cut short" in done.stdout
    assert [one.run.header.test for one in slow.snapshots] == ["test_shop.py::test_calm", "test_shop.py::test_warm"]
    journal = re.search(r"agentreplay recover (\S+\.jsonl)", done.stdout)[1]
    assert slow.command("recover", journal).returncode == 0


def test_a_process_that_the_thread_ends_leaves_a_journal(slow):
    done = slow.record("--timeout-method=thread", "-k", "slow", SLOW="1", MODEL_URL=slow.server.url)
    assert done.returncode == 1
    assert "test_slow.snapshot.json" not in {file.name for file in slow.files}
    (journal,) = slow.root.glob(".pytest_agentreplay/journal/**/test_slow.*.jsonl")
    recovered = slow.command("recover", journal)
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert "5 calls" in recovered.stdout


def test_a_proof_has_the_time_of_a_test(slow, headline):
    # What the recording took is not taken from its proof, and one timer does not outlive the other.
    assert slow.record().returncode == 0
    slow.edit("test_shop.py", "time.sleep(60)", "time.sleep(5)")
    recorded = slow.record("-k", "slow", SLOW="1")
    assert recorded.returncode == 0, recorded.stdout
    assert "(replaced, 5 calls, test passed)   replays" in recorded.stdout
    slow.edit("test_shop.py", "time.sleep(5)", "time.sleep(60)")
    told, _ = slow.diverged(SLOW="1")
    assert len(told) == 3, "a divergence comes before any timeout"
    assert all(said.startswith(f"FAILED {headline}") for said in told.values())


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the method needs SIGALRM")
def test_a_test_that_is_cut_off_in_a_replay_says_so(slow):
    done = slow.offline("--timeout-method=signal", SLOW="1")
    assert "1 failed, 2 passed" in done.stdout
    assert "FAILED test_shop.py::test_slow - Failed: Timeout (>8.0s)" in done.stdout
    assert "replayed 3 tests" in done.stdout
