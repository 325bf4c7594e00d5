"""The sockets and files below `http.client`: teed while recording, played while replaying.

`http.client` and what stands on it (urllib3, requests, botocore) parse for themselves in both modes: chunks, lengths,
early ends. A file is never read ahead further than a buffer of the socket would be.
"""

from __future__ import annotations

import functools
import io
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.http.bodies import BodyCapture, ReplayStream
from pytest_agentreplay.intercept.http.http_wire import (
    LAST,
    SHORT,
    Incoming,
    add_framing,
    freeze_exception,
    head_of,
    is_chunked,
)
from pytest_agentreplay.intercept.session.replacing import shielded
from pytest_agentreplay.model.exchanges import HttpReply
from pytest_agentreplay.model.release_order import BEGUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.intercept.http.http_wire import Wire
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Failure

_BUFFER = 65536

LISTENING: ContextVar[PendingCall | None] = ContextVar("agentreplay_listening", default=None)
"""The wire call whose response begins in this context; its body will be teed."""


@contextmanager
def listening(intercepted: PendingCall) -> Iterator[None]:
    """A block in which the real call is made, and its response begins."""
    token = LISTENING.set(intercepted)
    try:
        with intercepted.inside():
            yield
    finally:
        LISTENING.reset(token)


def hear(response: Any, intercepted: PendingCall) -> None:
    """Tee the body of an `http.client.HTTPResponse` that has just read its head."""
    version = f"HTTP/{response.version // 10}.{response.version % 10}"
    headers = tuple([(str(name), str(value)) for name, value in response.headers.items()])
    take = BodyCapture(intercepted, HttpReply(response.status, response.reason, version, headers))
    bodiless = response.length == 0 or response._method == "HEAD"
    incoming = Incoming(chunked=response.chunked and not bodiless, length=0 if bodiless else response.length)
    if incoming.is_complete:
        take.end()
    else:
        response.fp = io.BufferedReader(RecordingFile(response.fp, take, incoming), _BUFFER)


def fill_buffer(file: Any, buffer: Any) -> int:
    """Read what has come of `file`, or what comes next: its `readinto1` may wait for more than that."""
    data: bytes = file.read1(len(buffer))
    buffer[: len(data)] = data
    return len(data)


class RecordingFile(io.RawIOBase):
    """A body while recording: what the socket gives passes on at once."""

    def __init__(self, file: Any, take: BodyCapture, incoming: Incoming) -> None:
        self._file = file
        self._fill = functools.partial(fill_buffer, file)
        self._take = take
        self._incoming = incoming

    def readable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """That of the socket."""
        number: int = self._file.fileno()
        return number

    @shielded("_fill", "__call__")
    def readinto(self, fill: Callable[[Any], int], buffer: Any) -> int:
        """One read of what has come, or of what comes next."""
        take, incoming = self._take, self._incoming
        take.reading = True
        try:
            data = bytes(buffer[: fill(buffer)])
        except BaseException as error:
            take.add_all([incoming.rest()])
            take.end(freeze_exception(error))
            raise
        take.reading = False
        if data:
            chunks = incoming.feed(data)
            if not (incoming.is_complete or incoming.malformed):
                take.add_all(chunks)
            else:
                # Whoever has the last chunk of these has all.
                take.hold_in_thread()
                take.add_all(chunks)
                take.end(incoming.at_end_of_file())
        else:
            take.add_all([incoming.rest()])
            take.end(incoming.at_end_of_file())
        return len(data)

    @shielded("_file", "close")
    def close(self, close: Callable[[], None]) -> None:
        """The agent wants no more."""
        if not self.closed:
            self._take.add_all([self._incoming.rest()])
            self._take.end(closed=True)
            close()
        super().close()


class Playing:
    """A socket that takes any request, and whose file is the recorded reply."""

    def __init__(self, wire: Wire, reply: HttpReply) -> None:
        self._wire = wire
        self._reply = reply
        self._timeout: float | None = None

    def makefile(self, *_mode: Any, **_more: Any) -> io.BufferedReader:
        """The reply, from its status line on."""
        return io.BufferedReader(PlayedFile(self._wire, self._reply), _BUFFER)

    def gettimeout(self) -> float | None:
        """What was set."""
        return self._timeout

    def settimeout(self, timeout: float | None) -> None:
        """Kept, and never waited for."""
        self._timeout = timeout

    def _ignore(self, *_args: Any) -> None:
        """Ignore it: the request is known already, and options mean nothing here."""

    send = sendall = setsockopt = shutdown = close = _ignore


class PlayedFile(io.RawIOBase):
    """A recorded reply as a file: one read gives one chunk at most."""

    def __init__(self, wire: Wire, reply: HttpReply) -> None:
        self._short = reply.failure if reply.failure is not None and reply.failure.type == SHORT else None
        self._played = ReplayStream(wire, replace(reply, failure=None) if self._short else reply)
        self._intercepted = wire.intercepted
        self._parts = self._segments(reply)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes, one chunk at most; raises what came next when recorded."""
        if not self._left:
            self._left = memoryview(next(self._parts, b""))
        size = min(len(self._left), len(buffer))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        """The agent wants no more, or has had all."""
        self._played.close()
        super().close()

    def _segments(self, reply: HttpReply) -> Iterator[bytes]:
        """The head, each chunk as it stands on the wire, and the end that it had."""
        chunked = is_chunked(reply.headers)
        missing, instead = short_of(self._short)
        self._intercepted.wait_in_thread(BEGUN)
        if not reply.cuts and reply.failure is None and not reply.closed:
            self._intercepted.wait_in_thread()
            self._played.close()  # whoever reads the head has had all
        yield head_of(reply)
        for number, chunk in enumerate(self._played, 1):
            yield add_framing(chunk, missing=missing if number == len(reply.cuts) else 0) if chunked else chunk
        if chunked:
            yield LAST if self._short is None else instead


def short_of(failure: Failure | None) -> tuple[int, bytes]:
    """How many bytes of the last chunk never came, and what came in the place of the next one."""
    args = failure.args if failure is not None else ()
    missing, instead = (*args, 0, "")[0], (*args, "", "")[1]
    return (missing if isinstance(missing, int) else 0), str(instead).encode("latin-1")
