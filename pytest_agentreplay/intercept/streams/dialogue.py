"""A lasting connection of messages: what the agent sends is a call, what comes until it sends again is the reply.

`RecordingDialogue` listens while the real connection carries the messages; `ReplayingDialogue` has no connection.
The `MessageProtocol` of a protocol says which message is about which, and how an answer comes under the ids that the
agent made up today.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol

from pytest_agentreplay.core.frames import Release
from pytest_agentreplay.core.model import Body, Frame, FrameCall, FramesReply
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from contextvars import Context

    from pytest_agentreplay.core.model import Closed, Exchange, Failure, Headers, Outcome
    from pytest_agentreplay.intercept.session.interception import InterceptedCall, Interception


class MessageProtocol(Protocol):
    """How one protocol ties its messages together, over one connection."""

    def subject(self, data: bytes, *, by_agent: bool) -> Hashable | None:
        """What a message is about: a question and its answer have the same subject."""

    def learn(self, recorded: bytes, now: bytes) -> None:
        """What the agent says `now` is what it said as `recorded`; the ids in it may be others."""

    def today(self, data: bytes) -> bytes:
        """A recorded message of the other side, under today's ids."""


class RecordingDialogue:
    """The recording side of one connection. Each message settles what was said before it."""

    def __init__(self, crossing: Interception, opening: InterceptedCall, call: FrameCall) -> None:
        """`opening` was forwarded for `call`, and the connection stands."""
        self._crossing = crossing
        self._opening = opening.ticket
        self._call = call
        self._current = opening
        self._frames: list[Frame] = []
        self._lock = threading.Lock()
        self.headers: Callable[[], Headers] = tuple
        self.context: Context | None = None
        self.inside: tuple[int, str] | None = None
        opening.partial = self._so_far

    def say(self, data: bytes) -> InterceptedCall:
        """The agent is about to send `data`."""
        call = FrameCall(self._call.url, self._opening, body=Body(data), boundary=self._call.boundary)
        passage = self._crossing.enter(call)
        self.context, self.inside = copy_context(), self._crossing.strand().inside
        with self._lock:
            before, self._current = self._current, passage
            reply = FramesReply.of(self._frames, headers=self.headers())
            self._frames = []
            passage.partial = self._so_far
        _settle(before, reply)
        return passage

    def hear(self, data: bytes) -> None:
        """The agent takes `data` from the other side."""
        with self._lock:
            self._current.first_byte()
            self._frames.append(Frame(data))

    def unsaid(self, failure: Failure) -> None:
        """What was to be said last could not be sent."""
        self._current.settle(failure, suspended=True)

    def end(self, closed: Closed | None = None, failure: Failure | None = None) -> None:
        """The connection has ended. Later ends do nothing."""
        with self._lock:
            reply = FramesReply.of(self._frames, headers=self.headers(), closed=closed, failure=failure)
        _settle(self._current, reply)

    def _so_far(self) -> Outcome:
        with self._lock:
            return FramesReply.of(self._frames, headers=self.headers(), waited=True)


def _settle(passage: InterceptedCall, reply: FramesReply) -> None:
    passage.settle(reply, suspended=True)
    passage.partial = None  # the two hold each other


class ReplayingDialogue:
    """The replaying side of one connection: what may come now stands in `due`, in recorded order."""

    def __init__(
        self, crossing: Interception, opening: InterceptedCall, call: FrameCall, tongue: MessageProtocol
    ) -> None:
        """`opening` was answered for `call`."""
        assert opening.exchange is not None
        self._crossing = crossing
        self._call = call
        self._opening = opening.exchange.start
        self._tongue = tongue
        self._release = Release(crossing.gate.connection(self._opening), tongue.subject, at_once=crossing.at_once)
        self._outcomes: dict[int, Outcome | None] = {}
        self.due: deque[bytes] = deque()
        self.headers: Headers = ()
        self.closed: Closed | None = None
        self.context: Context | None = None
        self.wake: Callable[[], None] = _nobody
        self._made(opening, opening.exchange)

    def say(self, data: bytes, *, reads: bool = False) -> InterceptedCall:
        """The agent sends `data`; what waited for that becomes due. Raises ReplayDiverged for what was never said.

        `reads` says that it calls a tool that changes nothing. Within a tool that is verified such a call is forwarded.
        """
        call = FrameCall(self._call.url, self._opening, body=Body(data), boundary=self._call.boundary)
        passage = self._crossing.enter(call, reads=reads)
        self.context = copy_context()
        if passage.forward:
            return passage
        exchange = passage.exchange
        assert exchange is not None
        assert isinstance(exchange.call, FrameCall)
        self._tongue.learn(exchange.call.body.data, data)
        self._made(passage, exchange)
        return passage

    def hand(self, data: bytes) -> None:
        """Let `data` come next, which was not recorded."""
        self.due.append(data)
        self.wake()

    @property
    def over(self) -> bool:
        """Whether the other side ended the connection, and all that it said before was taken."""
        return not self.due and self.closed is not None and not self.closed.by_agent

    def _made(self, passage: InterceptedCall, exchange: Exchange) -> None:
        self._outcomes[exchange.start] = passage.outcome
        passage.finish()
        if self._crossing.order is not None:
            self._crossing.order.disturb()
        for x in self._release.made(exchange.start):
            reply = self._outcomes.pop(x.start) if x.parent is None else self._kept(x)
            if isinstance(reply, FramesReply):
                self.due.extend(self._tongue.today(frame.data) for frame in self._release.frames(reply))
                self.headers = reply.headers or self.headers
                self.closed = reply.closed or self.closed
        self.wake()

    def _kept(self, x: Exchange) -> Outcome | None:
        return None if x.outcome is None else self._crossing.scrub.reveal(x.outcome)


class DialogueServer:
    """Stands for the passage of a message, or of a connection, around what a server of this process does for it."""

    def __init__(self, passage: InterceptedCall) -> None:
        """Take the lane that runs here: a server may handle the message in a task that knows no lane of the agent."""
        self._ticket = passage.ticket if passage.exchange is None else passage.exchange.start
        self._strand = lanes.STRAND.get()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A block that the server runs."""
        if self._strand is None:
            yield
            return
        with lanes.inside(self._strand, self._ticket, lanes.SERVER):
            yield


def _nobody() -> None:
    """Nobody waits yet."""
