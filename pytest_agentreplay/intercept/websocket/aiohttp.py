"""The WebSockets of aiohttp: `ClientSession._ws_connect` is patched, and the queue and writer of a connection.

`ClientWebSocketResponse` itself stays as it is: it reads messages from a reader and writes frames with a writer. While
recording these two are watched; while replaying they are ours. Pings are aiohttp's own affair, and so is the HTTP
request that the handshake is: it is no exchange of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.in_process import connection_stays
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap
from pytest_agentreplay.intercept.session.replacing import shielded
from pytest_agentreplay.intercept.streams.frames import FrameRecording, FrameReplaying
from pytest_agentreplay.intercept.websocket.lines import OURS, opening, revive_failure
from pytest_agentreplay.model.exchanges import EMPTY, Closed, Failure, FramesReply, HttpReply, RawCall
from pytest_agentreplay.values.failure import failure_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers


def patch(library: ModuleType) -> None:
    """Wrap what opens WebSockets in `library` (aiohttp)."""
    wrap(library.ClientSession, "_ws_connect", _connecting, always=True)


def _connecting(original: Callable[..., Any]) -> Callable[..., Any]:
    current, within_http = interceptions.find_interception, interceptions.is_within_http

    async def _ws_connect(self: Any, url: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        interception = current()
        if interception is None or within_http():
            return await original(self, url, **options)
        full_url = self._build_url(url)
        if options.get("params"):
            full_url = full_url.extend_query(options["params"])
        call = opening(str(full_url), self._prepare_headers(options.get("headers")), options.get("protocols"))
        if connection_stays(interception, call):
            return await original(self, url, **options)
        intercepted = interception.enter(RawCall(call))
        if not intercepted.forward:
            answer = await _wait_for_handshake(intercepted, full_url)
            return _make_replayed(FrameReplaying(interception, intercepted, call), answer, self, options)
        try:
            with intercepted.inside():
                websocket = await original(self, url, **options)
        except BaseException as error:
            _not_opened(intercepted, error)
            raise
        headers = websocket._response.headers.items()
        line = FrameRecording(
            interception, intercepted, call, tuple((name, value) for name, value in headers if name.lower() not in OURS)
        )
        websocket._reader = _RecordedReader(websocket._reader, line)
        websocket._writer = _RecordedWriter(websocket._writer, line)
        return websocket

    return _ws_connect


def _not_opened(intercepted: PendingCall, error: Any) -> None:
    from aiohttp import WSServerHandshakeError

    if isinstance(error, WSServerHandshakeError):
        headers = tuple((error.headers or {}).items())
        intercepted.settle(HttpReply(error.status, error.message, headers=headers, body=EMPTY))
    else:
        intercepted.settle(failure_of(error))


async def _wait_for_handshake(intercepted: PendingCall, url: Any) -> Any:
    """Return the answer to the recorded handshake; raises what it failed with."""
    __tracebackhide__ = True
    from aiohttp import WSServerHandshakeError

    if intercepted.unfinished:
        await asyncio.get_running_loop().create_future()  # until it is given up again
    outcome = intercepted.outcome
    if isinstance(outcome, Failure):
        intercepted.finish()
        raise revive_failure(outcome)
    assert isinstance(outcome, FramesReply | HttpReply)
    answer = _Answer(url, outcome.headers)
    if isinstance(outcome, HttpReply):
        intercepted.finish()
        raise WSServerHandshakeError(
            answer.request_info, (), message=outcome.reason, status=outcome.status, headers=answer.headers
        )
    return answer


def _make_replayed(line: FrameReplaying, answer: Any, session: Any, options: dict[str, Any]) -> Any:
    """Return a native connection over recorded messages."""
    from aiohttp import ClientWebSocketResponse, ClientWSTimeout

    kind: Any = getattr(session, "_ws_response_class", ClientWebSocketResponse)
    timeout = options.get("timeout")
    return kind(
        _ReplayReader(line, decode_text=options.get("decode_text", True)),
        _Writer(line),
        answer.headers.get("Sec-WebSocket-Protocol"),
        answer,
        timeout if isinstance(timeout, ClientWSTimeout) else ClientWSTimeout(options.get("receive_timeout"), 10.0),
        options.get("autoclose", True),
        options.get("autoping", True),
        asyncio.get_running_loop(),
    )


class _RecordedEnd:
    """A real reader or writer that is recorded. What else is asked of it is the real one's."""

    def __init__(self, real: Any, line: FrameRecording) -> None:
        self._real = real
        self._line = line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _RecordedReader(_RecordedEnd):
    """A reader whose messages are noted when the agent takes them."""

    @shielded("_real", "read")
    async def read(self, read: Callable[[], Awaitable[Any]]) -> Any:
        """The next message."""
        line = self._line
        line.waits()
        try:
            message = await read()
        except asyncio.CancelledError:
            line.waits_no_more(patience=False)
            raise
        except BaseException as error:
            line.waits_no_more()
            line.broke(error)
            raise
        # CLOSING is no message: the agent closes the connection and wakes its own reader.
        line.waits_no_more(patience=message.type.name != "CLOSING")
        match message.type.name:
            case "TEXT":
                line.came(message.data if isinstance(message.data, bytes) else message.data.encode())
            case "BINARY":
                line.came(bytes(message.data), binary=True)
            case "CLOSE":
                line.note_closed(Closed(message.data, message.extra or ""))
        return message


