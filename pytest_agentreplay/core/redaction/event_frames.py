"""Event frames: the binary streams of Amazon (application/vnd.amazon.eventstream) as lines of JSON, and back.

A frame is: its length, the length of its headers, a checksum of these two, headers, payload, a checksum of all before
(https://smithy.io/2.0/aws/amazon-eventstream.html). A payload that only wraps base64, `{"bytes": "..."}`, is opened.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.channels import lines as lines_in
from pytest_agentreplay.core.redaction.spans import splice

if TYPE_CHECKING:
    from pytest_agentreplay.core.redaction.channels import Finder
    from pytest_agentreplay.core.redaction.spans import Span

KIND = "application/vnd.amazon.eventstream"
_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class EventFrame:
    """One frame: where it stands, its headers, its payload, and the line that the payload says."""

    start: int
    end: int
    headers: bytes
    payload: bytes
    line: bytes
    wrapped: bool

    def saying(self, line: bytes) -> bytes:
        """The frame with another line in it."""
        payload = json.dumps({**json.loads(self.payload), "bytes": base64.b64encode(line).decode()}).encode()
        return framed(self.headers, payload if self.wrapped else line)


def is_framed(content_type: str) -> bool:
    """Whether bodies of this content type are event frames."""
    return content_type.partition(";")[0].strip().lower() == KIND


def frames(data: bytes) -> list[EventFrame]:
    """The frames that a body begins with, up to one that was cut off or does not fit its checksums."""
    found = []
    at = 0
    while at < len(data):
        if len(data) - at < _PRELUDE.size + _CHECKSUM.size:
            break
        size, headers, checksum = _PRELUDE.unpack_from(data, at)
        end = at + size
        body = at + _PRELUDE.size + headers
        if end > len(data) or body > end - _CHECKSUM.size or zlib.crc32(data[at : at + 8]) != checksum:
            break
        if _CHECKSUM.unpack_from(data, end - _CHECKSUM.size)[0] != zlib.crc32(data[at : end - _CHECKSUM.size]):
            break
        payload = data[body : end - _CHECKSUM.size]
        line = unwrapped(payload)
        found.append(EventFrame(at, end, data[at + _PRELUDE.size : body], payload, line or payload, line is not None))
        at = end
    return found


def unwrapped(payload: bytes) -> bytes | None:
    """What a payload wraps in base64, or None."""
    if b'"bytes"' not in payload:
        return None
    try:
        return base64.b64decode(json.loads(payload)["bytes"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None


def framed(headers: bytes, payload: bytes) -> bytes:
    """A frame of these headers and this payload."""
    sizes = struct.pack(">II", _PRELUDE.size + len(headers) + len(payload) + _CHECKSUM.size, len(headers))
    frame = sizes + _CHECKSUM.pack(zlib.crc32(sizes)) + headers + payload
    return frame + _CHECKSUM.pack(zlib.crc32(frame))


def find_framed(data: bytes, find: Finder) -> tuple[list[Span], list[Span]]:
    """The frames that change, with what stands instead, and what `find` has found in the lines of all of them.

    What follows the last whole frame is looked at as it stands.
    """
    every = frames(data)
    rest = every[-1].end if every else 0
    before = b"\n".join(frame.line.replace(b"\n", b" ") for frame in every)
    found = find(before, list(lines_in(before)))
    lines = zip(every, before.split(b"\n"), splice(before, found).split(b"\n"), strict=True) if found else ()
    changed = [(frame.start, frame.end, frame.saying(new)) for frame, old, new in lines if new != old]
    after = find(data[rest:], "none")
    return [*changed, *((start + rest, end + rest, text) for start, end, text in after)], [*found, *after]
