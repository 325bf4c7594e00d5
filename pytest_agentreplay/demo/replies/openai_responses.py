"""OpenAI's Responses."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import halves, pieces, reply_of, sse
from pytest_agentreplay.dialects.encode import openai_responses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.replies.words import Event
    from pytest_agentreplay.demo.script import Say


def responses(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A response of the Responses API."""
    return {
        **openai_responses.whole(reply_of(say, body, "input", name="resp_")),
        "created_at": int(time.time()),
        "instructions": body.get("instructions"),
        "previous_response_id": body.get("previous_response_id"),
        "tools": body.get("tools", []),
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
