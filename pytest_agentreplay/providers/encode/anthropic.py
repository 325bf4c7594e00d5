"""Anthropic's Messages, written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.encode import model_reply as it
from pytest_agentreplay.providers.lenient import objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import ToolUse
    from pytest_agentreplay.providers.encode.model_reply import ModelReply

BASE = "https://api.anthropic.com"
PATH, STREAM_PATH = "/v1/messages", ""
MOST = 1024
"""Tokens asked for where a trace does not say how many: the API wants a number."""
_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "refusal"}


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters."""
    system, others = it.split_system(messages)
    body: JsonObject = {"max_tokens": MOST}
    if system:
        body["system"] = "\n".join(system)
    body["messages"] = [_message(m) for m in others]
    if tools:
        body["tools"] = [
            {"name": t.get("name"), "description": string(t.get("description")), "input_schema": it.schema_of(t)}
            for t in tools
        ]
    return body


def _message(message: JsonObject) -> JsonObject:
    blocks = it.blocks_of(message, _result, _text, _use)
    return {"role": "assistant" if message.get("role") == "assistant" else "user", "content": blocks}


def _result(part: JsonObject) -> JsonObject:
    block = {"type": "tool_result", "tool_use_id": part.get("id"), "content": it.text_of(it.result_of(part))}
    return {**block, "is_error": True} if part.get("is_error") is True else block


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _use(use: ToolUse) -> JsonObject:
    return {"type": "tool_use", "id": use.id, "name": use.name, "input": it.parsed(use)}


def whole(reply: ModelReply) -> JsonObject:
    """A reply in one piece."""
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [*([_text(reply.text)] if reply.text else []), *map(_use, reply.uses)],
        "stop_reason": _ENDS[reply.end],
        "stop_sequence": None,
        "usage": {"input_tokens": reply.tokens("input_tokens"), "output_tokens": reply.tokens("output_tokens")},
    }


def streamed(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as the events of a stream, each block in one delta."""
    return it.server_sent((event["type"], event) for event in events(reply))


def events(reply: ModelReply) -> Iterator[dict[str, Any]]:
    """The events of a reply."""
    message = whole(reply)
    begun = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(objects(message["content"])):
        at = {"index": index}
        is_text = block["type"] == "text"
        empty: JsonObject = {"text": ""} if is_text else {"input": {}}
        yield {"type": "content_block_start", **at, "content_block": {**block, **empty}}
        kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
        for piece in reply.pieces(string(block["text"]) if is_text else it.dumped(block["input"])):
            yield {"type": "content_block_delta", **at, "delta": {"type": kind, field: piece}}
        yield {"type": "content_block_stop", **at}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": reply.tokens("output_tokens")}}
    yield {"type": "message_stop"}
