"""Cohere's chat of version 2. Requests have the fields of a chat completion; replies do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading
from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.dialect import Dialect
from pytest_agentreplay.providers.lenient import grow, obj, objects, string, token_counts, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.providers.streams import ServerSentEvent


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply. The plan that precedes tool calls is its text where there is no other."""
    message = obj(body.get("message"))
    uses = tuple(openai_chat.tool_use(call) for call in objects(message.get("tool_calls")))
    text = "".join(string(part.get("text")) for part in objects(message.get("content")))
    return ReplyReading(
        text=text or string(message.get("tool_plan")),
        tool_uses=uses,
        finish_reasons=unique([string(body.get("finish_reason"))]),
        usage=_usage(obj(body.get("usage"))),
        response_id=string(body.get("id")),
        ids=unique([string(body.get("id")), *(use.id for use in uses)]),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The reply that a stream of events amounts to."""
    whole: JsonObject = {}
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
                whole["id"] = value.get("id")
            case "content-start" | "content-delta":
                grow(parts.setdefault(index, {}), obj(piece.get("content")))
            case "tool-plan-delta":
                grow(message, piece)
            case "tool-call-start" | "tool-call-delta":
                grow(calls.setdefault(index, {}), obj(piece.get("tool_calls")))
            case "message-end":
                whole.update(delta)
    message["content"] = [parts[index] for index in sorted(parts)]
    message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**whole, "message": message}


def _usage(usage: JsonObject) -> dict[str, int]:
    """What the model read and wrote, or else what is billed of it."""
    found = obj(usage.get("tokens")) or obj(usage.get("billed_units"))
    whole = {name: int(value) for name, value in found.items() if isinstance(value, float) and value.is_integer()}
    found = {**found, **whole}
    return token_counts(found.get("input_tokens"), found.get("output_tokens"), cache_read=usage.get("cached_tokens"))


COHERE = Dialect("cohere", "/v2/chat", "cohere", openai_chat.fits, openai_chat.read_call, join, read_reply)
