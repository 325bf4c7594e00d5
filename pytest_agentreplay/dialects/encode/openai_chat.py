"""Chat completions, written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.dialects.encode import model_reply as it
from pytest_agentreplay.dialects.lenient import objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.core.reading import ToolUse
    from pytest_agentreplay.dialects.encode.model_reply import ModelReply

BASE = "https://api.openai.com"
_ENDS = {"stop": "stop", "tools": "tool_calls", "length": "length", "filter": "content_filter"}


def path(model: str, *, stream: bool) -> str:
    """Where a request goes."""
    del model, stream
    return "/v1/chat/completions"


def asked(model: str, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, stream: bool) -> JsonObject:
    """The body of a request, without its parameters."""
    body: JsonObject = {"model": model, "messages": [one for message in messages for one in _messages(message)]}
    if tools:
        body["tools"] = [{"type": "function", "function": it.function_of(tool)} for tool in tools]
    return {**body, "stream": True} if stream else body


def _messages(message: JsonObject) -> Iterator[JsonObject]:
    """One message of the conventions as those of the API: each result of a tool is one."""
    role, parts = string(message.get("role")), objects(message.get("parts"))
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in results:
        yield {"role": "tool", "tool_call_id": part.get("id"), "content": it.text_of(it.result_of(part))}
    calls = [part for part in parts if part.get("type") == "tool_call"]
    text = it.joined_texts(parts)
    if calls:
        uses = it.said(message, usage={}).uses
        yield {"role": "assistant", "content": text or None, "tool_calls": [_call(use) for use in uses]}
    elif text or not results:
        yield {"role": role, "content": text}


def _call(use: ToolUse) -> dict[str, Any]:
    return {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": it.arguments(use)}}


def whole(one: ModelReply) -> JsonObject:
    """A reply in one piece."""
    message: JsonObject = {"role": "assistant", "content": one.text or None, "refusal": None}
    if one.uses:
        message["tool_calls"] = [_call(use) for use in one.uses]
    choice: JsonObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ENDS[one.end]}
    return {**_head(one, "chat.completion"), "choices": [choice], "usage": _usage(one)}


def streamed(one: ModelReply, body: JsonObject) -> tuple[bytes, ...]:
    """A reply as the chunks of a stream; usage where the request includes it."""
    return it.server_sent(_chunks(one, body), done=True)


def _chunks(one: ModelReply, body: JsonObject) -> Iterator[tuple[str, Any]]:
    head = _head(one, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": one.text or None})
    for index, use in enumerate(one.uses):
        yield chunk({"tool_calls": [{"index": index, **_call(use)}]})
    yield chunk({}, _ENDS[one.end])
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        yield "", {**head, "choices": [], "usage": _usage(one)}


def _head(one: ModelReply, kind: str) -> JsonObject:
    head: JsonObject = {"id": one.id, "object": kind, "created": 0, "model": one.model}
    return {**head, "system_fingerprint": one.fingerprint} if one.fingerprint else head


def _usage(one: ModelReply) -> JsonObject:
    given, made = one.tokens("input_tokens"), one.tokens("output_tokens")
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
