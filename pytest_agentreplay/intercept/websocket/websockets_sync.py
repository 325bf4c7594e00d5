"""The WebSockets of `websockets.sync.client`: what opens a connection is intercepted, and a connection in its methods.

Newer versions open in `reconnect.connect`; older ones in the function `connect` itself, whose code is exchanged, so
that code that imported it earlier is intercepted too. What the agent sends in fragments is one message. While
replaying, a connection is an object of the library's class that has neither a socket nor a thread.
"""

from __future__ import annotations

import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.in_process import connection_stays
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap, wrap_code
from pytest_agentreplay.intercept.streams.frames import FrameReplaying
from pytest_agentreplay.intercept.websocket import lines
from pytest_agentreplay.model.exchanges import Closed, Frame, RawCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.streams.frames import FrameRecording
    from pytest_agentreplay.model.exchanges import FrameCall


def patch(library: ModuleType) -> None:
    """Wrap what opens connections in `library` (websockets.sync.client), and its connections."""
    if hasattr(library, "reconnect"):
        wrap(library.reconnect, "connect", _connecting, always=True)
    else:
        wrap_code(library.connect, _calling)
    for method in _METHODS:
        wrap(library.ClientConnection, method.__name__, functools.partial(lines.bind_original, method), always=True)


def _connecting(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    current, within_http = interceptions.find_interception, interceptions.is_within_http

    def connect(self: Any) -> Any:
        __tracebackhide__ = True
        interception = current()
        if interception is None or within_http():
            return original(self)
        kind = self.create_connection
        call = lines.opening(self.uri, self.additional_headers, self.protocol_kwargs.get("subprotocols"))
        return _open(interception, call, kind, functools.partial(original, self))

    return connect


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function that opens a connection in older versions, which asks the interception first."""

    def connect(uri: str, **options: Any) -> Any:
        __tracebackhide__ = True
        interception = interceptions.find_interception()
        if interception is None or interceptions.is_within_http():
            return original(uri, **options)
        call = lines.opening(uri, options.get("additional_headers"), options.get("subprotocols"))
        kind = options.get("create_connection")
        return _open(interception, call, kind, functools.partial(original, uri, **options))

    return connect


def _open(interception: Interception, call: FrameCall, kind: Any, real: Callable[[], Any]) -> Any:
    __tracebackhide__ = True
    if connection_stays(interception, call):
        return lines.leave(real())
    intercepted = interception.enter(RawCall(call))
    if intercepted.forward:
        try:
            with intercepted.inside():
                connection = real()
        except BaseException as error:
            lines.not_opened(interception, intercepted, error)
            raise
        return lines.record_connection(interception, intercepted, call, connection)
    if (refusal := lines.find_refusal(intercepted)) is not None:
        raise refusal
    line = FrameReplaying(interception, intercepted, call)
    if intercepted.unfinished:
        line.receive_now()
    return lines.open_without_socket(_make_connection(call.url, kind), line)


def _make_connection(url: str, kind: Any) -> Any:
    """Return a connection of the class `kind`, without what its constructor starts: a thread on a socket."""
    from websockets.client import ClientProtocol
    from websockets.sync.client import ClientConnection
    from websockets.uri import parse_uri

    kind = kind if isinstance(kind, type) else ClientConnection
    connection = kind.__new__(kind)
    protocol = ClientProtocol(parse_uri(url), logger=logging.getLogger("websockets.client"))
    vars(connection).update(
        protocol=protocol,
        id=protocol.id,
        logger=protocol.logger,
        debug=protocol.debug,
        latency=0.0,
        connection_exc=None,
        pending_legacy_warning=False,
        socket=_NoSocket(),
    )
    return connection


class _NoSocket:
    """What stands for the socket of a played connection."""

    def getsockname(self) -> tuple[str, int]:
        """No address."""
        return "", 0

    getpeername = getsockname


def send(original: Callable[..., Any], self: Any, message: Any, text: bool | None = None) -> None:
    """Send a message; in a replay it is compared, and nothing is sent."""
    __tracebackhide__ = True
    line = lines.line_of(self)
    if line is None:
        return original(self, message, text=text)  # type: ignore[no-any-return]
    if not lines.is_whole(message) and not (message := list(message)):
        return None
    with lines.sending(self, line, message, text) as forwarded:
        if forwarded:
            original(self, message, text=text)
    return None


def recv(original: Callable[..., Any], self: Any, timeout: float | None = None, decode: bool | None = None) -> Any:
    """Return the next message."""
    __tracebackhide__ = True
    line = lines.line_of(self)
    if line is None:
        return original(self, timeout, decode)
    if isinstance(line, FrameReplaying):
        return lines.decode_frame(_take_recorded(self, line, timeout), decode)
    return lines.note_received(line, _receive_real(line, functools.partial(original, self, timeout)), decode)


def _take_recorded(connection: Any, line: FrameReplaying, timeout: float | None = None) -> Frame:
    """Return the next recorded frame; raises what the end of the connection, or of patience, raises."""
    __tracebackhide__ = True
    received = line.receive_now(timeout)
    if isinstance(received, Frame):
        return received
    if received is None:
        msg = f"timed out in {timeout:.1f}s"
        raise TimeoutError(msg)
    raise lines.make_end_error(connection, received)


def _receive_real(line: FrameRecording, receive: Callable[[], Any]) -> Any:
    """Wait for the next real message; what that raises is kept."""
    with lines.hearing(line, TimeoutError):
        return receive()


def recv_streaming(original: Callable[..., Any], self: Any, decode: bool | None = None) -> Iterator[Any]:
    """Yield the next message in its fragments; a recorded one in one."""
    line = lines.line_of(self)
    if line is None:
        yield from original(self, decode)
    elif isinstance(line, FrameReplaying):
        yield lines.decode_frame(_take_recorded(self, line), decode)
    else:
        parts: list[Any] = []
        fragments = iter(original(self))
        while (part := _receive_real(line, functools.partial(next, fragments, None))) is not None:
            parts.append(part)
            yield lines.decode_message(part, decode)
        data, binary = lines.join_fragments(parts, None)
        line.came(data, binary=binary)


def close(original: Callable[..., Any], self: Any, code: int = 1000, reason: str = "") -> None:
    """Close the connection; a replayed one has only its state changed."""
    line = lines.line_of(self)
    if isinstance(line, FrameReplaying):
        lines.close_played(self, line, code, reason)
    elif line is not None:
        line.closes(int(code), reason)
        original(self, code, reason)
        line.note_closed(Closed(int(code), reason, by_agent=True))
    else:
        original(self, code, reason)


def wait_closed(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """Wait until the connection is closed."""
    line = lines.line_of(self)
    return line.ended if isinstance(line, FrameReplaying) else original(self, *args, **kwargs)


def ping(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """Send a ping; that of a replayed connection is answered at once."""
    if not isinstance(lines.line_of(self), FrameReplaying):
        return original(self, *args, **kwargs)
    pong = threading.Event()
    pong.set()
    return pong


def pong(original: Callable[..., Any], self: Any, data: Any = b"") -> None:
    """Send a pong; nothing on a replayed connection."""
    if not isinstance(lines.line_of(self), FrameReplaying):
        original(self, data)


_METHODS: tuple[Callable[..., Any], ...] = (send, recv, recv_streaming, close, wait_closed, ping, pong)
