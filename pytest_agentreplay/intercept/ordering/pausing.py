"""Threads in a replay of what was recorded as one strand: what they do beside each other now must be seen.

Such a run has no order of answers to keep, and each would come at once. Then two steps that were made one after the
other, and are made by two threads now, would look the same as before.

What is at work in a test: threads, executors' jobs and tasks that may still call, and what each of them waits for; and
which timer of an event loop is due next, and which line of the agent has set it, for the report of a stall.

A thread is at work unless it stands in one of the waits of the standard library, where another thread has to come to
its aid. What waits there, and tasks that wait for a lock, a queue or a socket, are told apart from it: nobody can know
whether they will ever go on.
"""

from __future__ import annotations

import math
import re
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.callers import find_line, list_awaited_frames
from pytest_agentreplay.intercept.session.pending_call import AnswerOrder
from pytest_agentreplay.snapshots.kit import texts

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Collection
    from types import FrameType

    from pytest_agentreplay.intercept.session.lanes import ThreadActivity
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Json

# Modules in which a thread waits for another one.
MEETS = frozenset({"threading", "queue", "concurrent.futures._base"})

# Modules in which a thread waits for another one, or for an event.
WAITS = MEETS | frozenset(
    {"selectors", "trio._core._thread_cache", "trio._core._io_epoll", "trio._core._io_kqueue", "trio._core._io_windows"}
)

# Seconds between two looks at what cannot tell by itself that it has changed. A look at the stacks of eight threads
# takes 3 us, 0.2 % of this time (`order_limits.py`).
LOOK = 0.002

# Seconds for which a thread at work is waited for before the next answer comes nevertheless. Of threads that compute
# for 0.01 to 0.7 s the order was kept for 2 of 6 with 0.02, for 6 of 6 with 0.2 and more (`order_limits.py`).
PATIENCE = 1.0

# Looks for which a thread stays at one place before it counts as waiting there: 40 ms. A thread that may run gets the
# processor within 13 ms beside four busy processes (`order_limits.py`).
STILL = 20

# Looks in a row that find a thread at work, before nobody waits for it any more: it computes for itself. With 10 the
# order of 2 of 6 threads that compute for 0.01 to 0.7 s was kept, with 100 and more of all; ten answers beside a thread
# that never rests took 0.09 s with 10, 0.8 s with 100, 3 s with 500 (`order_limits.py`).
RESTLESS = 500

# Seconds within which an event loop is told of a job that is done: 0.02 ms in the median, one of a thousand in 1.3 ms
# (tests/benchmarks/order_limits.py, CPython 3.11, 2 cores).
TOLD = 0.001

# Seconds for which the answer to a write waits for what sleeps beside it, as a later write may come too early then. It
# does not wait for what slept beside answers when recorded, and for the rest only once in vain. Of writes that came
# 0.01, 0.1, 0.3, 0.8 and 2 s after one that they had waited for, 0.1 s finds two too early, 0.5 s three and 1 s four;
# a run with new timers of 0.9 s takes those 0.9 s once (tests/benchmarks/order_limits.py, CPython 3.11, 2 cores).
SLEEP = 1.0

# Timers of a loop that are looked at for it, nearly the next ones: a crowd of tasks must not make each answer slower.
# Beside 5,000 timers an answer takes 12 to 13 ms with 32 or with 256, and 25 ms with all of them (measured as above).
LOOKED_AT = 32

# Names of timers that end a wait: of timeouts, and of `asyncio.sleep` as a task of its own.
TIMEOUTS = re.compile("timeout|cancel|release_waiter|^sleep$", re.IGNORECASE)

# Where a task waits for other tasks by a future of its own.
JOINS = frozenset(
    {
        ("asyncio.tasks", "_wait"),
        ("asyncio.tasks", "wait_for"),
        ("asyncio.tasks", "_wait_for_one"),
        ("asyncio.taskgroups", "__aexit__"),
        ("asyncio.taskgroups", "_aexit"),
        ("anyio._backends._asyncio", "__aexit__"),
    }
)


