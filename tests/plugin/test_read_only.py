"""Replays write nothing: they run on trees that nobody may write to, and no file below the root is opened for writing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

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
    assert project.record().returncode == 0
    shutil.rmtree(project.root / ".pytest_agentreplay")
    (project.root / "ledger.txt").unlink()
    project.write(conftest=WATCH)
    return project


def test_a_replay_opens_nothing_for_writing_below_the_root(watched):
    for done in (watched.offline(), watched.diverged()[1]):
        assert "\n0 written below the root" in done.stdout, done.stdout
    assert not (watched.root / ".pytest_agentreplay").exists()
    assert "\n0 written below" not in watched.record().stdout, "the watch sees who writes"


@pytest.mark.skipif(not sys.platform.startswith("linux") or not shutil.which("unshare"), reason="mounts of Linux")
def test_a_tree_that_is_mounted_read_only_replays_and_tells_why_it_cannot_record(watched):
    (watched.root / "conftest.py").unlink()
    before = {file: file.read_bytes() for file in watched.root.rglob("*") if file.is_file()}
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'

    def mounted(*words):
        command = [sys.executable, "-m", "pytest", *watched.options, *words]
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", mount, str(watched.root), *command],
            cwd=watched.root, env=watched.surroundings(MODEL_URL="http://127.0.0.1:9"), capture_output=True,
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


@pytest.mark.skipif(not sys.platform.startswith("linux") or not shutil.which("unshare"), reason="mounts of Linux")
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
