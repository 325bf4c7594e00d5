"""HTTP/1.1 bodies between the wire's framing and the chunks of a recorded reply, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import Failure

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Headers, HttpReply

SHORT = "http.client.IncompleteRead"
_BASES = ("http.client.HTTPException", "builtins.Exception")


class Incoming:
    """A body that comes in as it stands on the wire: `chunked`, of a known `length`, or up to the end of file."""

    def __init__(self, *, chunked: bool, length: int | None) -> None:
        """Nothing has come yet; a body of length 0 is `whole` already."""
        self.whole = not chunked and length == 0
        self._chunked = chunked
        self._missing = None if chunked else length
        self._wire = bytearray()
        self.malformed = b""  # what came in the place of a chunk's size

    def feed(self, data: bytes) -> list[bytes]:
        """Take what came; returns the chunks that it completes, without their framing."""
        if not data or self.whole or self.malformed:
            return []
        if self._chunked:
            self._wire += data
            return self._unframed()
        if self._missing is not None:
            self._missing -= len(data)
            self.whole = self._missing <= 0
        return [data]

    def rest(self) -> bytes:
        """What has come of a chunk that is not complete."""
        return bytes(self._wire[: self._missing]) if self._chunked and self._missing else b""

    def at_end_of_file(self) -> Failure | None:
        """Why the body is not whole though nothing more comes; None when it is.

        Its arguments are how many bytes of the last chunk or of the length are missing, and what came instead.
        """
        if self.whole or (not self._chunked and self._missing is None):
            return None
        rest = len(self.rest())
        missing = (self._missing or 0) - rest if rest or not self._chunked else 0
        instead = (self.malformed.decode("latin-1"),) if self.malformed else ()
        return Failure(SHORT, f"IncompleteRead({missing} more expected)", (missing, *instead), _BASES)

    def _unframed(self) -> list[bytes]:
        wire, chunks = self._wire, []
        while not self.whole:
            if self._missing:
                if len(wire) < self._missing + 2:
                    break
                chunks.append(bytes(wire[: self._missing]))
                del wire[: self._missing + 2]
                self._missing = None
            line, newline, _ = bytes(wire[:_LONGEST]).partition(b"\n")
            if not newline:
                break
            del wire[: len(line) + 1]
            if self._missing == 0:  # the last chunk has come: what follows are trailers, up to an empty line
                self.whole = not line.strip()
                continue
            try:
                self._missing = int(line.partition(b";")[0], 16)
            except ValueError:
                self.malformed = line + newline + bytes(wire)
                break
        return chunks


_LONGEST = 65537


def is_chunked(headers: Headers) -> bool:
    """Whether a body with these headers is framed in chunks."""
    return any(name.lower() == "transfer-encoding" and value.strip().lower() == "chunked" for name, value in headers)


def head_of(reply: HttpReply) -> bytes:
    """The status line and the headers as they go on an HTTP/1.1 wire; the length says what will be sent."""
    version = reply.version if reply.version in {"HTTP/1.0", "HTTP/1.1"} else "HTTP/1.1"
    whole = reply.body.data and reply.failure is None and not reply.closed
    lines = [f"{version} {reply.status} {reply.reason}"]
    for name, value in reply.headers:
        sent = str(len(reply.body)) if whole and name.lower() == "content-length" else value
        lines.append(f"{name}: {sent}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def framed(chunk: bytes, *, missing: int = 0) -> bytes:
    """A chunk with its framing; of one that was broken off, `missing` bytes never come."""
    return b"%x\r\n%b%b" % (len(chunk) + missing, chunk, b"" if missing else b"\r\n")


LAST = b"0\r\n\r\n"
