"""A response on its way to a child: framed anew for this connection, its status, headers and bytes as they are."""

from __future__ import annotations

import selectors
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.model.exchanges import Failure, Headers, HttpReply

HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Headers of one connection (RFC 9110, section 7.6.1): they end at the gateway, either way."""


class GatewayWire:
    """The child's end of one exchange. `kept` says whether the connection can carry another one."""

    def __init__(self, connection: socket.socket, method: str, version: str) -> None:
        """`method` and `version` are those of the request, which decide how a body may be framed."""
        self.connection = connection
        self._method = method
        self._modern = version >= "HTTP/1.1"
        self._framing = ""
        self._silent = False
        self.begun = False
        self.kept = True

    def head(self, status: int, reason: str, headers: Headers, length: int | None) -> None:
        """Send the status line and the headers. `length` is that of the body, None where it is not known."""
        self.begun = True
        self._silent = self._method == "HEAD" or status in {204, 304} or status < 200
        sent = [pair for pair in headers if pair[0].lower() not in HOP_BY_HOP]
        if not self._silent:
            sent = [(name, str(length) if name.lower() == "content-length" else value) for name, value in sent]
            sized = any(name.lower() == "content-length" for name, _ in sent)
            if length is None:
                sent = [pair for pair in sent if pair[0].lower() != "content-length"]
                self._framing = "chunked" if self._modern else "close"
            elif not sized:
                sent.append(("Content-Length", str(length)))
        if self._framing == "chunked":
            sent.append(("Transfer-Encoding", "chunked"))
        elif self._framing == "close":
            self.kept = False
            sent.append(("Connection", "close"))
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in sent), "", ""]
        self.connection.sendall("\r\n".join(lines).encode("latin-1"))

    def body(self, chunk: bytes) -> None:
        """Send a part of the body, at once."""
        if chunk and not self._silent:
            self.connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._framing == "chunked" else chunk)

    def end(self) -> None:
        """The body is complete."""
        if self._framing == "chunked" and not self._silent:
            self.connection.sendall(b"0\r\n\r\n")

    def reset(self) -> None:
        """Break the connection off, as the one that failed was."""
        self.kept = False
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def gone(self) -> bool:
        """Whether the child has closed its end."""
        try:
            with selectors.DefaultSelector() as looking:
                looking.register(self.connection, selectors.EVENT_READ)
                return bool(looking.select(0)) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True


def play(reply: HttpReply, wire: GatewayWire, complete: Callable[[], None]) -> Failure | None:
    """Send a recorded reply; returns the failure that broke it off. `complete` is called before its last byte goes out.

    One that was not read to its end is sent as far as it came, and left open.
    """
    whole = reply.failure is None and not left_early(reply)
    length = _stated_length(reply)
    if length is not None and whole:
        length = len(reply.body)  # a secret that was taken out has changed it
    wire.head(reply.status, reply.reason, reply.headers, length)
    *first, last = [*reply.chunks()] or [b""]
    for chunk in first:
        wire.body(chunk)
    if whole:
        complete()
        wire.body(last)
        wire.end()
    else:
        wire.body(last)
    return reply.failure


def left_early(reply: HttpReply) -> bool:
    """Whether the agent stopped reading where there may have been more."""
    complete = _stated_length(reply) == len(reply.body) or reply.body.data.rstrip().endswith(b"data: [DONE]")
    return reply.closed and not complete


def _stated_length(reply: HttpReply) -> int | None:
    stated = next((value for name, value in reply.headers if name.lower() == "content-length"), "")
    return int(stated) if stated.isdecimal() else None
