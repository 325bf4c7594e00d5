"""Reading the bytes of model providers: which fields are messages, tools, parameters, usage; how a stream reads.

`READER` picks the dialect by the end of the URL's path and the shape of the body, so that proxies, gateways, Azure and
loopback servers are met without a setting. `RULES` is the shipped table of what is not compared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import content, decode_body, header, split
from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.model.exchanges import Failure, FrameCall, FramesReply, HttpReply, ToolCall
from pytest_agentreplay.model.reading import CallReading, ReplyReading
from pytest_agentreplay.providers.dialect import error_of, read_unknown_call, text_of
from pytest_agentreplay.providers.hosts import PROVIDERS, provider, region
from pytest_agentreplay.providers.lenient import obj
from pytest_agentreplay.providers.rules import RULES
from pytest_agentreplay.providers.streams import list_events, split_events

if TYPE_CHECKING:
    from pytest_agentreplay.compare.matching.address import MatchContent, Url
    from pytest_agentreplay.model.exchanges import Call, HttpCall, Json, Outcome
    from pytest_agentreplay.model.reading import Chunk, ToolUse
    from pytest_agentreplay.providers.dialect import Dialect

__all__ = ["PROVIDERS", "READER", "RULES", "Dialects", "all_dialects"]


FAMILIES = (
    ("openai_chat", ("/completions",)),
    ("openai_responses", ("/responses",)),
    ("anthropic", ("/v1/messages", "/invoke", "awPredict")),
    ("gemini", ("Content",)),
    ("bedrock", ("/converse",)),
    ("ollama_cohere", ("/api/chat", "/api/generate", "/v2/chat")),
    ("vectors", ("embed", "Embed", "predict", "rerank")),
)
"""The modules with dialects, in the order in which these are tried, and words of which every path of theirs has one.

