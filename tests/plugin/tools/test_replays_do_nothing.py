"""A replay does nothing: no refund runs, however it is held and called, and no file below the root is written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_projects import passed

pytestmark = [pytest.mark.env("main"), pytest.mark.process]  # nothing in it depends on the release of a dependency

SCRIPT = Path(__file__).parents[2] / "support" / "refund_calls.py"


def run(*words, source=()):
    return subprocess.run(
        [sys.executable, "-W", "error", *source, *map(str, words)], capture_output=True, encoding="utf-8", timeout=180
    )


def test_no_refund_runs_in_a_replay():
    done = run(SCRIPT, 60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("0 refunds in 60 replays of "), done.stdout


HOLED = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import refund_calls as refunds
from pytest_agentreplay.backends.backend import PassThrough, Refused
from pytest_agentreplay.backends.replay import ReplayBackend

def holed(self, call, moment, ask=ReplayBackend.decide):
    verdict = ask(self, call, moment)
    return PassThrough(0, self) if isinstance(verdict, Refused) else verdict

ReplayBackend.decide = holed
ReplayBackend.settle = ReplayBackend.part = lambda *_, **__: None

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

names = {{"another order", "swallowed", "tried again and again", "past the override", "by another tool"}}
print(names - {{way.name for way in refunds.WAYS if way.name in names and paid_in_a_replay(way)}})
"""


def test_a_gate_that_lets_a_miss_through_is_seen():
    """With the gate broken on purpose the count is not 0: a count that cannot see this would mean nothing."""
    done = run(source=("-c", HOLED))
    assert done.stdout == "set()\n", done.stdout + done.stderr


# Files


WATCH = """
import os, pathlib, sys

ROOT = str(pathlib.Path(__file__).parent)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SEEN = []

def heard(event, args):
    if event == "open" and isinstance(args[0], str | bytes) and args[2] & WRITES:
        note(event, args[0])
    elif event in {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}:
        note(event, args[0])

def note(event, path):
    path = os.path.abspath(os.fsdecode(path))
    if path.startswith(ROOT + os.sep):
        SEEN.append(f"{event} {path}")

sys.addaudithook(heard)

def pytest_unconfigure():
    print(f"\\n{len(SEEN)} written below the root: {SEEN}")
"""


@pytest.fixture
def watched(project):
    passed(project.record())
    shutil.rmtree(project.root / ".pytest_agentreplay")
    (project.root / "ledger.txt").unlink()
    project.write(conftest=WATCH)
    project.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return project


def test_a_replay_opens_nothing_for_writing_below_the_root(watched):
    for done in (watched.offline(), watched.diverged()[1]):
        assert "\n0 written below the root" in done.stdout, done.stdout
    assert not (watched.root / ".pytest_agentreplay").exists()
    assert "\n0 written below" not in watched.record().stdout, "the watch sees who writes"
