"""Answers while a test is recorded: tasks get them one at a time, each when the event loop is idle.

A replay can hand over answers in no other way that is the same each time. So a recording does it too: an answer that
comes while the loop is at work waits, some microseconds mostly, until all that the one before it set off has run.
What the recording says of the order is then exact, and two answers that came in one go do not blur it. Threads get
them one at a time too, each when the others wait or are out in the world, as far as that can be seen.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.ordering.idle import is_idle, watch_running_loop
from pytest_agentreplay.intercept.ordering.pausing import LOOK, PATIENCE, Sleepers, Threads
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.pending_call import AnswerOrder
from pytest_agentreplay.model.release_order import COLLISION, END

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from pytest_agentreplay.backends.backend import RecordingBackend
    from pytest_agentreplay.intercept.ordering.idle import Idle
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall


class Holding(AnswerOrder):
    """The queues of answers that wait, one for each event loop of the test."""

    now = staticmethod(clocks.monotonic)

    def __init__(self, backend: RecordingBackend, interception: Interception) -> None:
        """`backend` is told how far each answer has come."""
        self._backend = backend
        self._interception = interception
        self._threads = Threads(interception.work)
        self.asleep: set[str] = set()
        """What slept while an answer came, by the name of what it runs."""
        self._turn = threading.RLock()
        self._moved = self.now()
        self.collisions = 0
        """How many answers to threads came within a millisecond of another thread's: which was first is chance."""
        self._arrival: tuple[int, frozenset[PendingCall]] = 0, frozenset()
        self._stopped = False
        self._queues: dict[object, tuple[Idle, deque[Callable[[], bool]]]] = {}

    async def wait(self, intercepted: PendingCall, chunks: int) -> None:
        """Wait until the loop is idle; then the answer has come as far as `chunks`."""
        loop = lanes.find_running_loop()
        if self._stopped:
            return
        if loop is None:
            await self._wait(self._queue(lanes.get_trio_run()))
        elif not self._is_free(loop):
            await self._wait(self._queue(loop))
        self._note_sleepers()
        self.wait_in_thread(intercepted, chunks)

    def defer(self, then: Callable[[], object]) -> bool:
        """Whether the loop is not idle; `then` is called when it is."""
        loop = lanes.find_running_loop()
        if self._stopped or loop is None or self._is_free(loop):
            return False
        watched, waiting = self._queue(loop)
        waiting.append(lambda: loop.call_soon(then) is not None)
        watched.poke()
        return True

    def hold_in_thread(self, intercepted: PendingCall) -> None:
        """Wait, in a thread, until no other one is at work; then this one is."""
        if intercepted.at_home or lanes.is_in_loop() or self._interception.ending.over.is_set():
            return
        self._note_arrival(intercepted)
        with self._turn:
            self._moved = self.now()
            is_alone = self._interception.work.is_alone()
            while not is_alone and self._is_at_work():
                clocks.sleep(LOOK / 4)
            intercepted.at_home = True
            if not is_alone:
                self._note_sleepers()

    def _note_sleepers(self) -> None:
        self.asleep |= Sleepers(self._interception.work).find(self._list_abroad())[0]

    def _list_abroad(self) -> set[object]:
        """Return the tasks and threads that wait for an answer of the world."""
        return {intercepted.thread for intercepted in list(self._interception.pending.open) if not intercepted.at_home}

    def _note_arrival(self, intercepted: PendingCall) -> None:
        """Count an answer that came within a millisecond of one before it, while both were waited for."""
        at = self._interception.clock.now()
        before, others = self._arrival
        self.collisions += at - before < COLLISION and intercepted in others
        self._arrival = at, frozenset(self._interception.pending.open)

    def drop(self, start: int) -> None:
        """Note that a served answer is over; what is dropped of another one settles itself."""
        self._backend.hand_over(start)

    def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
        """The answer has come as far as `chunks`. A served one waits like those that were made."""
        if intercepted.exchange is not None:
            self.hold_in_thread(intercepted)
        if chunks != END:
            self._backend.part(intercepted.ticket, chunks, at_once=at_once)

    def stop(self) -> None:
        """Leave all loops as they were, and let everybody in who still waits in one that runs on."""
        self._stopped = True
        for watched, waiting in self._queues.values():
            watched.stop()
            with contextlib.suppress(RuntimeError):  # the loop is closed, or the run of trio over
                while waiting:
                    waiting.popleft()()
        self._queues.clear()

    def _is_free(self, loop: AbstractEventLoop) -> bool:
        """Whether what has come may go on at once."""
        queue = self._queues.get(loop)
        self._moved = self.now()
        return not (queue is not None and queue[1]) and is_idle(loop) and not self._is_at_work()

    def _queue(self, runs: object) -> tuple[Idle, deque[Callable[[], bool]]]:
        queue = self._queues.get(runs)
        if queue is None:
            waiting: deque[Callable[[], bool]] = deque()
            queue = self._queues[runs] = self._watch_loop(runs, waiting), waiting
        return queue

    def _watch_loop(self, runs: object, waiting: deque[Callable[[], bool]]) -> Idle:
        """The loop that runs here, which lets one in when it is idle."""
        del runs
        return watch_running_loop(lambda _: self._let_one_in(waiting))

    async def _wait(self, queue: tuple[Idle, deque[Callable[[], bool]]]) -> None:
        watched, waiting = queue
        moment: Any
        if lanes.find_running_loop() is not None:
            moment = lanes.find_running_loop().create_future()  # type: ignore[union-attr]
            waiting.append(lambda: not moment.done() and moment.set_result(None) is None)
        else:
            moment = _TrioMoment()
            waiting.append(moment.set)
        watched.poke()
        await moment

    def _let_one_in(self, waiting: deque[Callable[[], bool]]) -> float | None:
        if waiting and self._is_at_work():
            return LOOK
        while waiting:
            if waiting.popleft()():
                self._moved = self.now()
                return 0
        return None

    def _is_at_work(self) -> bool:
        """Whether another thread is at work, as far as it is worth waiting for: one out in the world is not."""
        now = self.now()
        if now - self._moved > PATIENCE:
            return False
        interception = self._interception
        abroad: set[object] = set()
        if (
            interception.work.working or interception.work.main_thread != threading.get_ident()
        ):  # else there is no other thread to ask
            abroad = self._list_abroad()
        return self._threads.are_at_work({thread for thread in abroad if isinstance(thread, int)}, now)


class _TrioMoment:
    """A future of trio."""

    def __init__(self) -> None:
        import trio

        self._event = trio.Event()
        self._gone = False

    def set(self) -> bool:
        """Whether somebody was still waiting."""
        self._event.set()
        return not self._gone

    def __await__(self) -> Any:
        try:
            yield from self._event.wait().__await__()
        finally:
            self._gone = True
