"""Format 1.0: Run <-> text. docs/format.md describes the layout.

What is written has been read back: `write` restores every body from its own text and compares the bytes; a body that
does not come back is stored plain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotWrite, SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Body, Exchange, FramesReply, HttpReply, Run, ToolCall
from pytest_agentreplay.snapshots.codec import parsing, seal_digest, volatile_reader
from pytest_agentreplay.snapshots.codec.bodies import DAMAGE, BodyReader, BodyWriter, explain, make_unreadable
from pytest_agentreplay.snapshots.codec.stored_exchange import (
    KEYS,
    exchange_in,
    exchange_out,
    find_too_deep,
    header_in,
    header_out,
)
from pytest_agentreplay.snapshots.codec.styles import BlobReader
from pytest_agentreplay.snapshots.codec.values import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject

VERSION = "1.0"

_KEYS = frozenset({"schemaVersion", "needs", "header", "exchanges", "blobs", "volatile", "recording", "integrity"})
_SIDES = {"request": ("request", "frame"), "response": ("response", "frames")}

Place = tuple[int, str]
Stored = dict[str, Any]


def write(run: Run, revisions: Sequence[JsonObject] = ()) -> str:
    """Return the text of `run`. Raises CannotWrite should it not come back exactly."""
    plain: frozenset[Place] = frozenset()
    while True:
        text = _document(run, plain, revisions)
        try:
            lost = frozenset(_find_lost(text, run))
        except SnapshotUnreadable as error:
            raise CannotWrite(f"the run is more than a snapshot may hold ({error}); record less in one test") from None
        if not lost:
            return text
        if lost <= plain:
            number, place = min(lost)
            msg = (
                f"the {place} of exchange {number} does not come back from the text of the snapshot; please report this"
            )
            raise CannotWrite(msg)
        plain |= lost


def _document(run: Run, plain: frozenset[Place], revisions: Sequence[JsonObject]) -> str:
    from pytest_agentreplay.snapshots.codec.volatile_writer import set_apart

    bodies = BodyWriter(plain)
    doc: Stored = {
        "schemaVersion": VERSION,
        "header": header_out(run.header, bodies.blobs),
        "exchanges": [exchange_out(run.exchanges[n - 1], n, bodies) for n in order_by_lane(run.exchanges)],
    }
    if bodies.blobs.table:
        doc["blobs"] = bodies.blobs.table
    return seal_digest.write_sealed(set_apart(doc), revisions)


def order_by_lane(exchanges: Sequence[Exchange]) -> list[int]:
    """Return the numbers of exchanges as they stand in a file.

    Each lane is in one piece, so that a recording in which lanes interleave in another way moves nothing.
    """
    lanes = {x.lane: [(len(part), part) for part in x.lane.split(".")] for x in exchanges}
    return sorted(range(1, len(exchanges) + 1), key=lambda n: (lanes[exchanges[n - 1].lane], n))


def _find_lost(text: str, run: Run) -> Iterator[Place]:
    """Yield the bodies that `text` does not give back."""
    reader = read_document(parsing.parse_object(parsing.to_bytes(text), "the new snapshot"), "the new snapshot")
    for number, exchange in enumerate(run.exchanges, 1):
        for place, body in bodies_of(exchange):
            if not reader.restores(number, place, body):
                yield number, place


def bodies_of(exchange: Exchange) -> Iterator[tuple[str, Body]]:
    """Yield the bodies of an exchange: that of its "request" and that of its "response"."""
    if not isinstance(exchange.call, ToolCall):
        yield "request", exchange.call.body
    if isinstance(exchange.outcome, HttpReply | FramesReply):
        yield "response", exchange.outcome.body


def side(stored: Stored, place: str) -> Any:
    """Return what holds the body of that place in a stored exchange, None where nothing does."""
    return next((stored[name] for name in _SIDES[place] if name in stored), None)


def read_document(doc: Stored, file: str) -> SnapshotReader:
    """Return the reader of a parsed file, in which everything stands where it belongs. Raises SnapshotUnreadable."""
    reader = SnapshotReader(doc, file)
    place = volatile_reader.LINES if volatile_reader.LINES in doc else "exchanges"
    try:
        lines = volatile_reader.take_lines(doc) if volatile_reader.LINES in doc else []
        reader.numbers = number_by_start(lines or reader.exchanges)
        values = volatile_reader.LineReader(volatile_reader.collect_ids(lines))
        for number, stored, line in zip(reader.numbers, reader.exchanges, lines, strict=False):
            place = f"exchange {number}"
            values.put_back(stored, line)
    except DAMAGE as error:
        raise make_unreadable(file, explain(error), place) from None
    by_number = sorted(zip(reader.numbers, reader.exchanges, strict=True), key=itemgetter(0))
    doc["exchanges"] = [stored for _, stored in by_number]
    return reader


def number_by_start(exchanges: list[Any]) -> list[int]:
    """Return the number of each exchange of a file, which has them lane by lane: people count them by their start.

    Raises Malformed for two with one start: each takes a reading of the counter, so somebody has copied one.
    """
    orders = [x.get("order") if isinstance(x, dict) else None for x in exchanges]
    starts = [order[0] for order in orders if isinstance(order, list) and order and type(order[0]) is int]
    if len(starts) != len(exchanges):  # a damaged file, which will be refused
        return list(range(1, len(exchanges) + 1))
    by_start = sorted(range(len(starts)), key=starts.__getitem__)
    for number, (at, following) in enumerate(pairwise(by_start), 1):
        if starts[at] == starts[following]:
            raise Malformed(f"exchanges {number} and {number + 1} both begin at {starts[at]}, as if one were a copy")
    rank = {at: number for number, at in enumerate(by_start, 1)}
    return [rank[at] for at in range(len(starts))]


@dataclass(slots=True)
class SnapshotReader:
    """A parsed file of format 1 and what can be asked of it."""

    doc: Stored
    file: str
    numbers: Sequence[int] = ()
    _bodies: BodyReader | None = None

    @property
    def exchanges(self) -> list[Any]:
        """The stored exchanges. Raises SnapshotUnreadable."""
        exchanges = self.doc.get("exchanges")
        if not isinstance(exchanges, list):
            raise make_unreadable(self.file, "`exchanges` must be a list", "exchanges")
        return exchanges

    @property
    def bodies(self) -> BodyReader:
        """The bodies, asleep."""
        if self._bodies is None:
            requests = {
                n: body
                for n in self.numbers
                if isinstance(request := side(self.exchanges[n - 1], "request"), dict)
                and isinstance(body := request.get("body"), dict)
            }
            blobs = self.doc.get("blobs", {})
            if not isinstance(blobs, dict):
                raise make_unreadable(self.file, "`blobs` must be an object", "blobs")
            self._bodies = BodyReader(self.file, requests, BlobReader(blobs))
        return self._bodies

    def run(self, *, sealed: bool) -> Run:
        """Return the run.

        Bodies of a sealed file sleep until they are read; those of an edited one are taken as they are.
        """
        try:
            header = header_in(self.doc.get("header"), self.bodies.blobs)
        except DAMAGE as error:
            raise make_unreadable(self.file, explain(error), "header") from None
        exchanges = tuple(self._exchange(n, sealed=sealed) for n in range(1, len(self.exchanges) + 1))
        if tangle := find_too_deep(exchanges):
            raise make_unreadable(self.file, tangle[1], f"exchange {tangle[0]}")
        return Run(header, exchanges)

    def _exchange(self, number: int, *, sealed: bool) -> Exchange:
        stored, bodies = self.exchanges[number - 1], self.bodies
        bodies.blobs.spent = 0
        try:
            if not KEYS.issuperset(stored) and self.doc["schemaVersion"] == VERSION:
                raise ValueError(f"unknown key {min(stored.keys() - KEYS)!r:.40}")
            body_of = bodies.body if sealed else bodies.restore_later
            exchange = exchange_in(stored, lambda place, message: body_of(number, place, message), bodies.blobs)
        except DAMAGE as error:
            raise make_unreadable(self.file, explain(error), f"exchange {number}") from None
        return exchange if sealed else self._read_edited(exchange, number)

    def _read_edited(self, exchange: Exchange, number: int) -> Exchange:
        """Return `exchange` with the bodies that an edit left, whatever sha256 stands beside them."""
        stored = self.exchanges[number - 1]
        if not isinstance(exchange.call, ToolCall) and "body" in side(stored, "request"):
            exchange = replace(exchange, call=replace(exchange.call, body=Body(self.restore(number, "request"))))
        outcome = exchange.outcome
        if isinstance(outcome, HttpReply | FramesReply) and "body" in side(stored, "response"):
            data = self.restore(number, "response")
            exchange = replace(exchange, outcome=_fit_cuts(outcome, data))
        return exchange

    def restore(self, number: int, place: str) -> bytes:
        """Return the bytes of a body, unproven. Raises SnapshotUnreadable."""
        return self.bodies.restore(number, place, side(self.exchanges[number - 1], place))

    def restores(self, number: int, place: str, body: Body) -> bool:
        """Return whether the file gives `body` back exactly."""
        if not len(body):
            return "body" not in side(self.exchanges[number - 1], place)
        try:
            return self.restore(number, place) == body.data
        except SnapshotUnreadable:
            return False


def _fit_cuts(outcome: HttpReply | FramesReply, data: bytes) -> HttpReply | FramesReply:
    """Return `outcome` with an edited body: its cuts where they still fit, else one chunk, or a frame a line."""
    if outcome.cuts is None or sum(outcome.cuts) == len(data):
        return replace(outcome, body=Body(data))
    if isinstance(outcome, HttpReply):
        return replace(outcome, body=Body(data), cuts=(len(data),))
    return replace(outcome, body=Body(data), cuts=None)


def unknown_keys(doc: Stored) -> list[str]:
    """Return the top-level keys that format 1.0 does not know, `x-*` apart."""
    return sorted(key for key in doc.keys() - _KEYS if not key.startswith("x-"))
