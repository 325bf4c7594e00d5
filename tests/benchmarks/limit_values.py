"""What a smaller and a larger value of a limit of the ordering does: how often the order is kept, and what it costs.

Agents are recorded, and replayed with the constant set to each value. `VALUES` names the constants, where each is read,
the values that are tried, and what is run with them. Used by `order_limits.py`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_agentreplay.intercept.ordering import overtime, stall_watch
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.model.divergence import Divergence, Kind
from tests.ordering.driving import Stage, agent
from tests.ordering.programs import POLLING, SENSITIVE, TOOLS
from tests.support.tapes import Plain, Tape, body

MISSING = Divergence(Kind.MISSING, "tool fetch was not called")


@contextlib.contextmanager
def changed(places, value):
    """Set a constant to `value` in each module of `places` that reads it."""
    with contextlib.ExitStack() as stack:
        for place in places:
            module, name = place.split(".")
            found = importlib.import_module(f"pytest_agentreplay.intercept.ordering.{module}")
            stack.enter_context(mock.patch.object(found, name, value))
        yield


def replays(pairs, places, value, **settings):
    """Record the first agent of each pair, replay the second one with the constant changed; return what came of it."""
    kept, seconds, used = 0, [], []
    for recorded, replayed in pairs:
        with tempfile.TemporaryDirectory() as folder:
            stage = Stage(Path(folder), (*TOOLS, fetch, afetch))
            expected = stage.record(recorded).result
            with changed(places, value):
                begun, cpu = time.perf_counter(), time.process_time()
                played = stage.play(replayed, **settings)
                seconds.append(time.perf_counter() - begun)
                used.append(time.process_time() - cpu)
        kept += played.finding is None and played.result == expected
    return f"kept in {kept} of {len(pairs)}", f"{times(seconds)}, CPU {1000 * statistics.median(used):.0f} ms"


def times(seconds):
    """Return the median and the worst of `seconds` as text."""
    return f"{1000 * statistics.median(seconds):.0f} ms, worst {1000 * max(seconds):.0f}"


# Agents.


def fetch(place: str, seen: str) -> str:
    """Be a tool that takes ten milliseconds."""
    time.sleep(0.01)
    return place


async def afetch(place: str, seen: str, seconds: float = 0.002) -> str:
    """Be a tool that takes `seconds`, in a coroutine."""
    await asyncio.sleep(seconds)
    return place


def compute(is_over):
    """Work until `is_over` in code that has many places: a loop of one line is taken to stand still after 0.15 s."""
    while not is_over():
        json.loads(json.dumps({"a": [1, 2, {"b": "c"}] * 3}, indent=1))
        " ".join(sorted(str(number) for number in range(20)))


def beside_timer(milliseconds):
    """A call is answered after so long; 5 ms later a timer goes off, and its task makes a call."""

    async def act():
        seen = []

        async def wait():
            await asyncio.sleep((milliseconds + 5) / 1000)
            seen.append(await afetch("timed", str(seen)))

        async def call():
            seen.append(await afetch("first", "", milliseconds / 1000))
            seen.append(await afetch("next", "", 0.03))

        await asyncio.gather(wait(), call())
        return seen

    return lambda: asyncio.run(act())


def beside_thread(seconds):
    """A thread is answered, computes for so long, and leaves what it has found; the test's own, answered next, tells of it."""

    def act():
        found = []

        def work():
            fetch("work", "")
            until = time.perf_counter() + seconds
            compute(lambda: time.perf_counter() > until)
            found.append("found")

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.003)
        fetch("own", "")
        fetch("tell", str(found))
        thread.join()

    return act


