"""One call under way: what its boundary does with it while it waits, and once its outcome is there.

`Interception.enter` makes one of each call. A boundary that records calls `settle` with the real outcome; one that
replays waits, hands `outcome` on, and calls `finish`.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.callers import find_agents_line
from pytest_agentreplay.model.exchanges import Failure, ToolCall
from pytest_agentreplay.model.release_order import END

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pytest_agentreplay.backends.backend import Recorder
    from pytest_agentreplay.intercept.session.session_parts import Observations, Redactor
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, Exchange, Outcome


class AnswerOrder:
    """In which order answers come: here at once. `Holding` holds them while recording, `ReleaseQueue` in a replay.

    `Pausing` does where a replay has no order to keep.
    """

    def ask(self, start: int) -> None:
        """The call that is recorded as `start` was made."""

    async def wait(self, intercepted: PendingCall, chunks: int) -> None:  # noqa: ARG002  those that hold answers look at it
        """Wait until the answer may come as far as `chunks`: let other tasks run once, if they did when recorded."""
        if not intercepted.suspended:
            return
        if lanes.find_running_loop() is not None:
            await sys.modules["asyncio"].sleep(0)
        else:
            await sys.modules["trio"].lowlevel.checkpoint()

    def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
        """As `wait`, for a thread; `at_once` says that the caller is a task that has not given way so far."""

    def hold_in_thread(self, intercepted: PendingCall) -> None:
        """Wait until a thread may have the whole answer that is there."""

    def defer(self, then: Callable[[], object]) -> bool:  # noqa: ARG002
        """Whether what comes in a callback waits for its moment; `then` is called in it."""
        return False

    async def abandon(self, intercepted: PendingCall) -> None:  # noqa: ARG002
        """Wait to be given up: the recorded call never ended."""
        if (loop := lanes.find_running_loop()) is not None:
            await loop.create_future()
        else:
            await sys.modules["trio"].sleep_forever()

    def abandon_in_thread(self, intercepted: PendingCall) -> None:
        """As `abandon`, for a thread, which the end of the test sets free."""

    def is_released(self, intercepted: PendingCall, chunks: int) -> bool:  # noqa: ARG002
        """Whether the answer has come so far."""
        return True

    def disturb(self) -> None:
        """Something comes that has no place in the order: a message over a lasting connection."""

    def drop(self, start: int) -> None:
        """Whoever made the call wants no more of its answer."""

    def refuse(self, divergence: Divergence) -> None:
        """The backend has refused for good."""

    def stop(self) -> None:
        """The test is over."""


class CallOwner(lanes.LaneOwner, Protocol):
    """The interception, as far as its calls know it."""

    redactor: Redactor
    pending: PendingCalls
    observed: Observations
    order: AnswerOrder
    root: str

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return what is recorded of the lasting connection that the exchange `opening` opened."""


