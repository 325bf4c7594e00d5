"""The text of the recording journal: one record a line, appended while a test runs, so that a kill loses little.

A record is `length sha256[:8] json` and a newline; the length counts the bytes of the JSON. A request body is cut at
`},`, where an element of an array ends, and told as `parts`: `[from, to]` are pieces kept from the one before it in its
lane, texts are new. Whole bodies would be 42 MB for 200 turns of 2 kB, and ten times the time.
Whoever appends these bytes decides when they reach the disk.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import Body, Run
from pytest_agentreplay.snapshots.codec.bodies import DAMAGE
from pytest_agentreplay.snapshots.codec.differences import list_parts
from pytest_agentreplay.snapshots.codec.stored_exchange import exchange_in, exchange_out, header_in, header_out
from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter
from pytest_agentreplay.snapshots.codec.values import Malformed, reveal_text, unbase64

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Exchange, Header

_MARK = b"},"
_RECORD = re.compile(rb"([0-9]{1,10}) ([0-9a-f]{8}) ")
_compact = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class JournalWriter:
    """Turns a header and settled exchanges into the bytes to append, in any order; keeps the last body of each lane."""

    blobs: BlobWriter = field(default_factory=BlobWriter)
    _last: dict[str, list[bytes]] = field(default_factory=dict)
    _blobs_written: int = 0

    def begin(self, header: Header) -> bytes:
        """Return the record of a header; a later one counts."""
        return self._write_record({"header": header_out(header, self.blobs)})

    def exchange(self, exchange: Exchange) -> bytes:
        """Return the record of an exchange; a later one with the same `start` counts."""
        return self._write_record({"exchange": exchange_out(exchange, 0, self)})

    def request(self, number: int, lane: str, body: Body) -> dict[str, Any]:  # noqa: ARG002  a journal numbers nothing
        """Return the body of a request, as what it keeps of the one before it in its lane."""
        old, new = self._last.get(lane, []), body.data.split(_MARK)
        self._last[lane] = new
        parts = list_parts(old, new)
        return {"parts": [[i, j] if is_kept else _write_bytes(_MARK.join(new[i:j])) for is_kept, i, j in parts]}

    def reply(self, number: int, body: Body) -> dict[str, Any]:  # noqa: ARG002  a journal numbers nothing
        """Return the body of a reply, whole."""
        return {"size": len(body.data), "parts": [_write_bytes(body.data)]}

    def _write_record(self, record: dict[str, Any]) -> bytes:
        """Return the bytes of a record, with the blobs that no record holds yet."""
        # With the first record that names them: whatever a kill leaves can be read.
        blobs = dict([*self.blobs.table.items()][self._blobs_written :])
        self._blobs_written += len(blobs)
        return write_record(record | ({"blobs": blobs} if blobs else {}))


def read_journal(data: bytes) -> tuple[Run | None, int]:
    """Return the run that a journal holds, None without a header, and how many bytes of a torn tail were dropped."""
    header: Header | None = None
    exchanges: dict[int, Exchange] = {}
    blobs, last = BlobReader(), dict[str, list[bytes]]()
    at = 0
    while (record_head := _RECORD.match(data, at)) is not None:
        end = record_head.end() + int(record_head[1])
        payload = data[record_head.end() : end]
        # A record that was cut off, or only half on the disk, ends the journal.
        if data[end : end + 1] != b"\n" or _sum(payload) != record_head[2]:
            break
        try:
            record = json.loads(payload)
            blobs.table |= record.get("blobs", {})
            if "header" in record:
                header = header_in(record["header"], blobs)
            else:
                exchange = _read_exchange(record["exchange"], blobs, last)
                exchanges[exchange.start] = exchange
        except DAMAGE:
            break
        at = end + 1
    run = None if header is None else Run(header, tuple(exchanges[start] for start in sorted(exchanges)))
    return run, len(data) - at


def _read_exchange(stored: dict[str, Any], blobs: BlobReader, last: dict[str, list[bytes]]) -> Exchange:
    """Return an exchange of a record; `last` has the pieces of the last request of each lane. Raises Malformed etc."""
    blobs.spent = 0
    lane = reveal_text(stored.get("lane", "main"), blobs)

    def read_body(place: str, message: dict[str, Any]) -> Body:
        parts = []
        for part in message["body"]["parts"]:
            parts.append(_read_bytes(part, last.get(lane, [])))
            blobs.spend(len(parts[-1]))
        data = _MARK.join(parts)
        if place == "request":
            last[lane] = data.split(_MARK)
        return Body(data)

    return exchange_in(stored, read_body, blobs)


def write_record(record: dict[str, Any]) -> bytes:
    """Return the bytes of a record."""
    payload = _compact(record).encode()
    return b"%d %s %s\n" % (len(payload), _sum(payload), payload)


def _sum(payload: bytes) -> bytes:
    return hashlib.sha256(payload).hexdigest()[:8].encode()


def _write_bytes(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _read_bytes(part: Any, old: list[bytes]) -> bytes:
    match part:
        case str():
            return part.encode()
        case {"base64": str(text)}:
            return unbase64(text)
        case [int(begin), int(end)]:
            return _MARK.join(old[begin:end])
        case _:
            raise Malformed("a part of a body must be text, base64, or what it keeps")
