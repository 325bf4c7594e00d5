"""Gemini's generateContent, written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.encode import model_reply as it
from pytest_agentreplay.dialects.lenient import objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.dialects.encode.model_reply import ModelReply

BASE = "https://generativelanguage.googleapis.com"
_ENDS = {"stop": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}


def path(model: str, *, stream: bool) -> str:
    """Where a request goes."""
    name = model.rpartition("/")[2] or "unknown"
    return f"/v1beta/models/{name}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


def asked(model: str, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, stream: bool) -> JsonObject:
    """The body of a request, without its parameters; the model and whether it streams stand in the path."""
    del model, stream
    told = [m for m in messages if m.get("role") == "system"]
    body: JsonObject = {"contents": [_content(m) for m in messages if m.get("role") != "system"]}
    if told:
        texts: list[Json] = [{"text": it.joined_texts(objects(m.get("parts")))} for m in told]
        body["systemInstruction"] = {"parts": texts}
    if tools:
        declared: list[Json] = [it.function_of(tool) for tool in tools]
        body["tools"] = [{"functionDeclarations": declared}]
    return body


def _content(message: JsonObject) -> JsonObject:
    parts = objects(message.get("parts"))
    found: list[Json] = []
    for part in parts:
        if part.get("type") == "tool_call_response":
            result = it.result_of(part)
            told: Json = result if isinstance(result, dict) else {"result": result}
            found.append({"functionResponse": {"name": part.get("name") or part.get("id"), "response": told}})
    if text := it.joined_texts(parts):
        found.append({"text": text})
    return {
        "role": "model" if message.get("role") == "assistant" else "user",
        "parts": [*found, *_uses(it.said(message, usage={}))],
    }


def _uses(one: ModelReply) -> list[Json]:
    return [{"functionCall": {"id": use.id, "name": use.name, "args": it.parsed(use)}} for use in one.uses]


def whole(one: ModelReply) -> JsonObject:
    """A reply in one piece."""
    parts: list[Json] = [{"text": one.text}] if one.text else []
    content: JsonObject = {"role": "model", "parts": [*parts, *_uses(one)]}
    given, made = one.tokens("input_tokens"), one.tokens("output_tokens")
    return {
        "candidates": [{"content": content, "index": 0, "finishReason": _ENDS[one.end]}],
        "modelVersion": one.model,
        "responseId": one.id,
        "usageMetadata": {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made},
    }


def streamed(one: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as a stream of one chunk."""
    return it.server_sent(iter([("", whole(one))]))