@dataclass(slots=True, eq=False, repr=False)
class PendingCall:
    """One call at the interception, made by `Interception.enter` alone.

    Attributes:
        call_context: The strand that made the call.
        call: The call, as it may be stored.
        ticket: The number of its exchange.
        forward: Whether to go to the world; else `outcome` is what to give back.
        unfinished: A replayed call that never ended in the recording: the boundary waits with `abandon`.
        suspended: A replayed call during which others ran.
        outcome: What a replayed call gives.
        exchange: What is recorded of a replayed call.
        partial: When the boundary sets it, it returns what has come so far of an answer that the agent may drop unread.
        compare: There where the real call is made beside the recorded answer: it takes the outcome once, by
            `compare_outcome`.
        handed: Called once the outcome of a replayed call is handed over.
        hold: Whether the answer to a replayed call is still held back elsewhere.
        settled: When the boundary sets it, it is called once the real call is over.
        at: When a replayed call was over.
        at_home: Of a recorded call, that its answer is there, and the agent gets it in a moment.
    """

    _interception: CallOwner
    call_context: lanes.CallContext
    call: Call
    ticket: int
    forward: bool = False
    unfinished: bool = False
    suspended: bool = False
    outcome: Outcome | None = None
    exchange: Exchange | None = None
    partial: Callable[[], Outcome] | None = None
    compare: Callable[[Outcome, str, Outcome | None], None] | None = None
    handed: Callable[[], object] | None = None
    hold: Callable[[], bool] = bool
    settled: Callable[[], object] | None = None
    at: int = 0
    at_home: bool = False
    course: lanes.Course | None = None
    before: tuple[int, ...] = ()
    _first: int | None = None
    _recorder: Recorder | None = None

    @property
    def open(self) -> bool:
        """Whether the real call may be made: the backend has said so, and the outcome is not there yet."""
        return self.forward or self.compare is not None

    def inside(self) -> AbstractContextManager[None]:
        """A block whose calls are children of this one."""
        return lanes.enter_exchange(self.call_context, self.ticket, self.call.boundary)

    def note_first_byte(self) -> None:
        """Note that the answer has begun."""
        if self._first is None:
            self._first = self._interception.clock.now()

    def settle(self, outcome: Outcome, *, suspended: bool = False) -> None:
        """Recording: take the real outcome. Redacted here; settled once, a second time does nothing."""
        if not self.forward:
            return
        self.forward = False
        interception = self._interception
        interception.pending.open.discard(self)
        at = interception.clock.now()
        if self.settled is not None:
            self.settled()
        stored = self._store(outcome)
        assert self._recorder is not None
        self._recorder.settle(self.ticket, stored, at=at, first=self._first, suspended=suspended)
        # Nobody has waited for a call that was cancelled, so no course knows that it is over.
        if not (isinstance(outcome, Failure) and outcome.cancelled):
            self._end_course()
        # Calls inside another one are no steps of the run: a replay does not make them.
        if self.call_context.inside is None:
            interception.clock.advance(self.call_context.path, at)

    def _store(self, outcome: Outcome) -> Outcome:
        """Return the outcome as it may be stored."""
        return self._interception.redactor.redact_outcome(self.call, outcome)

    def _end_course(self) -> None:
        """Recording: note which strands know that this call is over."""
        if self._interception.lanes.courses is not None and self.course is not None:
            self._interception.lanes.courses.note_end(self.ticket, self.course, self.before)

    def compare_outcome(self, outcome: Outcome, recorded: Outcome | None = None) -> None:
        """Verifying: take the real outcome beside the recorded one. Redacted here; a second time does nothing.

        `recorded` is what was recorded, where the exchange alone does not tell.
        """
        compare, self.compare = self.compare, None
        self._interception.pending.comparing.discard(self)
        if compare is not None:
            compare(
                self._interception.redactor.redact_outcome(self.call, outcome),
                find_agents_line(self._interception.root),
                recorded,
            )

    def finish(self) -> None:
        """Replaying: the outcome has been handed over whole; the clock moves on."""
        if not self.forward and self.at:
            if self.exchange is not None:
                self._interception.order.drop(self.exchange.start)
            self._report_handed_over()
            if self.course is not None:
                self._end_course()
            if self.call_context.inside is None:
                self._interception.clock.advance(self.call_context.path, self.at)

    @property
    def runs_server(self) -> bool:
        """Replaying: whether the server that this calls runs, because it made calls of its own when recorded."""
        return self.exchange is not None and self.exchange.start in self._interception.observed.servers

    @property
    def connects_to_server(self) -> bool:
        """Replaying: whether this opens a connection to a server that runs for some message."""
        if self.exchange is None or not self._interception.observed.servers:
            return False
        messages = self._interception.connection(self.exchange.start)
        return self.runs_server or any(x.start in self._interception.observed.servers for x in messages)

    async def wait(self, chunks: int = END) -> None:
        """Wait until the answer may come as far as `chunks`, in its own order among others (0: its beginning)."""
        try:
            await self._interception.order.wait(self, chunks)
        finally:
            self._report_handed_over()

    def wait_in_thread(self, chunks: int = END, *, at_once: bool = False) -> None:
        """As `wait`, for a thread. While recording `at_once` says that it is a task, which has not given way so far."""
        try:
            self._interception.order.wait_in_thread(self, chunks, at_once=at_once)
        finally:
            self._report_handed_over()

    def hold_in_thread(self) -> None:
        """Recording, in a thread: the answer is there, and the agent gets it next. Wait until others have run out."""
        if not lanes.is_inside(self.call_context):
            self._interception.order.hold_in_thread(self)

    def defer(self, then: Callable[[], object]) -> bool:
        """Recording, in a callback: whether what has come waits for its moment; `then` is called in it."""
        return self._interception.order.defer(then)

    @property
    def thread(self) -> object:
        """The ident of the thread that made the call; a task, where one did."""
        return self.call_context.owner

    def is_released(self, chunks: int) -> bool:
        """Whether `wait` would not wait."""
        return self._interception.order.is_released(self, chunks)

    def _report_handed_over(self) -> None:
        self.suspended = False
        handed, self.handed = self.handed, None
        if handed is not None:
            handed()

    async def abandon(self) -> None:
        """Wait until cancelled, as the recorded call was. Raises ReplayDiverged where nobody does that any more."""
        endless = self._interception.pending.endless
        endless.append(self)
        try:
            await self._interception.order.abandon(self)
        finally:
            endless.remove(self)

    def can_wait(self) -> bool:
        """Whether this thread can hold a call that never ended: not the one that has to end the test.

        The main thread of a child holds it for a while: whoever killed the child in the recording may do so again.
        """
        if threading.current_thread() is not threading.main_thread():
            return True
        patience = self._interception.pending.main_patience
        return patience > 0 and self._interception.ending.over.wait(patience)

    def abandon_in_thread(self) -> NoReturn:
        """Block a thread until the test has ended. Always raises ReplayDiverged."""
        self._interception.pending.endless.append(self)
        self._interception.order.abandon_in_thread(self)
        self._interception.ending.over.wait()
        raise ReplayDiverged(f"refused: {describe(self.call)} never ended in the recording, and now its test has")

    def wait_for_end(self, timeout: float | None = None) -> bool:
        """Block a thread until the test has ended; gives whether it has."""
        return self._interception.ending.over.wait(timeout)


