"""A stored exchange or header of format 1 -> the values of the model. Every type is looked at; bodies stay asleep."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NoReturn

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
from pytest_agentreplay.snapshots.codec import values
from pytest_agentreplay.snapshots.codec.parsing import DEEPEST
from pytest_agentreplay.snapshots.codec.values import Malformed, reveal, reveal_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Body, Call, Headers, Json, Outcome
    from pytest_agentreplay.snapshots.codec.styles import BlobReader

_FUNCTIONS: tuple[Literal["tool", "model", "retrieval"], ...] = ("tool", "model", "retrieval")
_CALLS = frozenset({"request", "frame", *_FUNCTIONS})
_OUTCOMES = frozenset({"response", "result", "frames", "failure"})
KEYS = (
    frozenset({"order", "lane", "ms", "ns", "attempt", "suspended", "parent", "parts", "at_once", "agent"})
    | _CALLS
    | _OUTCOMES
)
"""All keys that an exchange may have."""

_NO_TIME = Timing()
_BOUND = 1 << 63


def header_in(stored: Any, blobs: BlobReader) -> Header:
    """Return the header. Raises Malformed."""
    fields = _object(stored, "header")
    return Header(
        test=reveal_text(_need(fields, "test"), blobs),
        recorded=reveal_text(fields.get("recorded", ""), blobs),
        clock=_integer(reveal(fields.get("clock", 0), blobs), "clock"),
        seed=_integer(reveal(fields.get("seed", 0), blobs), "seed"),
        outcome=_object(reveal(fields.get("outcome", {}), blobs), "outcome"),
        kit=_object(reveal(fields.get("kit", {}), blobs), "kit"),
    )


def find_too_deep(exchanges: Sequence[Exchange]) -> tuple[int, str] | None:
    """Return which exchange lies inside of more calls than a stack has room for; and why that is wrong."""
    depths: dict[int, int] = {}
    for number, x in sorted(enumerate(exchanges, 1), key=lambda pair: pair[1].start):
        depths[x.start] = 0 if x.parent is None else depths.get(x.parent, 0) + 1
        if depths[x.start] > DEEPEST:
            return number, "calls inside of calls are nested too deep"
    return None


def exchange_in(stored: dict[str, Any], body: Callable[[str, dict[str, Any]], Body], blobs: BlobReader) -> Exchange:
    """Return an exchange; `body` makes the Body of a "request" or "response" from the message around it.

    Raises Malformed.
    """
    order = _need(stored, "order")
    if not (isinstance(order, list) and len(order) == 2):
        _wrong("order", "a pair of start and finish")
    start, finish = _count(order[0], "order"), None if order[1] is None else _count(order[1], "order")
    parent = None if stored.get("parent") is None else _count(stored["parent"], "parent")
    if (finish is not None and finish < start) or (parent is not None and parent >= start):
        _wrong("order", "start before finish, and after the start of its parent")
    return Exchange(
        call=_call(stored, body, blobs),
        outcome=_outcome(stored, body, blobs),
        start=start,
        finish=finish,
        lane=reveal_text(stored["lane"], blobs) if "lane" in stored else "main",
        attempt=_integer(stored["attempt"], "attempt") if "attempt" in stored else 1,
        suspended=_flag(stored, "suspended"),
        parent=parent,
        timing=_timing(stored),
        parts=_parts(stored["parts"]) if "parts" in stored else (),
        at_once=_integer(stored["at_once"], "at_once") if "at_once" in stored else -1,
        agent=reveal_text(stored["agent"], blobs) if "agent" in stored else "",
    )


def _call(stored: dict[str, Any], body: Callable[[str, dict[str, Any]], Body], blobs: BlobReader) -> Call:
    if len(stored.keys() & _CALLS) != 1:
        _wrong("request", "there, or `tool`, `model`, `retrieval` or `frame`, and only one of them")
    if "frame" in stored:
        return _frame(_object(stored["frame"], "frame"), body, blobs)
    for boundary in _FUNCTIONS:
        if boundary in stored:
            return _function_call(boundary, _object(stored[boundary], boundary), blobs)
    request = _object(stored["request"], "request")
    return HttpCall(
        reveal_text(_need(request, "method"), blobs),
        reveal_text(_need(request, "url"), blobs),
        headers_in(request, blobs),
        _body("request", request, body),
    )


def _function_call(
    boundary: Literal["tool", "model", "retrieval"], stored: dict[str, Any], blobs: BlobReader
) -> ToolCall:
    arguments = _object(reveal(stored.get("arguments", {}), blobs), "arguments")
    facts = _object(reveal(stored.get("facts", {}), blobs), "facts")
    return ToolCall(reveal_text(_need(stored, "name"), blobs), arguments, boundary, facts)


def _outcome(stored: dict[str, Any], body: Callable[[str, dict[str, Any]], Body], blobs: BlobReader) -> Outcome | None:
    kinds = stored.keys() & _OUTCOMES
    if len(kinds) > 1:
        _wrong("outcome", "one of response, result, frames and failure")
    if "frames" in kinds:
        return _frames(_object(stored["frames"], "frames"), body, blobs)
    if "response" in kinds:
        return _reply(_object(stored["response"], "response"), body, blobs)
    if "result" in kinds:
        result = _object(stored["result"], "result")
        items = reveal(result["items"], blobs) if "items" in result else None
        return ToolReply(
            value=reveal(result.get("value"), blobs),
            items=None if items is None else tuple(_array(items, "items")),
            failure=_failure(result["failure"], blobs) if "failure" in result else None,
            closed=_flag(result, "closed"),
            sent=tuple(_read_sent(result["sent"], blobs)) if "sent" in result else None,
        )
    return _failure(stored["failure"], blobs) if kinds else None


def _read_sent(stored: Any, blobs: BlobReader) -> Iterator[Json]:
    """Yield what was sent into a generator: objects that say after how many items."""
    for entry in _array(reveal(stored, blobs), "sent"):
        _count(_need(_object(entry, "sent"), "after"), "after")
        yield entry


def _reply(reply: dict[str, Any], body: Callable[[str, dict[str, Any]], Body], blobs: BlobReader) -> HttpReply:
    content = _body("response", reply, body)
    one_chunk = (_count(_need(reply["body"], "size"), "size"),) if "body" in reply else ()
    cuts = reply.get("cuts")
    status = _integer(_need(reply, "status"), "status")
    if why := values.wrong_status(status):
        raise Malformed(why)
    return HttpReply(
        status=status,
        reason=reveal_text(reply.get("reason", ""), blobs),
        version=reveal_text(reply.get("version", "HTTP/1.1"), blobs),
        headers=headers_in(reply, blobs),
        body=content,
        cuts=one_chunk if cuts is None else tuple(_count(cut, "cuts") for cut in _array(cuts, "cuts")),
        failure=_failure(reply["failure"], blobs) if "failure" in reply else None,
        closed=_flag(reply, "closed"),
    )


def _body(place: str, message: dict[str, Any], body: Callable[[str, dict[str, Any]], Body]) -> Body:
    if "body" not in message:
        return EMPTY
    _object(message["body"], "body")
    return body(place, message)


def _frame(frame: dict[str, Any], body: Callable[[str, dict[str, Any]], Body], blobs: BlobReader) -> FrameCall:
    return FrameCall(
        reveal_text(_need(frame, "url"), blobs),
        _integer(frame["connection"], "connection") if "connection" in frame else None,
        headers_in(frame, blobs),
        _body("request", frame, body),
        binary=_flag(frame, "binary"),
        boundary=reveal_text(frame.get("boundary", "websocket"), blobs),
    )


def _frames(frames: dict[str, Any], body: Callable[[str, dict[str, Any]], Body], blobs: BlobReader) -> FramesReply:
    return FramesReply(
        _body("response", frames, body),
        tuple(_count(cut, "cuts") for cut in _array(frames["cuts"], "cuts")) if "cuts" in frames else None,
        tuple(_count(at, "binary") for at in _array(frames.get("binary", []), "binary")),
        headers_in(frames, blobs),
        closed=_read_closed(_object(frames["closed"], "closed"), blobs) if "closed" in frames else None,
        failure=_failure(frames["failure"], blobs) if "failure" in frames else None,
        waited=_flag(frames, "waited"),
        inner=tuple(_count(at, "inner") for at in _array(frames.get("inner", []), "inner")),
    )


def _read_closed(closed: dict[str, Any], blobs: BlobReader) -> Closed:
    code = _need(closed, "code")
    by = closed.get("by", "peer")
    if by not in {"agent", "peer"}:
        _wrong("by", "agent or peer")
    reason = reveal_text(closed.get("reason", ""), blobs)
    return Closed(None if code is None else _integer(code, "code"), reason, by_agent=by == "agent")


def _failure(stored: Any, blobs: BlobReader) -> Failure:
    fields = _object(stored, "failure")
    return Failure(
        type=reveal_text(_need(fields, "type"), blobs),
        message=reveal_text(fields.get("message", ""), blobs),
        args=tuple(_array(reveal(fields.get("args", []), blobs), "args")),
        bases=tuple(reveal_text(base, blobs) for base in _array(fields.get("bases", []), "bases")),
    )


def headers_in(message: dict[str, Any], blobs: BlobReader) -> Headers:
    """Return the headers of a stored message. Raises Malformed."""
    headers = message.get("headers", ())
    if isinstance(headers, tuple):  # a line of the file had some of their values
        return headers
    return tuple([read_header(stored, blobs) for stored in _array(headers, "headers")])


def read_header(stored: Any, blobs: BlobReader) -> tuple[str, str]:
    """Return the name and the value of a stored header. Raises Malformed."""
    if isinstance(stored, list) and len(stored) == 2:
        return check_header(reveal_text(stored[0], blobs), reveal_text(stored[1], blobs))
    return _cut_header(reveal_text(stored, blobs))


@lru_cache(maxsize=1024)
def _cut_header(line: str) -> tuple[str, str]:
    """Return the name and the value in a line; one object for the many replies that have the same."""
    name, colon, value = line.partition(": ")
    return check_header(name, value) if colon else _wrong("headers", "a list of `name: value`")


def check_header(name: str, value: str) -> tuple[str, str]:
    """Return a name and a value that a header may have. Raises Malformed."""
    if why := values.wrong_header(name, value):
        raise Malformed(why)
    return name, value


def _timing(stored: dict[str, Any]) -> Timing:
    unit = "ns" if "ns" in stored else "ms"
    if unit not in stored:
        return _NO_TIME
    readings, read = stored[unit], _integer if unit == "ns" else _milliseconds
    if not (isinstance(readings, list) and len(readings) == 3):
        _wrong("timing", "three readings")
    start, *others = readings
    first, end = [None if reading is None else read(reading, unit) for reading in others]
    return Timing(read(start, unit), first, end)


def _parts(stored: Any) -> tuple[tuple[int, int], ...]:
    pairs = _array(stored, "parts")
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        _wrong("parts", "pairs of a reading and a number of chunks")
    return tuple([(_integer(reading, "parts"), _integer(chunks, "parts")) for reading, chunks in pairs])


def _milliseconds(value: Any, what: str) -> int:
    """Return the nanoseconds that were stored as milliseconds."""
    if (type(value) is float or type(value) is int) and -_BOUND < value < _BOUND:
        return _integer(round(value * 10**6), what)
    return _wrong(what, "a list of numbers")


def _object(value: Any, what: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else _wrong(what, "an object")


def _array(value: Any, what: str) -> list[Any]:
    return value if isinstance(value, list) else _wrong(what, "a list")


def _integer(value: Any, what: str) -> int:
    return value if type(value) is int and -_BOUND < value < _BOUND else _wrong(what, "a whole number of 63 bits")


def _count(value: Any, what: str) -> int:
    number = _integer(value, what)
    return number if number >= 0 else _wrong(what, "no negative number")


def _flag(fields: dict[str, Any], what: str) -> bool:
    value = fields.get(what, False)
    return value if isinstance(value, bool) else _wrong(what, "true or false")


def _need(fields: dict[str, Any], what: str) -> Any:
    return fields[what] if what in fields else _wrong(what, "there")


def _wrong(what: str, expected: str) -> NoReturn:
    raise Malformed(f"{what!r} must be {expected}")