def two_steps(seconds, *, at_once):
    """Make two calls, the second one after it has computed for so long; `at_once` makes them in two threads."""

    def work(name, before):
        until = time.perf_counter() + before
        compute(lambda: time.perf_counter() > until)
        fetch(name, "")

    def act():
        steps = (("first", 0), ("second", seconds))
        if not at_once:
            return [work(*step) for step in steps]
        threads = [threading.Thread(target=work, args=step) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [None, None]

    return act


def beside_computing(calls):
    """So many calls, and a thread that computes beside them and makes none."""

    def act():
        over = threading.Event()

        thread = threading.Thread(target=compute, args=(over.is_set,))
        thread.start()
        try:
            return [fetch(str(number), "") for number in range(calls)]
        finally:
            over.set()
            thread.join()

    return act


def late_job(seconds):
    """A job computes for so long before its task makes a call; another call is answered before it."""

    async def work():
        until = time.perf_counter() + seconds
        await asyncio.to_thread(compute, lambda: time.perf_counter() > until)
        return await afetch("worked", "")

    async def act():
        return await asyncio.gather(work(), afetch("beside", "", 0.1))

    return lambda: asyncio.run(act())


def beside_sleepers(tasks):
    """Make ten writes in a row, while so many tasks sleep for 0.9 s each that the recorded run did not have."""

    async def doze():
        await asyncio.sleep(0.9)

    async def act():
        beside = [asyncio.create_task(doze()) for _ in range(tasks)]
        found = [await afetch(str(number), "") for number in range(10)]
        for task in beside:
            task.cancel()
        return found

    return lambda: asyncio.run(act())


def two_writes(seconds, *, at_once):
    """Make two writes, the second one so long after the first was made; `at_once` does not wait for its answer."""

    async def late():
        await asyncio.sleep(seconds)
        return await afetch("second", "")

    async def act():
        if at_once:
            return await asyncio.gather(afetch("first", ""), late())
        return [await afetch("first", ""), await afetch("second", "")]

    return lambda: asyncio.run(act())


def spin_beside(calls):
    """Make so many calls, while another task takes one round of the loop after another and never rests."""

    async def spin():
        while True:  # noqa: ASYNC110  the task that never rests
            await asyncio.sleep(0)

    async def act():
        beside = asyncio.create_task(spin())
        found = [await afetch(str(number), "") for number in range(calls)]
        beside.cancel()
        return found

    return lambda: asyncio.run(act())


def child(seconds):
    """A child process takes so long between two calls."""

    def act():
        first = fetch("first", "")
        subprocess.run([sys.executable, "-c", f"import time; time.sleep({seconds})"], check=True)
        return first, fetch("second", "")

    return act


def wait_for_event():
    """Wait for what nobody sets."""
    threading.Event().wait()


def wait_again():
    """Catch whatever ends the wait, and wait again."""
    while True:
        with contextlib.suppress(BaseException):
            threading.Event().wait()


def spin_on():
    """Catch whatever is raised in a loop that does not wait."""
    while True:
        with contextlib.suppress(BaseException):
            sum(range(1000))


def wait_in_loop():
    """Wait in twenty tasks, each of which has something to clean up."""

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)

    async def act():
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(work())

    asyncio.run(act())


def wait_for_job():
    """Wait for a job that waits for what nobody sets, and leave its thread behind."""
    with contextlib.suppress(concurrent.futures.CancelledError):
        concurrent.futures.Future().result()


# What is run with each value.


def again(make, *arguments, order="recorded", **more):
    """Return what replays agents that are the same as when recorded, one for each of `arguments`, or of the seeds."""

    def run(places, value, runs):
        acts = [make(*given, **more) for given in ([(x,) for x in arguments] or [(seed,) for seed in range(runs)])]
        return replays([(act, act) for act in acts], places, value, order=order)

    return run


def slower(make, before, after, order="recorded"):
    """Return what replays an agent that takes `after` seconds, which took `before` when recorded."""
    return lambda places, value, _runs: replays([(make(before), make(after))], places, value, order=order)


def put_at_once(places, value, _runs):
    """Replay two steps that were made one after the other, and are made at once now: it should be noticed."""
    waits = (0, 0.01, 0.05, 0.1, 0.3)
    pairs = [(two_steps(0, at_once=False), two_steps(seconds, at_once=True)) for seconds in waits]
    return replays(pairs, places, value, order="auto")


