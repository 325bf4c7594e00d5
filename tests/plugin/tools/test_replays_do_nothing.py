"""A replay does nothing: no refund runs, however it is held and called, and no file below the root is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.project import NOBODY
from tests.support.small_projects import passed

pytestmark = [pytest.mark.env("main"), pytest.mark.process]  # nothing in it depends on the release of a dependency

SCRIPT = Path(__file__).parents[2] / "support" / "refund_calls.py"


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
import refund_calls as refunds
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
import refund_calls as refunds
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


# Files


WATCH = """
import os, pathlib, sys, threading
import pytest

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


SMALL_DISK = """
set -e
mkdir "$1"
cp -r "$0"/. "$1"
cd "$1"
mount -t tmpfs -o size=256k none __agent_snapshots__
cp -r "$0"/__agent_snapshots__/. __agent_snapshots__
shift
code=0
"$@" || code=$?
cat __agent_snapshots__/test_shop/*.json > "$OUT"
ls -A __agent_snapshots__/test_shop > "$OUT.names"
exit $code
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


mounts = pytest.mark.skipif(not sys.platform.startswith("linux") or not shutil.which("unshare"), reason="Linux's")


@mounts
def test_a_tree_that_is_mounted_read_only_replays_and_tells_why_it_cannot_record(watched):
    (watched.root / "conftest.py").unlink()
    before = {file: file.read_bytes() for file in watched.root.rglob("*") if file.is_file()}
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'

    def mounted(*words):
        command = [sys.executable, "-m", "pytest", *watched.options, *words]
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", mount, str(watched.root), *command],
            cwd=watched.root, env=watched.surroundings(MODEL_URL=NOBODY), capture_output=True,
            encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip

    done = mounted("--replay=model")
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "replayed 1 test" in done.stdout
    done = mounted("--snapshot-record")
    assert done.returncode == 1
    assert "read-only file system" in done.stdout
    assert "replay works here, recording needs a writable checkout" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert {file: file.read_bytes() for file in watched.root.rglob("*") if file.is_file()} == before


@mounts
def test_a_disk_that_is_full_in_fact_keeps_the_old_snapshot(watched):
    """A disk of 256 kB; the snapshot is larger once its test asks more."""
    (watched.root / "conftest.py").unlink()
    project, home = watched, watched.files[0]
    old = home.read_bytes()
    project.edit("test_shop.py", '"Where is A-17?"', '"Where is A-17?" + "".join(map(str, range(60_000)))')
    copy, out = project.root.with_name("copy"), project.root.with_name("out")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", SMALL_DISK, str(project.root), str(copy),
         sys.executable, "-m", "pytest", *project.options, "--snapshot-record"],
        cwd=project.root, env=project.surroundings(OUT=str(out)), capture_output=True, encoding="utf-8", timeout=120,
        check=False,
    )  # fmt: skip
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr.strip()}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no space left on device" in done.stdout
    assert "test_refund.snapshot.json" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert out.read_bytes() == old
    assert os.fsdecode(out.with_name("out.names").read_bytes()).split() == [home.name]
