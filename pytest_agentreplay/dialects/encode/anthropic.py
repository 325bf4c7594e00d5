"""Anthropic's Messages, written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.dialects.encode import model_reply as it
from pytest_agentreplay.dialects.lenient import objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.dialects.encode.model_reply import ModelReply

BASE = "https://api.anthropic.com"
MOST = 1024
"""Tokens asked for where a trace does not say how many: the API wants a number."""
_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "refusal"}


def path(model: str, *, stream: bool) -> str:
    """Where a request goes."""
    del model, stream
    return "/v1/messages"


def asked(model: str, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, stream: bool) -> JsonObject:
    """The body of a request, without its parameters."""
    told = [m for m in messages if m.get("role") == "system"]
    body: JsonObject = {"model": model, "max_tokens": MOST}
    if told:
        body["system"] = "\n".join(it.joined_texts(objects(m.get("parts"))) for m in told)
    body["messages"] = [_message(m) for m in messages if m.get("role") != "system"]
    if tools:
        body["tools"] = [
            {"name": t.get("name"), "description": string(t.get("description")), "input_schema": it.schema_of(t)}
            for t in tools
        ]
    return {**body, "stream": True} if stream else body


def _message(message: JsonObject) -> JsonObject:
    parts = objects(message.get("parts"))
    blocks: list[Json] = []
    for part in parts:
        if part.get("type") == "tool_call_response":
            block: JsonObject = {"type": "tool_result", "tool_use_id": part.get("id")}
            block["content"] = it.text_of(it.result_of(part))
            blocks.append({**block, "is_error": True} if part.get("is_error") is True else block)
    if text := it.joined_texts(parts):
        blocks.append({"type": "text", "text": text})
    blocks += _uses(it.said(message, usage={}))
    return {"role": "assistant" if message.get("role") == "assistant" else "user", "content": blocks}


def _uses(one: ModelReply) -> list[Json]:
    return [{"type": "tool_use", "id": use.id, "name": use.name, "input": it.parsed(use)} for use in one.uses]


def whole(one: ModelReply) -> JsonObject:
    """A reply in one piece."""
    content: list[Json] = [{"type": "text", "text": one.text}] if one.text else []
    return {
        "id": one.id,
        "type": "message",
        "role": "assistant",
        "model": one.model,
        "content": [*content, *_uses(one)],
        "stop_reason": _ENDS[one.end],
        "stop_sequence": None,
        "usage": {"input_tokens": one.tokens("input_tokens"), "output_tokens": one.tokens("output_tokens")},
    }


def streamed(one: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as the events of a stream, each block in one delta."""
    return it.server_sent((event["type"], event) for event in events(one))


def events(one: ModelReply) -> Iterator[dict[str, Any]]:
    """The events of a reply."""
    message = whole(one)
    begun = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(objects(message["content"])):
        at = {"index": index}
        empty: JsonObject = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", **at, "content_block": {**block, **empty}}
        if block["type"] == "text":
            delta: JsonObject = {"type": "text_delta", "text": block["text"]}
        else:
            delta = {"type": "input_json_delta", "partial_json": it.dumped(block["input"])}
        yield {"type": "content_block_delta", **at, "delta": delta}
        yield {"type": "content_block_stop", **at}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": one.tokens("output_tokens")}}
    yield {"type": "message_stop"}
