"""No refund runs in a replay, however it is held and called; a smaller go of `tests/refunds.py`."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "refunds.py"


def run(*words, source=()):
    return subprocess.run(
        [sys.executable, "-W", "error", *source, *map(str, words)], capture_output=True, encoding="utf-8", timeout=180
    )


def test_no_refund_runs_in_a_replay():
    done = run(SCRIPT, 120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("0 refunds in 120 replays of "), done.stdout


def test_the_count_can_fail():
    """With tools that are given back the moment their test ends, the late ways pay."""
    source = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import refunds
from pytest_agentreplay.workflow import scene
scene.release = lambda crossing, tools: [tool.restore() for tool in tools]
late = [way for way in refunds.WAYS if way.after]
print(sorted(refunds.count(len(late), late).values()))
"""
    done = run(source=("-c", source))
    assert done.stdout == "[1, 1, 1, 1]\n", done.stdout + done.stderr
