"""What the first replayed test of a process takes more than without the plugin: milliseconds of CPU, a test of one call.

    python tests/benchmarks/first_call.py [--rounds 8] [--tree CHECKOUT]

Each reading is a fresh pytest, from the set-up of its test to the end of its teardown; the bare SDK and the replay take
turns. The first run of each writes byte code. Most of it is the import of the modules that answer a call.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import suite_cost

TIMING = """
import time, pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    began = time.process_time()
    try:
        return (yield)
    finally:
        print("TOOK", (time.process_time() - began) * 1000)
"""
WAYS = {"bare SDK": (*suite_cost.BARE, "-p", "time_machine"), "replay": suite_cost.WAYS["ours, replay"]}


def read_milliseconds(suite, words):
    """Return the CPU of the one test in a fresh pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "timing", *words]
    done = subprocess.run(
        command, cwd=suite.folder, env=suite.environ, capture_output=True, text=True, check=True, timeout=60
    )
    return float(done.stdout.partition("TOOK ")[2].split()[0])


def main():
    """Record the test once, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2])
    words = parser.parse_args()
    taken = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        suite = suite_cost.Suite(folder, 1, 1, words.tree)
        Path(folder, "timing.py").write_text(TIMING, encoding="utf-8")
        suite.seconds(suite_cost.WAYS["ours, recording without proof"])
        for at in range(words.rounds + 1):
            for name, way in WAYS.items():
                took = read_milliseconds(suite, way)
                if at:
                    taken[name].append(took)
    for measure in (min, statistics.median):
        bare, replay = (measure(taken[name]) for name in WAYS)
        print(f"{measure.__name__}: bare SDK {bare:.1f} ms, replay {replay:.1f} ms, added {replay - bare:.1f} ms")


if __name__ == "__main__":
    main()
