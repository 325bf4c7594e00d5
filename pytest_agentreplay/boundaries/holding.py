"""Answers while a test is recorded: tasks get them one at a time, each when the event loop is idle.

A replay can hand over answers in no other way that is the same each time. So a recording does it too: an answer that
comes while the loop is at work waits, some microseconds mostly, until all that the one before it set off has run.
What the recording says of the order is then exact, and two answers that came in one go do not blur it. Threads are
left alone; nobody can tell when they are idle.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.boundaries import idle as idling
from pytest_agentreplay.boundaries import lanes
from pytest_agentreplay.core.schedule import END

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.boundaries.crossing import Passage
    from pytest_agentreplay.boundaries.idle import Idle
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.gate import Gate


class Holding:
    """The queues of answers that wait, one for each event loop of the test."""

    def __init__(self, gate: Gate) -> None:
        """`gate` is told how far each answer has come."""
        self._gate = gate
        self._stopped = False
        self._queues: dict[object, tuple[Idle, deque[Callable[[], bool]]]] = {}

    async def come(self, passage: Passage, chunks: int) -> None:
        """Wait until the loop is idle; then the answer has come as far as `chunks`."""
        loop = lanes.running_loop()
        runs: object = loop if loop is not None else lanes.trio_run()
        queue = self._queues.get(runs)
        if self._stopped:
            return
        if loop is None or (queue is not None and queue[1]) or not idling.is_idle(loop):
            await self._wait(runs, queue)
        self.come_now(passage, chunks)

    def ask(self, start: int) -> None:
        """Nothing: a recording has no order to keep."""

    def has_come(self, passage: Passage, chunks: int) -> bool:
        """Never asked: nothing is played."""
        del passage, chunks
        return True

    def drop(self, start: int) -> None:
        """Nothing: what is dropped settles itself."""

    def refuse(self, divergence: Divergence) -> None:
        """Never called: a recording refuses nothing."""

    def come_now(self, passage: Passage, chunks: int) -> None:
        """The answer has come as far as `chunks`."""
        if chunks != END:
            self._gate.part(passage.ticket, chunks)

    def stop(self) -> None:
        """Leave all loops as they were, and let everybody in who still waits in one that runs on."""
        self._stopped = True
        for watched, waiting in self._queues.values():
            watched.stop()
            with contextlib.suppress(RuntimeError):  # the loop is closed, or the run of trio over
                while waiting:
                    waiting.popleft()()
        self._queues.clear()

    async def _wait(self, runs: object, queue: tuple[Idle, deque[Callable[[], bool]]] | None) -> None:
        if queue is None:
            waiting: deque[Callable[[], bool]] = deque()
            queue = self._queues[runs] = self._idle(runs, waiting), waiting
        watched, waiting = queue
        moment: Any
        if lanes.running_loop() is not None:
            moment = lanes.running_loop().create_future()  # type: ignore[union-attr]
            waiting.append(lambda: not moment.done() and moment.set_result(None) is None)
        else:
            moment = _TrioMoment()
            waiting.append(moment.set)
        watched.poke()
        await moment

    def _idle(self, runs: object, waiting: deque[Callable[[], bool]]) -> Idle:
        """The loop that runs here, which lets one in when it is idle."""
        del runs
        return idling.watched(lambda _: let_one_in(waiting))


def let_one_in(waiting: deque[Callable[[], bool]]) -> float | None:
    """Hand an answer to the first who still waits; gives 0 if somebody did."""
    while waiting:
        if waiting.popleft()():
            return 0
    return None


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
