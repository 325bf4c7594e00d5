"""The figures of cases: CPU seconds to collect 1,000 of them, and to replay them in two processes of pytest-xdist.

`python tests/benchmarks/cases.py [COUNT]`
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "snapshots" / "samples" / "v1.0.snapshot.json"
CASE = """\
schemaVersion: "1.0"
id: case-{number}
title: One of many
source: {{format: snapshot, fidelity: bytes}}
input:
  messages:
    - {{role: user, content: "Where is A-{number}?"}}
expect: reproduces
observed:
  - turns: {{at_least: 1}}
desired:
  - output: {{contains: "nobody says this"}}
  - tool_called: lookup_order
semantic: ["It says so kindly"]
labels: [bench]
"""
COLLECT_S = 3
"""What collecting 1,000 cases may cost."""


def lay_out(root: Path, count: int) -> None:
    """`count` cases, each with the same frozen run."""
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    run = SAMPLE.read_bytes()
    for number in range(count):
        folder = root / "cases" / f"case-{number}"
        folder.mkdir(parents=True)
        (folder / "case.yaml").write_text(CASE.format(number=number), encoding="utf-8")
        (folder / "run.snapshot.json").write_bytes(run)


def pytest(root: Path, *words: str) -> tuple[float, float, str]:
    """CPU seconds of pytest and its workers, seconds on the clock, and its last line."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    options = ("-p", "pytest_agentreplay.plugin", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-q")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "AGENTREPLAY"))}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", *options, *words, "cases"]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode in {0, 5}, done.stdout[-2000:] + done.stderr
    return cpu, time.perf_counter() - began, done.stdout.splitlines()[-1]


def main(count: int) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        lay_out(root, 0)
        (root / "cases").mkdir()
        idle, *_ = pytest(root, "--co")
        lay_out(root, count)
        cpu, _, said = pytest(root, "--co")
        print(
            f"collect {count:,} cases: {cpu:.2f} s CPU, {cpu - idle:.2f} s more than none (goal {COLLECT_S} s): {said}"
        )
        cpu, took, said = pytest(root, "-n", "2")
        print(f"replay {count:,} cases under -n 2: {cpu:.2f} s CPU, {took:.2f} s: {said}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
