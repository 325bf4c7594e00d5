"""When an event loop has nothing left to do: then, and only then, the next answer is handed over.

A loop of asyncio asks its selector how long it may sleep. That is the moment: whatever the last answer has set off has
run to its end. The question is heard by standing in for the `select` of the loop's own selector, which costs one call
each time the loop goes round. A loop that has none (uvloop), or whose insides have changed, is guessed: it goes round
some thirty times, and a millisecond passes. trio says by itself when all its tasks are blocked.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

# How often a loop goes round until it is taken to be idle, where it cannot be asked. Beside four busy processes uvloop
# kept the order of 38, 37, 39, 40 and 40 of 40 programs with 1, 2, 5, 30 and 60 rounds; alone of 37 with 1, and of all
# with 2 and more, in 35 to 40 ms each whatever the rounds (`order_limits.py`).
ROUNDS = 30

# Seconds that pass besides; threads that cannot be asked get them too. A notified thread runs on after 0.01 ms in the
# median; one of a thousand needs 3 ms, which is why a recording says how often it was that close (`racy`, measured by
# `tests/benchmarks/order_limits.py`).
SETTLE = 0.001

# Seconds that the test of the hooks may take: 21 to 82 ms in a new process (ten of them), where it imports asyncio,
# then 0.7 ms in the median; 52 ms was the worst of 2,000 beside four busy processes (`order_limits.py`).
PROBE = 5.0

# Rounds without rest after which a loop that never sleeps (a task that spins, a socket that pours) counts as idle. With
# 8 the order of 39 of 40 programs was kept, with 32 and more of all. Ten answers beside a task that spins took 7 ms
# with 32, 14 ms with 256, 71 ms with 2,048 (`order_limits.py`).
SPINNING = 256


class Idle(Protocol):
    """One event loop under watch."""

    thread: int
    """The ident of the thread that runs it."""

    slept: bool
    """Whether it has waited for the world since somebody said it had not: for a timer, a socket, another thread."""

    timeout: float | None
    """Seconds until its next timer, at the moment when it became idle; None: there is none, or it cannot be told."""

    @property
    def runs(self) -> bool:
        """Whether somebody runs it: afterwards its thread goes on by itself, and may call."""

    @property
    def quiet(self) -> bool:
        """Whether it has nothing to do right now."""

    def poke(self) -> None:
        """Somebody waits in it: look out for the moment. From the loop's own thread."""

    def stop(self) -> None:
        """Leave the loop as it was. From any thread; twice does nothing."""


# What to do when a loop is idle: gives how many seconds it may sleep at most, 0 when it has something to do again.
Then: TypeAlias = "Callable[[Idle], float | None]"


def watch_running_loop(then: Then) -> Idle:
    """The event loop that runs here, watched from now on."""
    loop = lanes.find_running_loop()
    if loop is None:
        return TrioIdle(then)
    return SelectorIdle(loop, then) if has_selector(loop) and do_hooks_work() else RoundsIdle(loop, then)


def is_idle(loop: AbstractEventLoop) -> bool:
    """Whether nothing but the running task has anything to do right now; False where that cannot be told."""
    # The queue of callbacks, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/asyncio/base_events.py
    ready = getattr(loop, "_ready", None)
    if ready is not None:
        return not ready
    return len(sys.modules["asyncio"].all_tasks(loop)) == 1


def do_other_tasks_wait(loop: AbstractEventLoop) -> bool:
    """Whether every task but the running one waits: as `is_idle`, but blind to callbacks where `loop` hides them.

    A hidden callback may be about to wake a task, as the end of a gather does. A recording, which must know the order,
    asks `is_idle` therefore: with this, 11 of 320 replays under uvloop lost the order, and none of 500 without.
    """
    if hasattr(loop, "_ready"):
        return is_idle(loop)
    # What a task waits for, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/asyncio/tasks.py
    asyncio = sys.modules["asyncio"]
    others = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    return all(task._fut_waiter is not None and not task._fut_waiter.done() for task in others)


