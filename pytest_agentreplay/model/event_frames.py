"""Event frames: the binary streams of Amazon (application/vnd.amazon.eventstream), read as lines of JSON, and written.

A frame is: its length, the length of its headers, a checksum of these two, headers, payload, a checksum of all before
(https://smithy.io/2.0/aws/amazon-eventstream.html). A payload that only wraps base64, `{"bytes": "..."}`, is opened.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PRELUDE = struct.Struct(">III")
CHECKSUM = struct.Struct(">I")


class EventFrame(NamedTuple):
    """One frame: where it stands, its headers, its payload, and the line that the payload says."""

    start: int
    end: int
    headers: bytes
    payload: bytes
    line: bytes
    wrapped: bool

    def with_line(self, line: bytes) -> bytes:
        """Return the bytes of the frame with another line in it."""
        if self.wrapped:
            line = json.dumps({**json.loads(self.payload), "bytes": base64.b64encode(line).decode()}).encode()
        return make_frame(self.headers, line)


def read_frames(data: bytes, *, is_checked: bool = True) -> list[EventFrame]:
    """Return the frames that a body begins with, up to one that was cut off or, if `is_checked`, is damaged.

    A frame is damaged if it does not fit its checksums.
    """
    frames: list[EventFrame] = []
    at = 0
    while len(data) - at >= PRELUDE.size + CHECKSUM.size:
        size, header_size, checksum = PRELUDE.unpack_from(data, at)
        begin, end = at + PRELUDE.size + header_size, at + size - CHECKSUM.size
        if at + size > len(data) or begin > end:
            break
        head_sum, frame_sum = zlib.crc32(data[at : at + 8]), zlib.crc32(data[at:end])
        if is_checked and (head_sum, frame_sum) != (checksum, *CHECKSUM.unpack_from(data, end)):
            break
        payload = data[begin:end]
        line = unwrap_payload(payload)
        headers = data[at + PRELUDE.size : begin]
        frames.append(EventFrame(at, at + size, headers, payload, line or payload, line is not None))
        at += size
    return frames


def unwrap_payload(payload: bytes) -> bytes | None:
    """Return what a payload wraps in base64, or None."""
    if b'"bytes"' not in payload:
        return None
    try:
        return base64.b64decode(json.loads(payload)["bytes"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None


def make_frame(headers: bytes, payload: bytes) -> bytes:
    """Return the bytes of a frame of these headers and this payload."""
    sizes = struct.pack(">II", PRELUDE.size + len(headers) + len(payload) + CHECKSUM.size, len(headers))
    frame = sizes + CHECKSUM.pack(zlib.crc32(sizes)) + headers + payload
    return frame + CHECKSUM.pack(zlib.crc32(frame))


# The type of a header whose value is a text, with its length before it. Bedrock sends no other.
_TEXT = 7


def read_headers(data: bytes) -> dict[str, str]:
    """Return the headers of a frame as far as they are texts."""
    headers: dict[str, str] = {}
    at = 0
    while at < len(data):
        value = at + 1 + data[at]
        if data[value : value + 1] != bytes([_TEXT]):
            break
        end = value + 3 + int.from_bytes(data[value + 1 : value + 3], "big")
        headers[data[at + 1 : value].decode("utf-8", "replace")] = data[value + 3 : end].decode("utf-8", "replace")
        at = end
    return headers


def write_headers(headers: Mapping[str, str]) -> bytes:
    """Return the bytes of headers whose names and values are ASCII."""
    return b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _TEXT, len(value)) + value.encode()
        for name, value in headers.items()
    )
