"""Bedrock's Converse, written; a stream is binary frames, each with two checksums."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_agentreplay.dialects.encode import model_reply as it
from pytest_agentreplay.dialects.lenient import obj, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.dialects.encode.model_reply import ModelReply

BASE = "https://bedrock-runtime.us-east-1.amazonaws.com"
_STRING = 7
_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "content_filtered"}


def path(model: str, *, stream: bool) -> str:
    """Where a request goes."""
    return f"/model/{quote(model or 'unknown', safe='')}/converse{'-stream' if stream else ''}"


def asked(model: str, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, stream: bool) -> JsonObject:
    """The body of a request, without its parameters; the model and whether it streams stand in the path."""
    del model, stream
    told = [m for m in messages if m.get("role") == "system"]
    body: JsonObject = {"messages": [_message(m) for m in messages if m.get("role") != "system"]}
    if told:
        body["system"] = [{"text": it.joined_texts(objects(m.get("parts")))} for m in told]
    if tools:
        specs: list[Json] = [
            {
                "toolSpec": {
                    "name": t.get("name"),
                    "description": string(t.get("description")),
                    "inputSchema": {"json": it.schema_of(t)},
                }
            }
            for t in tools
        ]
        body["toolConfig"] = {"tools": specs}
    return body


def _message(message: JsonObject) -> JsonObject:
    parts = objects(message.get("parts"))
    blocks: list[Json] = []
    for part in parts:
        if part.get("type") == "tool_call_response":
            result = it.result_of(part)
            content: JsonObject = {"json": result} if isinstance(result, dict) else {"text": it.text_of(result)}
            told: JsonObject = {"toolUseId": part.get("id"), "content": [content]}
            blocks.append({"toolResult": {**told, "status": "error"} if part.get("is_error") is True else told})
    if text := it.joined_texts(parts):
        blocks.append({"text": text})
    role = "assistant" if message.get("role") == "assistant" else "user"
    return {"role": role, "content": [*blocks, *_uses(it.said(message, usage={}))]}


def _uses(one: ModelReply) -> list[Json]:
    return [{"toolUse": {"toolUseId": use.id, "name": use.name, "input": it.parsed(use)}} for use in one.uses]


def whole(one: ModelReply) -> JsonObject:
    """A reply in one piece."""
    content: list[Json] = [{"text": one.text}] if one.text else []
    given, made = one.tokens("input_tokens"), one.tokens("output_tokens")
    return {
        "output": {"message": {"role": "assistant", "content": [*content, *_uses(one)]}},
        "stopReason": _ENDS[one.end],
        "usage": {"inputTokens": given, "outputTokens": made, "totalTokens": given + made},
        "metrics": {"latencyMs": 0},
    }


def streamed(one: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as frames, each block in one delta."""
    return tuple(frame(kind, payload) for kind, payload in _events(one))


def _events(one: ModelReply) -> Iterator[tuple[str, JsonObject]]:
    reply = whole(one)
    yield "messageStart", {"role": "assistant"}
    for index, block in enumerate(objects(obj(obj(reply["output"])["message"])["content"])):
        at: JsonObject = {"contentBlockIndex": index}
        use = obj(block.get("toolUse"))
        if use:
            started: JsonObject = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield "contentBlockStart", {**at, "start": started}
        delta: JsonObject = {"toolUse": {"input": it.dumped(use["input"])}} if use else {"text": block["text"]}
        yield "contentBlockDelta", {**at, "delta": delta}
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": reply["stopReason"]}
    yield "metadata", {"usage": reply["usage"], "metrics": reply["metrics"]}


def frame(kind: str, payload: dict[str, Any]) -> bytes:
    """One frame of application/vnd.amazon.eventstream."""
    named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _STRING, len(value)) + value.encode()
        for name, value in named.items()
    )
    body = it.dumped(payload).encode()
    sizes = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    start = sizes + struct.pack(">I", zlib.crc32(sizes)) + headers + body
    return start + struct.pack(">I", zlib.crc32(start))
