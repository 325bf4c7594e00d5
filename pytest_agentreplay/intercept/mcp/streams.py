"""The streams of an MCP session and their messages as bytes: real ones recorded, or ones that replay a recording.

They have what sessions use of anyio's memory streams; every other attribute of a recorded stream is the real one's.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.patching import find_exception
from pytest_agentreplay.intercept.streams.dialogue import MessageReader, is_end_of_stream
from pytest_agentreplay.intercept.tools.tool_recording import run_stepwise
from pytest_agentreplay.model.exchanges import Closed, Failure
from pytest_agentreplay.providers import json_rpc
from pytest_agentreplay.values.failure import failure_of, raise_able

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context, Token
    from types import ModuleType

    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.streams.dialogue import RecordingDialogue, ReplayingDialogue

RAISED = "$raised"
"""Key of an exception that a transport hands over in a message's stead: what came was none."""


class Messages:
    """Makes bytes of the messages of one SDK, and messages of bytes."""

    def __init__(self, library: ModuleType) -> None:
        """`library` is a module of a transport."""
        self._wrapped = library.SessionMessage
        adapter = getattr(sys.modules.get("mcp_types") or sys.modules["mcp.types"], "jsonrpc_message_adapter", None)
        self._adapter = adapter
        # Transports over HTTP carry the context of a sender on to what answers.
        self.contexts = hasattr(library, "create_context_streams")

    def encode_sent(self, message: Any) -> bytes:
        """Return a message to the server as bytes, as the transport would write it."""
        omitted = {"exclude_none": True} if self._adapter is None else {"exclude_unset": True}
        text: str = message.message.model_dump_json(by_alias=True, **omitted)
        return text.encode()

    def encode_received(self, message: Any) -> bytes:
        """Return a message from the server as bytes."""
        if isinstance(message, Exception):
            failure = failure_of(message)
            kept = {"type": failure.type, "message": failure.message, "args": failure.args, "bases": failure.bases}
            return json.dumps({RAISED: kept}, ensure_ascii=False).encode()
        text: str = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode()

    def native(self, data: bytes) -> Any:
        """What the session is given for what came."""
        raised = json_rpc.message(data).get(RAISED)
        if isinstance(raised, dict):
            args, bases = raised.get("args"), raised.get("bases")
            failure = Failure(
                str(raised.get("type")),
                str(raised.get("message")),
                tuple(args) if isinstance(args, list) else (),
                tuple(map(str, bases)) if isinstance(bases, list) else (),
            )
            return raise_able(failure, find_exception)
        if self._adapter is not None:
            return self._wrapped(self._adapter.validate_json(data, by_name=False))
        return self._wrapped(sys.modules["mcp.types"].JSONRPCMessage.model_validate_json(data))


class RealServer(Protocol):
    """The real server beside a replayed connection, for read tools that are verified: `mcp_verifying.LiveServer`."""

    def reads(self, data: bytes) -> bool:
        """Return whether a message calls a tool that somebody has declared to change nothing."""

    async def ask_beside(self, intercepted: PendingCall, message: Any, data: bytes) -> bytes | None:
        """Ask the server beside a message of the agent; return an answer that the agent is to get, if any."""

    async def close(self) -> None:
        """End the real connection, if there is one."""


