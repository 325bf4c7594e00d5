"""Reading the bytes of model providers: which fields are messages, tools, parameters, usage; how a stream reads.

`READER` picks the dialect by the end of the URL's path and the shape of the body, so that proxies, gateways, Azure and
loopback servers are met without a setting. `RULES` is the shipped table of what is not compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canon import NotJson, parse
from pytest_agentreplay.core.matching.address import split
from pytest_agentreplay.core.matching.content import content, decoded, header
from pytest_agentreplay.core.model import Failure, FrameCall, FramesReply, HttpReply, ToolCall
from pytest_agentreplay.core.reading import CallReading, ReplyReading
from pytest_agentreplay.dialects import frames, generic, in_process, messages, retrievals
from pytest_agentreplay.dialects.anthropic import ANTHROPIC
from pytest_agentreplay.dialects.loose import obj
from pytest_agentreplay.dialects.openai_chat import OPENAI_CHAT
from pytest_agentreplay.dialects.openai_responses import OPENAI_RESPONSES
from pytest_agentreplay.dialects.rules import RULES
from pytest_agentreplay.dialects.sse import events, is_stream

if TYPE_CHECKING:
    from pytest_agentreplay.core.matching.address import Url
    from pytest_agentreplay.core.matching.content import Content
    from pytest_agentreplay.core.model import Call, HttpCall, Json, Outcome
    from pytest_agentreplay.core.reading import Chunk, ToolUse
    from pytest_agentreplay.dialects.dialect import Dialect

__all__ = ["DIALECTS", "PROVIDERS", "READER", "RULES", "Dialects"]

DIALECTS: tuple[Dialect, ...] = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC)
"""The dialects, in the order in which they are tried."""

PROVIDERS: tuple[tuple[str, str], ...] = (
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure.ai.openai"),
    ("cognitiveservices.azure.com", "azure.ai.openai"),
    ("services.ai.azure.com", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    ("amazonaws.com", "aws.bedrock"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    ("openrouter.ai", "openrouter"),
    ("api.together.xyz", "together_ai"),
    ("api.fireworks.ai", "fireworks_ai"),
)
"""Host, or the end of it, and the provider that is met there; elsewhere the dialect's own is said."""


class Dialects:
    """The reader of all dialects: a `core.reading.Reader`.

    Whatever a call or reply holds, reading gives an answer; only what `Body.data` raises (a damaged file) comes out.
    """

    def read_call(self, call: Call) -> CallReading:
        """The call as its dialect reads it; kind "http" and dialect "generic" for what none knows."""
        if isinstance(call, ToolCall):
            return _FUNCTIONS[call.boundary](call)
        if isinstance(call, FrameCall):
            return frames.read_call(call, split(call.url))
        url, held = split(call.url), content(call.headers, call.body)
        dialect = _dialect(call, url, held)
        if dialect is None:
            return generic.read_call(call, url, held)
        return replace(
            dialect.read_call(obj(held.tree), url),
            dialect=dialect.name,
            provider=_provider(url.host) or dialect.provider,
        )

    def read_reply(self, call: Call, outcome: Outcome | None) -> ReplyReading:
        """The reply to `call`; of one that broke off, as much as came, and `error` says how it broke."""
        if isinstance(call, ToolCall):
            return in_process.read_reply(outcome) if call.boundary == "model" else ReplyReading()
        if isinstance(outcome, Failure):
            return ReplyReading(error=f"{outcome.type}: {outcome.message}".rstrip(": "))
        if isinstance(outcome, FramesReply):
            return frames.read_reply(outcome)
        if not isinstance(outcome, HttpReply) or isinstance(call, FrameCall):
            return ReplyReading()
        data, _ = decoded(outcome.body.data, header(outcome.headers, "content-encoding"))
        dialect = _dialect(call, split(call.url), content(call.headers, call.body))
        if dialect is not None and is_stream(header(outcome.headers, "content-type"), data):
            body = dialect.join(events(data))
        else:
            tree = parse(data)
            body = {} if isinstance(tree, NotJson) else obj(tree)
        reading = ReplyReading(text=generic.text_of(outcome, data)) if dialect is None else dialect.read_reply(body)
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


def _dialect(call: HttpCall, url: Url, held: Content) -> Dialect | None:
    if call.method != "POST" or not isinstance(held.tree, dict) or held.kind != "json":
        return None
    path = url.path.rstrip("/")
    return next((one for one in DIALECTS if path.endswith(one.suffix) and one.fits(held.tree)), None)


def _provider(host: str) -> str:
    return next((name for end, name in PROVIDERS if host == end or host.endswith(f".{end}")), "")


READER = Dialects()
"""The reader of every part of the product."""
