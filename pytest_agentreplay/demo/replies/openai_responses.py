"""OpenAI's Responses."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import halves, pieces, sse, tokens
from pytest_agentreplay.demo.script import fresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.replies.words import Event
    from pytest_agentreplay.demo.script import Say


def responses(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A response of the Responses API."""
    output: list[dict[str, Any]] = []
    if say.text:
        content = {"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": fresh("msg_"), "status": "completed", "role": "assistant"}
        output.append({**message, "content": [content]})
    output += [
        {
            "type": "function_call",
            "id": fresh("fc_"),
            "call_id": fresh("call_"),
            "name": ask.name,
            "arguments": json.dumps(ask.arguments),
            "status": "completed",
        }
        for ask in say.asks
    ]
    given, made = tokens(body.get("input")), tokens([say.text, len(say.asks)])
    return {
        "id": fresh("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body.get("model", "demo"),
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + made,
        },
    }


def responses_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A response of the Responses API as its events."""

    def events() -> Iterator[Event]:
        whole = responses(body, say)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        yield "response.created", {"response": begun}
        yield "response.in_progress", {"response": begun}
        for index, item in enumerate(whole["output"]):
            at = {"item_id": item["id"], "output_index": index}
            empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
            opened = {**item, **empty, "status": "in_progress"}
            yield "response.output_item.added", {"output_index": index, "item": opened}
            yield from message_events(item, at) if item["type"] == "message" else call_events(item, at)
            yield "response.output_item.done", {"output_index": index, "item": item}
        yield "response.completed", {"response": whole}

    numbered = ((name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(events()))
    return sse(numbered, named=True)


def message_events(item: dict[str, Any], at: dict[str, Any]) -> Iterator[Event]:
    """The events of a message inside a streamed response."""
    part = item["content"][0]
    inside = {**at, "content_index": 0}
    yield "response.content_part.added", {**inside, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", {**inside, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**inside, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**inside, "part": part}


def call_events(item: dict[str, Any], at: dict[str, Any]) -> Iterator[Event]:
    """The events of a tool call inside a streamed response."""
    for part in halves(item["arguments"]):
        yield "response.function_call_arguments.delta", {**at, "delta": part}
    yield "response.function_call_arguments.done", {**at, "name": item["name"], "arguments": item["arguments"]}
