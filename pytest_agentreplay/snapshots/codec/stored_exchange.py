"""Exchanges and headers <-> how they stand in a file of format 1. Every type is looked at; bodies stay asleep."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pytest_agentreplay.model.exchanges import (
    EMPTY,
    Closed,
    Exchange,
    Failure,
    FrameCall,
    FramesReply,
    Header,
    HttpCall,
    HttpReply,
    Timing,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.snapshots.codec import fields
from pytest_agentreplay.snapshots.codec.fields import (
    COUNT,
    COUNTS,
    FLAG,
    HEADERS,
    INTEGER,
    OBJECT,
    STATUS,
    TEXT,
    TEXTS,
    VALUE,
    VALUES,
    FieldKind,
    Form,
)
from pytest_agentreplay.snapshots.codec.parsing import DEEPEST
from pytest_agentreplay.snapshots.codec.values import reveal, reveal_text
from pytest_agentreplay.snapshots.kit import PASSED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.model.exchanges import Body, Call, Json, Outcome
    from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter

    ReadBody = Callable[[str, dict[str, Any]], Body]
    """Returns the body of a "request" or "response" from the message around it."""

Stored = dict[str, Any]


class Bodies(Protocol):
    """Writes bodies: into a file, or into a journal."""

    blobs: BlobWriter

    def request(self, number: int, lane: str, body: Body) -> Stored:
        """Return the stored body of the request of exchange `number`."""

    def reply(self, number: int, body: Body) -> Stored:
        """Return the stored body of the response of exchange `number`."""


_FUNCTIONS: tuple[Literal["tool", "model", "retrieval"], ...] = ("tool", "model", "retrieval")
_CALLS = frozenset({"request", "frame", *_FUNCTIONS})
_OUTCOMES = frozenset({"response", "result", "frames", "failure"})
_BOUND = 1 << 63


def _read_parts(stored: Any, key: str, _: BlobReader) -> tuple[tuple[int, int], ...]:
    pairs = fields.read_array(stored, key)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        fields.refuse(key, "pairs of a reading and a number of chunks")
    return tuple([(fields.read_integer(reading, key), fields.read_integer(chunks, key)) for reading, chunks in pairs])


def _read_sent(stored: Any, key: str, blobs: BlobReader) -> tuple[Json, ...]:
    """Return what was sent into a generator: objects that say after how many items."""
    entries: list[Json] = fields.read_array(reveal(stored, blobs), key)
    for entry in entries:
        fields.read_count(fields.read_object(entry, key).get("after"), "after")
    return tuple(entries)


def _write_closed(closed: Closed, blobs: BlobWriter) -> Stored:
    return _CLOSED.write(closed, blobs) | ({"by": "agent"} if closed.by_agent else {})


def _read_closed(stored: Any, key: str, blobs: BlobReader) -> Closed:
    by = fields.read_object(stored, key).get("by", "peer")
    if by not in {"agent", "peer"}:
        fields.refuse("by", "agent or peer")
    return _CLOSED.read(stored, key, blobs, by_agent=by == "agent")


def _read_date(stored: Any, key: str, blobs: BlobReader) -> str:
    """Return a date as it is stored, "" where none is known. Raises Malformed."""
    text = reveal_text(stored, blobs)
    if text:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            fields.refuse(key, "a date like 2028-02-29T00:00:00+00:00")
    return text


def _read_code(stored: Any, key: str, _: BlobReader) -> int | None:
    return None if stored is None else fields.read_integer(stored, key)


_DATE = FieldKind(TEXT.write, _read_date)
_HEADER_KINDS = {"test": TEXT, "recorded": _DATE, "clock": INTEGER, "seed": INTEGER, "outcome": OBJECT, "kit": OBJECT}
_HEADER = Form(Header, _HEADER_KINDS, always=_HEADER_KINDS)
_CLOSED = Form(Closed, {"code": FieldKind(lambda code, _: code, _read_code), "reason": TEXT}, always=["code"])
_FAILURE = Form(Failure, {"type": TEXT, "message": TEXT, "args": VALUES, "bases": TEXTS})
_TOOL_CALL = Form(ToolCall, {"name": TEXT, "facts": OBJECT, "arguments": OBJECT}, always=["arguments"])
_SENT = FieldKind(VALUES.write, _read_sent)
_TOOL_REPLY = Form(ToolReply, {"items": VALUES, "sent": _SENT, "value": VALUE, "closed": FLAG, "failure": _FAILURE})
_HTTP_CALL = Form(HttpCall, {"method": TEXT, "url": TEXT, "headers": HEADERS})
_HTTP_REPLY = Form(
    HttpReply,
    {"status": STATUS, "reason": TEXT, "version": TEXT, "headers": HEADERS, "closed": FLAG, "failure": _FAILURE},
)
_FRAME_CALL = Form(
    FrameCall, {"url": TEXT, "boundary": TEXT, "connection": INTEGER, "headers": HEADERS, "binary": FLAG}
)
_FRAMES = {"headers": HEADERS, "cuts": COUNTS, "binary": COUNTS, "inner": COUNTS}
_ENDED = FieldKind(_write_closed, _read_closed)
_FRAMES_REPLY = Form(FramesReply, {**_FRAMES, "closed": _ENDED, "failure": _FAILURE, "waited": FLAG})
_PARTS = FieldKind(lambda parts, _: [list(part) for part in parts], _read_parts)
_PLACE = {"parent": COUNT, "parts": _PARTS, "at_once": INTEGER}
_EXCHANGE_KINDS = {"lane": TEXT, "attempt": INTEGER, "suspended": FLAG, **_PLACE, "agent": TEXT}
_EXCHANGE = Form(Exchange, _EXCHANGE_KINDS)
KEYS = _EXCHANGE_KINDS.keys() | {"order", "ms", "ns"} | _CALLS | _OUTCOMES
"""All keys that an exchange may have."""


def header_out(header: Header, blobs: BlobWriter) -> Stored:
    """Return the header as stored. Of a captured run the kit comes before the outcome: lists know it by its kit."""
    stored = _HEADER.write(header, blobs)
    outcome = stored.pop("outcome")
    if "capture" in header.kit:
        return {**stored, "outcome": outcome}
    kit = stored.pop("kit")
    return {**stored, **({} if header.outcome == PASSED else {"outcome": outcome}), "kit": kit}


def header_in(stored: Any, blobs: BlobReader) -> Header:
    """Return the header, in which a test passed that says nothing else. Raises Malformed."""
    return _HEADER.read({"outcome": PASSED, **fields.read_object(stored, "header")}, "header", blobs)


def exchange_out(exchange: Exchange, number: int, bodies: Bodies) -> Stored:
    """Return an exchange as stored; `number` counts from 1. Raises CannotWrite for what could not be read again."""
    stored: Stored = {"order": [exchange.start, exchange.finish]}
    if exchange.timing != Timing():
        stored |= _write_timing(exchange.timing)
    stored |= _EXCHANGE.write(exchange, bodies.blobs)
    key, message = _write_call(exchange.call, bodies.blobs)
    if not isinstance(exchange.call, ToolCall) and len(exchange.call.body):
        message["body"] = bodies.request(number, exchange.lane, exchange.call.body)
    stored[key] = message
    if exchange.outcome is not None:
        key, message = _write_outcome(exchange.outcome, bodies.blobs)
        if isinstance(exchange.outcome, HttpReply | FramesReply) and len(exchange.outcome.body):
            message["body"] = bodies.reply(number, exchange.outcome.body)
        stored[key] = message
    return stored


def _write_call(call: Call, blobs: BlobWriter) -> tuple[str, Stored]:
    """Return the key of a call, and the call without its body."""
    match call:
        case HttpCall():
            return "request", _HTTP_CALL.write(call, blobs)
        case ToolCall():
            return call.boundary, _TOOL_CALL.write(call, blobs)
        case FrameCall():
            return "frame", _FRAME_CALL.write(call, blobs)


def _write_outcome(outcome: Outcome, blobs: BlobWriter) -> tuple[str, Stored]:
    """Return the key of an outcome, and the outcome without its body."""
    match outcome:
        case HttpReply(body=body, cuts=cuts):
            cut = {} if cuts == ((len(body),) if len(body) else ()) else {"cuts": list(cuts)}
            return "response", _HTTP_REPLY.write(outcome, blobs) | cut
        case ToolReply(items=items):
            return "result", ({"value": None} if items is None else {}) | _TOOL_REPLY.write(outcome, blobs)
        case FramesReply():
            return "frames", _FRAMES_REPLY.write(outcome, blobs)
        case Failure():
            return "failure", _FAILURE.write(outcome, blobs)


def exchange_in(stored: Stored, read_body: ReadBody, blobs: BlobReader) -> Exchange:
    """Return an exchange. Raises Malformed."""
    order = stored.get("order")
    if not (isinstance(order, list) and len(order) == 2):
        fields.refuse("order", "a pair of start and finish")
    start = fields.read_count(order[0], "order")
    finish = None if order[1] is None else fields.read_count(order[1], "order")
    exchange = _EXCHANGE.read(
        stored,
        "exchange",
        blobs,
        call=_read_call(stored, read_body, blobs),
        outcome=_read_outcome(stored, read_body, blobs),
        start=start,
        finish=finish,
        timing=_read_timing(stored),
    )
    if (finish is not None and finish < start) or (exchange.parent is not None and exchange.parent >= start):
        fields.refuse("order", "start before finish, and after the start of its parent")
    return exchange


def _read_call(stored: Stored, read_body: ReadBody, blobs: BlobReader) -> Call:
    keys = stored.keys() & _CALLS
    if len(keys) != 1:
        fields.refuse("request", "there, or `tool`, `model`, `retrieval` or `frame`, and only one of them")
    (key,) = keys
    call = fields.read_object(stored[key], key)
    if key == "request":
        return _HTTP_CALL.read(call, key, blobs, body=_read_body("request", call, read_body))
    if key == "frame":
        return _FRAME_CALL.read(call, key, blobs, body=_read_body("request", call, read_body))
    return _TOOL_CALL.read(call, key, blobs, boundary=key)


def _read_outcome(stored: Stored, read_body: ReadBody, blobs: BlobReader) -> Outcome | None:
    keys = stored.keys() & _OUTCOMES
    if not keys:
        return None
    if len(keys) > 1:
        fields.refuse("outcome", "one of response, result, frames and failure")
    (key,) = keys
    outcome = fields.read_object(stored[key], key)
    if key == "response":
        body = _read_body("response", outcome, read_body)
        one_chunk = [fields.read_count(outcome["body"].get("size"), "size")] if "body" in outcome else []
        cuts = COUNTS.read(outcome.get("cuts", one_chunk), "cuts", blobs)
        return _HTTP_REPLY.read(outcome, key, blobs, body=body, cuts=cuts)
    if key == "frames":
        return _FRAMES_REPLY.read(outcome, key, blobs, body=_read_body("response", outcome, read_body))
    return (_TOOL_REPLY if key == "result" else _FAILURE).read(outcome, key, blobs)


def _read_body(place: str, message: Stored, read_body: ReadBody) -> Body:
    if "body" not in message:
        return EMPTY
    fields.read_object(message["body"], "body")
    return read_body(place, message)


def _write_timing(timing: Timing) -> Stored:
    """Return milliseconds, as people read them, where that is exact; else nanoseconds."""
    milliseconds: list[float | None] = []
    for reading in (timing.start, timing.first, timing.end):
        ms = reading and (reading / 10**6 if reading % 10**6 else reading // 10**6)
        if ms and (abs(ms) > 10**9 or round(ms * 10**6) != reading):
            return {"ns": [timing.start, timing.first, timing.end]}
        milliseconds.append(ms)
    return {"ms": milliseconds}


def _read_timing(stored: Stored) -> Timing:
    """Return when an exchange began, when its answer began, and when it ended. Raises Malformed."""
    unit = "ns" if "ns" in stored else "ms"
    readings = stored.get(unit, [0, None, None])
    if not (isinstance(readings, list) and len(readings) == 3):
        fields.refuse("timing", "three readings")
    to_ns = fields.read_integer if unit == "ns" else _read_ms
    start, *rest = readings
    return Timing(to_ns(start, unit), *(None if reading is None else to_ns(reading, unit) for reading in rest))


def _read_ms(ms: Any, key: str) -> int:
    if (type(ms) is float or type(ms) is int) and -_BOUND < ms < _BOUND:
        return fields.read_integer(round(ms * 10**6), key)
    return fields.refuse(key, "a list of numbers")


def find_too_deep(exchanges: Sequence[Exchange]) -> tuple[int, str] | None:
    """Return which exchange lies inside of more calls than a stack has room for; and why that is wrong."""
    depths: dict[int, int] = {}
    for number, x in sorted(enumerate(exchanges, 1), key=lambda pair: pair[1].start):
        depths[x.start] = 0 if x.parent is None else depths.get(x.parent, 0) + 1
        if depths[x.start] > DEEPEST:
            return number, "calls inside of calls are nested too deep"
    return None