def has_selector(loop: AbstractEventLoop) -> bool:
    """Whether it is a loop that asks a selector, which can be stood in for."""
    return callable(getattr(getattr(loop, "_selector", None), "select", None))


class LoopIdle:
    """A loop of asyncio, or one that is like it; made in its thread."""

    def __init__(self, loop: AbstractEventLoop, then: Then) -> None:
        self.thread = threading.get_ident()
        self.timeout: float | None = None
        self._loop = loop
        self._then = then
        self._resting = False

    @property
    def runs(self) -> bool:
        """Whether somebody runs it."""
        return self._loop.is_running()

    @property
    def quiet(self) -> bool:
        """Whether the loop sleeps, or went round often enough, or does not run any more."""
        return self._resting or not self.runs


class SelectorIdle(LoopIdle):
    """A loop of asyncio's own kind."""

    def __init__(self, loop: AbstractEventLoop, then: Then) -> None:
        """Stand in for the selector's `select`."""
        super().__init__(loop, then)
        self._slept = False
        self._due: float | None = None
        self._rounds = 0
        self._selector: Any = loop._selector  # type: ignore[attr-defined]
        self._real = self._selector.select
        self._selector.select = self._select

    @property
    def slept(self) -> bool:
        """Whether it has slept, or a timer that fell due while it was at work may have fired since."""
        return self._slept or (self._due is not None and self._due <= self._loop.time())

    @slept.setter
    def slept(self, slept: bool) -> None:
        self._slept = slept

    @property
    def listens(self) -> bool:
        """Whether it waits for sockets or pipes: all that is open in a replay, but the one by which it is woken."""
        return len(self._selector.get_map() or ()) > 1

    def is_at_work(self) -> bool:
        """Whether something beside the running task is to run, or may be woken from outside the process."""
        return self.listens or not is_idle(self._loop)

    def is_due_within(self, seconds: float) -> bool:
        """Whether a timer is due by then."""
        due = self._next_timer()
        return due is not None and due - self._loop.time() <= seconds

    def poke(self) -> None:
        """Nothing: the loop asks by itself."""

    def stop(self) -> None:
        """Return the selector its `select` again."""
        if vars(self._selector).get("select") == self._select:
            del self._selector.select

    def _select(self, timeout: float | None = None) -> Any:
        events = self._real(0)
        self.slept, self._due = self.slept, self._next_timer()
        busy = bool(events) or (timeout is not None and timeout <= 0)
        self._rounds += busy
        if busy and self._rounds < SPINNING:
            return events
        self._rounds = 0
        self._resting, self.timeout = True, timeout
        try:
            if busy:
                self._then(self)
                return events
            wait = self._then(self)
            if wait is None or (timeout is not None and timeout < wait):
                wait = timeout
            self.slept = self.slept or wait is None or wait > 0
            return self._real(wait)
        finally:
            self._resting = False

    def _next_timer(self) -> float | None:
        # A heap of timer handles, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/asyncio/base_events.py
        scheduled = getattr(self._loop, "_scheduled", None)
        return scheduled[0].when() if scheduled else None


class RoundsIdle(LoopIdle):
    """A loop that cannot be asked: rounds are counted from the last poke on."""

    def __init__(self, loop: AbstractEventLoop, then: Then) -> None:
        """Nothing happens before `poke`."""
        super().__init__(loop, then)
        self.slept = True  # it may have
        self._left = 0
        self._stopped = self._going = False

    def poke(self) -> None:
        """Count anew."""
        self._left, self._resting = ROUNDS, False
        if not self._going and not self._stopped:
            self._going = True
            self._loop.call_soon(self._count_round)

    def stop(self) -> None:
        """Count no more."""
        self._stopped = True

    def _count_round(self) -> None:
        if self._stopped:
            return
        self._left -= 1
        if self._left > 0:
            self._loop.call_soon(self._count_round)
        else:
            self._loop.call_later(SETTLE, self._settle)

    def _settle(self) -> None:
        self._going = False
        if self._stopped:
            return
        if self._left > 0:
            self.poke()
            return
        self._resting = True
        wait = self._then(self)
        if wait == 0:
            self.poke()
        elif wait is not None:
            self._loop.call_later(wait, self.poke)


