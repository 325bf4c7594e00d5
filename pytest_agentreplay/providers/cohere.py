"""Cohere's chat of version 2: requests like chat completions, other replies.

The API: https://docs.cohere.com/reference/chat, and .../reference/chat-stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.dialect import Dialect, make_reading
from pytest_agentreplay.providers.lenient import obj, objects, string, token_counts
from pytest_agentreplay.providers.streams import IndexedPieces, grow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import ReplyReading
    from pytest_agentreplay.providers.streams import ServerSentEvent


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply. The plan that precedes tool calls is its text if there is no other."""
    message = obj(body.get("message"))
    return make_reading(
        body,
        map(openai_chat.read_tool_call, objects(message.get("tool_calls"))),
        text="".join(string(part.get("text")) for part in objects(message.get("content")))
        or string(message.get("tool_plan")),
        finish=[string(body.get("finish_reason"))],
        usage=_count_tokens(obj(body.get("usage"))),
        model="",
    )


def _count_tokens(usage: JsonObject) -> dict[str, int]:
    """What the model read and wrote, or else what is billed of it. The API gives counts as floats."""
    tokens = obj(usage.get("tokens")) or obj(usage.get("billed_units"))
    # https://docs.cohere.com/reference/chat, ApiMeta: counts are numbers, and come as 12.0.
    read, written = (
        int(count) if isinstance(count, float) and count.is_integer() else count
        for count in (tokens.get("input_tokens"), tokens.get("output_tokens"))
    )
    return token_counts(read, written, cache_read=usage.get("cached_tokens"))


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the reply that a stream of events amounts to."""
    reply: JsonObject = {}
    message: JsonObject = {}
    parts, calls = IndexedPieces(), IndexedPieces()
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
                grow(parts.find_piece(index), obj(piece.get("content")))
            case "tool-plan-delta":
                grow(message, piece)
            case "tool-call-start" | "tool-call-delta":
                grow(calls.find_piece(index), obj(piece.get("tool_calls")))
            case "message-end":
                reply.update(delta)
    return {**reply, "message": {**message, "content": parts.list_pieces(), "tool_calls": calls.list_pieces()}}


DIALECTS = (Dialect("cohere", "/v2/chat", "cohere", openai_chat.is_request, openai_chat.read_call, read_reply, join),)
