"""What the two clients of the library `websockets` have in common: messages, handshakes and ends, to values and back.

A line is the `FrameRecording` or the `FrameReplaying` of one connection; the connection carries it as an attribute.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.other_plugins import describe_closed as closed_by_neighbour
from pytest_agentreplay.intercept.session.patching import find_exception
from pytest_agentreplay.intercept.streams.frames import FrameRecording, FrameReplaying
from pytest_agentreplay.model.exchanges import Body, Closed, Failure, FrameCall, FramesReply, HttpReply, RawCall
from pytest_agentreplay.values.failure import failure_of, raise_able

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.streams.frames import End
    from pytest_agentreplay.model.exchanges import Frame, Headers

LINE = "_agentreplay_line"
_BROKEN = 1006
OURS = frozenset({"connection", "upgrade", "date", "sec-websocket-accept", "sec-websocket-extensions"})
"""Headers of a handshake's answer that are about this one socket."""

Line = FrameRecording | FrameReplaying


def bind_original(method: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `method`, which takes the original as its first argument, as a method of the same kind as the original."""
    if inspect.iscoroutinefunction(method):

        async def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return await method(original, self, *args, **kwargs)

        return wait

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return method(original, self, *args, **kwargs)

    return call


@contextmanager
def sending(connection: Any, line: Line, message: Any, text: bool | None) -> Iterator[bool]:
    """The sending of a message, whole or in fragments; yield whether the real connection sends it."""
    __tracebackhide__ = True
    data, binary = data_of(message, text) if is_whole(message) else join_fragments(message, text)
    if isinstance(line, FrameReplaying):
        if (end := line.send(data, binary=binary)) is not None:
            raise make_end_error(connection, end)
        yield False
        return
    line.send(data, binary=binary)
    try:
        yield True
    except BaseException as error:
        line.unsent(error, end_of(error))
        raise


@contextmanager
def hearing(line: FrameRecording, impatience: type[BaseException]) -> Iterator[None]:
    """The wait for a real message; what it raises is kept. `impatience` is raised where the wait was given up."""
    from websockets.exceptions import ConnectionClosed

    line.waits()
    try:
        yield
    except impatience:
        line.waits_no_more(patience=False)
        raise
    except ConnectionClosed as end:
        line.waits_no_more()
        line.note_closed(end_of(end) or Closed())
        raise
    except BaseException:
        line.waits_no_more()  # two at once, as the library says; the connection lives on
        raise
    line.waits_no_more()


def line_of(connection: Any) -> Line | None:
    """The line of a connection; None where nothing is recorded or replayed, and where the server is the test's own.

    A connection that is older than the test has none: it cannot be recorded, and a replay refuses it.
    """
    line: Line | None = connection.__dict__.get(LINE)
    if (
        LINE not in connection.__dict__
        and (interception := interceptions.find_interception()) is not None
        and not interceptions.is_within_http()
    ):
        request = connection.request
        if request is not None:  # else it is being opened
            _stray(interception, f"ws://{request.headers.get('Host', '')}{request.path}")
    return line


def _stray(interception: Interception, url: str) -> None:
    intercepted = interception.enter(RawCall(FrameCall(url, 0)))
    intercepted.settle(FramesReply())
    began, where = ("run", "run") if interception.is_capture else ("test", "test or in a fixture of its own")
    problem = f"the WebSocket to {url} was opened before the {began} began, so that a replay could not open it"
    interception.observed.note_problem(CannotWrite(f"{problem}; open it in the {where}"))


def opening(url: str, headers: Any, subprotocols: Iterable[str] | None) -> FrameCall:
    """The opening of a connection; `headers` are a mapping, or pairs, or None."""
    pairs = headers.raw_items() if hasattr(headers, "raw_items") else getattr(headers, "items", lambda: headers or ())()
    if offered := ", ".join(subprotocols or ()):
        pairs = (*pairs, ("Sec-WebSocket-Protocol", offered))
    return FrameCall(url.partition("#")[0], None, tuple((str(name), str(value)) for name, value in pairs))


def leave(connection: Any) -> Any:
    """The connection, not recorded: it leads to a server of this process."""
    setattr(connection, LINE, None)
    return connection


def record_connection(interception: Interception, intercepted: PendingCall, call: FrameCall, connection: Any) -> Any:
    """Return the connection, recorded from here on."""
    pairs = connection.response.headers.raw_items() if connection.response is not None else ()
    headers: Headers = tuple((name, value) for name, value in pairs if name.lower() not in OURS)
    setattr(connection, LINE, FrameRecording(interception, intercepted, call, headers))
    return connection


def not_opened(interception: Interception, intercepted: PendingCall, error: BaseException) -> None:
    """Keep why a connection could not be opened."""
    interception.observed.note_problem(closed_by_neighbour(error))
    response: Any = getattr(error, "response", None)
    if hasattr(response, "status_code"):  # websockets.exceptions.InvalidStatus
        body = bytes(response.body or b"")
        intercepted.settle(
            HttpReply(
                response.status_code,
                response.reason_phrase,
                headers=tuple(response.headers.raw_items()),
                body=Body(body),
                cuts=(len(body),) if body else (),
            )
        )
    else:
        intercepted.settle(failure_of(error))


def find_refusal(intercepted: PendingCall) -> BaseException | None:
    """Return why the recorded connection could not be opened, as the library says it; None when it could."""
    from websockets.datastructures import Headers
    from websockets.exceptions import InvalidStatus
    from websockets.http11 import Response

    outcome = intercepted.outcome
    if isinstance(outcome, HttpReply):
        intercepted.finish()
        response = Response(outcome.status, outcome.reason, Headers(outcome.headers), outcome.body.data)
        return InvalidStatus(response)
    if isinstance(outcome, Failure):
        intercepted.finish()
        return revive_failure(outcome)
    return None


def open_without_socket(connection: Any, line: FrameReplaying) -> Any:
    """A native connection, made without its socket, in the state after the recorded handshake."""
    from websockets.datastructures import Headers
    from websockets.http11 import Response
    from websockets.protocol import State

    protocol = connection.protocol
    connection.request = protocol.connect()
    connection.response = Response(101, "Switching Protocols", Headers(line.headers))
    protocol.subprotocol = connection.response.headers.get("Sec-WebSocket-Protocol")
    protocol.state = State.OPEN
    setattr(connection, LINE, line)
    return connection


def close_played(connection: Any, line: FrameReplaying, code: int, reason: str) -> None:
    """The agent ends a played connection; the recorded end counts where it is known."""
    # `async with` closes too: with 1000, or with 1011 where an exception leaves it.
    chosen = not str(sys._getframe(3).f_globals.get("__name__")).startswith("websockets.")
    end = Closed(int(code), reason, by_agent=True)
    close_protocol(connection, line.close(end, chosen=chosen) or end)


def close_protocol(connection: Any, end: Closed) -> None:
    """Put the protocol of a played connection in the state after `end`."""
    from websockets.frames import Close
    from websockets.protocol import State

    protocol = connection.protocol
    if protocol.state is State.CLOSED:
        return
    protocol.state = State.CLOSED
    if end.code == _BROKEN:
        return
    frame = Close(1005 if end.code is None else end.code, end.reason)
    protocol.close_rcvd = protocol.close_sent = frame
    protocol.close_rcvd_then_sent = not end.by_agent


def make_end_error(connection: Any, end: End) -> BaseException:
    """Return what taking another message raises after `end`."""
    if isinstance(end, Failure):
        return revive_failure(end)
    close_protocol(connection, end)
    error: BaseException = connection.protocol.close_exc
    return error


def end_of(error: Any) -> Closed | None:
    """How a connection ended, of a ConnectionClosed; None of any other error."""
    from websockets.exceptions import ConnectionClosed

    if not isinstance(error, ConnectionClosed):
        return None
    if error.rcvd is not None:
        return Closed(error.rcvd.code, error.rcvd.reason)
    return Closed(_BROKEN)


def revive_failure(failure: Failure) -> BaseException:
    """Return a recorded failure as an exception."""
    return raise_able(failure, find_exception)


def decode_frame(frame: Frame, decode: bool | None) -> str | bytes:
    """Return a frame as `recv` does: a text as str and bytes as bytes, unless `decode` says otherwise."""
    return frame.data.decode() if (not frame.binary if decode is None else decode) else frame.data


def note_received(line: FrameRecording, message: str | bytes, decode: bool | None) -> str | bytes:
    """Note a message that was taken undecided, and return it as `decode` asks for it."""
    binary = not isinstance(message, str)
    data = message if isinstance(message, bytes) else message.encode()
    line.came(data, binary=binary)
    return decode_message(message, decode)


def decode_message(message: str | bytes, decode: bool | None) -> str | bytes:
    """Return a message that was taken undecided, as `decode` asks for it."""
    if decode is None or decode is isinstance(message, str):
        return message
    return message.decode() if isinstance(message, bytes) else message.encode()


def data_of(message: Any, text: bool | None) -> tuple[bytes, bool]:
    """The bytes of a whole message, and whether it goes as bytes and not as text. Raises TypeError as the library."""
    if isinstance(message, str):
        return message.encode(), text is False
    if isinstance(message, bytes | bytearray | memoryview):
        return bytes(message), text is not True
    msg = "data must be str, bytes, iterable, or async iterable"
    raise TypeError(msg)


def join_fragments(fragments: list[Any], text: bool | None) -> tuple[bytes, bool]:
    """Return the bytes of a message in fragments, at least one, and whether it goes as bytes."""
    parts = [data_of(fragment, text) for fragment in fragments]
    return b"".join(data for data, _ in parts), parts[0][1]


def is_whole(message: Any) -> bool:
    """Whether a message is no iterable of fragments, as far as the library would take it."""
    return isinstance(message, str | bytes | bytearray | memoryview | dict) or not (
        hasattr(message, "__iter__") or hasattr(message, "__aiter__")
    )