def is_waiting(thread: int | None) -> bool:
    """Whether the thread stands in a wait of the standard library, or is gone.

    Who waits in `Thread.start`, until the other thread runs, goes on by itself: a pool starts workers as jobs come.
    """
    frame = sys._current_frames().get(thread or 0)  # https://docs.python.org/3/library/sys.html#sys._current_frames
    if frame is None:
        return True
    where = frame.f_globals.get("__name__")
    if where == "concurrent.futures.thread":
        return frame.f_code.co_name == "_worker"
    return where in WAITS and not _is_starting_thread(frame)


def _is_starting_thread(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") == "threading":
        if frame.f_code.co_name == "start":
            return True
        frame = frame.f_back
    return False


def find_join(thread: int) -> object:
    """Where the thread stands, if it waits for another one; None where it does not."""
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_globals.get("__name__") not in MEETS:
        return None
    return id(frame), frame.f_lasti


def find_at_work(activity: ThreadActivity, parked: Collection[int]) -> tuple[bool, bool]:
    """Whether a thread or job of the test is at work, and whether one waits for what we do not know.

    `parked` are the threads that wait for an answer of ours, or run an event loop that is watched.
    """
    me, main = threading.get_ident(), activity.main_thread
    # The test's own thread is one of them: it may stand in a wait until the thread that it starts has begun.
    others = [thread for thread in {main, *list(activity.working)} if thread not in parked and thread != me]
    standing = [thread for thread in others if is_waiting(thread)]
    busy = len(standing) < len(others)
    threads = [thread for thread in list(activity.threads) if thread.is_alive()]
    # One that is alive and not at work yet will be in a moment, or is about to end.
    busy = busy or bool(activity.starting) or any(thread.ident not in activity.working for thread in threads)
    begun = len(threads) + len(activity.jobs)
    return busy, bool(standing or activity.handed) or begun > len(activity.working)


class Threads:
    """The other threads of a test: whether any of them is at work right now, and will be done or wait in a moment.

    A thread that stays where it is (it sleeps, it waits for the world) is not; nobody knows when it will go on.
    """

    def __init__(self, activity: ThreadActivity) -> None:
        """Nothing is looked at before somebody asks."""
        self._activity = activity
        self._places: dict[int, tuple[object, int, float]] = {}
        self._seen: Counter[int] = Counter()
        self._finished, self._since = 0, 0.0

    def are_at_work(self, parked: Collection[int], now: float) -> bool:
        """Whether one is; `parked` are threads that wait for an answer, or run an event loop that is asked itself."""
        activity = self._activity
        me, main = threading.get_ident(), activity.main_thread
        if activity.starting or activity.handed or has_job_on_its_way(activity):
            return True
        if self._finished != activity.finished:
            # Whoever waits for what was just finished is told in this moment.
            self._finished, self._since = activity.finished, now
        others = {*activity.working, main} - {me, *parked}
        # No look is left out: a thread has to be seen often before it counts as staying where it is.
        moving = [thread for thread in others if self._is_moving(thread, now)]
        return bool(moving) or now - self._since < TOLD

    def _is_moving(self, thread: int, now: float) -> bool:
        frame = sys._current_frames().get(thread)
        if frame is None or frame.f_globals.get("__name__") in WAITS:
            self._seen[thread] = 0
            return False
        self._seen[thread] += 1
        if self._seen[thread] > RESTLESS:
            return False
        place = id(frame), frame.f_lasti
        before, looks, last = self._places.get(thread, (None, 0, 0.0))
        if place != before:
            looks = 0
        elif now - last < LOOK / 2:
            return looks < STILL
        self._places[thread] = place, looks + 1, now
        return looks < STILL


class Sleepers:
    """What makes no call now and may by itself within `SLEEP` seconds: tasks and threads that sleep, agents' timers.

    Attributes:
        expected: Those that are not waited for, by the name of what they run; None where nobody is.
        passed: For how many seconds the answer has waited, as far as somebody looked.
    """

    def __init__(self, activity: ThreadActivity, expected: Json = None) -> None:
        """`expected` comes from a snapshot."""
        self.expected = None if expected is None else set(texts(expected))
        self.passed = self._at = 0.0
        self._activity = activity
        self._answer: object = None

    def are_awaited(self, answer: object, resting: Collection[object]) -> bool:
        """Whether `answer` waits for one of them; it comes well before a timeout that could give it up."""
        now = clocks.monotonic()
        if self._answer is not answer:
            self._answer, self.passed, self._at = answer, 0.0, now
        # A slow or stopped machine does not use the time up.
        self.passed, self._at = self.passed + min(now - self._at, 2 * LOOK), now
        if self.expected is None:
            return False
        names, timeout = self.find(resting)
        names -= self.expected
        if is_over := self.passed >= min(SLEEP, timeout):
            self.expected |= names
        return bool(names) and not is_over

    def find(self, resting: Collection[object]) -> tuple[set[str], float]:
        """Return their names, and the seconds until a timeout. `resting` are tasks and threads that wait otherwise."""
        names, timeout, running = set[str](), math.inf, self._activity.running
        for thread in {*self._activity.working, self._activity.main_thread} - {threading.get_ident(), *resting}:
            if not is_waiting(thread):
                label = running[thread].label if thread in running else None
                names.add(label.name if label is not None else "main")
        loops: list[Any] = [loop for loop in list(self._activity.loops) if loop.is_running()]
        for loop in loops:
            # What a handle calls and what a future does, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/asyncio/events.py
            for timer in [timer for timer in getattr(loop, "_scheduled", [])[:LOOKED_AT] if _is_soon(timer, loop)]:
                task: Any = None
                name = getattr(timer._callback, "__qualname__", type(timer._callback).__qualname__)
                if name == "_set_result_unless_cancelled" and timer._args and timer._args[0]._callbacks:
                    task = getattr(timer._args[0]._callbacks[0][0], "__self__", None)
                    name = getattr(task.get_coro(), "__qualname__", "") if hasattr(task, "get_coro") else name
                if TIMEOUTS.search(name):
                    timeout = min(timeout, timer.when() - loop.time())
                elif task not in resting:
                    names.add(name)
        return names, timeout


def _is_soon(timer: Any, loop: Any) -> bool:
    return not timer.cancelled() and timer.when() - loop.time() < SLEEP


def has_job_on_its_way(activity: ThreadActivity) -> bool:
    """Whether a job was given to an executor that has a thread for it, which has not taken it up yet."""
    jobs = activity.jobs
    if not len(jobs):
        return any(thread.is_alive() and thread.ident not in activity.working for thread in list(activity.threads))
    if jobs.running + sum(thread.is_alive() for thread in list(activity.threads)) > len(activity.working):
        return True  # a thread has done it and not said so
    return jobs.has_job_to_begin()


def has_unknown_waits(loop: AbstractEventLoop, ours: Collection[object]) -> bool:
    """Whether a task of `loop` waits for something else than answers (`ours`), tasks and timers."""
    asyncio = sys.modules["asyncio"]
    return any(not _is_of_plugin(task, ours, asyncio) for task in asyncio.all_tasks(loop))


def _is_of_plugin(task: Any, ours: Collection[object], asyncio: Any) -> bool:
    # What a task waits for, and the futures of a gather, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/asyncio/tasks.py
    waiter = getattr(task, "_fut_waiter", None)
    if waiter in ours or isinstance(waiter, asyncio.Task) or hasattr(waiter, "_children"):
        return True
    frames = list_awaited_frames(task.get_coro())
    if not frames:
        return False
    inner = frames[0]
    where = inner.f_globals.get("__name__"), inner.f_code.co_name
    return where in JOINS or where == ("asyncio.tasks", "sleep")


# Seconds for which an answer is held back at most: a thread that computes for itself is not waited for. Ten answers
# took 0.01 s with 0, 1.0 s with 0.1, 2.5 s with 0.25 beside one; of five steps that are made at once now, 5, 1 and 1
# were not noticed (`order_limits.py`).
LONGEST_PAUSE = 0.25


class Pausing(AnswerOrder):
    """Holds an answer to a thread back until no other thread of the test is at work. Costs nothing where none is.

    That to a write is held back, in a task too, until nothing is at work or asleep that may make another call.
    """

    now = staticmethod(clocks.monotonic)

    def __init__(self, activity: ThreadActivity, expected: Json) -> None:
        """Nothing is looked at before somebody is answered. `expected` as for `Sleepers`."""
        self._activity = activity
        self._others = Threads(activity)
        self._sleepers = Sleepers(activity, expected)
        self._resting: set[int] = set()

    async def wait(self, intercepted: PendingCall, chunks: int) -> None:
        """Let other tasks run once, if they did when recorded; beside a write, as long as one may make a call."""
        from pytest_agentreplay.intercept.ordering.idle import SPINNING, do_other_tasks_wait

        suspended, loop, rounds = intercepted.suspended, lanes.find_running_loop(), 0
        await super().wait(intercepted, chunks)
        timers = getattr(loop, "_scheduled", None)
        alone = (
            loop is not None
            and do_other_tasks_wait(loop)
            and not (timers and _is_soon(timers[0], loop))
            and not self._is_beside()
        )
        if not suspended or alone or not intercepted.hold():
            return
        if loop is None:
            from trio.testing import wait_all_tasks_blocked

            await wait_all_tasks_blocked()
            return
        while (runs := rounds < SPINNING and not do_other_tasks_wait(loop)) or self._is_awaited(intercepted):
            rounds = rounds + 1 if runs else 0
            if not runs:
                clocks.sleep(LOOK / 4)  # not the loop's own sleep: a test may have stopped the loop's time
            await sys.modules["asyncio"].sleep(0)

    def _is_beside(self) -> bool:
        me, activity = threading.get_ident(), self._activity
        others = len(activity.working) > (me in activity.working)  # asked three times a call: no set is made for it
        return others or bool(activity.threads) or me != activity.main_thread

    def _is_awaited(self, intercepted: PendingCall) -> bool:
        awaited = self._sleepers.are_awaited(intercepted, self._resting)
        return awaited or (self._sleepers.passed < SLEEP and self._others.are_at_work(self._resting, self.now()))

    def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
        """Wait, in a thread that is about to get its answer."""
        del chunks, at_once
        if intercepted.handed is None or not self._is_beside() or lanes.is_in_loop():
            return
        self._resting.add(me := threading.get_ident())
        try:
            until = self.now() + LONGEST_PAUSE
            while self._others.are_at_work(self._resting, now := self.now()) and now < until:
                clocks.sleep(LOOK / 4)
            while self._is_awaited(intercepted) and intercepted.hold():
                clocks.sleep(LOOK / 4)
        finally:
            self._resting.discard(me)


# What holds the task of a timer: `asyncio.timeouts.Timeout`, `anyio.CancelScope`.
OWNERS = ("_task", "_host_task")


def describe_pending_timer(loop: object, root: str) -> str:
    """Return a sentence about the next timer of `loop`: "" where there is none, or the loop does not show it."""
    # A heap of timer handles in the loops of CPython 3.11-3.14, which uvloop and trio do not have:
    # https://github.com/python/cpython/blob/3.13/Lib/asyncio/base_events.py
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
    if not timers:
        return ""
    timer = min(timers, key=lambda timer: timer.when())
    frames = _list_timer_frames(timer, loop)
    line = find_line(frames, root).partition(" in ")[0]
    set_at = f" set at {line}" if line else ""
    delay = _read_delay(timer, frames)
    if delay is not None:
        return f"a timer of {delay:g} s{set_at} was still pending"
    left = max(0.0, timer.when() - loop.time())  # type: ignore[attr-defined]
    return f"a timer{set_at}, due in {left:.3g} s, was still pending"


def _list_timer_frames(timer: Any, loop: object) -> list[FrameType]:
    """Return the frames of the task that waits for `timer`, the innermost first; none where no task does."""
    # What a handle calls, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/asyncio/events.py
    owner = getattr(getattr(timer, "_callback", None), "__self__", None)
    for name in OWNERS:
        if (task := getattr(owner, name, None)) is not None and hasattr(task, "get_coro"):
            return list_awaited_frames(task.get_coro())
    for task in sys.modules["asyncio"].all_tasks(loop):
        frames = list_awaited_frames(task.get_coro())
        if any(value is timer for frame in frames[:1] for value in frame.f_locals.values()):
            return frames
    return []


def _read_delay(timer: object, frames: list[FrameType]) -> float | None:
    """Return the seconds of `asyncio.sleep`, where that has set `timer`."""
    names = frames[0].f_locals if frames else {}
    delay = names.get("delay")
    return float(delay) if names.get("h") is timer and isinstance(delay, int | float) else None
