"""One exchange -> how it stands in a file of format 1, and the header too. What has its default value is left out."""

from __future__ import annotations

from functools import lru_cache
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
from pytest_agentreplay.snapshots.codec.values import protect, protect_text

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
    stored: Stored = {"order": [exchange.start, exchange.finish]}
    if exchange.lane != "main":
        stored["lane"] = protect_text(exchange.lane, bodies.blobs)
    if exchange.timing != Timing():
        stored |= timing_out(exchange.timing)
    if exchange.attempt != 1:
        stored["attempt"] = exchange.attempt
    if exchange.suspended:
        stored["suspended"] = True
    if exchange.parent is not None:
        stored["parent"] = exchange.parent
    if exchange.parts:
        stored["parts"] = [list(part) for part in exchange.parts]
    if exchange.at_once >= 0:
        stored["at_once"] = exchange.at_once
    if exchange.agent:
        stored["agent"] = protect_text(exchange.agent, bodies.blobs)
    match exchange.call:
        case HttpCall() as call:
            stored["request"] = _request(call, number, exchange.lane, bodies)
        case ToolCall() as call:
            stored[call.boundary] = {
                "name": protect_text(call.name, bodies.blobs),
                **({"facts": protect(call.facts, bodies.blobs)} if call.facts else {}),
                "arguments": protect(call.arguments, bodies.blobs),
            }
        case FrameCall() as call:
            stored["frame"] = _frame(call, number, exchange.lane, bodies)
        case _:
            assert_never(exchange.call)
    match exchange.outcome:
        case None:
            pass
        case HttpReply() as reply:
            stored["response"] = _response(reply, number, bodies)
        case ToolReply() as reply:
            stored["result"] = _result(reply, bodies.blobs)
        case FramesReply() as reply:
            stored["frames"] = _frames(reply, number, bodies)
        case Failure() as failure:
            stored["failure"] = failure_out(failure, bodies.blobs)
        case _:
            assert_never(exchange.outcome)
    return stored


def timing_out(timing: Timing) -> Stored:
    """Return milliseconds, as people read them, where that is exact; else nanoseconds."""
    milliseconds: list[float | None] = []
    for reading in (timing.start, timing.first, timing.end):
        ms = reading and (reading / 10**6 if reading % 10**6 else reading // 10**6)
        if ms and (abs(ms) > 10**9 or round(ms * 10**6) != reading):
            return {"ns": [timing.start, timing.first, timing.end]}
        milliseconds.append(ms)
    return {"ms": milliseconds}


def _request(call: HttpCall, number: int, lane: str, bodies: Bodies) -> Stored:
    stored: Stored = {"method": protect_text(call.method, bodies.blobs), "url": protect_text(call.url, bodies.blobs)}
    if call.headers:
        stored["headers"] = headers_out(call.headers, bodies.blobs)
    if len(call.body):
        stored["body"] = bodies.request(number, lane, call.body)
    return stored


def _response(reply: HttpReply, number: int, bodies: Bodies) -> Stored:
    _refuse(values.wrong_status(reply.status))
    stored: Stored = {"status": reply.status}
    if reply.reason:
        stored["reason"] = protect_text(reply.reason, bodies.blobs)
    if reply.version != "HTTP/1.1":
        stored["version"] = protect_text(reply.version, bodies.blobs)
    if reply.headers:
        stored["headers"] = headers_out(reply.headers, bodies.blobs)
    size = len(reply.body)
    if reply.cuts != ((size,) if size else ()):
        stored["cuts"] = list(reply.cuts)
    if reply.closed:
        stored["closed"] = True
    if reply.failure is not None:
        stored["failure"] = failure_out(reply.failure, bodies.blobs)
    if size:
        stored["body"] = bodies.reply(number, reply.body)
    return stored


def _frame(call: FrameCall, number: int, lane: str, bodies: Bodies) -> Stored:
    stored: Stored = {"url": protect_text(call.url, bodies.blobs)}
    if call.boundary != "websocket":
        stored["boundary"] = protect_text(call.boundary, bodies.blobs)
    if call.connection is not None:
        stored["connection"] = call.connection
    if call.headers:
        stored["headers"] = headers_out(call.headers, bodies.blobs)
    if call.binary:
        stored["binary"] = True
    if len(call.body):
        stored["body"] = bodies.request(number, lane, call.body)
    return stored


def _frames(reply: FramesReply, number: int, bodies: Bodies) -> Stored:
    stored: Stored = {}
    if reply.headers:
        stored["headers"] = headers_out(reply.headers, bodies.blobs)
    if reply.cuts is not None:
        stored["cuts"] = list(reply.cuts)
    if reply.binary:
        stored["binary"] = list(reply.binary)
    if reply.inner:
        stored["inner"] = list(reply.inner)
    if reply.closed is not None:
        closed = reply.closed
        stored["closed"] = {"code": closed.code}
        if closed.reason:
            stored["closed"]["reason"] = protect_text(closed.reason, bodies.blobs)
        if closed.by_agent:
            stored["closed"]["by"] = "agent"
    if reply.failure is not None:
        stored["failure"] = failure_out(reply.failure, bodies.blobs)
    if reply.waited:
        stored["waited"] = True
    if len(reply.body):
        stored["body"] = bodies.reply(number, reply.body)
    return stored


def _result(reply: ToolReply, blobs: BlobWriter) -> Stored:
    stored: Stored = {}
    if reply.items is not None:
        stored["items"] = protect(list(reply.items), blobs)
    if reply.sent is not None:
        stored["sent"] = protect(list(reply.sent), blobs)
    if reply.items is None or reply.value is not None:
        stored["value"] = protect(reply.value, blobs)
    if reply.closed:
        stored["closed"] = True
    if reply.failure is not None:
        stored["failure"] = failure_out(reply.failure, blobs)
    return stored


def failure_out(failure: Failure, blobs: BlobWriter) -> Stored:
    """Return a failure as stored."""
    stored: Stored = {"type": protect_text(failure.type, blobs)}
    if failure.message:
        stored["message"] = protect_text(failure.message, blobs)
    if failure.args:
        stored["args"] = protect(list(failure.args), blobs)
    if failure.bases:
        stored["bases"] = [protect_text(base, blobs) for base in failure.bases]
    return stored


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
