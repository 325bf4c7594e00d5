"""Plugins that keep expected values: pytest-snapshot in the place of syrupy, and inline-snapshot."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.env("main")


def test_without_syrupy_all_but_its_fixture_works_and_pytest_snapshot_keeps_its_values(project, three_acts):
    project.plugins += ("no:syrupy", "no:time_machine", "snapshot")
    test = (project.root / "test_shop.py").read_text(encoding="utf-8")
    theirs = '\ndef test_theirs(agentreplay, snapshot):\n    said = agent.answer("Where is A-17?").partition(" (")[0]\n    snapshot.assert_match(said, "said.txt")\n'
    project.write(test_shop=test + theirs)
    created = project.record("--snapshot-update", "-k", "theirs")
    assert "1 passed, 1 deselected, 1 error" in created.stdout, "it fails a run that has created files"
    assert "(created, 5 calls, test passed)" in created.stdout
    three_acts(project)


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