class TrioIdle:
    """The run of trio that is under way here; a task of the system waits until all others do."""

    def __init__(self, then: Then) -> None:
        """Begin to wait."""
        import trio

        self.thread = threading.get_ident()
        self.slept = True  # timers are not told apart
        self.timeout: float | None = None
        self._trio = trio
        self._then = then
        self._resting = self._stopped = False
        self._poked = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        token = lanes.CALL_CONTEXT.set(None)  # it is no task of the test's
        try:
            trio.lowlevel.spawn_system_task(self._watch, name="agentreplay-idle")
        finally:
            lanes.CALL_CONTEXT.reset(token)

    @property
    def runs(self) -> bool:
        """Whether the run goes on; its end cancels the task that waits."""
        return not self._stopped

    @property
    def quiet(self) -> bool:
        """Whether all its tasks wait."""
        return self._resting or self._stopped

    def poke(self) -> None:
        """Wait for the moment once more."""
        self._resting = False
        self._poked.set()

    def stop(self) -> None:
        """Wait no more."""
        self._stopped = True
        try:
            self._token.run_sync_soon(self._poked.set)
        except self._trio.RunFinishedError:
            pass

    async def _watch(self) -> None:
        from trio.testing import wait_all_tasks_blocked

        trio = self._trio
        try:
            while not self._stopped:
                await self._poked.wait()
                await wait_all_tasks_blocked()
                self._resting = True
                self.timeout = trio.lowlevel.current_statistics().seconds_to_next_deadline
                wait = self._then(self)
                if wait == 0:
                    self._resting = False
                    continue
                self._poked = trio.Event()
                with trio.move_on_after(float("inf") if wait is None else wait):
                    await self._poked.wait()
                self._poked.set()
        finally:
            self._stopped = True


@cache
def do_hooks_work() -> bool:
    """Whether a loop of this Python asks its selector as it always did: two futures are set when it is idle, in turn.

    Looked at once in a process, when a loop is watched for the first time.
    """
    import asyncio

    seen: list[tuple[str, float | None]] = []
    ended: list[bool] = []

    def probe() -> None:
        loop = asyncio.SelectorEventLoop()
        try:
            futures = {name: loop.create_future() for name in ("first", "second")}
            left = list(futures)

            def resolve_next(idle: Idle) -> float | None:
                if not left:
                    return None
                name = left.pop(0)
                seen.append((name, idle.timeout))
                futures[name].set_result(None)
                return 0

            async def await_both() -> None:
                timer = loop.call_later(60, int)
                await futures["first"]
                timer.cancel()
                await asyncio.sleep(0)
                await futures["second"]

            idle = SelectorIdle(loop, resolve_next)
            loop.run_until_complete(await_both())
            idle.stop()
        finally:
            loop.close()
            ended.append(True)

    token = lanes.CALL_CONTEXT.set(None)
    try:
        thread = threading.Thread(target=probe, name="agentreplay-self-test", daemon=True)
        thread.start()
        # Not `join`: an event loop runs here, and blockbuster takes a wait for a lock for the agent's.
        deadline = clocks.monotonic() + PROBE
        while not ended and clocks.monotonic() < deadline:
            clocks.sleep(0.0005)
    finally:
        lanes.CALL_CONTEXT.reset(token)
    if [name for name, _ in seen] != ["first", "second"]:
        return False
    timers = [timeout for _, timeout in seen]
    return timers[0] is not None and 0 < timers[0] <= 60 and timers[1] is None
