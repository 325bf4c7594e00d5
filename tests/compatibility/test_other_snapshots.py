"""pytest-snapshot keeps expected values in the place of syrupy."""

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