class _RecordedWriter(_RecordedEnd):
    """A writer whose messages are noted before they are sent."""

    @shielded("_real", "send_frame")
    async def send_frame(
        self, send: Callable[..., Any], message: Any, opcode: int, compress: int | None = None
    ) -> None:
        """Send one frame."""
        is_noted = _note(self._line, message, opcode)
        try:
            await send(message, opcode, compress)
        except BaseException as error:
            if is_noted:
                self._line.unsent(error)
            raise

    @shielded("_real", "close")
    async def close(self, close: Callable[..., Awaitable[None]], code: int = 1000, message: Any = b"") -> None:
        """Say that the connection ends."""
        end = _make_end(code, message)
        self._line.closes(end.code, end.reason)
        self._line.note_closed(end)
        await close(code, message)


class _ReplayReader:
    """The recorded messages, as aiohttp's queue gives them."""

    def __init__(self, line: FrameReplaying, *, decode_text: bool) -> None:
        self._line = line
        self._decode = decode_text
        self._fed: list[Any] = []

    async def read(self) -> Any:
        """The next message; the end of the connection is one, too."""
        from aiohttp import WSMessage, WSMsgType

        __tracebackhide__ = True
        await asyncio.sleep(0)
        while True:
            if self._fed:
                return self._fed.pop(0)
            if (received := self._line.take()) is not None:
                break
            await self._line.more()
        if isinstance(received, Failure):
            raise revive_failure(received)
        if isinstance(received, Closed):
            return WSMessage(WSMsgType.CLOSE, received.code, received.reason)
        if received.binary:
            return WSMessage(WSMsgType.BINARY, received.data, "")
        return WSMessage(WSMsgType.TEXT, received.data.decode() if self._decode else received.data, "")

    def feed_data(self, message: Any, size: int = 0) -> None:
        """Let aiohttp wake its own reader, when the agent closes the connection."""
        del size
        self._fed.append(message)
        self._line.wake()


class _Writer:
    """Takes what the agent sends."""

    def __init__(self, line: FrameReplaying) -> None:
        self._line = line

    async def send_frame(self, message: Any, opcode: int, compress: int | None = None) -> None:
        """Take one frame; pings go nowhere."""
        __tracebackhide__ = True
        del compress
        end = _note(self._line, message, opcode)
        if isinstance(end, Failure):
            raise revive_failure(end)

    async def close(self, code: int = 1000, message: Any = b"") -> None:
        """The agent ends the connection."""
        self._line.close(_make_end(code, message))


def _make_end(code: int, message: Any) -> Closed:
    reason = message if isinstance(message, str) else bytes(message).decode("utf-8", "replace")
    return Closed(int(code), reason, by_agent=True)


def _note(line: FrameRecording | FrameReplaying, message: Any, opcode: int) -> Any:
    """Note a message of the agent: true where it is one, or how sending it failed in the recording."""
    from aiohttp import WSMsgType

    if opcode not in {WSMsgType.TEXT, WSMsgType.BINARY}:
        return None
    return line.send(bytes(message), binary=opcode == WSMsgType.BINARY) or True


class _Answer:
    """What stands for the HTTP response below a played connection."""

    connection = None
    status = 101

    def __init__(self, url: Any, headers: Headers) -> None:
        from aiohttp import RequestInfo
        from multidict import CIMultiDict, CIMultiDictProxy

        self.headers = CIMultiDictProxy(CIMultiDict(headers))
        self.request_info = RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)

    def close(self) -> None:
        """There is nothing to close."""
