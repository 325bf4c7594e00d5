"""The WebSockets of `websockets.asyncio.client`: `connect` when it is awaited, and the methods of a connection.

Both are patched in their classes, so that code that bound `connect` earlier is intercepted too. Pings are the library's
own affair. What the agent sends in fragments is one message. While replaying, a connection is an object of the
library's class that has never had a socket.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
import weakref
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.in_process import connection_stays
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap
from pytest_agentreplay.intercept.streams.frames import FrameReplaying
from pytest_agentreplay.intercept.websocket import lines
from pytest_agentreplay.model.exchanges import Closed, Frame, RawCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.streams.frames import FrameRecording


def patch(library: ModuleType) -> None:
    """Wrap what opens connections in `library` (websockets.asyncio.client), and its connections."""
    wrap(library.connect, "__await__", _awaiting, always=True)
    for method in _METHODS:
        wrap(library.ClientConnection, method.__name__, functools.partial(lines.bind_original, method), always=True)


def _awaiting(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    current, within_http = interceptions.find_interception, interceptions.is_within_http

    def __await__(self: Any) -> Generator[Any, Any, Any]:  # noqa: N807  it becomes the class's
        interception = current()
        if interception is None or within_http():
            steps: Generator[Any, Any, Any] = original(self)
            return steps
        return _open(interception, self, original).__await__()

    return __await__


async def _open(interception: Interception, connect: Any, original: Callable[[Any], Any]) -> Any:
    __tracebackhide__ = True
    offered = inspect.getclosurevars(_get_factory(connect)).nonlocals.get("subprotocols")
    call = lines.opening(connect.uri, connect.additional_headers, offered)
    if connection_stays(interception, call):
        return lines.leave(await _take_steps(original(connect)))
    intercepted = interception.enter(RawCall(call))
    if intercepted.forward:
        try:
            with intercepted.inside():
                connection = await _take_steps(original(connect))
        except BaseException as error:
            lines.not_opened(interception, intercepted, error)
            raise
        return lines.record_connection(interception, intercepted, call, connection)
    if intercepted.unfinished:
        await asyncio.get_running_loop().create_future()  # until it is given up again
    if (refusal := lines.find_refusal(intercepted)) is not None:
        raise refusal
    connection = lines.open_without_socket(_make_connection(connect), FrameReplaying(interception, intercepted, call))
    connection.transport = _NoTransport(connection)
    if hasattr(type(connect), "__await_impl__"):  # before 17 the connector keeps it for its own `async with`
        connect.connection = connection
    return connection


@types.coroutine
def _take_steps(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await what `steps`, those of an `__await__`, await."""
    return (yield from steps)


class _NoTransport(asyncio.Transport):
    """What stands for the transport of a played connection: it knows no address, and can be given up."""

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self._connection = weakref.ref(connection)

    def abort(self) -> None:
        """Break the connection off."""
        if (connection := self._connection()) is not None:
            lines.close_protocol(connection, connection.__dict__[lines.LINE].close() or Closed(1006))
            _wake(connection)

    close = abort

    def is_closing(self) -> bool:
        """Whether it was."""
        connection = self._connection()
        return connection is None or connection.protocol.state.name == "CLOSED"


def _wake(connection: Any) -> None:
    """Let those go on who wait until a played connection is closed."""
    if not connection.connection_lost_waiter.done():
        connection.connection_lost_waiter.set_result(None)


def _make_connection(connect: Any) -> Any:
    """Return the connection object that `connect` would make: of the user's class, where it names one."""
    from websockets.uri import parse_uri

    return _get_factory(connect)(parse_uri(connect.uri))


def _get_factory(connect: Any) -> Any:
    return getattr(connect, "factory", None) or connect.protocol_factory


async def send(original: Callable[..., Any], self: Any, message: Any, text: bool | None = None) -> None:
    """Send a message; in a replay it is compared, and nothing is sent."""
    __tracebackhide__ = True
    line = lines.line_of(self)
    if line is None:
        return await original(self, message, text=text)  # type: ignore[no-any-return]
    if not lines.is_whole(message):
        message = [part async for part in message] if hasattr(message, "__aiter__") else list(message)
        if not message:
            return None
    with lines.sending(self, line, message, text) as forwarded:
        if forwarded:
            await original(self, message, text=text)
    return None


async def recv(original: Callable[..., Any], self: Any, decode: bool | None = None) -> Any:
    """Return the next message."""
    __tracebackhide__ = True
    line = lines.line_of(self)
    if line is None:
        return await original(self, decode)
    if isinstance(line, FrameReplaying):
        return lines.decode_frame(await _take_recorded(self, line), decode)
    return lines.note_received(line, await _receive_real(line, original(self)), decode)


async def _take_recorded(connection: Any, line: FrameReplaying) -> Frame:
    """Return the next recorded frame; raises what the end of the connection raises."""
    __tracebackhide__ = True
    received = await line.receive()
    if isinstance(received, Frame):
        return received
    raise lines.make_end_error(connection, received)


async def _receive_real(line: FrameRecording, message: Any) -> Any:
    """Await the next real message; what it raises is kept."""
    with lines.hearing(line, asyncio.CancelledError):
        return await message


async def recv_streaming(original: Callable[..., Any], self: Any, decode: bool | None = None) -> AsyncIterator[Any]:
    """Yield the next message in its fragments; a recorded one in one."""
    line = lines.line_of(self)
    if line is None:
        async for part in original(self, decode):
            yield part
    elif isinstance(line, FrameReplaying):
        yield lines.decode_frame(await _take_recorded(self, line), decode)
    else:
        parts: list[Any] = []
        fragments = original(self)
        while (part := await _receive_real(line, anext(fragments, None))) is not None:
            parts.append(part)
            yield lines.decode_message(part, decode)
        data, binary = lines.join_fragments(parts, None)
        line.came(data, binary=binary)


async def close(original: Callable[..., Any], self: Any, code: int = 1000, reason: str = "") -> None:
    """Close the connection; a replayed one has only its state changed."""
    line = lines.line_of(self)
    if isinstance(line, FrameReplaying):
        lines.close_played(self, line, code, reason)
        _wake(self)
    elif line is not None:
        line.closes(int(code), reason)
        await original(self, code, reason)
        line.note_closed(Closed(int(code), reason, by_agent=True))
    else:
        await original(self, code, reason)


async def wait_closed(original: Callable[..., Any], self: Any) -> None:
    """Wait until the connection is closed."""
    line = lines.line_of(self)
    if not isinstance(line, FrameReplaying) or not line.ended:
        await original(self)


async def ping(original: Callable[..., Any], self: Any, data: Any = None) -> Any:
    """Send a ping; that of a replayed connection is answered at once."""
    line = lines.line_of(self)
    if not isinstance(line, FrameReplaying):
        return await original(self, data)
    pong = asyncio.get_running_loop().create_future()
    pong.set_result(0.0)
    return pong


async def pong(original: Callable[..., Any], self: Any, data: Any = b"") -> None:
    """Send a pong; nothing on a replayed connection."""
    if not isinstance(lines.line_of(self), FrameReplaying):
        await original(self, data)


_METHODS: tuple[Callable[..., Any], ...] = (send, recv, recv_streaming, close, wait_closed, ping, pong)
