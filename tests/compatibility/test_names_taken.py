"""Other plugins own names that we would like: flags, and the fixture. Each clash ends in something readable."""

from __future__ import annotations

import importlib.util

import pytest

from tests.support.finished import ended

pytestmark = pytest.mark.env("main")
by_name = pytest.mark.real_process
"""A plugin that is loaded by the name of its entry point has its package rewritten, and pytest warns where that is loaded."""

OURS = "pytest_agentreplay"  # by its entry point
SAID = "another plugin has --replay here; say --agentreplay-mode=model"


@by_name
@pytest.mark.parametrize("theirs", ["replay", pytest.param("cassetteai", marks=pytest.mark.exhaustive)])
def test_a_flag_that_another_plugin_has_is_left_to_it(project, theirs):
    for order in [(theirs, OURS), (OURS, theirs)]:
        project.plugins = order
        refused = project.replay()
        assert (refused.returncode, SAID in refused.stderr, "Traceback" in refused.stderr) == (4, True, False)
    recorded = ended(project.run("--agentreplay-mode=record"))
    assert f"\nagentreplay: {SAID}\n" in recorded.stdout
    project.server.stop()
    project.plugins = (theirs, OURS)
    ended(project.run("--agentreplay-mode=model"))


@by_name
def test_pytest_replay_takes_its_files_beside_us(project):
    project.plugins = (OURS, "replay")
    test = (project.root / "test_shop.py").read_text(encoding="utf-8")
    project.write(test_shop=test + test.replace("test_refund", "test_again"))
    ended(project.run("--agentreplay-mode=record", "--replay-record-dir=done", "-k", "again"))
    project.server.stop()
    [done] = (project.root / "done").iterdir()
    done.rename(project.root / "model")  # a file by one of our words is still a file
    replayed = ended(project.run("--replay=model", "-v"))
    assert "1 passed, 1 deselected" in replayed.stdout


def test_the_command_replays_where_a_conftest_has_the_flag(project):
    before = ended(project.run("--co", "--nonsense"), 4)
    assert "another plugin" not in before.stderr, "nothing is said where nobody else has it"
    option = '    parser.getgroup("replay").addoption("--replay", dest="replay", default=None)\n'
    project.write(conftest=f"def pytest_addoption(parser):\n{option}")
    recorded = ended(project.record())
    assert SAID in recorded.stdout
    assert project.command("replay", project.files[0]).returncode == 0
    assert "--agentreplay-mode" in project.run("--help").stdout


STAND_IN = """
import pytest

def pytest_addoption(parser):
    parser.getgroup("agentreplay").addoption("--agentreplay", choices=["record", "replay"])

@pytest.fixture
def agentreplay(request):
    return request.config.getoption("agentreplay")
"""
"""The names of pytest-agentreplay, an unrelated project: it needs Python 3.12, below that this plugin owns them."""


@pytest.fixture
def rival(project):
    """A suite beside the other `agentreplay`: plugin, fixture and flag."""
    if importlib.util.find_spec("agentreplay") is None:
        project.write(agentreplay=STAND_IN)
    return project


@by_name
def test_a_test_that_gets_the_fixture_of_another_plugin_fails_and_says_whose_it_is(rival):
    rival.plugins = (OURS, "agentreplay")
    for start in (rival.record, rival.replay):
        refused = ended(start("--agentreplay=replay"), 1)
        assert "\nanother plugin owns the fixture agentreplay of this test: agentreplay" in refused.stdout
        assert "pytest -p no:agentreplay -p pytest_agentreplay\n" in refused.stdout
        assert " - Failed: another plugin owns the fixture" in refused.stdout.partition("short test summary info")[2]
    assert (rival.files, rival.ledger) == ([], [])
    cured = ended(rival.record("-p", "no:agentreplay", "-p", "pytest_agentreplay"))
    assert "another plugin" not in cured.stdout
    ended(rival.run("-p", "no:pytest_agentreplay", "--co", "-q"))
    rival.plugins = ("agentreplay", OURS)
    header = "agentreplay: another plugin has the fixture agentreplay too (agentreplay"
    assert header in ended(rival.offline()).stdout, "where ours comes last it is served, and the header says so"


FIXTURE = "import pytest\n\n@pytest.fixture\ndef agentreplay({}):\n    {}\n"
TEST = 'import agent\n\ndef test_refund(agentreplay):\n    assert "refund" in agent.answer("Where is A-17?")\n'


def test_a_fixture_of_the_project_may_build_on_ours_and_is_told_when_it_does_not(project):
    (project.root / "test_shop.py").unlink()
    on_ours = FIXTURE.format("agentreplay", 'agentreplay.annotate(team="shop")\n    return agentreplay')
    later = FIXTURE.format("request", 'return request.getfixturevalue("agentreplay")')
    project.write(on__conftest=on_ours, on__test_on=TEST, later__conftest=later, later__test_later=TEST)
    assert project.record().returncode == 0
    assert project.offline().returncode == 0
    assert [snapshot.run.header.kit.get("annotations") for snapshot in project.snapshots] == [None, {"team": "shop"}]
    project.write(stead__conftest=FIXTURE.format("", 'return {"a": "dict"}'), stead__test_stead=TEST)
    refused = ended(project.replay("stead"), 1)
    assert "\nthe fixture agentreplay of this test is that of stead/conftest.py:3" in refused.stdout.replace("\\", "/")
    assert "build it on ours: def agentreplay(agentreplay)" in refused.stdout
