"""A lasting connection of messages: what the agent sends is a call, what comes until it sends again is the reply.

`RecordingDialogue` listens while the real connection carries the messages; `ReplayingDialogue` has no connection.
The `MessageProtocol` of a protocol says which message is about which, and how an answer comes under the ids that the
agent made up today.
"""

from __future__ import annotations

import shlex
import threading
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay.intercept.network.child_events import short_name
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.exchanges import Body, Frame, FrameCall, FramesReply, RawCall
from pytest_agentreplay.model.frames import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from contextvars import Context
    from typing import Self

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Closed, Exchange, Failure, Headers, Outcome


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

    def __init__(self, interception: Interception, opening: PendingCall, call: FrameCall) -> None:
        """`opening` was forwarded for `call`, and the connection stands."""
        self._interception = interception
        self._opening = opening.ticket
        self._call = call
        self._current = opening
        self._frames: list[Frame] = []
        self._lock = threading.Lock()
        self.headers: Callable[[], Headers] = tuple
        self.context: Context | None = None
        self.inside: tuple[int, str] | None = None
        opening.partial = self._so_far

    def say(self, data: bytes) -> PendingCall:
        """The agent is about to send `data`."""
        call = FrameCall(self._call.url, self._opening, body=Body(data), boundary=self._call.boundary)
        intercepted = self._interception.enter(RawCall(call))
        self.context, self.inside = copy_context(), self._interception.call_context().inside
        with self._lock:
            before, self._current = self._current, intercepted
            reply = FramesReply.from_frames(self._frames, headers=self.headers())
            self._frames = []
            intercepted.partial = self._so_far
        _settle(before, reply)
        return intercepted

    def hear(self, data: bytes) -> None:
        """The agent takes `data` from the other side."""
        with self._lock:
            self._current.note_first_byte()
            self._frames.append(Frame(data))

    def unsaid(self, failure: Failure) -> None:
        """What was to be said last could not be sent."""
        self._current.settle(failure, suspended=True)

    def end(self, closed: Closed | None = None, failure: Failure | None = None) -> None:
        """The connection has ended. Later ends do nothing."""
        with self._lock:
            reply = FramesReply.from_frames(self._frames, headers=self.headers(), closed=closed, failure=failure)
        _settle(self._current, reply)

    def _so_far(self) -> Outcome:
        with self._lock:
            return FramesReply.from_frames(self._frames, headers=self.headers(), waited=True)


def _settle(intercepted: PendingCall, reply: FramesReply) -> None:
    intercepted.settle(reply, suspended=True)
    intercepted.partial = None  # the two hold each other


class ReplayingDialogue:
    """The replaying side of one connection: what may come now stands in `due`, in recorded order."""

    def __init__(
        self, interception: Interception, opening: PendingCall, call: FrameCall, tongue: MessageProtocol
    ) -> None:
        """`opening` was answered for `call`."""
        assert opening.exchange is not None
        self._interception = interception
        self._call = call
        self._opening = opening.exchange.start
        self._tongue = tongue
        self._release = Release(interception.connection(self._opening), tongue.subject, at_once=interception.at_once)
        self._outcomes: dict[int, Outcome | None] = {}
        self.due: deque[bytes] = deque()
        self.headers: Headers = ()
        self.closed: Closed | None = None
        self.context: Context | None = None
        self.wake: Callable[[], None] = _nobody
        self._note_made(opening, opening.exchange)

    def say(self, data: bytes, *, reads: bool = False) -> PendingCall:
        """The agent sends `data`; what waited for that becomes due. Raises ReplayDiverged for what was never said.

        `reads` says that it calls a tool that changes nothing. Within a tool that is verified such a call is forwarded.
        """
        call = FrameCall(self._call.url, self._opening, body=Body(data), boundary=self._call.boundary)
        intercepted = self._interception.enter(RawCall(call), reads=reads)
        self.context = copy_context()
        if intercepted.forward:
            return intercepted
        exchange = intercepted.exchange
        assert exchange is not None
        assert isinstance(exchange.call, FrameCall)
        self._tongue.learn(exchange.call.body.data, data)
        self._note_made(intercepted, exchange)
        return intercepted

    def hand(self, data: bytes) -> None:
        """Let `data` come next, which was not recorded."""
        self.due.append(data)
        self.wake()

    @property
    def over(self) -> bool:
        """Whether the other side ended the connection, and all that it said before was taken."""
        return not self.due and self.closed is not None and not self.closed.by_agent

    def _note_made(self, intercepted: PendingCall, exchange: Exchange) -> None:
        self._outcomes[exchange.start] = intercepted.outcome
        intercepted.finish()
        self._interception.order.disturb()
        for x in self._release.mark_made(exchange.start):
            reply = self._outcomes.pop(x.start) if x.parent is None else self._reveal_outcome(x)
            if isinstance(reply, FramesReply):
                self.due.extend(self._tongue.today(frame.data) for frame in self._release.frames(reply))
                self.headers = reply.headers or self.headers
                self.closed = reply.closed or self.closed
        self.wake()

    def _reveal_outcome(self, x: Exchange) -> Outcome | None:
        return None if x.outcome is None else self._interception.redactor.reveal(x.outcome)


class DialogueServer:
    """Stands for the call of a message, or of a connection, around what a server of this process does for it."""

    def __init__(self, intercepted: PendingCall) -> None:
        """Take the lane that runs here: a server may handle the message in a task that knows no lane of the agent."""
        self._ticket = intercepted.ticket if intercepted.exchange is None else intercepted.exchange.start
        self._call_context = lanes.CALL_CONTEXT.get()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A block that the server runs."""
        if self._call_context is None:
            yield
            return
        with lanes.enter_exchange(self._call_context, self._ticket, lanes.SERVER):
            yield


class MessageReader:
    """A stream that is read by a loop, as those of anyio are, to the exception `EndOfStream`."""

    async def receive(self) -> Any:
        """Return the next message."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except Exception as error:
            if is_end_of_stream(error):
                raise StopAsyncIteration from None
            raise


def is_end_of_stream(error: Exception) -> bool:
    """Return whether `error` is the `EndOfStream` of anyio."""
    return type(error).__name__ == "EndOfStream"


def program_address(words: Iterable[str]) -> str:
    """Return a command line as the URL of a connection to the program."""
    program, *arguments = words
    return "stdio:" + escape_path(shlex.join([short_name(program), *arguments]))


def escape_path(name: str) -> str:
    """Return a name as the path of a URL: what would end that is part of the name here."""
    return name.replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def _nobody() -> None:
    """Nobody waits yet."""
