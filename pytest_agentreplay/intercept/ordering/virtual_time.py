"""Virtual time: it stands still while a program works, and moves from one thing that happens to the next.

What happens is that an answer comes, or a timer is due. A recording waits for both as ever, and writes down the virtual
times at which they came (`Pacing`); so which came first is told by numbers that a replay meets again exactly, with no
luck of the machine in them. A replay (`discrete_time.Discrete`) waits for nothing: it goes to the earlier of the two at
once.

Here are the places where a program meets time: its event loops, `time.sleep`, `time.monotonic`, `time.perf_counter`.

While a test is recorded (`Pacing`) timers and answers come as ever, and the loop's clock shows when they did. The clock
of a loop stands still while the loop works. It moves when the loop is idle: to the time at which a timer is
due, however late that was, or to the time at which an answer came, which is before the next timer. A replay then has
nothing to guess: what a timer's due time is, and what came before it, are sums of the same numbers.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.ordering.holding import Holding
from pytest_agentreplay.intercept.ordering.idle import SPINNING, SelectorIdle, do_hooks_work, has_selector
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection

    from pytest_agentreplay.backends.backend import RecordingBackend
    from pytest_agentreplay.intercept.ordering.idle import Idle, Then
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall

# What a loop's clock shows when the run begins, in seconds: a small number, so that sums of floats are exact.
EPOCH = 1000.0

SECOND = 1_000_000_000

# Top packages that are shown the real time: what they wait for is real.
NOT_AGENTS = sys.stdlib_module_names | {"pytest_agentreplay", "_pytest", "pytest", "pluggy", "xdist", "pytest_timeout"}


def can_stand_still(loop: AbstractEventLoop) -> bool:
    """Whether it is a loop whose time can be held: it has a selector, timers and instance attributes of its own."""
    # https://github.com/python/cpython/blob/3.13/Lib/asyncio/base_events.py
    return has_selector(loop) and hasattr(loop, "_scheduled") and do_hooks_work()


class StillIdle(SelectorIdle):
    """A loop of asyncio's own kind whose clock shows virtual time, `now` in nanoseconds since the run began."""

    def __init__(self, loop: AbstractEventLoop, then: Then, now: Callable[[], int]) -> None:
        """Stand in for its clock too; timers that are under way keep what is left of them."""
        super().__init__(loop, then)
        self._now = now
        # `_clock_resolution`, `_scheduled`, `_when` and `_cancelled` are those of CPython 3.11-3.14: the loop takes all
        # timers that are due within its resolution, see https://github.com/python/cpython/blob/3.13/Lib/asyncio/base_events.py.
        self._resolution: float = loop._clock_resolution  # type: ignore[attr-defined]
        loop._clock_resolution = 1 / SECOND  # type: ignore[attr-defined]
        before = loop.time()
        loop.time = self._time  # type: ignore[method-assign]
        self._shift(self._time() - before)

    @property
    def due(self) -> int | None:
        """When its next timer is due, in virtual nanoseconds."""
        # `_cancelled` and `_when` of a handle: https://github.com/python/cpython/blob/3.13/Lib/asyncio/events.py
        timers: list[Any] = self._loop._scheduled  # type: ignore[attr-defined]
        for first in timers[:1]:
            if not first._cancelled:
                return _to_nanoseconds(first._when)
        return min((_to_nanoseconds(timer._when) for timer in timers if not timer._cancelled), default=None)

    def rouse(self) -> None:
        """Wake it, from any thread; from now on it is not quiet, until it is idle again."""
        self._resting = False
        self.slept = True
        self._loop.call_soon_threadsafe(int)

    def stop(self) -> None:
        """Return the loop its selector and its clock again."""
        super().stop()
        if vars(self._loop).get("time") == self._time:
            now = self._time()
            del self._loop.time
            self._loop._clock_resolution = self._resolution  # type: ignore[attr-defined]
            self._shift(self._loop.time() - now)

    def _time(self) -> float:
        return EPOCH + self._now() / SECOND

    def _shift(self, seconds: float) -> None:
        for timer in list(self._loop._scheduled):  # type: ignore[attr-defined]
            timer._when += seconds


def _to_nanoseconds(seconds: float) -> int:
    return round((seconds - EPOCH) * SECOND)


class Timed(Protocol):
    """An order that keeps virtual time."""

    def watch(self, loop: AbstractEventLoop) -> None:
        """The loop is about to run for the test."""

    def sleep(self, seconds: float) -> None:
        """Somebody of the test sleeps."""

    def read_seconds(self) -> float:
        """What a clock of the test shows, in seconds since the run began."""