A test speaks one or two of the dialects; the modules of the others are not imported.
"""


def _load_dialects(module: str) -> tuple[Dialect, ...]:
    match module:
        case "openai_chat":
            from pytest_agentreplay.providers.openai_chat import DIALECTS
        case "openai_responses":
            from pytest_agentreplay.providers.openai_responses import DIALECTS
        case "anthropic":
            from pytest_agentreplay.providers.anthropic import DIALECTS
        case "gemini":
            from pytest_agentreplay.providers.gemini import DIALECTS
        case "bedrock":
            from pytest_agentreplay.providers.bedrock import DIALECTS
        case "ollama_cohere":
            from pytest_agentreplay.providers.ollama_cohere import DIALECTS
        case _:
            from pytest_agentreplay.providers.vectors import DIALECTS
    return DIALECTS


def all_dialects() -> tuple[Dialect, ...]:
    """Return every dialect, in the order in which they are tried."""
    return tuple(dialect for module, _ in FAMILIES for dialect in _load_dialects(module))


class Dialects:
    """The reader of all dialects: a `model.reading.Reader`.

    Whatever a call or reply holds, reading gives an answer; only what `Body.data` raises (a damaged file) comes out.
    """

    def read_call(self, call: Call) -> CallReading:
        """Return the call as its dialect reads it; kind "http" and dialect "generic" for what none knows."""
        if isinstance(call, ToolCall):
            if call.boundary == "tool":
                return CallReading(kind="tool", name=call.name, operation="execute_tool", parameters=call.arguments)
            from pytest_agentreplay.providers import in_process

            return in_process.read_call(call) if call.boundary == "model" else in_process.read_retrieval(call)
        if isinstance(call, FrameCall):
            from pytest_agentreplay.providers import frames

            url = split(call.url)
            reading = frames.read_call(call, url)
            return replace(reading, provider=provider(url.host) or reading.provider)
        url, request = split(call.url), content(call.headers, call.body)
        dialect = _find_dialect(call, url, request)
        if dialect is None:
            from pytest_agentreplay.providers import json_rpc

            return (json_rpc.read_message(request.tree) if request.kind == "json" else None) or read_unknown_call(
                call, url, request
            )
        reading = dialect.read_call(obj(request.tree), url)
        return replace(
            reading,
            dialect=dialect.name,
            provider=provider(url.host) or reading.provider or dialect.provider,
            region=region(url),
        )

    def read_reply(self, call: Call, outcome: Outcome | None) -> ReplyReading:
        """Return the reply to `call`; of one that broke off, as much as came, and in `error` how it broke."""
        if isinstance(call, ToolCall):
            if call.boundary != "model":
                return ReplyReading()
            from pytest_agentreplay.providers import in_process

            return in_process.read_reply(outcome)
        if isinstance(outcome, Failure):
            return ReplyReading(error=f"{outcome.type}: {outcome.message}".rstrip(": "))
        if isinstance(outcome, FramesReply):
            from pytest_agentreplay.providers import frames

            return frames.read_reply(call, split(call.url), outcome)
        if not isinstance(outcome, HttpReply) or isinstance(call, FrameCall):
            return ReplyReading()
        data, _ = decode_body(outcome.body.data, header(outcome.headers, "content-encoding"))
        request = content(call.headers, call.body)
        dialect = _find_dialect(call, split(call.url), request)
        events = split_events(header(outcome.headers, "content-type"), data)
        tree = None if events is not None else parse(data)
        if dialect is None:
            from pytest_agentreplay.providers import json_rpc

            if (
                request.kind == "json"
                and json_rpc.read_message(request.tree) is not None
                and not isinstance(tree, NotJson)
            ):
                return _read_mcp_reply(
                    request.tree, outcome, data, [tree] if events is None else [event.value for event in events]
                )
            body = obj(tree)
            reading = ReplyReading(text=text_of(outcome, data))
        else:
            events = list_events(tree) if isinstance(tree, list) else events
            body = dialect.join(events) if events is not None else obj(tree)
            reading = dialect.read_reply(body)
        return replace(reading, error=error_of(outcome, body, data))

    def read_chunks(self, outcome: Outcome | None) -> tuple[Chunk, ...]:
        """Return the chunks that a retrieval returned."""
        from pytest_agentreplay.providers import in_process

        return in_process.read_chunks(outcome)

    def tool_uses(self, reading: CallReading) -> tuple[ToolUse, ...]:
        """Return the tool calls in the history that a call resends, in order."""
        from pytest_agentreplay.providers import genai

        return tuple(use for message in reading.messages for use in genai.tool_uses(message))

    def tool_results(self, reading: CallReading) -> dict[str, Json]:
        """Return the tool results in the history that a call resends, as sent, by the id of the tool call."""
        from pytest_agentreplay.providers import genai

        results: dict[str, Json] = {}
        for message in reading.messages:
            results.update(genai.tool_results(message))
        return results


def _find_dialect(call: HttpCall, url: Url, request: MatchContent) -> Dialect | None:
    if call.method != "POST" or not isinstance(request.tree, dict) or request.kind != "json":
        return None
    return next((dialect for dialect in _list_dialects(url.path.rstrip("/")) if dialect.fits(request.tree)), None)


@lru_cache(maxsize=512)
def _list_dialects(path: str) -> tuple[Dialect, ...]:
    """Return the dialects whose paths end like `path`."""
    return tuple(
        dialect
        for module, words in FAMILIES
        if any(word in path for word in words)
        for dialect in _load_dialects(module)
        if dialect.matches_path(path)
    )


def _read_mcp_reply(request: Json, reply: HttpReply, data: bytes, messages: list[Json]) -> ReplyReading:
    """Return the answer to a message of MCP, among all that came with it."""
    from pytest_agentreplay.providers import json_rpc

    answer = json_rpc.answer(messages, request)
    reading = json_rpc.read_answer(answer)
    broken = error_of(reply, answer if reply.status >= 400 else {}, data)
    return replace(reading, error=reading.error or broken)


READER = Dialects()
"""The reader of every part of the product."""
