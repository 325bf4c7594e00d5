"""OpenAI's chat completions, written; apart from their reading, which each replay of one imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers import model_reply
from pytest_agentreplay.providers.lenient import objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import ToolUse
    from pytest_agentreplay.providers.model_reply import ModelReply

BASE = "https://api.openai.com"
PATH, STREAM_PATH = "/v1/chat/completions", ""
_ENDS = {"stop": "stop", "tools": "tool_calls", "length": "length", "filter": "content_filter"}


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters."""
    body: JsonObject = {"messages": [item for message in messages for item in _messages(message)]}
    if tools:
        body["tools"] = [{"type": "function", "function": model_reply.function_of(tool)} for tool in tools]
    return body


def _messages(message: JsonObject) -> Iterator[JsonObject]:
    """Yield one message of the conventions as those of the API, in which each result of a tool is a message."""
    role, parts = string(message.get("role")), objects(message.get("parts"))
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in results:
        yield {
            "role": "tool",
            "tool_call_id": part.get("id"),
            "content": model_reply.text_of(model_reply.result_of(part)),
        }
    calls = [part for part in parts if part.get("type") == "tool_call"]
    text = model_reply.joined_texts(parts)
    if calls:
        uses = model_reply.make_reply(message, usage={}).uses
        yield {"role": "assistant", "content": text or None, "tool_calls": [call_of(use) for use in uses]}
    elif text or not results:
        yield {"role": role, "content": text}


def call_of(use: ToolUse, arguments: str | None = None) -> dict[str, Any]:
    """A tool call of a message; `arguments` are those of it that have come."""
    arguments = model_reply.arguments(use) if arguments is None else arguments
    return {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": arguments}}


def write_reply(reply: ModelReply) -> JsonObject:
    """Return a reply in one piece."""
    message: JsonObject = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.uses:
        message["tool_calls"] = [call_of(use) for use in reply.uses]
    choice: JsonObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ENDS[reply.end]}
    return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def write_stream(reply: ModelReply, body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as the chunks of a stream; usage where the request includes it."""
    return model_reply.server_sent(_chunks(reply, body), done=True)


def _chunks(reply: ModelReply, body: JsonObject) -> Iterator[tuple[str, Any]]:
    head = _head(reply, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    first, *pieces = reply.pieces(reply.text)
    yield chunk({"role": "assistant", "content": first or None})
    for piece in pieces:
        yield chunk({"content": piece})
    for index, use in enumerate(reply.uses):
        first, *pieces = reply.pieces(model_reply.arguments(use))
        yield chunk({"tool_calls": [{"index": index, **call_of(use, first)}]})
        for piece in pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _ENDS[reply.end])
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        yield "", {**head, "choices": [], "usage": _usage(reply)}


def _head(reply: ModelReply, kind: str) -> JsonObject:
    head: JsonObject = {"id": reply.id, "object": kind, "created": reply.created, "model": reply.model}
    return {**head, "system_fingerprint": reply.fingerprint} if reply.fingerprint else head


def _usage(reply: ModelReply) -> JsonObject:
    input_tokens, output_tokens = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }
