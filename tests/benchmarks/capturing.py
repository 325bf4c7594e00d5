"""What a capture outside pytest adds to a call, beside agent-rewind and cassetter: CPU of the whole process, in one run.

    pip install agent-rewind cassetter          # whichever is missing is left out
    python tests/benchmarks/capturing.py [ROUNDS]

A service handles requests one after the other; each makes small calls, or sends its history again with each turn. The
official openai SDK asks a world in memory (`world.py`). Ours is measured without an open run, with runs that are not
kept, and with runs that all are: redacted, encoded and written, the writer's thread included. The other two keep each
run. All take turns; what is printed is the median over the rounds.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import tempfile
import time
from pathlib import Path

import world
from measuring import MS, cpu, middle, say
from openai.resources.chat.completions import Completions

from pytest_agentreplay import capture

REQUESTS = 20
WORLDS = {"10 small calls": lambda: world.small(10), "20 turns that send their history": lambda: world.conversation(20)}


@contextlib.contextmanager
def bare(_folder):
    """The SDK alone."""
    yield lambda _number: contextlib.nullcontext()


@contextlib.contextmanager
def capturing(folder, *, keep="failed", opens=True):
    """Ours."""
    capture.start(folder, keep=keep)
    try:
        yield lambda number: capture.run("request", id=f"r{number}") if opens else contextlib.nullcontext()
        if keep == "all":
            give_up = time.monotonic() + 60
            while sum(1 for _ in Path(folder).rglob("*.run.json")) < REQUESTS and time.monotonic() < give_up:
                time.sleep(0.002)  # the writer's thread is at work, and its time counts
    finally:
        capture.stop(timeout=60)
    written = sum(1 for _ in Path(folder).rglob("*.run.json"))
    assert written == (REQUESTS if keep == "all" else 0), written


@functools.cache
def patched_for_rewind():
    """Return the SDK's method as agent-rewind patches it; it has no way to take a patch back."""
    import rewind

    plain = Completions.create
    rewind.patch_openai()
    patched, Completions.create = Completions.create, plain
    assert patched is not plain
    return patched


@contextlib.contextmanager
def rewinding(folder):
    """agent-rewind, as its README says."""
    import rewind

    plain, Completions.create = Completions.create, patched_for_rewind()
    try:
        yield lambda number: rewind.record(f"{folder}/{number}.rewind")
    finally:
        Completions.create = plain
    assert sum(1 for _ in Path(folder).iterdir()) == REQUESTS


@contextlib.contextmanager
def cassettes(folder):
    """cassetter, as its README says."""
    import cassetter

    yield lambda number: cassetter.use_cassette(f"{folder}/{number}.yaml", record_mode="all")
    assert sum(1 for _ in Path(folder).iterdir()) == REQUESTS


WAYS = {
    "bare SDK": bare,
    "capture, no run open": lambda folder: capturing(folder, opens=False),
    "capture, runs not kept": capturing,
    "capture, all kept": lambda folder: capturing(folder, keep="all"),
    **({"agent-rewind": rewinding} if importlib.util.find_spec("rewind") else {}),
    **({"cassetter": cassettes} if importlib.util.find_spec("cassetter") else {}),
}


def spend(script, way):
    """CPU nanoseconds of REQUESTS requests, without what starts and ends the recorder."""
    with tempfile.TemporaryDirectory() as folder:
        spent = 0

        def handle(recorded):
            for number in range(REQUESTS):
                script.world.rewind()
                with recorded(number):
                    script.run()

        with way(folder) as recorded:
            began = time.process_time_ns()
            handle(recorded)
            spent = time.process_time_ns() - began
            waited = time.process_time_ns()
        # What `capturing` waits for after the last request belongs to it; stopping is not a request's work.
        return spent + (time.process_time_ns() - waited if way is WAYS["capture, all kept"] else 0)


def measure(rounds):
    """Return rows: the requests, the way, CPU milliseconds of a call, and their ratio to the bare SDK's."""
    rows = []
    for name, make in WORLDS.items():
        script = make()
        for way in WAYS.values():
            spend(script, way)  # warms up
        readings = {label: [] for label in WAYS}
        for number in range(rounds):
            say(f"{name}, round {number + 1}")
            for label, way in WAYS.items():
                readings[label].append(cpu(spend, script, way)[1] / REQUESTS / len(script) * MS)
        alone = middle(readings["bare SDK"])
        rows += [
            [name, label, f"{middle(spent):.3f} ms", f"x {middle(spent) / alone:.2f}"]
            for label, spent in readings.items()
        ]
    return rows


def main():
    """Measure, and print a table."""
    print("| requests | way | CPU per call | ratio |\n| --- | --- | --- | --- |")
    for row in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 7):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
