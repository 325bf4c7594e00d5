"""Gemini's generateContent, written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.providers.encode import model_reply as it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import ToolUse
    from pytest_agentreplay.providers.encode.model_reply import ModelReply

BASE = "https://generativelanguage.googleapis.com"
PATH = "/v1beta/models/{name}:generateContent"
STREAM_PATH = "/v1beta/models/{name}:streamGenerateContent?alt=sse"
_ENDS = {"stop": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters; the model and whether it streams stand in the path."""
    system, others = it.split_system(messages)
    body: JsonObject = {"contents": [_content(m) for m in others]}
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    if tools:
        body["tools"] = [{"functionDeclarations": [it.function_of(tool) for tool in tools]}]
    return body


def _content(message: JsonObject) -> JsonObject:
    role = "model" if message.get("role") == "assistant" else "user"
    return {"role": role, "parts": it.blocks_of(message, _result, _text, _use)}


def _result(part: JsonObject) -> JsonObject:
    value = it.result_of(part)
    response: JsonObject = value if isinstance(value, dict) else {"result": value}
    return {"functionResponse": {"name": part.get("name") or part.get("id"), "response": response}}


def _text(text: str) -> JsonObject:
    return {"text": text}


def _use(use: ToolUse) -> JsonObject:
    marks: JsonObject = {"id": use.id} if use.id else {}
    return {"functionCall": {**marks, "name": use.name, "args": it.parsed(use)}}


def whole(reply: ModelReply) -> JsonObject:
    """A reply in one piece."""
    read, written = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    parts = [*([_text(reply.text)] if reply.text else []), *map(_use, reply.uses)]
    usage: JsonObject = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
    return {**_chunk(reply, parts, finishReason=_ENDS[reply.end]), "usageMetadata": usage}


def _chunk(reply: ModelReply, parts: Sequence[JsonObject], **ending: str) -> JsonObject:
    content: JsonObject = {"role": "model", "parts": [*parts]}
    candidate: JsonObject = {"content": content, "index": 0, **ending}
    return {"candidates": [candidate], "modelVersion": reply.model, "responseId": reply.id}


def streamed(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as a stream of one chunk, or of one for each piece of the text and each call, and an empty one."""
    if not reply.in_pieces:
        return it.server_sent([("", whole(reply))])
    parts = [*map(_text, reply.pieces(reply.text)), *map(_use, reply.uses)]
    last = whole(replace(reply, text="", uses=()))
    return it.server_sent(("", chunk) for chunk in [*(_chunk(reply, [part]) for part in parts), last])
