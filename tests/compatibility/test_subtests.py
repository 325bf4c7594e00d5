"""Subtests, pytest's own and unittest's: the recording is the test's, and so is a divergence."""

import re

import pytest

from tests.support.finished import ended

pytestmark = [
    pytest.mark.env("main"),
    pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest has subtests since 9"),
]

TESTS = """
import os, unittest
import pytest, agent

WRONG = os.environ.get("WRONG")
OTHER = os.environ.get("OTHER", "")

def test_parts(subtests, agentreplay):
    for n in range(3):
        with subtests.test(n=n):
            agent.answer(f"Where is A-{n}{n and OTHER}?")
            assert not (WRONG and n == 1)

@pytest.mark.agentreplay
class TestCase(unittest.TestCase):
    def test_parts(self):
        for n in range(3):
            with self.subTest(n=n):
                agent.answer(f"Where is B-{n}{n and OTHER}?")
"""


@pytest.fixture(scope="module")
def project(shop):
    made = shop(TESTS)
    made.recorded = made.record("-v")
    return made


def test_the_recording_is_that_of_the_whole_test(project):
    assert project.recorded.returncode == 0, project.recorded.stdout
    assert project.recorded.stdout.count("(created, 15 calls, test passed)") == 2
    replayed = ended(project.offline())
    assert "replayed 2 tests (18 turns, 30 calls served, 0 live)" in replayed.stdout


def test_a_divergence_is_told_on_the_test_and_once(project):
    for words in ((), ("-p", "xdist.plugin", "-n", "1")):
        done = project.offline(*words, OTHER="7")
        failed = re.findall(r"^FAILED \S+?::(\S+) - (.*?): model", done.stdout, re.MULTILINE)
        assert sorted(failed) == [(test, "[AR-PROMPT] turn 4/9") for test in ("TestCase::test_parts", "test_parts")]
        assert "2 failed" in done.stdout.splitlines()[-1]
        assert (done.stdout.count("  likely cause"), "ReplayDiverged" in done.stdout) == (2, False)


def test_a_part_that_fails_by_itself_makes_a_failed_run(project):
    before = {file: file.read_bytes() for file in project.files}
    project.proves = True
    done = project.record("-k", "parts and not TestCase", WRONG="1")
    assert done.stdout.count("SUBFAILED(n=1) test_shop.py::test_parts") == 1, "the proof's parts are not told"
    assert "pending   test_shop.py::test_parts: this run failed, the recorded one passed" in done.stdout
    assert {file: file.read_bytes() for file in project.files} == before
    replayed = project.offline("-k", "parts and not TestCase", WRONG="1")
    assert "SUBFAILED(n=1) test_shop.py::test_parts" in replayed.stdout
    assert "AR-" not in replayed.stdout
