from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.exhaustive import rare

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, which are killed")
@pytest.mark.parametrize("count", [8, *rare(50)])
def test_a_service_that_is_killed_at_any_moment_leaves_whole_files(tmp_path, count):
    command = [sys.executable, "-m", "tests.capture.killing", str(tmp_path), str(count)]
    left = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120).stdout)
    assert left["torn"] == []
    assert left["runs"] > 0
    assert left["services"] > 1
    assert all(name.startswith(".ar-") and name.endswith(".tmp") for name in left["others"])
