"""`agentreplay demo` in an environment whose plugins cannot live together: theirs is not the demo's matter."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.env("main")


def started(folder, *words):
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "AGENTREPLAY", "COV"))}
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, encoding="utf-8", timeout=120
    )


def test_the_demo_walks_where_other_plugins_clash(tmp_path):
    clash = started(tmp_path, "pytest", "--co")
    assert "conflicting option string" in clash.stderr, "nothing clashes here, so this test says nothing"
    walked = started(tmp_path, "pytest_agentreplay", "demo", "--dir", str(tmp_path / "shop"))
    assert walked.returncode == 0, walked.stdout + walked.stderr
    assert "[AR-PROMPT] turn" in walked.stdout
