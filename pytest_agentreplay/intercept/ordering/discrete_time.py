"""A replay in virtual time: answers, timers and sleeps are one row of events, and time goes from each to the next.

Nobody sleeps. When all is quiet, what is due first comes: the next recorded answer, at the time at which it came when
recorded, or the next timer of a loop, or the end of somebody's sleep. Work that nobody here can see the end of (a
thread or a job at work, an open socket or pipe) is waited for in real time, and as long as it goes on virtual time
passes no faster than real time. The stall rule is that of every replay, told in virtual time.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.environment import debuggers
from pytest_agentreplay.intercept.ordering.idle import SelectorIdle
from pytest_agentreplay.intercept.ordering.pausing import LOOK, find_at_work
from pytest_agentreplay.intercept.ordering.quiet import GRACE
from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
from pytest_agentreplay.intercept.ordering.virtual_time import BUSY, SECOND, StillIdle, can_stand_still
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.intercept.ordering.idle import Idle
    from pytest_agentreplay.intercept.ordering.release import Explain, OrderedTest, Waiter
    from pytest_agentreplay.model.release_order import ReleaseEvent, ReleaseSchedule

# Nanoseconds within which it is chance whether a timer or an answer came first, where loops ran in real time: one of a
# thousand timers is late by 3.4 ms or more (`tests/benchmarks/order_limits.py`).
TIGHT = 5_000_000


class Sleeper:
    """A thread that sleeps until `due`."""

    __slots__ = ("due", "over", "thread", "wake")

    idle = None

    def __init__(self, due: int) -> None:
        """Made where it sleeps."""
        self.due = due
        self.over = False
        self.thread = threading.get_ident()
        self.wake: Callable[[], object] = int


class Timer(NamedTuple):
    """What is due next, and whose it is."""

    due: int
    owner: StillIdle | Sleeper


class Discrete(ReleaseQueue):
    """The order of one replay in virtual time: `ns` nanoseconds since the run began.

    `exact` says that the recording kept virtual time as well: what came first is then told by its times. `why` says why
    this replay has gone on in real time, "" while it has not.
    """

    def __init__(
        self,
        schedule: ReleaseSchedule,
        test: OrderedTest,
        explain: Explain,
        *,
        loose: bool = False,
        exact: bool = False,
    ) -> None:
        """The run begins."""
        super().__init__(schedule, test, explain, loose=loose)
        self.quiet.waits_for_timers = False
        self.ns = 0
        self.why = ""
        self.tight: set[tuple[int, int]] = set()
        schedule.events[:] = _clamp_times(schedule.events)
        self._exact = exact
        self._sleepers: list[Sleeper] = []
        self._changed_at = self._last_shown = 0
        self._looked: int | None = None
        self._go_to(0)

    # What the test sees of it.

    def watch(self, loop: AbstractEventLoop) -> None:
        """The loop is about to run for the test."""
        with self._lock:
            self._find_idle(loop)

    def read_seconds(self) -> float:
        """What the clocks show."""
        loop = lanes.find_running_loop()
        if loop is not None and loop not in self.quiet.loops:
            self.watch(loop)
        return self.read_ns() / SECOND

    def read_ns(self) -> int:
        """The time as it is shown: who does nothing but look at it sees it go on after a second of real time."""
        stood = _read_time_awake() - self._changed_at
        self._last_shown = max(self._last_shown, self.ns + (stood if self.why else max(0, stood - BUSY)))
        return self._last_shown

    def sleep(self, seconds: float) -> None:
        """Let so much virtual time pass. Whoever sleeps in the thread of an event loop holds up that loop."""
        with self._lock:
            if not self.why:
                due = self.ns + round(seconds * SECOND)
                if lanes.is_in_loop():
                    self._go_to(due)
                else:
                    self._sleep(Sleeper(due))
                return
        clocks.sleep(seconds)

    def _sleep(self, sleeper: Sleeper) -> None:
        changed = threading.Condition(self._lock)
        sleeper.wake = changed.notify
        self._sleepers.append(sleeper)
        self.quiet.note_waiting(sleeper)
        self._look()
        try:
            while not sleeper.over and not self._test.ending.over.is_set():
                wait = self._look_around(None)
                if not sleeper.over:
                    changed.wait(20 * LOOK if wait is None else wait)
        finally:
            self._sleepers = [other for other in self._sleepers if other is not sleeper]
            self.quiet.note_running(sleeper)
            self._look()

    def ask(self, start: int) -> None:
        """The call that is recorded as `start` was made: at least as late as when recorded, but for the next timer."""
        super().ask(start)
        if not self.schedule.holds(start):
            return
        with self._lock:
            at, timer = self.schedule.exchanges[start].timing.start, self._find_timer()
            self._go_to(at if timer is None else min(at, timer.due - 2))

    # What comes next.

    def _find_idle(self, runs: object) -> Idle | None:
        """The loop under watch. One whose time cannot be held ends virtual time for the rest of the test."""
        idle = self.quiet.loops.get(runs)
        if idle is not None or self._test.ending.over.is_set():
            return idle
        loop = lanes.find_running_loop() if runs is None else runs
        if not self.why and hasattr(loop, "call_soon_threadsafe") and can_stand_still(loop):  # type: ignore[arg-type]
            self.quiet.loops[runs] = StillIdle(loop, self._look_from_loop, lambda: self.ns)  # type: ignore[arg-type]
            return self.quiet.loops[runs]
        self._switch_to_real_time(f"{type(loop).__module__.partition('.')[0]} keeps a time of its own")
        return None

    def _watch_loop(self, runs: object) -> Idle:
        return self._find_idle(runs) or super()._watch_loop(runs)

    def _switch_to_real_time(self, why: str) -> None:
        if self.why:
            return
        self._go_to(self.read_ns())
        self.why = why
        for loop, still in [(loop, idle) for loop, idle in self.quiet.loops.items() if isinstance(idle, StillIdle)]:
            still.stop()
            idle = self.quiet.loops[loop] = SelectorIdle(loop, self._look_from_loop)  # type: ignore[arg-type]
            idle.thread = still.thread
            for waiter in self._waiting.values():
                if waiter.idle is still:
                    waiter.idle = idle
        for sleeper in self._sleepers:
            sleeper.over = True
            self.quiet.note_woken(sleeper)
            sleeper.wake()

    def _consider(self, here: Idle | None) -> float | None:
        if self.why:
            return super()._consider(here)
        while True:
            if not self.quiet.is_settled(here):
                return LOOK
            event = self.schedule.next_event() if self._waiting else None
            if self._waiting and event is None:
                return super()._consider(here)  # all has come
            timer = self._find_timer()
            waiter = None if event is None else self._waiting.get(event.start)
            awaited = None if event is None else self._find_awaited(event, waiter)
            if event is not None and waiter is not None and awaited is None:
                self._note(event, timer)
                if timer is None or event.at < timer.due:
                    if (wait := self._find_real_wait(event.at)) > 0:
                        return wait
                    if self._hand_over_answer(event, waiter):
                        return 0 if waiter.idle is here else LOOK
                    continue
            elif event is not None and awaited is not None and self._is_too_late(timer, awaited):
                if (left := self._find_wait(awaited)) is not None:
                    return left
                if waiter is None:
                    self._handle_stall(event)
                    return 0
                self.schedule.expect_no_more(awaited.start)
                continue
            if timer is None:
                return self._give_up(here) if self._endless else None
            return self._find_real_wait(timer.due) or self._fire(timer, here)

    def _hand_over_answer(self, event: ReleaseEvent, waiter: Waiter) -> bool:
        """Hand it over, or end the test where nobody could have waited for it yet; gives whether somebody goes on."""
        self._go_to(event.at)
        if (early := self._find_too_early(event, waiter)) is not None:
            self._end_test(early, self.schedule.exchanges[event.start])
            return True
        self._hand_over(event, waiter)
        if waiter.over and isinstance(waiter.idle, StillIdle) and waiter.thread != threading.get_ident():
            waiter.idle.rouse()
            waiter.idle.slept = False
        return waiter.over

    def _fire(self, timer: Timer, here: Idle | None) -> float:
        self._go_to(timer.due)
        self.quiet.note_move()
        owner = timer.owner
        if isinstance(owner, Sleeper):
            owner.over = True
            self._sleepers.remove(owner)
            self.quiet.note_woken(owner)
            owner.wake()
            return LOOK
        if owner is here:
            owner.slept = True
            return 0
        with contextlib.suppress(RuntimeError):  # it was closed just now
            owner.rouse()
        return LOOK

    def _find_timer(self) -> Timer | None:
        loops = [idle for idle in self.quiet.loops.values() if isinstance(idle, StillIdle) and idle.runs]
        timers = [Timer(due, idle) for idle in loops if (due := idle.due) is not None]
        timers += [Timer(sleeper.due, sleeper) for sleeper in self._sleepers]
        return min(timers, key=lambda timer: timer.due, default=None)

    def _is_too_late(self, timer: Timer | None, awaited: ReleaseEvent) -> bool:
        """Whether the next timer is due after the time until which one may still bring what is awaited."""
        limit = awaited.at + round((self._compute_gap(awaited.at) + GRACE) * SECOND)
        return timer is None or timer.due > limit

    def _note(self, event: ReleaseEvent, timer: Timer | None) -> None:
        if not self._exact and timer is not None and abs(event.at - timer.due) < TIGHT and timer.due > self.ns:
            self.tight.add((event.start, event.chunks))

    # Time.

    def _go_to(self, ns: int) -> None:
        self.ns = max(self.ns, ns)
        self._changed_at, self._looked = _read_time_awake(), None

    def _find_real_wait(self, until: int) -> float:
        """Seconds until time may go on to `until`: 0, unless something is at work that takes real time."""
        if not self._is_working_for_real():
            self._looked = None
            return 0
        now = _read_time_awake()
        if self._looked is not None:
            self.ns = max(self.ns, min(until, self.ns + now - self._looked))
            self._changed_at = now
        self._looked = now
        return min(LOOK, max(0, until - self.ns) / SECOND)

    def _is_working_for_real(self) -> bool:
        if self._divergence is not None:
            return True
        loops = [idle for idle in self.quiet.loops.values() if isinstance(idle, StillIdle) and idle.runs]
        if any(idle.listens for idle in loops):
            return True
        return find_at_work(self._test.work, self.quiet.list_held_threads())[0]


def _clamp_times(events: Sequence[ReleaseEvent]) -> list[ReleaseEvent]:
    """The events, none later than one that came after it: when a chunk came is only about known."""
    events_in_time: list[ReleaseEvent] = []
    for event in reversed(events):
        events_in_time.append(event if not events_in_time else event._replace(at=min(event.at, events_in_time[-1].at)))
    return events_in_time[::-1]


def _read_time_awake() -> int:
    return clocks.monotonic_ns() - debuggers.PROMPT.time_waited()