def end_body(act, *, stalls=False):
    """Return the seconds and CPU seconds until the body `act` has ended: it is refused, or found to stall."""
    with body(interceptions.Interception(Tape(), Plain())) as interception:
        watch = overtime.Overtime(interception)
        stall = stall_watch.StallWatch(interception, watch, lambda: (MISSING, 0.0))
        watch.start()
        begun, cpu = time.perf_counter(), time.process_time()
        if stalls:
            stall.start()
        else:
            interception.latch(MISSING, "")
        with contextlib.suppress(BaseException):
            act()
        passed = time.perf_counter() - begun, time.process_time() - cpu
        watch.stop()
        if stalls:
            stall.stop()
    return passed


def ending(act, *, stalls=False):
    """Return what ends a body that does `act`, and says how long that takes."""

    def run(places, value, _runs):
        with changed(places, value):
            seconds, cpu = end_body(act, stalls=stalls)
        return "ended", f"{seconds:.2f} s, CPU {1000 * cpu:.0f} ms"

    return run


def wait_in_child(places, value, _runs):
    """Time the end of a process that leaves a thread behind which works for a second more."""
    script = f"""
import threading, time
from pytest_agentreplay.intercept.ordering import overtime
overtime.PATIENCE = {value}
left = threading.Thread(target=lambda: (time.sleep(1), print("done")))
left.start()
overtime._left.add(left)
overtime.let_end(0)
"""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    del places
    return f"thread {done.stdout.strip() or 'cut off'}", f"{time.perf_counter() - begun:.2f} s"


def on_uvloop(make, *given):
    """Make an agent that runs on uvloop."""
    return make(*given, run=importlib.import_module("uvloop").run)


def write_late(places, value, _runs):
    """Replay two writes that were made one after the other, and are made at once by a timer: it should be noticed."""
    waits = (0.01, 0.1, 0.3, 0.8, 2)
    pairs = [(two_writes(0, at_once=False), two_writes(seconds, at_once=True)) for seconds in waits]
    return replays(pairs, places, value, order="auto")


