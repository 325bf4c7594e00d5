"""How often concurrent agents diverge falsely on a slow machine: nothing has changed, so each divergence is false.

`python tests/benchmarks/order_slow_machine.py [PROGRAMS] [REPLAYS]` records random programs of each family once at full
speed, and replays each of them beside busy processes, then in a process that is stopped three quarters of the time.
Programs that poll are recorded and replayed on the virtual clock, as `docs/how-to/time-and-randomness.md` says.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from measuring import say
from order_faithful import spin

from tests.ordering.driving import Stage, agent
from tests.ordering.programs import FAMILIES, POLLING

SETTINGS = {POLLING: {"clock": "virtual"}}
"""What the programs of a family are recorded and replayed with."""

RUN, STOPPED = 0.01, 0.03
"""Seconds for which the process runs, and then is stopped."""


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="?", type=int, default=30)
    parser.add_argument("replays", nargs="?", type=int, default=3)
    parser.add_argument("--family", choices=FAMILIES, action="append")
    given = parser.parse_args()
    print("| programs | machine | replays | false divergences |\n| --- | --- | --- | --- |")
    for family in given.family or FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            made = in_a_process(recorded, family, given.programs, folder)
            for machine, slowed in MACHINES.items():
                false = in_a_process(replayed, family, given.replays, folder, made, slowed=slowed)
                row = f"{given.programs} {family} | {machine} | {given.programs * given.replays} | {false}"
                print(f"| {row} |", flush=True)


def in_a_process(function, *given, slowed=None):
    """Return what `function` puts, run in a process of its own, which `slowed` starts."""
    results = multiprocessing.Queue()
    work = multiprocessing.Process(target=function, args=(*given, results))
    others = (slowed or alone)(work)
    result = results.get()
    for process in others:
        process.kill()
        process.join()
    if hasattr(signal, "SIGCONT"):
        os.kill(work.pid, signal.SIGCONT)
    work.join()
    return result


def alone(work):
    """Start `work`, and nothing beside it."""
    work.start()
    return []


def beside_busy_processes(work):
    """Start `work` and twice as many busy processes as there are processors."""
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for process in [work, *busy]:
        process.start()
    return busy


def stopped_most_of_the_time(work):
    """Start `work`, and what stops it again and again."""
    work.start()
    stopper = multiprocessing.Process(target=stop_and_go, args=(work.pid,), daemon=True)
    stopper.start()
    return [stopper]


MACHINES = {"busy": beside_busy_processes, "stopped 3 of 4": stopped_most_of_the_time}


def stop_and_go(pid):
    """Stop the process three quarters of the time, until it is gone."""
    while True:
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED)
            os.kill(pid, signal.SIGCONT)
            time.sleep(RUN)
        except ProcessLookupError:
            return


def recorded(family, programs, folder, results):
    """Record the programs; put what each of them gave."""
    stages = [Stage(Path(folder, str(seed))) for seed in range(programs)]
    more = SETTINGS.get(family, {})
    results.put([stage.record(agent(seed, family), **more).result for seed, stage in enumerate(stages)])


def replayed(family, replays, folder, made, results):
    """Replay the programs; put how many replays diverged, or gave something else than `made`."""
    false, more = 0, SETTINGS.get(family, {"order": "recorded"})
    for seed, result in enumerate(made):
        for _ in range(replays):
            played = Stage(Path(folder, str(seed))).replay(agent(seed, family), **more)
            if played.finding is not None or played.result != result:
                false += 1
                say(f"{family} {seed}: {played.finding.headline if played.finding else 'in another order'}")
    results.put(false)


if __name__ == "__main__":
    main()
