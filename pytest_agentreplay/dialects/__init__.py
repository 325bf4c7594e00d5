"""Reading the bytes of model providers: which fields are messages, tools, parameters, usage; how a stream reads.

`READER` picks the dialect by the end of the URL's path and the shape of the body, so that proxies, gateways, Azure and
loopback servers are met without a setting. `RULES` is the shipped table of what is not compared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import NotJson, parse
from pytest_agentreplay.core.matching.address import content, decoded, header, split
from pytest_agentreplay.core.model import Failure, FrameCall, FramesReply, HttpReply, ToolCall
from pytest_agentreplay.core.reading import CallReading, ReplyReading
from pytest_agentreplay.dialects import frames, generic, in_process, mcp, messages, retrievals
from pytest_agentreplay.dialects.anthropic import ANTHROPIC
from pytest_agentreplay.dialects.bedrock import BEDROCK
from pytest_agentreplay.dialects.cohere import COHERE
from pytest_agentreplay.dialects.gemini import GEMINI
from pytest_agentreplay.dialects.hosts import PROVIDERS, provider, region
from pytest_agentreplay.dialects.lenient import obj
from pytest_agentreplay.dialects.ollama import OLLAMA_CHAT, OLLAMA_GENERATE
from pytest_agentreplay.dialects.openai_chat import OPENAI_CHAT
from pytest_agentreplay.dialects.openai_responses import OPENAI_RESPONSES
from pytest_agentreplay.dialects.rules import RULES
from pytest_agentreplay.dialects.streams import framed, listed
from pytest_agentreplay.dialects.vectors import VECTORS

if TYPE_CHECKING:
    from pytest_agentreplay.core.matching.address import MatchContent, Url
    from pytest_agentreplay.core.model import Call, HttpCall, Json, Outcome
    from pytest_agentreplay.core.reading import Chunk, ToolUse
    from pytest_agentreplay.dialects.dialect import Dialect

__all__ = ["DIALECTS", "PROVIDERS", "READER", "RULES", "Dialects"]

DIALECTS: tuple[Dialect, ...] = (
    *(OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, BEDROCK, OLLAMA_CHAT, OLLAMA_GENERATE, COHERE),
    *VECTORS,
)
"""The dialects, in the order in which they are tried."""


class Dialects:
    """The reader of all dialects: a `core.reading.Reader`.

    Whatever a call or reply holds, reading gives an answer; only what `Body.data` raises (a damaged file) comes out.
    """

    def read_call(self, call: Call) -> CallReading:
        """The call as its dialect reads it; kind "http" and dialect "generic" for what none knows."""
        if isinstance(call, ToolCall):
            return _FUNCTIONS[call.boundary](call)
        if isinstance(call, FrameCall):
            url = split(call.url)
            reading = frames.read_call(call, url)
            return replace(reading, provider=provider(url.host) or reading.provider)
        url, held = split(call.url), content(call.headers, call.body)
        dialect = _dialect(call, url, held)
        if dialect is None:
            return (mcp.read_message(held.tree) if held.kind == "json" else None) or generic.read_call(call, url, held)
        reading = dialect.read_call(obj(held.tree), url)
        return replace(
            reading,
            dialect=dialect.name,
            provider=provider(url.host) or reading.provider or dialect.provider,
            region=region(url),
        )

    def read_reply(self, call: Call, outcome: Outcome | None) -> ReplyReading:
        """The reply to `call`; of one that broke off, as much as came, and `error` says how it broke."""
        if isinstance(call, ToolCall):
            return in_process.read_reply(outcome) if call.boundary == "model" else ReplyReading()
        if isinstance(outcome, Failure):
            return ReplyReading(error=f"{outcome.type}: {outcome.message}".rstrip(": "))
        if isinstance(outcome, FramesReply):
            return frames.read_reply(call, split(call.url), outcome)
        if not isinstance(outcome, HttpReply) or isinstance(call, FrameCall):
            return ReplyReading()
        data, _ = decoded(outcome.body.data, header(outcome.headers, "content-encoding"))
        held = content(call.headers, call.body)
        dialect = _dialect(call, split(call.url), held)
        events = framed(header(outcome.headers, "content-type"), data)
        tree = None if events is not None else parse(data)
        if dialect is None:
            if held.kind == "json" and mcp.read_message(held.tree) is not None and not isinstance(tree, NotJson):
                return _of_mcp(
                    held.tree, outcome, data, [tree] if events is None else [event.value for event in events]
                )
            body = {} if isinstance(tree, NotJson) else obj(tree)
            reading = ReplyReading(text=generic.text_of(outcome, data))
        else:
            events = listed(tree) if isinstance(tree, list) else events
            body = dialect.join(events) if events is not None else {} if isinstance(tree, NotJson) else obj(tree)
            reading = dialect.read_reply(body)
        return replace(reading, error=generic.error_of(outcome, body, data))

    def read_chunks(self, outcome: Outcome | None) -> tuple[Chunk, ...]:
        """The chunks that a retrieval gave."""
        return retrievals.read_chunks(outcome)

    def say(self, message: Json) -> str:
        """One message, as `CallReading.messages` holds it, in a line or a few for people."""
        return messages.say(message)

    def tool_uses(self, reading: CallReading) -> tuple[ToolUse, ...]:
        """The tool calls in the history that a call resends, in order."""
        return tuple(use for message in reading.messages for use in messages.tool_uses(message))

    def tool_results(self, reading: CallReading) -> dict[str, Json]:
        """The tool results in the history that a call resends, as sent, by the id of the tool call."""
        found: dict[str, Json] = {}
        for message in reading.messages:
            found.update(messages.tool_results(message))
        return found


def _tool(call: ToolCall) -> CallReading:
    return CallReading(kind="tool", name=call.name, operation="execute_tool", parameters=call.arguments)


_FUNCTIONS = {"tool": _tool, "model": in_process.read_call, "retrieval": retrievals.read_call}


def _dialect(call: HttpCall, url: Url, held: MatchContent) -> Dialect | None:
    if call.method != "POST" or not isinstance(held.tree, dict) or held.kind != "json":
        return None
    return next((one for one in _at(url.path.rstrip("/")) if one.fits(held.tree)), None)


@lru_cache(maxsize=512)
def _at(path: str) -> tuple[Dialect, ...]:
    """The dialects whose paths end like `path`."""
    return tuple(one for one in DIALECTS if one.at(path))


def _of_mcp(asked: Json, reply: HttpReply, data: bytes, messages: list[Json]) -> ReplyReading:
    """The answer to a message of MCP, among all that came with it."""
    found = mcp.answer(messages, asked)
    reading = mcp.read_answer(found)
    broken = generic.error_of(reply, found if reply.status >= 400 else {}, data)
    return replace(reading, error=reading.error or broken)


READER = Dialects()
"""The reader of every part of the product."""
