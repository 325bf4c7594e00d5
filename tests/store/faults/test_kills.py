"""A recording that is killed leaves the old snapshot or the new one, and the next one clears away the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name != "posix", reason="processes are forked and killed"),
]


@pytest.mark.parametrize(("how", "many"), [("steps", 60), ("delays", 8)])
def test_a_killed_recording_leaves_a_whole_snapshot_and_a_journal_that_can_be_read(tmp_path, how, many):
    """60 steps are all calls to the disk of such a recording, and some again."""
    command = [sys.executable, "-m", "tests.store.faults.killing", str(tmp_path), how, str(many)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == many
    assert not any(row["torn"] for row in rows)
    if how == "steps":  # where a delay ends is up to the machine
        assert {True, False} == {row["new"] for row in rows}, "some came to their end"
        assert max(row["temporary"] for row in rows) == 1, "some were killed between their file and its rename"
        assert max(row["journals"] for row in rows) == 1
    assert max(row["temporary"] for row in rows) <= 1
    assert max(row["journals"] for row in rows) <= 1
    assert not any(row["unread"] for row in rows)
    assert all(row["green"] for row in rows), "the next recording is as good as any"
    assert [row["left"] for row in rows] == [[]] * many, "and clears all away"
