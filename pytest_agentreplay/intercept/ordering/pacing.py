"""Virtual time while a test is recorded: timers and answers come as ever, and the loop's clock shows when they did.

The clock of a loop stands still while the loop works. It moves when the loop is idle: to the time at which a timer is
due, however late that was, or to the time at which an answer came, which is before the next timer. A replay then has
nothing to guess: what a timer's due time is, and what came before it, are sums of the same numbers.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.ordering import idle as idling
from pytest_agentreplay.intercept.ordering.holding import Holding
from pytest_agentreplay.intercept.ordering.virtual_time import SECOND, StillIdle, can_stand_still
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection

    from pytest_agentreplay.core.backends.backend import RecordingBackend
    from pytest_agentreplay.intercept.ordering.idle import Idle, Then
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall

BUSY = SECOND
"""Nanoseconds for which nothing may happen until somebody who reads the wall clock sees it go on."""

APART = 2
"""Nanoseconds between an answer and the timer that comes after it: one that is due within less fires with it."""


class Pacing(Holding):
    """Answers are held as in every recording; the clocks of the loops stand still while they work."""

    def __init__(self, backend: RecordingBackend, interception: Interception) -> None:
        """The run begins."""
        super().__init__(backend, interception)
        self._began = clocks.monotonic_ns()
        self._latest = 0

    def watch(self, loop: AbstractEventLoop) -> None:
        """The loop is about to run for the test: its clock goes on where the last one stopped."""
        if loop not in self._queues and not self._stopped and can_stand_still(loop):
            waiting: deque[Callable[[], bool]] = deque()
            self._queues[loop] = self._paced_loop(loop, waiting), waiting

    def now_ns(self) -> int:
        """The virtual time in a loop, the real one elsewhere; nanoseconds since the run began."""
        paced = self._make_paced()
        return self._note_times(self._real() if paced is None else paced.ns)

    def passed(self) -> int:
        """When something last happened; who does nothing but look at it for long sees time go on."""
        paced = self._make_paced()
        return max(self._note_times() if paced is None else paced.ns, self._real() - BUSY)

    def sleep(self, seconds: float) -> None:
        """Sleep for real; that long is what it took."""
        clocks.sleep(seconds)
        paced = self._make_paced()
        if paced is not None:
            paced.ns += round(seconds * SECOND)
        else:
            self._note_times(self._latest + round(seconds * SECOND))

    def seconds(self) -> float:
        """As `now_ns`, in seconds."""
        return self.now_ns() / SECOND

    def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
        """The answer has come as far as `chunks`."""
        if (paced := self._make_paced()) is not None:
            paced.catch_up()
        super().wait_in_thread(intercepted, chunks, at_once=at_once)

    def _watched(self, runs: object, waiting: deque[Callable[[], bool]]) -> Idle:
        loop: Any = runs
        if lanes.running_loop() is None or not can_stand_still(loop):
            return super()._watched(runs, waiting)
        return self._paced_loop(loop, waiting)

    def _paced_loop(self, loop: AbstractEventLoop, waiting: deque[Callable[[], bool]]) -> PacedIdle:
        return PacedIdle(loop, lambda _: self._let_one_in(waiting), waiting, self._real, self._note_times())

    def _make_paced(self) -> PacedIdle | None:
        queue = self._queues.get(lanes.running_loop())
        return queue[0] if queue is not None and isinstance(queue[0], PacedIdle) else None

    def _note_times(self, at: int = 0) -> int:
        self._latest = max(
            [at, self._latest, *(idle.ns for idle, _ in self._queues.values() if isinstance(idle, PacedIdle))]
        )
        return at or self._latest

    def _real(self) -> int:
        return clocks.monotonic_ns() - self._began


class PacedIdle(StillIdle):
    """One loop, whose clock shows `ns`."""

    def __init__(
        self, loop: AbstractEventLoop, then: Then, waiting: Collection[object], real: Callable[[], int], ns: int
    ) -> None:
        """`then` lets one of `waiting` in. `real` is the time that passes for all, `ns` where the loop's begins."""
        self.ns = ns
        self._reality = real
        self._waiting = waiting
        super().__init__(loop, then, lambda: self.ns)

    def catch_up(self) -> None:
        """Something came just now: before the next timer."""
        self.ns = max(self.ns, self._read_before(self.due))

    def _read_before(self, due: int | None) -> int:
        return self._reality() if due is None else min(self._reality(), due - APART)

    def _select(self, timeout: float | None = None) -> Any:
        events = self._real(0)
        ready = timeout is not None and timeout <= 0
        busy = bool(events) or ready
        self._rounds += busy
        if not busy or self._rounds >= idling.SPINNING:
            self._rounds = 0
            return self._moment(events, busy=busy)
        if not ready:
            self.catch_up()
        return events

    def _moment(self, events: Any, *, busy: bool) -> Any:
        """The loop is idle: an answer comes, or time passes until a timer is due or a socket speaks."""
        due = self.due
        wait = None
        if self._waiting and self._read_before(due) >= self.ns:
            self.catch_up()
            if (wait := self._then(self)) == 0:
                return events
        left = None if due is None else (due - self._reality()) / SECOND
        if left is None or (wait is not None and wait < left):
            left = wait
        if not busy and (left is None or left > 0):
            events = self._real(left)
        if due is not None and due <= self._reality() and not events:
            self.ns = max(self.ns, due)
        else:
            self.catch_up()
        return events
