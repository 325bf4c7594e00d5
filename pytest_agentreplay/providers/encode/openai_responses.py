"""Responses, written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.encode import model_reply as it
from pytest_agentreplay.providers.lenient import arr, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.providers.encode.model_reply import ModelReply

BASE = "https://api.openai.com"
PATH, STREAM_PATH = "/v1/responses", ""


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters."""
    system, others = it.split_system(messages)
    body: JsonObject = {}
    if system:
        body["instructions"] = "\n".join(system)
    body["input"] = [item for m in others for item in _items(m)]
    if tools:
        body["tools"] = [{"type": "function", **it.function_of(tool)} for tool in tools]
    return body


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


def whole(reply: ModelReply) -> JsonObject:
    """A reply in one piece."""
    cut = reply.end in {"length", "filter"}
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(reply.end)
    given, made = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {
        "id": reply.id,
        "object": "response",
        "created_at": reply.created,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": list(_output(reply)),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": reply.tokens("cache_read.input_tokens"), "cache_write_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": reply.tokens("reasoning.output_tokens")},
            "total_tokens": given + made,
        },
    }


def _output(reply: ModelReply) -> Iterator[JsonObject]:
    if reply.text:
        content: JsonObject = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        message: JsonObject = {"type": "message", "id": f"msg_{reply.id}", "status": "completed", "role": "assistant"}
        yield {**message, "content": [content]}
    for use in reply.uses:
        call: JsonObject = {"type": "function_call", "id": f"fc_{use.id}", "call_id": use.id, "status": "completed"}
        yield {**call, "name": use.name, "arguments": it.arguments(use)}


def streamed(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """A reply as the events of a stream, each text and each tool call in one delta."""
    numbered = ((name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(_events(reply)))
    return it.server_sent(numbered)


def _events(reply: ModelReply) -> Iterator[tuple[str, dict[str, Any]]]:
    response = whole(reply)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(objects(response["output"])):
        is_text = item["type"] == "message"
        empty: JsonObject = {"content": []} if is_text else {"arguments": ""}
        yield "response.output_item.added", {"output_index": index, "item": {**item, **empty, "status": "in_progress"}}
        at = {"item_id": item["id"], "output_index": index}
        if is_text:
            yield from _text_events(reply, objects(arr(item["content"]))[0], {**at, "content_index": 0})
        else:
            for piece in reply.pieces(string(item["arguments"])):
                yield "response.function_call_arguments.delta", {**at, "delta": piece}
            call = {"name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", {**at, **call}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield f"response.{response['status']}", {"response": response}


def _text_events(reply: ModelReply, part: JsonObject, at: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in reply.pieces(string(part["text"])):
        yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**at, "part": part}