class _Stream:
    """What every stream has: it is closed by a context."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        raise NotImplementedError


class _Recorded(_Stream):
    """A real stream that is listened to. What else is asked of it is the real one's."""

    def __init__(self, real: Any, taking: RecordingDialogue, messages: Messages) -> None:
        self._real = real
        self._taking = taking
        self._messages = messages

    async def aclose(self) -> None:
        """The session wants no more."""
        await self._real.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class RecordingReader(_Recorded, MessageReader):
    """The server's side of a recorded connection: each message is noted when the session takes it."""

    _token: Token[lanes.CallContext | None] | None = None

    async def receive(self) -> Any:
        """The next message."""
        if self._token is not None:
            lanes.CALL_CONTEXT.reset(self._token)
            self._token = None
        try:
            message = await self._real.receive()
        except Exception as error:
            if is_end_of_stream(error):
                self._taking.end(Closed())
            raise
        data = self._messages.encode_received(message)
        self._taking.hear(data)
        call_context = lanes.CALL_CONTEXT.get()
        if call_context is not None and self._taking.inside is not None and json_rpc.is_request(json_rpc.message(data)):
            # The server asks back in the middle of a frozen tool: what answers it here is part of that tool.
            self._token = lanes.CALL_CONTEXT.set(replace(call_context, inside=self._taking.inside))
        return message

    @property
    def last_context(self) -> Context | None:
        """The context that whatever answers this message is to run in; None: the session's own."""
        return self._taking.context if self._messages.contexts else None


class RecordingWriter(_Recorded):
    """The agent's side of a recorded connection. `around` returns what is put around the call of a message."""

    around: Callable[[PendingCall], Any] | None = None

    async def send(self, message: Any) -> None:
        """Send a message, noted first."""
        intercepted = self._taking.say(self._messages.encode_sent(message))
        # A transport may go on in the context of whoever sends: what it does is inside this message.
        around = intercepted if self.around is None else self.around(intercepted)
        try:
            await run_stepwise(around, self._real.send(message))
        except Exception as error:
            self._taking.unsaid(failure_of(error))
            raise


class _Replayed(_Stream):
    """A stream that leads nowhere."""

    def __init__(self, giving: ReplayingDialogue, messages: Messages, anyio: ModuleType) -> None:
        self._giving = giving
        self._messages = messages
        self._anyio = anyio
        self._closed = False

    def close(self) -> None:
        """The session wants no more."""
        self._closed = True

    async def aclose(self) -> None:
        """The session wants no more."""
        self.close()
        await self._anyio.lowlevel.checkpoint()


class ReplayStreams(_Replayed, MessageReader):
    """The server's side of a replayed connection."""

    def __init__(self, giving: ReplayingDialogue, messages: Messages, anyio: ModuleType) -> None:
        super().__init__(giving, messages, anyio)
        self._event = anyio.Event()
        giving.wake = self._awake

    def _awake(self) -> None:
        self._event.set()

    async def receive(self) -> Any:
        """The next message, when its time has come."""
        await self._anyio.lowlevel.checkpoint()
        while True:
            if self._closed:
                raise self._anyio.ClosedResourceError
            if self._giving.due:
                return self._messages.native(self._giving.due.popleft())
            if self._giving.over:
                raise self._anyio.EndOfStream
            self._event = self._anyio.Event()
            await self._event.wait()

    @property
    def last_context(self) -> Context | None:
        """As that of a recorded connection."""
        return self._giving.context if self._messages.contexts else None

    def close(self) -> None:
        """The session wants no more."""
        super().close()
        self._event.set()


class ReplayWriter(_Replayed):
    """The agent's side of a replayed connection: nothing leaves. `beside` is what is closed with it, if anything.

    `live` has the real server, for read tools that are verified.
    """

    beside: Any = None
    live: RealServer | None = None

    async def send(self, message: Any) -> None:
        """Say a message; what was recorded after it becomes due."""
        if self._closed:
            raise self._anyio.ClosedResourceError
        data, live = self._messages.encode_sent(message), self.live
        intercepted = self._giving.say(data, reads=live is not None and live.reads(data))
        await self._anyio.lowlevel.checkpoint()
        if live is not None and (answer := await live.ask_beside(intercepted, message, data)) is not None:
            self._giving.hand(answer)
        if isinstance(intercepted.outcome, Failure):
            raise raise_able(intercepted.outcome, find_exception)

    def close(self) -> None:
        """The session says no more."""
        super().close()
        if self.beside is not None:
            self.beside.close()
