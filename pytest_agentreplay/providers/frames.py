"""Messages over a lasting connection: the dialects that know them, and what can be said of any other.

A message that begins no model turn is told by where it goes and what it is, "SEND api.openai.com/v1/realtime
session.update"; what came back is that of the events that the frames are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import content, split
from pytest_agentreplay.model.reading import CallReading, ReplyReading
from pytest_agentreplay.providers import mcp, stream_json
from pytest_agentreplay.providers.gemini_live import GEMINI_LIVE
from pytest_agentreplay.providers.generic import json_rpc
from pytest_agentreplay.providers.lenient import obj, string
from pytest_agentreplay.providers.openai_realtime import OPENAI_REALTIME
from pytest_agentreplay.providers.streams import ServerSentEvent

if TYPE_CHECKING:
    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import FrameCall, FramesReply, WireCall
    from pytest_agentreplay.providers.dialect import FrameDialect

FRAME_DIALECTS: tuple[FrameDialect, ...] = (OPENAI_REALTIME, GEMINI_LIVE)
"""The dialects that are spoken over lasting connections."""


def dialect_of(call: WireCall, url: Url) -> FrameDialect | None:
    """The dialect of a message, None where none knows it."""
    body = obj(content(call.headers, call.body).tree)
    return next((one for one in FRAME_DIALECTS if one.at(url) and one.fits(body)), None) if body else None


def opens_model(url: str) -> bool:
    """Whether a connection to `url` is one to a model, by its path."""
    return any(dialect.at(split(url)) for dialect in FRAME_DIALECTS)


def read_call(call: FrameCall, url: Url) -> CallReading:
    """Read any message."""
    tree = content(call.headers, call.body).tree
    if call.boundary == "mcp" and (read := mcp.read_message(tree)) is not None:
        return read
    dialect = dialect_of(call, url)
    if dialect is not None:
        reading = replace(dialect.read_call(obj(tree), url), dialect=dialect.name, provider=dialect.provider)
        return reading if reading.name else replace(reading, name=_name(call, url, reading.operation))
    operation, ids = json_rpc(tree)
    if call.boundary == "process":
        ids = stream_json.client_ids(obj(tree))
    return CallReading(
        kind="http",
        name=_name(call, url, operation or string(obj(tree).get("type"))),
        dialect=call.boundary,
        operation=operation,
        parameters=obj(tree),
        client_ids=ids,
    )


def _name(call: FrameCall, url: Url, what: str) -> str:
    if call.boundary == "process":  # its command line holds whole prompts
        program = url.path.partition(" ")[0]
        return f"{call.method} {program}{f' {what}' if what else ''}"
    where = url.host if url.loopback or url.port is None else f"{url.host}:{url.port}"
    return f"{call.method} {where}{url.path}{f' {what}' if what else ''}"


def read_reply(call: WireCall, url: Url, reply: FramesReply) -> ReplyReading:
    """Read what came back."""
    dialect = dialect_of(call, url)
    if dialect is None:
        return ReplyReading(error=error_of(reply))
    events = [ServerSentEvent("message", frame.data.decode("utf-8", "replace")) for frame in reply.frames()]
    reading = dialect.read_reply(events)
    return replace(reading, error=error_of(reply) or reading.error)


def error_of(reply: FramesReply) -> str:
    """What broke the connection off, "" when nothing did."""
    if reply.failure is not None:
        return f"{reply.failure.type}: {reply.failure.message}".rstrip(": ")
    closed = reply.closed
    if closed is None or closed.by_agent or closed.code in {None, 0, 1000, 1001}:
        return ""
    return f"closed ({closed.code}): {closed.reason}".rstrip(": ")
