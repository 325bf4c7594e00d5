"""Plugins that keep expected values: syrupy beside `agent_snapshot`, without it, pytest-snapshot, inline-snapshot."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.env("main")

BOTH = """
import agent

def test_both(agentreplay, agent_snapshot, snapshot):
    assert agent.answer("Where is A-17?").partition(" (")[0] == snapshot
    assert agentreplay.run == agent_snapshot
"""
THEIRS = '\ndef test_theirs(snapshot):\n    assert {"a": 1} == snapshot\n'


def test_syrupy_keeps_its_values_and_never_touches_our_files(project, three_acts):
    project.plugins += ("syrupy",)
    project.write(test_shop=BOTH + THEIRS)
    recorded = project.record("--snapshot-update")
    assert recorded.returncode == 0, recorded.stdout
    [ours] = project.files
    before = ours.read_bytes()
    project.edit("test_shop.py", THEIRS, "")
    unused = project.replay()
    assert unused.returncode == 1, "an unused snapshot of syrupy fails the run"
    assert "1 snapshot unused" in unused.stdout
    assert project.replay("--snapshot-update").returncode == 0
    assert ours.read_bytes() == before
    three_acts(project)


def test_without_syrupy_all_but_its_fixture_works_and_pytest_snapshot_takes_its_place(project, three_acts):
    project.plugins += ("no:syrupy", "no:time_machine", "snapshot")
    test = (project.root / "test_shop.py").read_text(encoding="utf-8")
    theirs = '\ndef test_theirs(agentreplay, snapshot):\n    said = agent.answer("Where is A-17?").partition(" (")[0]\n    snapshot.assert_match(said, "said.txt")\n'
    project.write(test_shop=test + theirs)
    created = project.record("--snapshot-update", "-k", "theirs")
    assert "1 passed, 1 deselected, 1 error" in created.stdout, "it fails a run that has created files"
    assert "(created, 5 calls, test passed)" in created.stdout
    three_acts(project)
    project.write(test_shop=test.replace("(agentreplay)", "(agentreplay, agent_snapshot)"))
    told = project.replay().stdout
    assert "\nagent_snapshot needs the plugin syrupy, which is not loaded here (-p no:syrupy?); " in told


INLINE = """
import agent
from inline_snapshot import snapshot

def test_refund(agentreplay):
    assert agent.answer("Where is A-17?").partition(" (")[0] == snapshot()
    assert [call.name for call in agentreplay.run.tool_calls] == snapshot()
"""


def test_inline_snapshot_creates_its_values_in_the_run_that_records_and_fixes_none_in_one_that_diverged(project):
    project.plugins += ("inline_snapshot",)
    project.write(test_shop=INLINE)
    created = project.record("--inline-snapshot=create")
    assert "1 passed, 1 error" in created.stdout, "it fails a run that has created values"
    assert "(created, 5 calls, test passed)" in created.stdout
    kept = (project.root / "test_shop.py").read_bytes()
    assert b"snapshot(['lookup_order', 'refund'])" in kept
    assert project.offline().returncode == 0
    for words, environ in [(["--inline-snapshot=fix"], {}), ([], {"CI": "1"})]:
        told, _ = project.diverged(*words, **environ)
        assert " [AR-PROMPT] turn 1/" in told["test_refund"]
    assert (project.root / "test_shop.py").read_bytes() == kept
