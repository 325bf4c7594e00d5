"""Format 1.0: Run <-> text. docs/format.md describes the layout.

What is written has been read back: `write` restores every body from its own text and compares the bytes; a body that
does not come back is stored plain.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotWrite, SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Body, Exchange, FramesReply, HttpReply, Run, ToolCall
from pytest_agentreplay.snapshots.codec import parsing, seal_digest, volatile_reader
from pytest_agentreplay.snapshots.codec.bodies import DAMAGE, BodyReader, BodyWriter, make_unreadable
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
    doc = parsing.parse_object(parsing.to_bytes(text), "the new snapshot")
    # Each is let go once it is compared: all bodies together may be forty times the file.
    copies = deque(read_run(doc, "the new snapshot", proven=False).exchanges)
    for number, exchange in enumerate(run.exchanges, 1):
        for (place, body), (_, restored) in zip(bodies_of(exchange), bodies_of(copies.popleft()), strict=True):
            with suppress(SnapshotUnreadable):
                if restored.data == body.data:
                    continue
            yield number, place


def bodies_of(exchange: Exchange) -> Iterator[tuple[str, Body]]:
    """Yield the bodies of an exchange: that of its "request" and that of its "response"."""
    if not isinstance(exchange.call, ToolCall):
        yield "request", exchange.call.body
    if isinstance(exchange.outcome, HttpReply | FramesReply):
        yield "response", exchange.outcome.body


def read_run(doc: Stored, file: str, *, proven: bool) -> Run:
    """Return the run of a parsed file. Raises SnapshotUnreadable.

    Its bodies sleep until they are read; they must be what their sha256 says then, if `proven`.
    """
    stored_exchanges, lines = list_exchanges(doc, file), []
    exchanges: dict[int, Exchange] = {}
    place = "blobs"
    try:
        if not isinstance(table := doc.get("blobs", {}), dict):
            raise Malformed("`blobs` must be an object")
        bodies = BodyReader(file, BlobReader(table), proven=proven)
        if volatile_reader.LINES in doc:
            place = volatile_reader.RUN
            volatile_reader.put_back_recording(doc)
            place = volatile_reader.LINES
            lines = volatile_reader.take_lines(doc)
        line_reader = volatile_reader.LineReader(lines, bodies.blobs)
        place = "header"
        header = header_in(doc.get("header"), bodies.blobs)
        place = volatile_reader.LINES if lines else "exchanges"
        numbers = number_by_start(lines or stored_exchanges)
        for number, stored, line in zip_longest(numbers, stored_exchanges, lines):
            place = f"exchange {number}"
            bodies.blobs.spent = 0
            # Where nothing stands apart a `⟦` is the run's own.
            restore_names = line_reader.put_back(stored, line) if lines else lambda stored: stored
            if not KEYS.issuperset(stored) and doc["schemaVersion"] == VERSION:
                raise Malformed(f"unknown key {min(stored.keys() - KEYS)!r:.40}")
            exchanges[number] = exchange_in(stored, partial(bodies.body, number, restore_names), bodies.blobs)
        run = Run(header, tuple(exchanges[number] for number in sorted(exchanges)))
        if too_deep := find_too_deep(run.exchanges):
            place = f"exchange {too_deep[0]}"
            raise Malformed(too_deep[1])
    except DAMAGE as error:
        raise make_unreadable(file, error, place) from None
    return run


def list_exchanges(doc: Stored, file: str) -> list[Any]:
    """Return the stored exchanges. Raises SnapshotUnreadable."""
    if not isinstance(exchanges := doc.get("exchanges"), list):
        raise make_unreadable(file, Malformed("`exchanges` must be a list"), "exchanges")
    return exchanges


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


def read_edited(run: Run) -> Run:
    """Return a run with the bodies that an edit left, and with cuts that fit. Raises SnapshotUnreadable."""
    return replace(run, exchanges=tuple(map(_read_edited, run.exchanges)))


def _read_edited(exchange: Exchange) -> Exchange:
    """Return an exchange with its bodies read: with its cuts where they fit, else one chunk, or a frame a line."""
    sizes = {place: len(body) for place, body in bodies_of(exchange)}
    outcome = exchange.outcome
    if not isinstance(outcome, HttpReply | FramesReply) or sum(outcome.cuts or ()) == (size := sizes["response"]):
        return exchange
    if isinstance(outcome, HttpReply):
        return replace(exchange, outcome=replace(outcome, cuts=(size,) if size else ()))
    return replace(exchange, outcome=replace(outcome, cuts=None))


def unknown_keys(doc: Stored) -> list[str]:
    """Return the top-level keys that format 1.0 does not know, `x-*` apart."""
    return sorted(key for key in doc.keys() - _KEYS if not key.startswith("x-"))