class VirtualClock:
    """What shows a test the time of its `order`, from `start` to `stop`. With `clocks` its monotonic clocks do, too."""

    def __init__(self, interception: Interception, order: Timed, *, clocks: bool) -> None:
        """Nothing is replaced yet."""
        self._interception = interception
        self._order = order
        self._clocks = clocks
        self._before: list[tuple[object, str, Any]] = []
        self._began: tuple[float, float, int, int] | None = None

    def start(self) -> None:
        """Replace names of `asyncio` and `time`."""
        run_forever = asyncio.BaseEventLoop.run_forever

        def watch_and_run(loop: AbstractEventLoop) -> None:
            if self._is_tests():
                self._order.watch(loop)
            run_forever(loop)  # type: ignore[arg-type]

        self._exchange(asyncio.BaseEventLoop, "run_forever", watch_and_run)
        self._exchange(time, "sleep", self._sleep)
        if self._clocks:
            if self._began is None:  # else it goes on after a pause
                self._began = time.monotonic(), time.perf_counter(), time.monotonic_ns(), time.perf_counter_ns()
            began_s, began, began_ns, perf_ns = self._began
            self._clock("monotonic", time.monotonic, lambda at: began_s + at)
            self._clock("perf_counter", time.perf_counter, lambda at: began + at)
            self._clock("monotonic_ns", time.monotonic_ns, lambda at: began_ns + round(at * SECOND))
            self._clock("perf_counter_ns", time.perf_counter_ns, lambda at: perf_ns + round(at * SECOND))

    def stop(self) -> None:
        """Return them back."""
        while self._before:
            setattr(*self._before.pop())

    def _exchange(self, owner: Any, name: str, ours: Any) -> None:
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, ours)

    def _clock(self, name: str, real: Callable[[], Any], virtual: Callable[[float], Any]) -> None:
        def read_clock() -> Any:
            return virtual(self._order.read_seconds()) if self._is_agents() else real()

        self._exchange(time, name, read_clock)

    def _sleep(self, seconds: float, /) -> None:
        duration: object = seconds  # the real one says what it does not take
        if isinstance(duration, int | float) and duration > 0 and self._is_agents():
            self._order.sleep(duration)
        else:
            clocks.sleep(seconds)

    def _is_agents(self) -> bool:
        """Whether code of the test's, or of a library that it uses, asks: neither ours nor the standard library's."""
        asks = sys._getframe(2).f_globals.get("__name__") or ""
        return asks.partition(".")[0] not in NOT_AGENTS and self._is_tests()

    def _is_tests(self) -> bool:
        """Whether the test runs here, in its own thread or in one that it has started, and in no exchange."""
        if self._interception.ending.over.is_set():
            return False
        call_context = lanes.CALL_CONTEXT.get()
        if call_context is not None:
            return call_context.interception is self._interception and call_context.inside is None
        return threading.get_ident() == self._interception.work.main_thread


# Nanoseconds for which nothing may happen until somebody who reads the wall clock sees it go on.
BUSY = SECOND

# Nanoseconds between an answer and the timer that comes after it: one that is due within less fires with it.
APART = 2


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

    def read_ns(self) -> int:
        """The virtual time in a loop, the real one elsewhere; nanoseconds since the run began."""
        paced = self._make_paced()
        return self._note_times(self._real() if paced is None else paced.ns)

    def read_passed(self) -> int:
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

    def read_seconds(self) -> float:
        """As `read_ns`, in seconds."""
        return self.read_ns() / SECOND

    def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
        """The answer has come as far as `chunks`."""
        if (paced := self._make_paced()) is not None:
            paced.catch_up()
        super().wait_in_thread(intercepted, chunks, at_once=at_once)

    def _watch_loop(self, runs: object, waiting: deque[Callable[[], bool]]) -> Idle:
        loop: Any = runs
        if lanes.find_running_loop() is None or not can_stand_still(loop):
            return super()._watch_loop(runs, waiting)
        return self._paced_loop(loop, waiting)

    def _paced_loop(self, loop: AbstractEventLoop, waiting: deque[Callable[[], bool]]) -> PacedIdle:
        return PacedIdle(loop, lambda _: self._let_one_in(waiting), waiting, self._real, self._note_times())

    def _make_paced(self) -> PacedIdle | None:
        queue = self._queues.get(lanes.find_running_loop())
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
        if not busy or self._rounds >= SPINNING:
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
