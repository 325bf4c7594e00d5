"""What pytest itself offers: verbosity, selection, collection, reports, plugins switched off, kinds of items."""

from xml.etree import ElementTree as ET

import pytest

from tests.support.finished import ended
from tests.support.small_projects import edited

pytestmark = pytest.mark.env("main")

TESTS = """
import os, pathlib, unittest
import pytest, agent

def test_first(agentreplay):
    agent.answer("Where is A-17?")

@pytest.mark.usefixtures("agentreplay")
def test_used():
    agent.answer("Where is A-18?")

@pytest.fixture
def asked():
    return agent.answer("Where is A-19?")

@pytest.mark.agentreplay
def test_marked(asked):
    assert "refund" in asked

@pytest.mark.xfail(strict=True)
def test_known_bug(agentreplay):
    assert "parcel" in agent.answer("Where is A-20?")

def test_skips(agentreplay):
    pytest.skip(agent.answer("Where is A-21?"))

@pytest.mark.agentreplay
class TestCase(unittest.IsolatedAsyncioTestCase):
    async def test_async(self):
        self.assertIn("refund", agent.answer("Where is A-22?"))

def test_plain():
    pass
"""
COUNTED = "5 passed, 1 skipped, 1 xfailed"


@pytest.fixture(scope="module")
def project(shop):
    """Recorded with -q."""
    made = shop(TESTS)
    made.recorded = made.record("-q")
    return made


def test_at_q_recordings_are_counted_and_at_qq_only_trouble_is_told(project):
    assert COUNTED in project.recorded.stdout
    assert "recorded 6 tests (6 created" in project.recorded.stdout
    assert "replayed" not in project.offline("-q", "-k", "first").stdout
    assert "agentreplay" not in project.offline("-qq", "-k", "first").stdout
    with edited(project, "pytest.ini", "    agent.refund\n", ""):
        quiet = project.record("-qq", "-k", "first").stdout
    assert "[AR-UNFROZEN] tool refund ran unseen" in quiet
    assert project.record("-qq", "-k", "first").stdout.splitlines()[1:] in ([], [""])


def test_markers_fixtures_skips_and_known_failures_replay(project):
    done = ended(project.offline("-v"))
    assert COUNTED in done.stdout
    assert "replayed 6 tests (18 turns, 30 calls served, 0 live)" in done.stdout
    outcomes = {one.run.header.test.rpartition("::")[2]: one.run.header.outcome["status"] for one in project.snapshots}
    assert (outcomes.pop("test_skips"), outcomes.pop("test_known_bug")) == ("skipped", "failed")
    assert {*outcomes.values()} == {"passed"}


def test_a_divergence_reads_the_same_at_any_verbosity_and_in_junit(project):
    for words in ((), ("-qq",), ("-vv", "--junitxml=junit.xml")):
        told, done = project.diverged("-k", "first or marked", *words, CI="1" if "-vv" in words else "")
        assert told.keys() == {"test_first", "test_marked"}
        assert all(" [AR-PROMPT] turn 1/3" in said for said in told.values())
        assert ("diverged 2 [2 AR-PROMPT]" in done.stdout) is (words != ("-qq",))
    for case in ET.parse(project.root / "junit.xml").iter("testcase"):
        facts = {one.get("name"): one.get("value") for one in case.iter("property")}
        (failure,) = [one for one in case if one.tag in {"failure", "error"}]
        assert (facts["agentreplay.code"], "\n" in failure.get("message")) == ("AR-PROMPT", False)


def test_stopping_and_coming_back(project):
    project.plugins, some = ("pytest_agentreplay.plugin",), ("-k", "first or used or plain")
    assert "replayed 1 test " in project.diverged("-x", *some)[1].stdout
    assert "1 passed, " in project.offline("--lf", *some).stdout, "the last failure, and no other"
    assert project.diverged("--sw", *some, code=2)[0].keys() == {"test_first"}
    project.plugins += ("no:cacheprovider",)


def test_collecting_opens_nothing_and_setups_durations_and_import_modes_are_as_ever(project):
    with edited(project, "pytest.ini", "    agent.refund\n", "    agent.refund\n    nowhere.at_all\n"):
        assert "7 tests collected" in ended(project.offline("--co", "-q")).stdout
    done = ended(project.offline("--setup-show", "--durations=2", "-k", "first"))
    assert "SETUP    F agentreplay" in done.stdout
    assert "slowest 2 durations" in done.stdout
    for mode in ("append", "importlib"):
        assert ended(project.offline(f"--import-mode={mode}", "-p", "no:terminal", "-k", "first or async")).stdout == ""


def test_without_us_the_suite_is_plain_and_the_name_that_switches_us_off_is_told(project):
    ours, project.plugins, project.proves = project.plugins, ("no:pytest_agentreplay",), True  # no flag of ours
    plain = project.run("-k", "plain or TestCase", "-W", "ignore", "-o", "agentreplay_tools=")
    strict = project.run("--strict-markers", "-W", "ignore")
    project.plugins, project.proves = ours, False
    assert "2 passed" in plain.stdout, plain.stdout
    assert "'agentreplay' not found in `markers`" in strict.stdout
    for name in ("frozen-agentreplay", "frozen_agentreplay"):
        done = ended(project.run("-p", f"no:{name}", "--co"), 4)
        assert f"-p no:{name} switches nothing off: write -p no:pytest_agentreplay" in done.stderr
        assert "Traceback" not in done.stderr


WIDE = """
import socket
import pytest

@pytest.fixture(scope="module")
def warm():
    try:
        socket.getaddrinfo("api.openai.com", 443)
    except OSError:
        pass

def test_it(warm, agentreplay):
    import agent
    agent.answer("Where is A-17?")

def test_other(warm, agentreplay):
    pass
"""


def test_a_wider_fixture_that_calls_a_model_past_all_boundaries_is_reported_and_refused(project):
    project.write(test_wide=WIDE)
    recorded = project.record("test_wide.py")
    assert "recorded  nothing: test_wide.py::@warm made no call that a boundary knows" in recorded.stdout
    assert "not recorded: 1 look-up of api.openai.com" in recorded.stdout, recorded.stdout
    done = ended(project.offline("test_wide.py", COLUMNS="120"), 1)
    assert done.stdout.count("[AR-NET] fixture warm: ") >= 2, done.stdout
    assert project.offline("test_wide.py", "-o", "agentreplay_allow=host:api.openai.com").returncode == 0
