"""A lasting connection of messages: what the agent sends is a call, what comes until it sends again is the reply.

`RecordingDialogue` listens while the real connection carries the messages; `ReplayingDialogue` has no connection.
A `MessageProtocol` says which message is about which, and how an answer comes under the ids that the agent made up
today.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_agentreplay.intercept.network.child_events import short_name
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.patching import find_exception
from pytest_agentreplay.model.exchanges import Body, Failure, Frame, FrameCall, FramesReply, RawCall
from pytest_agentreplay.model.frames import Release
from pytest_agentreplay.providers.json_rpc import make_key, message
from pytest_agentreplay.values.failure import raise_able

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from contextvars import Context
    from typing import Self

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Closed, Exchange, Headers, Json, JsonObject, Outcome


class MessageProtocol(Protocol):
    """How the messages of one protocol belong together: the module `providers.json_rpc` or `providers.stream_json`."""

    def subject(self, data: bytes, *, by_agent: bool) -> Hashable | None:
        """What a message is about: a question and its answer have the same subject."""

    def made_ids(self, data: bytes) -> Mapping[str, Json]:
        """The ids that the agent made up for a message of its own, by what they are."""

    def rename_ids(self, fields: JsonObject, names: Mapping[Hashable, Json], /) -> JsonObject:
        """Return a message of the other side, under today's ids; the same object where it has none of `names`."""


class Opening(NamedTuple):
    """A connection that the agent has asked for: the call as it was asked, and what was decided about it."""

    interception: Interception
    call: FrameCall
    intercepted: PendingCall

    @classmethod
    def enter(cls, interception: Interception, address: str, boundary: str) -> Self:
        """Ask the interception for a connection to `address`."""
        call = FrameCall(address, boundary=boundary)
        return cls(interception, call, interception.enter(RawCall(call)))

    def raise_failure(self) -> None:
        """Raise why the recorded connection could not be opened, if it could not."""
        if isinstance(self.intercepted.outcome, Failure):
            self.intercepted.finish()
            raise raise_able(self.intercepted.outcome, find_exception)


class RecordingDialogue:
    """The recording side of one connection. Each message settles what was said before it."""

    def __init__(self, opening: Opening) -> None:
        """`opening` was forwarded, and the connection stands."""
        self._interception, self._call, self._current = opening
        self._opening = self._current.ticket
        self._frames: list[Frame] = []
        self._lock = threading.Lock()
        self.headers: Callable[[], Headers] = tuple
        self.context: Context | None = None
        self.inside: tuple[int, str] | None = None
        self._current.partial = self._so_far

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

    def __init__(self, opening: Opening, protocol: MessageProtocol) -> None:
        """`opening` was answered."""
        interception, self._call, intercepted = opening
        assert intercepted.exchange is not None
        self._interception = interception
        self._opening = intercepted.exchange.start
        self._protocol = protocol
        self._names: dict[Hashable, Json] = {}  # by recorded id, the one that the agent has made up today
        self._release = Release(interception.connection(self._opening), protocol.subject, at_once=interception.at_once)
        self._outcomes: dict[int, Outcome | None] = {}
        self.due: deque[bytes] = deque()
        self.headers: Headers = ()
        self.closed: Closed | None = None
        self.context: Context | None = None
        self.wake: Callable[[], None] = _nobody
        self._note_made(intercepted, intercepted.exchange)

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
        old, new = self._protocol.made_ids(exchange.call.body.data), self._protocol.made_ids(data)
        self._names.update({make_key(old[name]): new[name] for name in old if name in new})
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
                self.due.extend(self._rename(frame.data) for frame in self._release.frames(reply))
                self.headers = reply.headers or self.headers
                self.closed = reply.closed or self.closed
        self.wake()

    def _rename(self, data: bytes) -> bytes:
        """Return a recorded message of the other side, under today's ids."""
        fields = message(data)
        renamed = self._protocol.rename_ids(fields, self._names)
        return data if renamed is fields else json.dumps(renamed, ensure_ascii=False).encode()

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
