"""Virtual time: it stands still while a program works, and moves from one thing that happens to the next.

What happens is that an answer comes, or a timer is due. A recording waits for both as ever, and writes down the virtual
times at which they came (`pacing.py`); so which came first is told by numbers that a replay meets again exactly, with
no luck of the machine in them. A replay (`discrete.py`) waits for nothing: it goes to the earlier of the two at once.

Here are the places where a program meets time: its event loops, `time.sleep`, `time.monotonic`, `time.perf_counter`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.ordering import idle as idling
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from pytest_agentreplay.intercept.ordering.idle import Then
    from pytest_agentreplay.intercept.session.interceptions import Interception

EPOCH = 1000.0
"""What a loop's clock shows when the run begins, in seconds: a small number, so that sums of floats are exact."""

SECOND = 1_000_000_000

NOT_AGENTS = sys.stdlib_module_names | {"pytest_agentreplay", "_pytest", "pytest", "pluggy", "xdist", "pytest_timeout"}
"""Top packages that are shown the real time: what they wait for is real."""


def can_stand_still(loop: AbstractEventLoop) -> bool:
    """Whether it is a loop whose time can be held: it has a selector, timers and instance attributes of its own."""
    return idling.has_selector(loop) and hasattr(loop, "_scheduled") and idling.hooks_work()


class StillIdle(idling.SelectorIdle):
    """A loop of asyncio's own kind whose clock shows virtual time, `now` in nanoseconds since the run began."""

    def __init__(self, loop: AbstractEventLoop, then: Then, now: Callable[[], int]) -> None:
        """Stand in for its clock too; timers that are under way keep what is left of them."""
        super().__init__(loop, then)
        self._now = now
        self._resolution: float = loop._clock_resolution  # type: ignore[attr-defined]
        loop._clock_resolution = 1 / SECOND  # type: ignore[attr-defined]
        before = loop.time()
        loop.time = self._time  # type: ignore[method-assign]
        self._shift(self._time() - before)

    @property
    def due(self) -> int | None:
        """When its next timer is due, in virtual nanoseconds."""
        timers: list[Any] = self._loop._scheduled  # type: ignore[attr-defined]
        for first in timers[:1]:
            if not first._cancelled:
                return _nanoseconds(first._when)
        return min((_nanoseconds(timer._when) for timer in timers if not timer._cancelled), default=None)

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


def _nanoseconds(seconds: float) -> int:
    return round((seconds - EPOCH) * SECOND)


class Timed(Protocol):
    """An order that keeps virtual time."""

    def watch(self, loop: AbstractEventLoop) -> None:
        """The loop is about to run for the test."""

    def sleep(self, seconds: float) -> None:
        """Somebody of the test sleeps."""

    def seconds(self) -> float:
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

        def watched(loop: AbstractEventLoop) -> None:
            if self._is_tests():
                self._order.watch(loop)
            run_forever(loop)  # type: ignore[arg-type]

        self._exchange(asyncio.BaseEventLoop, "run_forever", watched)
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
        def read() -> Any:
            return virtual(self._order.seconds()) if self._is_agents() else real()

        self._exchange(time, name, read)

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
        return threading.get_ident() == self._interception.main().thread
