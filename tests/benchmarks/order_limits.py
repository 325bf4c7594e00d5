"""What the limits of the ordering are measured against: how late threads, loops and timers are, and what a look costs.

    python tests/benchmarks/order_limits.py [--busy PROCESSES] [--rounds 2000] [--values [CONSTANT]] [--runs 40]

Prints medians, 99.9 % and the worst of each delay in milliseconds; `--busy 4` runs that many processes beside it that
compute. `--values` prints instead what smaller and larger values of a constant do, or of all of them that are in
`limit_values`. The constants of `intercept.ordering` quote the results.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import threading
import time

from limit_values import ends_of_refused_bodies, print_values

from pytest_agentreplay.intercept.ordering import idle


def delay_of_threads(rounds):
    """Yield the seconds from the moment at which a thread is notified to its next statement."""
    condition, woken, sent = threading.Condition(), threading.Event(), [0.0]
    delays = []

    def work():
        with condition:
            for _ in range(rounds):
                condition.wait()
                delays.append(time.perf_counter() - sent[0])
                woken.set()

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(rounds):
        time.sleep(0.0005)
        woken.clear()
        with condition:
            sent[0] = time.perf_counter()
            condition.notify()
        woken.wait()
    thread.join()
    return delays


def delay_of_loops(rounds):
    """Return the seconds from `call_soon_threadsafe` in another thread to the callback in the loop."""
    delays = []

    async def main():
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def tell():
            for _ in range(rounds):
                time.sleep(0.0005)
                sent = time.perf_counter()
                loop.call_soon_threadsafe(lambda sent=sent: delays.append(time.perf_counter() - sent))
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=tell).start()
        await done.wait()

    asyncio.run(main())
    return delays


def lateness_of_timers(rounds):
    """Return the seconds by which `asyncio.sleep` of a millisecond is late."""

    async def main():
        for _ in range(rounds):
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            delays.append(time.perf_counter() - begun - 0.001)

    delays = []
    asyncio.run(main())
    return delays


def cost_of_looks(rounds):
    """Return the seconds that one look at the stacks of eight waiting threads takes."""
    over, costs = threading.Event(), []
    threads = [threading.Thread(target=over.wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        begun = time.perf_counter()
        frames = sys._current_frames()  # https://docs.python.org/3/library/sys.html#sys._current_frames
        {frames[thread.ident].f_lasti for thread in threads}
        costs.append(time.perf_counter() - begun)
    over.set()
    return costs


def time_of_hook_tests(rounds):
    """Return the seconds that the test of the hooks of event loops takes."""
    costs = []
    for _ in range(rounds):
        begun = time.perf_counter()
        idle.do_hooks_work.__wrapped__()
        costs.append(time.perf_counter() - begun)
    return costs


MEASURES = (
    delay_of_threads,
    delay_of_loops,
    lateness_of_timers,
    cost_of_looks,
    time_of_hook_tests,
    ends_of_refused_bodies,
)


def compute():
    """Use one processor for ever."""
    while True:
        sum(range(1000))


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=0, metavar="PROCESSES")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--values", nargs="?", const="", metavar="CONSTANT")
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    busy = [multiprocessing.Process(target=compute, daemon=True) for _ in range(options.busy)]
    for process in busy:
        process.start()
    print(f"CPython {sys.version.split()[0]}, {multiprocessing.cpu_count()} processors, {options.busy} busy processes")
    if options.values is not None:
        print_values(options.runs, options.values)
    else:
        print_delays(options.rounds)
    for process in busy:
        process.kill()


def print_delays(rounds):
    """Print one row for each delay."""
    print("| delay | median | 99.9 % | worst |")
    print("| --- | --- | --- | --- |")
    for measure in MEASURES:
        delays = sorted(measure(rounds))
        figures = (delays[len(delays) // 2], delays[int(len(delays) * 0.999)], delays[-1])
        name = measure.__name__.replace("_", " ")
        print(f"| {name} | " + " | ".join(f"{1000 * figure:.3f} ms" for figure in figures) + " |")


if __name__ == "__main__":
    main()
