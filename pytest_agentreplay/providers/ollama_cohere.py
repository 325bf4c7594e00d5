"""Ollama's own chat and generate, and Cohere's chat of version 2: requests like chat completions, other replies.

Both of Ollama's stream unless the body says not to, and its tool calls bear no ids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading
from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import grow, obj, objects, rest, string, token_counts, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.streams import ServerSentEvent


def read_chat(body: JsonObject, url: Url) -> CallReading:
    """Read a chat request, which has the fields of a chat completion."""
    return replace(openai_chat.read_call(body, url), stream=body.get("stream") is not False)


def fits_generate(body: JsonObject) -> bool:
    """Whether a body has the shape of a generate request; without a prompt it only loads a model."""
    return isinstance(body.get("model"), str) and bool(string(body.get("prompt")))


def read_generate(body: JsonObject, _url: Url) -> CallReading:
    """Read a generate request: its prompt is one message."""
    return read_request(
        body,
        system_in="system",
        messages_in="prompt",
        tools_in="",
        operation="text_completion",
        stream=body.get("stream") is not False,
    )


def read_ollama_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply of either."""
    message = obj(body.get("message"))
    return ReplyReading(
        text=string(message.get("content")) or string(body.get("response")),
        tool_uses=tuple(openai_chat.tool_use(call) for call in objects(message.get("tool_calls"))),
        finish_reasons=unique([string(body.get("done_reason"))]),
        usage=token_counts(body.get("prompt_eval_count"), body.get("eval_count")),
        model=string(body.get("model")),
    )


def join_lines(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The reply that a stream of lines amounts to: texts are joined, tool calls collected, the rest is the last's."""
    reply: JsonObject = {}
    message: JsonObject = {}
    for event in events:
        line = event.value or {}
        grow(message, obj(line.get("message")))
        text = string(reply.get("response")) + string(line.get("response"))
        reply.update(rest(line, "message", "response"))
        if "response" in line or text:
            reply["response"] = text
    return {**reply, "message": message}


def read_cohere_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply. The plan that precedes tool calls is its text where there is no other."""
    message = obj(body.get("message"))
    uses = tuple(openai_chat.tool_use(call) for call in objects(message.get("tool_calls")))
    text = "".join(string(part.get("text")) for part in objects(message.get("content")))
    return ReplyReading(
        text=text or string(message.get("tool_plan")),
        tool_uses=uses,
        finish_reasons=unique([string(body.get("finish_reason"))]),
        usage=_count_cohere_tokens(obj(body.get("usage"))),
        response_id=string(body.get("id")),
        ids=unique([string(body.get("id")), *(use.id for use in uses)]),
    )


def join_events(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The reply that a stream of events amounts to."""
    reply: JsonObject = {}
    message: JsonObject = {}
    parts: dict[int, JsonObject] = {}
    calls: dict[int, JsonObject] = {}
    for event in events:
        value = event.value or {}
        delta = obj(value.get("delta"))
        piece = obj(delta.get("message"))
        at = value.get("index")
        index = at if isinstance(at, int) else 0
        match string(value.get("type")) or event.name:
            case "message-start":
                reply["id"] = value.get("id")
            case "content-start" | "content-delta":
                grow(parts.setdefault(index, {}), obj(piece.get("content")))
            case "tool-plan-delta":
                grow(message, piece)
            case "tool-call-start" | "tool-call-delta":
                grow(calls.setdefault(index, {}), obj(piece.get("tool_calls")))
            case "message-end":
                reply.update(delta)
    message["content"] = [parts[index] for index in sorted(parts)]
    message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**reply, "message": message}


def _count_cohere_tokens(usage: JsonObject) -> dict[str, int]:
    """What the model read and wrote, or else what is billed of it."""
    tokens = obj(usage.get("tokens")) or obj(usage.get("billed_units"))
    integers = {name: int(value) for name, value in tokens.items() if isinstance(value, float) and value.is_integer()}
    tokens = {**tokens, **integers}
    return token_counts(tokens.get("input_tokens"), tokens.get("output_tokens"), cache_read=usage.get("cached_tokens"))


DIALECTS = (
    Dialect("ollama_chat", "/api/chat", "ollama", openai_chat.is_request, read_chat, join_lines, read_ollama_reply),
    Dialect("ollama_generate", "/api/generate", "ollama", fits_generate, read_generate, join_lines, read_ollama_reply),
    Dialect(
        "cohere", "/v2/chat", "cohere", openai_chat.is_request, openai_chat.read_call, join_events, read_cohere_reply
    ),
)
