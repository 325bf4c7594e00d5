"""One exchange -> how it stands in a file of format 1, and the header too. What has its default value is left out."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.model.exchanges import (
    Failure,
    FramesReply,
    Header,
    HttpCall,
    HttpReply,
    Timing,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.snapshots.codec import values
from pytest_agentreplay.snapshots.codec.values import protect, protect_text
from pytest_agentreplay.snapshots.kit import PASSED

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Body, Closed, Exchange, Headers, Outcome
    from pytest_agentreplay.snapshots.codec.styles import BlobWriter

Stored = dict[str, Any]


class Bodies(Protocol):
    """Writes bodies: into a file, or into a journal."""

    blobs: BlobWriter

    def request(self, number: int, lane: str, body: Body) -> Stored:
        """Return the stored body of the request of exchange `number`."""

    def reply(self, number: int, body: Body) -> Stored:
        """Return the stored body of the response of exchange `number`."""


def header_out(header: Header, blobs: BlobWriter) -> Stored:
    """Return the header as stored. Of a captured run the kit comes first, by which lists know it."""
    is_captured = "capture" in header.kit
    outcome = {"outcome": protect(header.outcome, blobs)} if is_captured or header.outcome != PASSED else {}
    kit = {"kit": protect(header.kit, blobs)}
    return {
        "test": protect_text(header.test, blobs),
        "recorded": protect_text(header.recorded, blobs),
        "clock": protect(header.clock, blobs),
        "seed": protect(header.seed, blobs),
        **(kit | outcome if is_captured else outcome | kit),
    }


def exchange_out(exchange: Exchange, number: int, bodies: Bodies) -> Stored:
    """Return an exchange as stored; `number` counts from 1."""
    return {
        "order": [exchange.start, exchange.finish],
        **_drop_empty(
            lane=protect_text(exchange.lane, bodies.blobs) if exchange.lane != "main" else None,
            **(timing_out(exchange.timing) if exchange.timing != Timing() else {}),
            attempt=exchange.attempt if exchange.attempt != 1 else None,
            suspended=exchange.suspended,
            parent=exchange.parent,
            parts=[list(part) for part in exchange.parts],
            at_once=exchange.at_once if exchange.at_once >= 0 else None,
            agent=protect_text(exchange.agent, bodies.blobs) or None,
        ),
        **_call(exchange, number, bodies),
        **_outcome(exchange.outcome, number, bodies),
    }


def _drop_empty(**members: Any) -> Stored:
    """Return the members of a stored object without null, false, and lists and objects that are empty."""
    return {key: value for key, value in members.items() if value or type(value) in {int, str}}


def _call(exchange: Exchange, number: int, bodies: Bodies) -> Stored:
    call, blobs = exchange.call, bodies.blobs
    if isinstance(call, ToolCall):
        facts = _drop_empty(facts=protect(call.facts, blobs))
        arguments = {"arguments": protect(call.arguments, blobs)}
        return {call.boundary: {"name": protect_text(call.name, blobs), **facts, **arguments}}
    url, headers = protect_text(call.url, blobs), headers_out(call.headers, blobs)
    body = bodies.request(number, exchange.lane, call.body) if len(call.body) else None
    if isinstance(call, HttpCall):
        method = protect_text(call.method, blobs)
        return {"request": {"method": method, "url": url, **_drop_empty(headers=headers, body=body)}}
    boundary = protect_text(call.boundary, blobs) if call.boundary != "websocket" else None
    start = _drop_empty(boundary=boundary, connection=call.connection)
    return {"frame": {"url": url, **start, **_drop_empty(headers=headers, binary=call.binary, body=body)}}


def _outcome(outcome: Outcome | None, number: int, bodies: Bodies) -> Stored:
    match outcome:
        case None:
            return {}
        case HttpReply() as reply:
            return {"response": _response(reply, number, bodies)}
        case ToolReply() as reply:
            return {"result": _result(reply, bodies.blobs)}
        case FramesReply() as reply:
            return {"frames": _frames(reply, number, bodies)}
        case Failure() as failure:
            return {"failure": failure_out(failure, bodies.blobs)}
        case _:
            assert_never(outcome)


def timing_out(timing: Timing) -> Stored:
    """Return milliseconds, as people read them, where that is exact; else nanoseconds."""
    milliseconds: list[float | None] = []
    for reading in (timing.start, timing.first, timing.end):
        ms = reading and (reading / 10**6 if reading % 10**6 else reading // 10**6)
        if ms and (abs(ms) > 10**9 or round(ms * 10**6) != reading):
            return {"ns": [timing.start, timing.first, timing.end]}
        milliseconds.append(ms)
    return {"ms": milliseconds}


def _response(reply: HttpReply, number: int, bodies: Bodies) -> Stored:
    _refuse(values.wrong_status(reply.status))
    size = len(reply.body)
    stored: Stored = {"status": reply.status}
    if reply.cuts != ((size,) if size else ()):
        stored["cuts"] = list(reply.cuts)
    return stored | _drop_empty(
        reason=protect_text(reply.reason, bodies.blobs) or None,
        version=protect_text(reply.version, bodies.blobs) if reply.version != "HTTP/1.1" else None,
        headers=headers_out(reply.headers, bodies.blobs),
        closed=reply.closed,
        failure=failure_out(reply.failure, bodies.blobs),
        body=bodies.reply(number, reply.body) if size else None,
    )


def _frames(reply: FramesReply, number: int, bodies: Bodies) -> Stored:
    stored: Stored = {} if reply.cuts is None else {"cuts": list(reply.cuts)}
    return stored | _drop_empty(
        headers=headers_out(reply.headers, bodies.blobs),
        binary=list(reply.binary),
        inner=list(reply.inner),
        closed=_closed(reply.closed, bodies.blobs),
        failure=failure_out(reply.failure, bodies.blobs),
        waited=reply.waited,
        body=bodies.reply(number, reply.body) if len(reply.body) else None,
    )


def _closed(closed: Closed | None, blobs: BlobWriter) -> Stored:
    if closed is None:
        return {}
    by = "agent" if closed.by_agent else None
    return {"code": closed.code, **_drop_empty(reason=protect_text(closed.reason, blobs) or None, by=by)}


def _result(reply: ToolReply, blobs: BlobWriter) -> Stored:
    stored: Stored = {}
    if reply.items is not None:
        stored["items"] = protect(list(reply.items), blobs)
    if reply.sent is not None:
        stored["sent"] = protect(list(reply.sent), blobs)
    if reply.items is None or reply.value is not None:
        stored["value"] = protect(reply.value, blobs)
    return stored | _drop_empty(closed=reply.closed, failure=failure_out(reply.failure, blobs))


def failure_out(failure: Failure | None, blobs: BlobWriter) -> Stored:
    """Return a failure as stored; empty for none."""
    if failure is None:
        return {}
    return {
        "type": protect_text(failure.type, blobs),
        **_drop_empty(
            message=protect_text(failure.message, blobs) or None,
            args=protect(list(failure.args), blobs),
            bases=[protect_text(base, blobs) for base in failure.bases],
        ),
    }


def headers_out(headers: Headers, blobs: BlobWriter) -> list[Any]:
    """Return headers as "name: value" lines; as pairs where that line would not say which is which.

    Raises CannotWrite.
    """
    stored: list[Any] = []
    for name, value in headers:
        if (line := _write_short_header(name, value)) is not None:
            stored.append(line)
        elif f"{name}: ".find(": ") == len(name):
            stored.append(protect_text(f"{name}: {value}", blobs))
        else:
            stored.append([protect_text(name, blobs), protect_text(value, blobs)])
    return stored


@lru_cache(maxsize=1024)
def _write_short_header(name: str, value: str) -> str | None:
    """Return the line of a header that stands in a file as it is; None for any other. Most come with each message."""
    _refuse(values.wrong_header(name, value))
    line = f"{name}: {value}"
    return line if line.isascii() and len(line) <= values.LINE and line.find(": ") == len(name) else None


def _refuse(why: str) -> None:
    if why:
        msg = f"the server answered what no snapshot may hold: {why}; mend the server, or leave this call out"
        raise CannotWrite(msg)
