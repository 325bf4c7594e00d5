"""What whole sessions of pytest cost: CPU per test of the bare SDK, vcrpy by pytest-recording, and ours.

    python tests/benchmarks/suite_cost.py [--rounds 3] [--tests 300] [--only three|ten|audit] [--tree CHECKOUT]

The official openai SDK asks a world in memory (`world.py`), one client for all tests. Each row is run with one test and
with all of them, in fresh processes that take turns; what is printed is the least of each, the difference shared out
among the tests, so that pytest's start and the first test are left out. The proof's process is counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import say

HERE = Path(__file__).parent
ASKING = """
import world

SCRIPT = world.small({calls})


def ask(first, count):
    SCRIPT.world.hits = first
    SCRIPT.run(range(first, first + count))
"""
SUITE = """
import asking, pytest

@pytest.fixture(scope="module")
def vcr_config():
    return {{"filter_headers": ["authorization"]}}

@pytest.mark.vcr
@pytest.mark.parametrize("number", range({tests}))
def test_calls(number):
    asking.ask(number * {calls}, {calls})
"""
BARE = ("-p", "no:pytest_agentreplay", "-p", "no:recording")
VCRPY = ("-p", "no:pytest_agentreplay", "-p", "pytest_recording.plugin")
OURS = ("-p", "pytest_agentreplay.plugin", "-p", "time_machine", "-o", "agentreplay_paths=.")
WAYS = {
    "bare SDK": BARE,
    "vcrpy, recording": (*VCRPY, "--record-mode=rewrite"),
    "vcrpy, replay": (*VCRPY, "--record-mode=none"),
    "ours, recording without proof": (*OURS, "--snapshot-record", "--agentreplay-checks=unproved=ignore"),
    "ours, recording with proof": (*OURS, "--snapshot-record"),
    "ours, replay": (*OURS, "--replay=model"),
}
"""In this order: a replay reads what the recording before it has written."""
AUDIT = {
    "vcrpy, recording": WAYS["vcrpy, recording"],
    "vcrpy, replay": (*VCRPY, "--record-mode=none"),
    "vcrpy, audited": ("-p", "pytest_agentreplay.plugin", "-p", "pytest_recording.plugin", "--vcr=audit"),
    "vcrpy, strict": ("-p", "pytest_agentreplay.plugin", "-p", "pytest_recording.plugin", "--vcr=strict"),
}
OF_TEN = ("bare SDK", "ours, recording without proof", "ours, replay")


class Suite:
    """Tests of so many calls each, in a folder of their own."""

    def __init__(self, folder, tests, calls, tree):
        self.folder, self.tests = Path(folder), tests
        (self.folder / "asking.py").write_text(ASKING.format(calls=tests * calls), encoding="utf-8")
        (self.folder / "test_suite.py").write_text(SUITE.format(tests=tests, calls=calls), encoding="utf-8")
        (self.folder / "pytest.ini").write_text("[pytest]\nmarkers = vcr\n", encoding="utf-8")
        paths = os.pathsep.join(map(str, (self.folder, HERE, tree)))
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON", "CI"))}
        self.environ = keep | {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def seconds(self, words):
        """CPU seconds of one session, its children included."""
        if {"--snapshot-record", "--record-mode=rewrite"} & {*words}:
            for kept in ("__agent_snapshots__", "cassettes", ".pytest_agentreplay"):
                shutil.rmtree(self.folder / kept, ignore_errors=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        done = subprocess.run(command, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def per_test(one, many, ways, rounds):
    """Milliseconds of CPU per test of each way, and seconds of its whole session: the least of the rounds."""
    taken = {name: ([], []) for name in ways}
    for at in range(rounds + 1):
        for name, words in ways.items():
            for suite, readings in zip((one, many), taken[name], strict=True):
                took = suite.seconds(words)
                if at or not rounds:  # the first run of each writes byte code
                    readings.append(took)
        say(f"round {at} of {rounds}")
    least = {name: (min(first), min(every)) for name, (first, every) in taken.items()}
    return {name: ((every - first) * 1000 / (many.tests - one.tests), every) for name, (first, every) in least.items()}


def table_of(title, measured, against):
    """The rows of one table; each figure beside that of the rows `against`."""
    print(f"\n{title}\n")
    print("| | CPU per test | " + " | ".join(f"of {name}" for name in against) + " | whole session |")
    print("| --- " * (3 + len(against)) + "|")
    for name, (each, whole) in measured.items():
        ratios = " | ".join(f"x {each / measured[other][0]:.2f}" for other in against)
        print(f"| {name} | {each:.2f} ms | {ratios} | {whole:.2f} s |")


def main():
    """Measure what was asked for, everything by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--only", choices=["three", "ten", "audit"])
    parser.add_argument("--tree", type=Path, default=HERE.parents[1])
    words = parser.parse_args()
    suites = {
        "three": (f"{words.tests} tests of 3 calls", 3, WAYS, ("bare SDK", "vcrpy, recording")),
        "ten": (f"{words.tests} tests of 10 calls", 10, {name: WAYS[name] for name in OF_TEN}, ("bare SDK",)),
        "audit": (f"{words.tests} tests of 3 calls on vcrpy", 3, AUDIT, ("vcrpy, replay",)),
    }
    for name, (title, calls, ways, against) in suites.items():
        if words.only in {None, name}:
            with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
                one, many = (
                    Suite(folder, tests, calls, words.tree) for folder, tests in ((small, 1), (large, words.tests))
                )
                table_of(title, per_test(one, many, ways, words.rounds), against)


if __name__ == "__main__":
    main()
