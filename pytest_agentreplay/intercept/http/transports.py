"""What aiohttp's protocol hears of one wire call: listened to while recording, played while replaying."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.http.bodies import BodyCapture, ReplayStream, SuspensionProbe
from pytest_agentreplay.intercept.http.files import short_of
from pytest_agentreplay.intercept.http.http_wire import (
    LAST,
    SHORT,
    Incoming,
    add_framing,
    freeze_exception,
    head_of,
    is_chunked,
)
from pytest_agentreplay.model.exchanges import Failure, HttpReply
from pytest_agentreplay.model.release_order import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.intercept.http.http_wire import Wire
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers

HEARD = "_agentreplay_heard"
GONE = "aiohttp.client_exceptions.ServerDisconnectedError"
_PATIENCE = 0.01


class RecordingProtocol:
    """One wire call while recording: told what its protocol is told, before it."""

    def __init__(self, intercepted: PendingCall, request: Any, protocol: Any) -> None:
        self._intercepted = intercepted
        self._method = request.method
        self._timer = getattr(request, "_timer", None)
        self._protocol = protocol
        self._head = bytearray()
        self._take: BodyCapture | None = None
        self._incoming = Incoming(chunked=False, length=0)
        self._watch = SuspensionProbe()
        self._watch.suspended = True  # an answer in asyncio is always waited for

    def defer(self, then: Callable[[], object]) -> bool:
        """Whether what has come waits until the event loop is idle; `then` is called when it is."""
        return self._intercepted.defer(then)

    def data_received(self, data: bytes) -> None:
        """Bytes have come: of the head, then of the body."""
        take = self._take
        if take is None:
            self._head += data
            while take is None and b"\r\n\r\n" in self._head:
                head, _, rest = bytes(self._head).partition(b"\r\n\r\n")
                self._head = bytearray(rest)
                take = self._take = self._begin(head)
            if take is None:
                return
            data = bytes(self._head)
        take.add_all(self._incoming.feed(data))
        if self._incoming.is_complete or self._incoming.malformed:
            self._end(self._incoming.at_end_of_file())

    def connection_lost(self, error: BaseException | None) -> None:
        """Nothing more will come."""
        if error is not None:
            self._end(freeze_exception(error))
        elif self._take is None:
            bases = ("aiohttp.client_exceptions.ClientConnectionError", "builtins.Exception")
            self._end(Failure(GONE, "Server disconnected", bases=bases))
        else:
            self._end(self._incoming.at_end_of_file())

    def set_exception(self, error: BaseException, *_cause: Any) -> None:
        """Aiohttp gives up: nothing was heard in time, or nothing that could be understood."""
        self._end(freeze_exception(error))

    def close(self) -> None:
        """The agent wants no more: it has had enough, or its own time was up, or it was cancelled."""
        if getattr(self._timer, "_cancelled", False):
            self._end(freeze_exception(TimeoutError()))
        elif self._take is None or cancelling():
            self._end(freeze_exception(asyncio.CancelledError()))
        else:
            self._end(closed=True)

    def _begin(self, head: bytes) -> BodyCapture | None:
        """The reply begins; not with a head that only says to go on."""
        line, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = line.partition(" ")
        code, _, reason = rest.partition(" ")
        status = int(code) if code.isdecimal() else 0
        if 100 <= status < 200:
            return None
        pairs = (line.partition(":") for line in lines)
        headers = tuple([(name, value.strip(" \t")) for name, _, value in pairs])
        length = next((value for name, value in headers if name.lower() == "content-length"), "")
        bodiless = self._method == "HEAD" or status in {204, 304}
        chunked = is_chunked(headers) and not bodiless
        size = int(length) if length.isdecimal() else None
        self._incoming = Incoming(chunked=chunked, length=0 if bodiless else size)
        return BodyCapture(self._intercepted, HttpReply(status, reason, version, headers), self._watch)

    def _end(self, failure: Failure | None = None, *, closed: bool = False) -> None:
        vars(self._protocol).pop(HEARD, None)
        if self._take is None:
            assert failure is not None
            self._intercepted.settle(failure, suspended=True)
        else:
            self._take.add_all([self._incoming.rest()])
            self._take.end(failure, closed=closed)


def cancelling() -> bool:
    """Whether the task that runs here is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def of_the_wire(failure: Failure) -> bool:
    """Whether a connection was there already when it happened."""
    if failure.type.startswith("aiohttp."):
        return failure.type.rpartition(".")[2] in {"ServerDisconnectedError", "SocketTimeoutError"}
    return "builtins.OSError" in failure.bases and (failure.type != "builtins.TimeoutError" or not failure.args)


