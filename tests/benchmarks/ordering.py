"""What it costs to keep the recorded order: CPU per call, beside the same run whose answers come at once.

The agent is a crowd of tasks or threads; each makes one call after the other, of a tool that waits a little. Nothing
else of it costs much, and rounds with and without an order take turns, so that what differs is the order alone.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import ours
from measuring import Row, cpu, middle, say

from pytest_agentreplay.intercept.ordering import holding, idle, pausing, quiet, release
from pytest_agentreplay.intercept.session.pending_call import AnswerOrder
from pytest_agentreplay.model import release_order

US = 1e-3  # nanoseconds to microseconds
BOUND_US = 70
TOOLS = (("ordering.look_up", "read"), ("ordering.fetch", "read"))

CROWDS = ((1_000, 10, 7), (1_000, 100, 7), (10_000, 10, 2), (10_000, 100, 2), (50_000, 10, 1), (50_000, 100, 1))
"""Calls, tasks that make them, rounds."""

THREADS, FETCHES, FETCH_ROUNDS = 8, 2_000, 5
JOBS = (200, 2_400)
COUNTED = ((500, 10), (500, 100), (4_000, 10), (4_000, 100))
"""Calls, tasks: where lines are counted instead of time."""

DELAYS = [random.Random(0).random() / 1000 for _ in range(997)]
"""Seconds, up to a millisecond."""


async def look_up(number: int) -> int:
    """A tool that a task waits for."""
    await asyncio.sleep(DELAYS[number % len(DELAYS)])
    return number


def fetch(number: int) -> int:
    """A tool that a thread waits for."""
    time.sleep(DELAYS[number % len(DELAYS)])
    return number


def in_tasks(calls, tasks):
    """`calls` calls, made by so many tasks."""

    async def one(lane):
        for number in range(lane, calls, tasks):
            assert await look_up(number) == number

    async def main():
        await asyncio.gather(*(one(lane) for lane in range(tasks)))

    asyncio.run(main())


def in_threads(calls, threads):
    """`calls` calls, made by so many threads."""

    def one(lane):
        for number in range(lane, calls, threads):
            assert fetch(number) == number

    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(one, range(threads)))


def in_jobs(calls, threads):
    """`calls` jobs of one pool, each makes a call."""
    with ThreadPoolExecutor(threads) as executor:
        assert list(executor.map(fetch, range(calls))) == list(range(calls))


class Crowd:
    """One such agent in a project of its own."""

    def __init__(self, folder, agent, calls, size):
        self.project = ours.Project(folder, tools=TOOLS, prove=False)
        self.agent, self.calls, self.size = agent, calls, size

    def record(self, *, held=True):
        """Nanoseconds of a recorded call; `held` says whether answers are held for an idle moment."""
        with self.project.body("record") as run_session:
            if not held:
                run_session.interception.order = AnswerOrder()
            return cpu(self.agent, self.calls, self.size)[0] / self.calls

    def replay(self, order):
        """Nanoseconds of a replayed call."""
        self.project.settings["order"] = order
        with self.project.body("replay") as run_session:
            assert (run_session.order is not None) == (order == "recorded"), "the order was kept in the wrong rounds"
            return cpu(self.agent, self.calls, self.size)[0] / self.calls

    def loaded(self):
        """Nanoseconds a call that the order takes to be made of a recording."""
        exchanges = self.project.run_session("replay").snapshot.run.exchanges
        return cpu(lambda: release_order.ReleaseSchedule(exchanges).matters)[0] / self.calls


def added(without, within, rounds):
    """Median microseconds that `within` takes beyond `without`, each round against those before and after it."""
    floor, mine = [without()], []
    for _ in range(rounds):
        mine.append(within())
        floor.append(without())
    more = middle([one - (before + after) / 2 for one, (before, after) in zip(mine, pairwise(floor), strict=True)])
    return middle(floor) * US, more * US


def measured(rows, agent, calls, size, rounds):
    """Three rows: what a replay adds, what a recording adds, what loading adds."""
    kind = {in_tasks: "tasks", in_threads: "threads", in_jobs: "threads, each call a job of its own"}[agent]
    what = f"N = {calls}, {size} {kind}"
    with tempfile.TemporaryDirectory() as folder:
        crowd = Crowd(folder, agent, calls, size)
        recording = added(lambda: crowd.record(held=False), crowd.record, rounds)
        crowd.record()
        replaying = added(lambda: crowd.replay("free"), lambda: crowd.replay("recorded"), rounds)
        loading = 0.0, middle([crowd.loaded() for _ in range(3)]) * US
    for name, (floor, more) in {"replayed": replaying, "recorded": recording, "loaded": loading}.items():
        row = Row(
            f"9 order, {name}",
            what,
            bare="" if name == "loaded" else f"{floor:.0f} us without",
            ours=f"{more:+.1f} us",
            bound=f"+{BOUND_US} us",
            holds=more <= BOUND_US,
        )
        say(f"{row.figure}, {what}: {row.bare} {row.ours}")
        rows.append(row)


def calls(rows):
    """CPU that the order adds to a call of a task."""
    for count, tasks, rounds in CROWDS:
        measured(rows, in_tasks, count, tasks, rounds)


def threads(rows):
    """CPU that the order adds to a call of a thread, and of a job: the same however many wait in the pool."""
    measured(rows, in_threads, FETCHES, THREADS, FETCH_ROUNDS)
    for jobs in JOBS:
        measured(rows, in_jobs, jobs, THREADS, FETCH_ROUNDS)


def lines(rows):
    """Lines of the ordering machinery that run for each call: the same however many there are, on any machine."""
    for count, tasks in COUNTED:
        with tempfile.TemporaryDirectory() as folder:
            crowd = Crowd(folder, in_tasks, count, tasks)
            recorded = counted(crowd.record) / count
            replayed = counted(lambda: crowd.replay("recorded")) / count  # noqa: B023  called at once
        say(f"lines, N = {count}, {tasks} tasks: {replayed:.1f} replayed, {recorded:.1f} recorded")
        rows.append(
            Row(
                "10 order, lines run a call",
                f"N = {count}, {tasks} tasks; in brackets: while recording",
                ours=f"{replayed:.1f} ({recorded:.1f})",
            )
        )


ROOM = frozenset(module.__file__ for module in (holding, idle, quiet, release_order, release, pausing))


def counted(run):
    """How many lines of the machinery run in `run`, in this thread."""
    seen = 0

    def line(frame, event, arg):
        nonlocal seen
        seen += event == "line"
        return line

    def enter(frame, event, arg):
        return line if frame.f_code.co_filename in ROOM else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    return seen
