"""Responses, written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.dialects.encode import model_reply as it
from pytest_agentreplay.dialects.lenient import arr, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.dialects.encode.model_reply import ModelReply

BASE = "https://api.openai.com"


def path(model: str, *, stream: bool) -> str:
    """Where a request goes."""
    del model, stream
    return "/v1/responses"


def asked(model: str, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, stream: bool) -> JsonObject:
    """The body of a request, without its parameters."""
    told = [m for m in messages if m.get("role") == "system"]
    body: JsonObject = {"model": model}
    if told:
        body["instructions"] = "\n".join(it.joined_texts(objects(m.get("parts"))) for m in told)
    body["input"] = [item for m in messages if m.get("role") != "system" for item in _items(m)]
    if tools:
        body["tools"] = [{"type": "function", **it.function_of(tool)} for tool in tools]
    return {**body, "stream": True} if stream else body


def _items(message: JsonObject) -> Iterator[JsonObject]:
    parts = objects(message.get("parts"))
    for part in parts:
        if part.get("type") == "tool_call_response":
            output = it.text_of(it.result_of(part))
            yield {"type": "function_call_output", "call_id": part.get("id"), "output": output}
    if text := it.joined_texts(parts):
        yield {"role": string(message.get("role")), "content": text}
    for use in it.said(message, usage={}).uses:
        yield {"type": "function_call", "call_id": use.id, "name": use.name, "arguments": it.arguments(use)}


def whole(one: ModelReply) -> JsonObject:
    """A reply in one piece."""
    cut = one.end in {"length", "filter"}
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(one.end)
    given, made = one.tokens("input_tokens"), one.tokens("output_tokens")
    return {
        "id": one.id,
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": one.model,
        "output": list(_output(one)),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": one.tokens("cache_read.input_tokens"), "cache_write_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": one.tokens("reasoning.output_tokens")},
            "total_tokens": given + made,
        },
    }


def _output(one: ModelReply) -> Iterator[JsonObject]:
    if one.text:
        content: JsonObject = {"type": "output_text", "text": one.text, "annotations": [], "logprobs": []}
        message: JsonObject = {"type": "message", "id": f"msg_{one.id}", "status": "completed", "role": "assistant"}
        yield {**message, "content": [content]}
    for use in one.uses:
        call: JsonObject = {"type": "function_call", "id": f"fc_{use.id}", "call_id": use.id, "status": "completed"}
        yield {**call, "name": use.name, "arguments": it.arguments(use)}


def streamed(one: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as the events of a stream, each text and each tool call in one delta."""
    numbered = ((name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(_events(one)))
    return it.server_sent(numbered)


def _events(one: ModelReply) -> Iterator[tuple[str, dict[str, Any]]]:
    response = whole(one)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(objects(response["output"])):
        is_text = item["type"] == "message"
        empty: JsonObject = {"content": []} if is_text else {"arguments": ""}
        yield "response.output_item.added", {"output_index": index, "item": {**item, **empty, "status": "in_progress"}}
        at = {"item_id": item["id"], "output_index": index}
        if is_text:
            yield from _text_events(objects(arr(item["content"]))[0], {**at, "content_index": 0})
        else:
            text = item["arguments"]
            yield "response.function_call_arguments.delta", {**at, "delta": text}
            yield "response.function_call_arguments.done", {**at, "name": item["name"], "arguments": text}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield f"response.{response['status']}", {"response": response}


def _text_events(part: JsonObject, at: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    text = part["text"]
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    yield "response.output_text.delta", {**at, "delta": text, "logprobs": []}
    yield "response.output_text.done", {**at, "text": text, "logprobs": []}
    yield "response.content_part.done", {**at, "part": part}