class PlayedTransport(asyncio.Transport):
    """Takes any request, and gives the protocol what was recorded: a chunk each time the loop goes round."""

    def __init__(self, wire: Wire, outcome: HttpReply | Failure, protocol: Any, *, expects: bool) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._wire = wire
        self._protocol = protocol
        self._played: ReplayStream | None = None
        self._parts = self._segments(outcome, expects=expects)
        self._begun = self._closed = self._paused = self._owing = False
        self._waiting: asyncio.Task[None] | None = None

    def write(self, data: Any) -> None:
        """The request is known already; its first bytes set the answer going."""
        del data
        if not self._begun:
            self._begun = True
            self._loop.call_soon(self._go_on)

    def writelines(self, list_of_data: Any) -> None:
        """As `write`."""
        self.write(list_of_data)

    def pause_reading(self) -> None:
        """The agent is slower than the recording."""
        self._paused = True

    def resume_reading(self) -> None:
        """It has caught up."""
        self._paused = False
        if self._owing:
            self._owing = False
            self._loop.call_soon(self._go_on)

    def is_closing(self) -> bool:
        """Whether the agent wants no more."""
        return self._closed

    def close(self) -> None:
        """The agent wants no more, or has had all."""
        self._lose(None)

    abort = close

    def _go_on(self) -> None:
        if self._closed:
            return
        if self._paused:
            self._owing = True
            return
        try:
            part = next(self._parts, None)
        except ReplayDiverged as refused:
            self._fail(refused)
            return
        if isinstance(part, int):
            # A callback cannot wait; the task that does is kept, or it might be collected meanwhile.
            self._waiting = self._loop.create_task(self._wait_and_go_on(part))
        elif part is not None:
            self._protocol.data_received(part)
            self._loop.call_soon(self._go_on)

    async def _wait_and_go_on(self, chunks: int) -> None:
        try:
            await self._wire.intercepted.wait(chunks)
        except ReplayDiverged as refused:
            self._fail(refused)
        else:
            self._go_on()

    def _segments(self, outcome: HttpReply | Failure, *, expects: bool) -> Iterator[bytes | int]:
        """What comes over the wire, one chunk at a time, and the end that it had.

        A number stands where the next part is not to come before so many chunks may.
        """
        if expects:
            yield b"HTTP/1.1 100 Continue\r\n\r\n"
        if isinstance(outcome, Failure):
            self._wire.intercepted.finish()
            self._break(outcome)
            return
        self._played = ReplayStream(self._wire, outcome)
        yield head_of(outcome)
        failure, chunked = outcome.failure, is_chunked(outcome.headers)
        missing, instead = short_of(failure if failure is not None and failure.type == SHORT else None)
        # The end of the body comes with its last chunk, or aiohttp would tell of one chunk more.
        end = LAST if chunked and failure is None and not outcome.closed else b""
        for left, chunk in zip(range(len(outcome.cuts) - 1, -1, -1), outcome.chunks(), strict=True):
            part = add_framing(chunk, missing=0 if left else missing) if chunked else chunk
            yield from self._not_before(len(outcome.cuts) - left)
            yield part if left else part + end
        if outcome.closed and failure is None:
            self._wait_for_more(self._played, outcome.headers)
            return
        if failure is None or not failure.cancelled:
            yield from self._not_before(END)
            self._played.close()
        if failure is None:
            yield b"" if outcome.cuts else end
            self._end(outcome.headers)
        elif failure.type == SHORT:
            yield instead
            self._lose(None)
        elif not failure.cancelled:
            self._break(failure)

    def _not_before(self, chunks: int) -> Iterator[int]:
        if not self._wire.intercepted.is_released(chunks):
            yield chunks

    def _end(self, headers: Headers) -> None:
        """All has come; where no length and no last chunk says so, the end of the connection does."""
        if not is_chunked(headers) and all(name.lower() != "content-length" for name, _ in headers):
            self._lose(None)

    def _wait_for_more(self, played: ReplayStream, headers: Headers) -> None:
        """The agent stopped here when recorded: as long as it does again, nothing is wrong."""
        if self._closed:
            return
        if getattr(self._protocol._payload, "_waiter", None) is None:
            self._loop.call_later(_PATIENCE, self._wait_for_more, played, headers)
            return
        try:
            for _ in played:
                pass
        except ReplayDiverged as refused:
            self._fail(refused)
            return
        self._protocol.data_received(LAST if is_chunked(headers) else b"")
        self._end(headers)

    def _break(self, failure: Failure) -> None:
        """Fail as the wire did, or as aiohttp did for it."""
        error = self._wire.revive(failure)
        if failure.type == GONE:
            self._lose(None)
        elif isinstance(error, OSError) and not isinstance(error, TimeoutError):
            self._lose(error)
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        payload = self._protocol._payload
        self._protocol.set_exception(error)
        if payload is not None:
            payload.set_exception(error)

    def _lose(self, error: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            if self._played is not None:
                self._played.close()
            self._loop.call_soon(self._protocol.connection_lost, error)
