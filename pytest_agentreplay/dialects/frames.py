"""Messages over a lasting connection that no dialect knows: what people are told of them, and ids of their protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.matching.content import content
from pytest_agentreplay.core.reading import CallReading, ReplyReading
from pytest_agentreplay.dialects.generic import json_rpc
from pytest_agentreplay.dialects.loose import obj, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.matching.address import Url
    from pytest_agentreplay.core.model import FrameCall, FramesReply


def read_call(call: FrameCall, url: Url) -> CallReading:
    """Read any message: its name says where it goes and, as far as it tells, what it is."""
    tree = content(call.headers, call.body).tree
    operation, ids = json_rpc(tree)
    what = operation or string(obj(tree).get("type"))
    where = url.host if url.loopback or url.port is None else f"{url.host}:{url.port}"
    return CallReading(
        kind="http",
        name=f"{call.method} {where}{url.path}{f' {what}' if what else ''}",
        dialect=call.boundary,
        operation=operation,
        parameters=obj(tree),
        client_ids=ids,
    )


def read_reply(reply: FramesReply) -> ReplyReading:
    """Read what came back, as far as every connection has it: how it broke off."""
    return ReplyReading(error=error_of(reply))


def error_of(reply: FramesReply) -> str:
    """What broke the connection off, "" when nothing did."""
    if reply.failure is not None:
        return f"{reply.failure.type}: {reply.failure.message}".rstrip(": ")
    closed = reply.closed
    if closed is None or closed.by_agent or closed.code in {None, 0, 1000, 1001}:
        return ""
    return f"closed ({closed.code}): {closed.reason}".rstrip(": ")
