"""How often concurrent agents replay faithfully, by the order in which answers are handed over.

`python tests/benchmarks/order_faithful.py [PROGRAMS] [--load]` records that many random programs of each family (150),
and replays it under each policy. Faithful is a replay without a divergence in which the agent saw the same
in the same order. With `--load` two processes keep the machine busy meanwhile. What failed is told by its seed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from measuring import say

from tests.ordering.driving import Stage, agent
from tests.ordering.programs import FAMILIES, slow_model
from tests.support.model_server import ModelServer

POLICIES = {
    "recorded": {"clock": "stepped", "order": "recorded"},
    "free": {"clock": "stepped", "order": "free"},
    "virtual": {"clock": "virtual", "order": "auto"},
}
"""How the answers of a recording are handed over; the clock is that of the recording, too."""


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="?", type=int, default=150)
    parser.add_argument("--load", action="store_true", help="keep two processes busy meanwhile")
    parser.add_argument("--family", choices=FAMILIES, action="append")
    given = parser.parse_args()
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2 * given.load)]
    for process in busy:
        process.start()
    began = time.perf_counter()
    print("| programs | calls each | " + " | ".join(POLICIES) + " |")
    print("| --- | --- | " + " | ".join("---" for _ in POLICIES) + " |")
    with ModelServer(slow_model, pace=0.001) as server:
        for family in given.family or FAMILIES:
            calls, found = count(family, given.programs, server.url)
            cells = " | ".join(figure(found[policy], given.programs) for policy in POLICIES)
            print(f"| {given.programs} {family} | {calls / given.programs:.0f} | {cells} |", flush=True)
    for process in busy:
        process.terminate()
    print(f"\n{time.strftime('%Y-%m-%d')}, {'under load, ' if given.load else ''}{time.perf_counter() - began:.0f} s")


def count(family, programs, url):
    """How many calls were recorded, and under each policy how many programs were faithful."""
    calls, found = 0, dict.fromkeys(POLICIES, 0)
    for seed in range(programs):
        act, clock, recorded = agent(seed, family, "" if seed % 4 else url), None, None
        with tempfile.TemporaryDirectory() as folder:
            stage = Stage(Path(folder))
            for policy, settings in POLICIES.items():
                if settings["clock"] != clock:
                    clock = settings["clock"]
                    recorded = stage.record(act, clock=clock)
                calls += recorded.run_session.told["exchanges"]
                replayed = stage.replay(act, **settings)
                same = replayed.finding is None and replayed.result == recorded.result
                found[policy] += same
                if not same and policy != "free":
                    why = replayed.finding.headline if replayed.finding else "in another order"
                    say(f"{family} {seed} under {policy}: {why}")
    return calls / len(POLICIES), found


def figure(faithful, programs):
    """How many, and in per cent."""
    return f"{faithful} ({100 * faithful / programs:.1f} %)"


def spin():
    """Keep a core busy."""
    while True:
        pass


if __name__ == "__main__":
    main()