# The constants, where each is read, the values, what is run, and what runs it.
VALUES = (
    ("ROUNDS", ("idle.ROUNDS",), (1, 2, 5, 30, 60),
     "order-sensitive programs, uvloop", again(lambda seed: on_uvloop(agent, seed, SENSITIVE))),
    ("SPINNING", ("idle.SPINNING",), (8, 32, 256, 2048),
     "order-sensitive programs", again(agent, family=SENSITIVE)),
    ("SPINNING", ("idle.SPINNING",), (8, 32, 256, 2048),
     "a task that spins", again(spin_beside, *[10] * 5)),
    ("GRACE", ("quiet.GRACE", "release.GRACE"), (0, 0.005, 0.05, 0.5),
     "programs that poll by timers", again(agent, family=POLLING)),
    ("GRACE", ("quiet.GRACE", "release.GRACE"), (0, 0.005, 0.05, 0.5),
     "a timer 5 ms after an answer that took 2 to 200 ms", again(beside_timer, 2, 5, 10, 20, 40, 80, 200)),
    ("WORKING", ("quiet.WORKING",), (0, 0.1, 1, 10),
     "a job of 0.02 s takes 1 s", slower(late_job, 0.02, 1)),
    ("WORKING", ("quiet.WORKING",), (0, 0.1, 1, 10),
     "a job of 0.02 s takes 30 s", slower(late_job, 0.02, 30)),
    ("PATIENCE", ("quiet.PATIENCE",), (0.02, 0.2, 1, 5),
     "a thread that computes for 0.01 to 0.7 s", again(beside_thread, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7)),
    ("PATIENCE", ("quiet.PATIENCE",), (0.02, 0.2, 1, 5),
     "ten calls beside a thread that computes", again(beside_computing, *[10] * 5)),
    ("RESTLESS", ("pausing.RESTLESS",), (10, 100, 500, 2000),
     "a thread that computes for 0.01 to 0.7 s", again(beside_thread, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7)),
    ("RESTLESS", ("pausing.RESTLESS",), (10, 100, 500, 2000),
     "ten calls beside a thread that computes", again(beside_computing, *[10] * 5)),
    ("LONGEST_PAUSE", ("pausing.LONGEST_PAUSE",), (0, 0.02, 0.1, 0.25, 1),
     "ten calls beside a thread that computes", again(beside_computing, *[10] * 5, order="auto")),
    ("LONGEST_PAUSE", ("pausing.LONGEST_PAUSE",), (0, 0.02, 0.1, 0.25, 1),
     "two steps at once, in vain kept", put_at_once),
    ("SLEEP", ("pausing.SLEEP",), (0, 0.1, 0.5, 1, 3),
     "two writes at once, a timer of 0.01 to 2 s between", write_late),
    ("SLEEP", ("pausing.SLEEP",), (0, 0.1, 0.5, 1, 3),
     "ten writes beside ten new timers of 0.9 s", slower(beside_sleepers, 0, 10, order="auto")),
    ("LOOKED_AT", ("pausing.LOOKED_AT",), (1, 8, 32, 256, 5000),
     "ten writes beside 5,000 timers", slower(beside_sleepers, 5000, 5000, order="auto")),
    ("QUIET of a refused body", ("overtime.QUIET",), (0.5, 5, 10),
     "a body that waits", ending(wait_for_event)),
    ("AGAIN", ("overtime.QUIET",), (0.25,),
     "an event", ending(wait_for_event)),
    ("AGAIN", ("overtime.QUIET",), (0.25,),
     "twenty tasks that clean up", ending(wait_in_loop)),
    ("AGAIN", ("overtime.QUIET",), (0.25,),
     "a job", ending(wait_for_job)),
    ("MERCY", ("overtime.QUIET",), (0.25,),
     "a body that waits again", ending(wait_again)),
    ("MERCY", ("overtime.QUIET",), (0.25,),
     "a body that catches and spins", ending(spin_on)),
    ("AGAIN", ("overtime.AGAIN",), (0.1, 2, 5),
     "a body that waits again", ending(wait_again)),
    ("QUIET of a stall", ("stall_watch.QUIET",), (0.5, 5, 10),
     "a body that waits", ending(wait_for_event, stalls=True)),
    ("LONGER", ("stall_watch.LONGER",), (0.5, 30, 60),
     "a child process of 0.1 s takes 8 s", slower(child, 0.1, 8, order="free")),
    ("PATIENCE at the end", ("overtime.PATIENCE",), (0.1, 2, 5),
     "a thread left behind that works for 1 s more", wait_in_child),
)  # fmt: skip


def ends_of_refused_bodies(rounds):
    """Return the seconds from a refusal to the end of a random order-sensitive program that is another than recorded."""
    seconds, begin = [], overtime.Overtime._begin_overtime
    refused = []

    def note(self, divergence):
        refused.append(time.perf_counter())
        begin(self, divergence)

    def timed(act):
        try:
            return act()
        finally:
            seconds.extend(time.perf_counter() - at for at in refused[:1])

    with mock.patch.object(overtime.Overtime, "_begin_overtime", note):
        for seed in range(rounds // 20):
            refused.clear()
            with tempfile.TemporaryDirectory() as folder:
                stage = Stage(Path(folder))
                stage.record(agent(seed, SENSITIVE))
                stage.play(lambda seed=seed: timed(agent(seed + 1000, SENSITIVE)), order="recorded")
    return seconds


def print_values(runs, only):
    """Print one row for each value of each constant whose name has `only` in it."""
    print("| constant | value | what is run | order | each |\n| --- | --- | --- | --- | --- |")
    for name, places, values, what, run in VALUES:
        for value in values:
            if only in name:
                print(f"| {name} | {value} | {what} | {' | '.join(run(places, value, runs))} |", flush=True)
