"""A model server on loopback that answers differently each time, so that a replay can be told from a second call.

    with ModelServer() as server:
        OpenAI(base_url=server.url + "/v1", api_key="any")
        Anthropic(base_url=server.url, api_key="any")

It speaks each API that `providers` writes (those of OpenAI, Anthropic, Gemini, Bedrock), whole and streamed. A script
says what is said, or which fault happens on the wire.
It needs no other library, and has its own little HTTP/1.1: a fault is a thing of bytes, which no web framework lets
out.
"""

from __future__ import annotations

import _thread
import json
import socket
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.model_script import Ask, Raw, Say, default_script, fresh, in_order, write_answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import BinaryIO, Self

    from tests.support.model_script import Script

__all__ = ["Ask", "ModelServer", "Raw", "Received", "Say"]


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came: its number (from 1), the headers in order and case, the body's bytes."""

    number: int
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def json(self) -> Any:
        """The body parsed; None when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class ModelServer:
    """A threaded HTTP/1.1 server on 127.0.0.1 with keep-alive, up between `start` and `stop` (or in a `with` block).

    `script` is a function of the parsed body and the request's number (from 1), or the replies in order; without one
    it asks for a fitting tool when a user speaks and tools are offered, and else says something. `requests` are those
    that came; `pace` is the time in seconds between the events of a stream.
    """

    def __init__(self, script: Script | None = None, *, pace: float = 0.0) -> None:
        self.requests: list[Received] = []
        self.pace = pace
        self._replies = script if callable(script) else in_order(script) if script is not None else default_script
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._gone = threading.Event()
        self._listener: socket.socket | None = None
        self._port = 0
        self._open: dict[socket.socket, threading.Thread] = {}

    @property
    def url(self) -> str:
        """Where it listens, "http://127.0.0.1:PORT"; still known after `stop`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def hits(self) -> int:
        """How many requests have come."""
        return len(self.requests)

    def start(self) -> Self:
        """Listen on a free port; returns the server itself."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        # A blocked accept is not woken everywhere by a close from another thread.
        listener.settimeout(0.05)
        self._listener, self._port = listener, listener.getsockname()[1]
        # Not threading.Thread: the server is the world, so it must not be taken for a thread of the test.
        _thread.start_new_thread(self._accept, (listener,))
        return self

    def stop(self) -> None:
        """Stop listening and cut what is still connected; doing it twice does nothing."""
        if self._listener is None:
            return
        self._listener = None
        self._stopped.set()
        self._gone.wait(2)
        with self._lock:
            connected = list(self._open.items())
        for connection, _ in connected:
            hang_up(connection)
        for _, thread in connected:
            thread.join(2)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while not self._stopped.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                thread = threading.Thread(target=self._converse, args=(connection,), daemon=True)
                with self._lock:
                    self._open[connection] = thread
                thread.start()
        self._gone.set()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as incoming:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while (request := self._receive(incoming)) is not None:
                    if not self._send(connection, self._answer(request)):
                        break
        except OSError:
            pass  # the client has left
        finally:
            with self._lock:
                self._open.pop(connection, None)

    def _receive(self, incoming: BinaryIO) -> Received | None:
        start = incoming.readline().split()
        if len(start) != 3:
            return None
        headers = []
        while (line := incoming.readline().rstrip(b"\r\n")) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name, value.strip()))
        body = read_body(incoming, {name.lower(): value for name, value in headers})
        with self._lock:
            number = len(self.requests) + 1
            request = Received(number, start[0].decode(), start[1].decode(), tuple(headers), body)
            self.requests.append(request)
        return request

    def _answer(self, request: Received) -> Raw:
        body = request.json
        reply = self._replies(body, request.number)
        if isinstance(reply, Raw):
            return reply
        if isinstance(reply, Ask):
            reply = Say(asks=(reply,))
        say = Say(reply) if isinstance(reply, str) else reply if isinstance(reply, Say) else Say(asks=tuple(reply))
        marks = [("x-request-id", fresh("req_")), ("set-cookie", f"session={fresh('')}; Path=/; HttpOnly")]
        if (written := write_answer(request.path, body, say)) is None:
            about = {"number": request.number, "id": fresh("id_"), "path": request.path, "text": say.text}
            written = "", (json.dumps(about).encode(),)
        kind, chunks = written
        return (
            Raw(headers=[("content-type", kind), *marks], chunks=chunks, delay=self.pace)
            if kind
            else in_full(chunks[0], marks)
        )

    def _send(self, connection: socket.socket, raw: Raw) -> bool:
        """Write the reply; return whether the connection is kept open."""
        names = {name.lower() for name, _ in raw.headers}
        chunked = raw.head is None and not names & {"content-length", "transfer-encoding"}
        if raw.head is not None:
            connection.sendall(raw.head)
        elif raw.status:
            framing = [("transfer-encoding", "chunked")] if chunked else []
            lines = [f"HTTP/1.1 {raw.status} {raw.reason}", *(f"{n}: {v}" for n, v in (*raw.headers, *framing)), "", ""]
            connection.sendall("\r\n".join(lines).encode("latin-1"))
        for chunk in raw.chunks[: raw.break_after]:
            if raw.delay and self._stopped.wait(raw.delay):
                return False
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
        if raw.hang:
            self._wait_for_leave(connection)
            return False
        if raw.break_after is not None:
            if raw.reset:
                # A reset throws away what the client has not read yet.
                self._stopped.wait(raw.delay)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if chunked and raw.status:
            connection.sendall(b"0\r\n\r\n")
        return raw.head is None and raw.status != 0

    def _wait_for_leave(self, connection: socket.socket) -> None:
        connection.settimeout(0.02)
        while not self._stopped.is_set():
            try:
                if connection.recv(1024) == b"":
                    return
            except TimeoutError:
                continue


def hang_up(connection: socket.socket) -> None:
    """Wake whoever reads or writes on `connection`."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already


def read_body(incoming: BinaryIO, headers: dict[str, str]) -> bytes:
    """Return the body of a request, by its length or its chunks."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return incoming.read(int(headers.get("content-length", 0)))
    parts = []
    while size := int(incoming.readline().partition(b";")[0], 16):
        parts.append(incoming.read(size))
        incoming.readline()
    incoming.readline()
    return b"".join(parts)


def in_full(body: bytes, marks: Sequence[tuple[str, str]]) -> Raw:
    """Return a JSON body of known length."""
    headers = [("content-type", "application/json"), ("content-length", str(len(body))), *marks]
    return Raw(headers=headers, chunks=(body,))
