"""No refund runs in a replay, however it is held and called; a smaller go of `tests/refunds.py`."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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
from pytest_agentreplay.runs import run_session as scene
scene.release = lambda crossing, tools: [tool.restore() for tool in tools]
late = [way for way in refunds.WAYS if way.after]
print(sorted(refunds.count(len(late), late).values()))
"""
    done = run(source=("-c", source))
    assert done.stdout == "[1, 1, 1, 1]\n", done.stdout + done.stderr


HOLES = {
    "a miss falls through": (
        """
        ask = ReplayBackend.decide
        def holed(self, call, moment):
            verdict = ask(self, call, moment)
            return PassThrough(0) if isinstance(verdict, Refused) else verdict
        ReplayBackend.decide = holed
        """,
        ["another order", "swallowed", "tried again and again", "past the override", "by another tool"],
    ),
    "an answer is asked for live": (
        """
        ask = ReplayBackend.decide
        def holed(self, call, moment):
            ask(self, call, moment)
            return PassThrough(0)
        ReplayBackend.decide = holed
        """,
        ["by its name", "as a partial", "as a bound method", "by __wrapped__", "retried after an exception"],
    ),
    "a stub runs what it stands for": (
        """
        call = tool_replaying.ToolReplaying.call
        def holed(self, *, awaitable):
            for body in patching._ORIGINALS.values():
                if body.__name__ == "refund":
                    body("hole")
            return call(self, awaitable=awaitable)
        tool_replaying.ToolReplaying.call = holed
        """,
        ["by its name", "in a registry", "in a closure", "retried after an exception", "in a thread"],
    ),
    "children are not heard and do not join": (
        """
        from pytest_agentreplay.intercept.process import child_start
        Guard.hear = lambda *_: None
        child_start.with_invitation = lambda environ, _: dict(environ)
        """,
        ["in a child process"],
    ),
}


@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_in_the_gate_is_seen(hole):
    """With the gate broken on purpose the count is not 0: a count that cannot see this would mean nothing."""
    planted, names = HOLES[hole]
    source = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import refunds
from pytest_agentreplay.intercept.session import patching
from pytest_agentreplay.intercept.tools import tool_replaying
from pytest_agentreplay.intercept.network.guard import Guard
from pytest_agentreplay.core.backends.backend import PassThrough, Refused
from pytest_agentreplay.core.backends.replay import ReplayBackend
ReplayBackend.settle = ReplayBackend.part = lambda *_, **__: None
{textwrap.dedent(planted)}
def paid_in_a_replay(way):
    with refunds.tempfile.TemporaryDirectory() as folder:
        root = refunds.Path(folder).resolve()
        refunds.run_once(root, way, "record")
        before = refunds.paid()
        try:
            refunds.run_once(root, way, "replay")
        except refunds.Failed:
            pass
        return refunds.paid() - before
print(sorted(way.name for way in refunds.WAYS if way.name in {names!r} and paid_in_a_replay(way)))
"""
    done = run(source=("-c", source))
    assert done.stdout == f"{sorted(names)}\n", done.stdout + done.stderr
