"""Whether a replayed program has come to rest, and whether something in it may still bring the next call.

Rest: every event loop is idle, each thread that was let go waits again or had its time, and no other one is at work.

How long a program was left alone is what a stall is told by, the same on a slow machine as on a fast one. Wall time
passes while the program computes, while another process has the processor, and while this one is stopped. None of that
says that nothing will come any more. So time is counted by looks: each look says for how long nobody will look again,
and the next one counts what has passed since, but no more than that.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Protocol

from pytest_agentreplay.intercept.ordering.idle import SETTLE, RoundsIdle, SelectorIdle
from pytest_agentreplay.intercept.ordering.pausing import (
    LOOK,
    PATIENCE,
    Threads,
    find_at_work,
    find_join,
    has_unknown_waits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_agentreplay.intercept.ordering.idle import Idle
    from pytest_agentreplay.intercept.session.lanes import ThreadActivity

# Idle seconds beyond four times the recorded wait, before what waits for something unknown counts as waiting for us. As
# all limits here it is counted by `IdleTime`, so that a slow or stopped machine does not use it up. Beside four busy
# processes the latest of 2,000 wake-ups of a thread or loop came after 15 ms (`tests/benchmarks/order_limits.py`).
SILENCE = 0.5

# Idle seconds beyond twice the recorded wait for which a timer of the program is waited for. The latest of 2,000 timers
# was late by 4 ms, by 14 ms beside four busy processes. A timer due 5 ms after an answer of 2 to 200 ms kept its place
# in 1, 3, 5 and 7 of 7 replays with 0, 0.005, 0.05 and 0.5 (`order_limits.py`).
GRACE = 0.05

# Seconds beyond four times the recorded wait for which a thread at work is waited for: what it computes is unknown. A
# job of 0.02 s that takes 30 s now was given up with 1, and waited for with 10; one that takes 1 s was not given up
# with 0 (`order_limits.py`).
WORKING = 10.0

# Seconds for which the thread of an event loop stands still in a wait, before it counts as held up there: longer than a
# woken thread needs to go on beside four busy processes, 13 ms at most of 2,000 (`order_limits.py`).
HELD_UP = 0.02

# Seconds between two looks at a program that waits for something unknown.
TICK = 20 * LOOK


class Resting(Protocol):
    """Who waits for an answer, or sleeps: a task of the loop `idle`, or the thread itself."""

    @property
    def thread(self) -> int:
        """The ident of the thread."""

    @property
    def idle(self) -> Idle | None:
        """The loop in which it waits; None for a thread."""


class IdleTime:
    """Two clocks, in seconds: `looked` runs between two looks, `idle` only where the program had nothing to do."""

    __slots__ = ("_at", "_idle", "_now", "_wait", "idle", "looked")

    def __init__(self, now: Callable[[], float]) -> None:
        """Both begin with 0."""
        self.idle = self.looked = 0.0
        self._now = now
        self._at = self._wait = 0.0
        self._idle = False

    def look(self) -> None:
        """Count what has passed since `wait`, and nothing more until the next `wait`."""
        now = self._now()
        passed = min(self._wait, max(0.0, now - self._at))
        self.looked += passed
        self.idle += passed if self._idle else 0.0
        self._at, self._wait, self._idle = now, 0.0, False

    def wait(self, seconds: float, *, idle: bool) -> None:
        """The next look comes in so many seconds; `idle` says that the program has nothing to do until then."""
        self._wait, self._idle = seconds, idle


class Quiet:
    """What a scheduler sees of the program that it serves. Used under the scheduler's lock.

    Attributes:
        loops: By event loop, or run of trio, how it is watched.
        guessed: Whether a loop could not be asked when it is idle.
        timed: Whether answers were held until a timer of the program had brought another call.
        waits_for_timers: Whether a timer that is due soon is waited for; in virtual time it is an event of its own.
    """

    waits_for_timers = True

    def __init__(self, activity: ThreadActivity, now: Callable[[], float]) -> None:
        """Nothing is watched before somebody waits."""
        self.loops: dict[object, Idle] = {}
        self.guessed = self.timed = False
        self._activity = activity
        self._now = now
        self._threads = Threads(activity)
        self._time = IdleTime(now)
        self._moved = self._moved_idle = self._came_idle = 0.0  # readings of the two clocks of `_time`
        self._idles = False
        self._parked: set[int] = set()  # threads that wait, until they run again
        self._woken: set[Resting] = set()  # they were let go, and do not run yet
        self._settling: dict[int, float] = {}  # by thread that runs again, until when it gets its time
        self._stuck: dict[Idle, tuple[object, float]] = {}

    # What has happened.

    def look(self) -> None:
        """Somebody looks at the program now."""
        self._time.look()
        self._idles = False

    def look_again(self, seconds: float) -> None:
        """The next look comes in so many seconds."""
        self._time.wait(seconds, idle=self._idles)

    def watch(self, runs: object, idle: Idle) -> None:
        """The loop, or run of trio, is watched by `idle` from now on."""
        self.loops[runs] = idle
        self.guessed = self.guessed or isinstance(idle, RoundsIdle)

    def note_move(self) -> None:
        """Something has happened."""
        self._time.look()
        self._moved, self._moved_idle = self._time.looked, self._time.idle

    def note_answer(self) -> None:
        """An answer was handed over."""
        self.note_move()
        self._came_idle = self._time.idle

    def note_waiting(self, resting: Resting) -> None:
        """Somebody begins to wait."""
        if resting.idle is None:
            self._parked.add(resting.thread)
        self._settling.pop(resting.thread, None)
        self.note_move()

    def note_woken(self, resting: Resting) -> None:
        """Somebody was let go, and will run in a moment."""
        self._woken.add(resting)

    def note_running(self, resting: Resting) -> None:
        """Somebody waits no more; a thread that was let go gets `SETTLE` seconds for what it does next."""
        woken = resting in self._woken
        self._woken.discard(resting)
        if resting.idle is None:
            self._parked.discard(resting.thread)
            if woken:
                self._settling[resting.thread] = self._now() + SETTLE

    # What goes on.

    def is_settled(self, here: Idle | None) -> bool:
        """Whether all that was let go before has run its course; the loop `here` asks, and is idle."""
        if any(idle is not here and not idle.quiet and not self._is_held_up(idle) for idle in self.loops.values()):
            return False
        now = self._now()
        if self._settling:
            self._settling = {thread: until for thread, until in self._settling.items() if until > now}
            if self._settling:
                return False
        # When this loop is idle again, all that was let go in it has run.
        if self._woken:
            self._woken = {resting for resting in self._woken if resting.idle is None or resting.idle is not here}
        if self._time.looked - self._moved > PATIENCE:
            return True
        return not self._woken and not self._threads.are_at_work(self.list_held_threads(), now)

    def list_held_threads(self) -> set[int]:
        """The threads that wait for an answer, or run an event loop that is watched."""
        return self._parked | {idle.thread for idle in self.loops.values() if idle.runs}

    def has_timers(self) -> bool:
        """Whether a loop has a timer that will go off."""
        return any(idle.timeout not in {None, math.inf} for idle in self.loops.values())

    def is_active(self) -> bool:
        """Whether a timer will go off, or a thread or job is at work."""
        return self.has_timers() or find_at_work(self._activity, self.list_held_threads())[0]

    def find_wait(self, gap: float, futures: Collection[object]) -> float | None:
        """Return the seconds until another look at a call that may still come; None when nothing can bring it.

        It came `gap` seconds after the last answer when recorded. `futures` are those of tasks that wait for an answer.
        """
        busy, unknown = self._find_at_work(futures)
        if busy and self._time.looked - self._moved < WORKING + 4 * gap:
            return LOOK
        self._idles = True
        for idle in self.loops.values():
            if (left := self._find_timer(idle, gap)) is not None:
                self.timed = True
                return left
        left_of_silence = SILENCE + 4 * gap - (self._time.idle - self._moved_idle)
        return min(TICK, left_of_silence) if unknown and left_of_silence > 0 else None

    def may_go_on(self, gap: float, futures: Collection[object]) -> bool:
        """Whether something is at work, or waits for something unknown and may for `gap` seconds; as `find_wait`."""
        busy, unknown = self._find_at_work(futures)
        self._idles = busy or (unknown and self._time.idle - self._moved_idle < SILENCE + 4 * gap)
        return self._idles

    def _find_at_work(self, futures: Collection[object]) -> tuple[bool, bool]:
        """Whether a thread or job is at work, and whether one, or a task, waits for what we do not know."""
        busy, unknown = find_at_work(self._activity, self.list_held_threads())
        for runs, idle in self.loops.items():
            unknown = unknown or not isinstance(idle, SelectorIdle)  # its timers, or its waits, are not seen
            if isinstance(runs, asyncio.AbstractEventLoop) and runs.is_running() and not unknown:
                unknown = has_unknown_waits(runs, futures)
        return busy, unknown

    def _find_timer(self, idle: Idle, gap: float) -> float | None:
        """Seconds until the next timer of a loop, where that was due by then when recorded."""
        if not self.waits_for_timers or idle.timeout is None:
            return None
        due = self._time.idle - self._came_idle + idle.timeout
        return max(idle.timeout, LOOK) if due <= 2 * gap + GRACE else None

    def _is_held_up(self, idle: Idle) -> bool:
        """Whether the thread of a loop waits for another thread, and has for a while: it does not go on by itself."""
        at = find_join(idle.thread)
        before, since = self._stuck.get(idle, (None, 0.0))
        if at is None or at != before:
            self._stuck[idle] = at, self._time.looked
            return False
        return self._time.looked - since > HELD_UP