class PendingCalls:
    """The calls that are under way.

    Attributes:
        open: Calls that are made for real and have no outcome yet.
        endless: Replayed calls that wait to be given up, as they were when recorded.
        comparing: Calls that are made for real beside the recorded answer.
        activity: Grows with each call: who waits for another one sees that the test goes on.
        main_patience: Seconds for which the main thread holds a call that never ended; more in a child.
    """

    def __init__(self) -> None:
        self.open: set[PendingCall] = set()
        self.endless: list[PendingCall] = []
        self.comparing: set[PendingCall] = set()
        self.activity = 0
        self.main_patience = 0.0

    def clear(self) -> None:
        """Forget the calls of another run."""
        self.open.clear()
        self.endless.clear()
        self.comparing.clear()


def describe(call: Call) -> str:
    """A call in a few words: "tool refund", "POST api.openai.com/v1/responses", "SEND api.openai.com/v1/realtime"."""
    if isinstance(call, ToolCall):
        return f"{call.boundary} {call.name}"
    scheme, mark, rest = call.url.partition("://")
    return f"{call.method} {rest.partition('?')[0] if mark else scheme}"


def format_caller(what: str, line: str) -> str:
    """What was called, and by which line of the agent; handlers of the interpreter are called by none."""
    return f"{what}   called from {line}" if line else what


def format_refusal(divergence: Divergence) -> str:
    """The text of the brake; the report says the rest."""
    return f"[{divergence.kind.code}] {divergence.summary}"
