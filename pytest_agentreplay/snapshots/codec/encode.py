"""One exchange -> how it stands in a file of format 1, and the header too. What has its default value is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, assert_never

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.model.exchanges import (
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
from pytest_agentreplay.snapshots.codec.values import nanoseconds, protect, protect_text

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Body, Exchange, Headers
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
    ends = {"outcome": protect(header.outcome, blobs), "kit": protect(header.kit, blobs)}
    return {
        "test": protect_text(header.test, blobs),
        "recorded": protect_text(header.recorded, blobs),
        "clock": protect(header.clock, blobs),
        "seed": protect(header.seed, blobs),
        **(dict(reversed(ends.items())) if "capture" in header.kit else ends),
    }


def exchange_out(exchange: Exchange, number: int, bodies: Bodies) -> Stored:
    """Return an exchange as stored; `number` counts from 1."""
    found: Stored = {"order": [exchange.start, exchange.finish]}
    if exchange.lane != "main":
        found["lane"] = protect_text(exchange.lane, bodies.blobs)
    if exchange.timing != Timing():
        found |= timing_out(exchange.timing)
    if exchange.attempt != 1:
        found["attempt"] = exchange.attempt
    if exchange.suspended:
        found["suspended"] = True
    if exchange.parent is not None:
        found["parent"] = exchange.parent
    if exchange.parts:
        found["parts"] = [list(part) for part in exchange.parts]
    if exchange.at_once >= 0:
        found["at_once"] = exchange.at_once
    if exchange.agent:
        found["agent"] = protect_text(exchange.agent, bodies.blobs)
    match exchange.call:
        case HttpCall() as call:
            found["request"] = _request(call, number, exchange.lane, bodies)
        case ToolCall() as call:
            found[call.boundary] = {
                "name": protect_text(call.name, bodies.blobs),
                **({"facts": protect(call.facts, bodies.blobs)} if call.facts else {}),
                "arguments": protect(call.arguments, bodies.blobs),
            }
        case FrameCall() as call:
            found["frame"] = _frame(call, number, exchange.lane, bodies)
        case _:
            assert_never(exchange.call)
    match exchange.outcome:
        case None:
            pass
        case HttpReply() as reply:
            found["response"] = _response(reply, number, bodies)
        case ToolReply() as reply:
            found["result"] = _result(reply, bodies.blobs)
        case FramesReply() as reply:
            found["frames"] = _frames(reply, number, bodies)
        case Failure() as failure:
            found["failure"] = failure_out(failure, bodies.blobs)
        case _:
            assert_never(exchange.outcome)
    return found


def timing_out(timing: Timing) -> Stored:
    """Return milliseconds, as people read them, where that is exact; else nanoseconds."""
    readings = [timing.start, timing.first, timing.end]
    shown = [None if reading is None else _milliseconds(reading) for reading in readings]
    if [None if ms is None else nanoseconds(ms) for ms in shown] == readings:
        return {"ms": shown}
    return {"ns": readings}


def _milliseconds(reading: int) -> float | int | None:
    if abs(reading) > 10**15:
        return None
    return reading // 10**6 if reading % 10**6 == 0 else reading / 10**6


def _request(call: HttpCall, number: int, lane: str, bodies: Bodies) -> Stored:
    found: Stored = {"method": protect_text(call.method, bodies.blobs), "url": protect_text(call.url, bodies.blobs)}
    if call.headers:
        found["headers"] = headers_out(call.headers, bodies.blobs)
    if len(call.body):
        found["body"] = bodies.request(number, lane, call.body)
    return found


def _response(reply: HttpReply, number: int, bodies: Bodies) -> Stored:
    _refuse(values.wrong_status(reply.status))
    found: Stored = {"status": reply.status}
    if reply.reason:
        found["reason"] = protect_text(reply.reason, bodies.blobs)
    if reply.version != "HTTP/1.1":
        found["version"] = protect_text(reply.version, bodies.blobs)
    if reply.headers:
        found["headers"] = headers_out(reply.headers, bodies.blobs)
    size = len(reply.body)
    if reply.cuts != ((size,) if size else ()):
        found["cuts"] = list(reply.cuts)
    if reply.closed:
        found["closed"] = True
    if reply.failure is not None:
        found["failure"] = failure_out(reply.failure, bodies.blobs)
    if size:
        found["body"] = bodies.reply(number, reply.body)
    return found


def _frame(call: FrameCall, number: int, lane: str, bodies: Bodies) -> Stored:
    found: Stored = {"url": protect_text(call.url, bodies.blobs)}
    if call.boundary != "websocket":
        found["boundary"] = protect_text(call.boundary, bodies.blobs)
    if call.connection is not None:
        found["connection"] = call.connection
    if call.headers:
        found["headers"] = headers_out(call.headers, bodies.blobs)
    if call.binary:
        found["binary"] = True
    if len(call.body):
        found["body"] = bodies.request(number, lane, call.body)
    return found


def _frames(reply: FramesReply, number: int, bodies: Bodies) -> Stored:
    found: Stored = {}
    if reply.headers:
        found["headers"] = headers_out(reply.headers, bodies.blobs)
    if reply.cuts is not None:
        found["cuts"] = list(reply.cuts)
    if reply.binary:
        found["binary"] = list(reply.binary)
    if reply.inner:
        found["inner"] = list(reply.inner)
    if reply.closed is not None:
        closed = reply.closed
        found["closed"] = {"code": closed.code}
        if closed.reason:
            found["closed"]["reason"] = protect_text(closed.reason, bodies.blobs)
        if closed.by_agent:
            found["closed"]["by"] = "agent"
    if reply.failure is not None:
        found["failure"] = failure_out(reply.failure, bodies.blobs)
    if reply.waited:
        found["waited"] = True
    if len(reply.body):
        found["body"] = bodies.reply(number, reply.body)
    return found


def _result(reply: ToolReply, blobs: BlobWriter) -> Stored:
    found: Stored = {}
    if reply.items is not None:
        found["items"] = protect(list(reply.items), blobs)
    if reply.sent is not None:
        found["sent"] = protect(list(reply.sent), blobs)
    if reply.items is None or reply.value is not None:
        found["value"] = protect(reply.value, blobs)
    if reply.closed:
        found["closed"] = True
    if reply.failure is not None:
        found["failure"] = failure_out(reply.failure, blobs)
    return found


def failure_out(failure: Failure, blobs: BlobWriter) -> Stored:
    """Return a failure as stored."""
    found: Stored = {"type": protect_text(failure.type, blobs)}
    if failure.message:
        found["message"] = protect_text(failure.message, blobs)
    if failure.args:
        found["args"] = protect(list(failure.args), blobs)
    if failure.bases:
        found["bases"] = [protect_text(base, blobs) for base in failure.bases]
    return found


def headers_out(headers: Headers, blobs: BlobWriter) -> list[Any]:
    """Return headers as "name: value" lines; as pairs where that line would not say which is which.

    Raises CannotWrite.
    """
    for name, value in headers:
        _refuse(values.wrong_header(name, value))
    return [
        protect_text(f"{name}: {value}", blobs)
        if f"{name}: ".find(": ") == len(name)
        else [protect_text(name, blobs), protect_text(value, blobs)]
        for name, value in headers
    ]


def _refuse(why: str) -> None:
    if why:
        msg = f"the server answered what no snapshot may hold: {why}; mend the server, or leave this call out"
        raise CannotWrite(msg)
