"""Bedrock's Converse, written; a stream is binary frames, each with two checksums."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.encode import model_reply as it
from pytest_agentreplay.providers.lenient import obj, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import ToolUse
    from pytest_agentreplay.providers.encode.model_reply import ModelReply

BASE = "https://bedrock-runtime.us-east-1.amazonaws.com"
PATH, STREAM_PATH = "/model/{quoted}/converse", "/model/{quoted}/converse-stream"
_STRING = 7
_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "content_filtered"}


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters; the model and whether it streams stand in the path."""
    system, others = it.split_system(messages)
    body: JsonObject = {"messages": [_message(m) for m in others]}
    if system:
        body["system"] = [{"text": text} for text in system]
    if tools:
        body["toolConfig"] = {"tools": [{"toolSpec": _spec(tool)} for tool in tools]}
    return body


def _spec(tool: JsonObject) -> JsonObject:
    about = {"name": tool.get("name"), "description": string(tool.get("description"))}
    return {**about, "inputSchema": {"json": it.schema_of(tool)}}


def _message(message: JsonObject) -> JsonObject:
    role = "assistant" if message.get("role") == "assistant" else "user"
    return {"role": role, "content": it.blocks_of(message, _result, _text, _use)}


def _result(part: JsonObject) -> JsonObject:
    value = it.result_of(part)
    content: JsonObject = {"json": value} if isinstance(value, dict) else {"text": it.text_of(value)}
    result: JsonObject = {"toolUseId": part.get("id"), "content": [content]}
    return {"toolResult": {**result, "status": "error"} if part.get("is_error") is True else result}


def _text(text: str) -> JsonObject:
    return {"text": text}


def _use(use: ToolUse) -> JsonObject:
    return {"toolUse": {"toolUseId": use.id, "name": use.name, "input": it.parsed(use)}}


def whole(reply: ModelReply) -> JsonObject:
    """A reply in one piece."""
    content: list[Json] = [*([_text(reply.text)] if reply.text else []), *map(_use, reply.uses)]
    given, made = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _ENDS[reply.end],
        "usage": {"inputTokens": given, "outputTokens": made, "totalTokens": given + made},
        "metrics": {"latencyMs": 0},
    }


def streamed(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as frames, each block in one delta."""
    return tuple(frame(kind, payload) for kind, payload in _events(reply))


def _events(reply: ModelReply) -> Iterator[tuple[str, JsonObject]]:
    body = whole(reply)
    yield "messageStart", {"role": "assistant"}
    for index, block in enumerate(objects(obj(obj(body["output"])["message"])["content"])):
        at: JsonObject = {"contentBlockIndex": index}
        use = obj(block.get("toolUse"))
        if use:
            started: JsonObject = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield "contentBlockStart", {**at, "start": started}
        for piece in reply.pieces(it.dumped(use["input"]) if use else string(block["text"])):
            yield "contentBlockDelta", {**at, "delta": {"toolUse": {"input": piece}} if use else {"text": piece}}
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": body["stopReason"]}
    yield "metadata", {"usage": body["usage"], "metrics": body["metrics"]}


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
