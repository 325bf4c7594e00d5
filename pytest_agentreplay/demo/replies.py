"""What the model server says: one reply in the words of each API, whole or as a stream of events.

Pure functions of the request, the reply and fresh ids. The shapes are those that the official SDKs parse.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.demo.script import fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.demo.script import Say

Event: TypeAlias = "tuple[str, dict[str, Any]]"


def sse(events: Iterator[Event], *, named: bool, done: bool = False) -> Iterator[bytes]:
    """Events as server-sent events, one item each; `named` writes the event line, `done` ends with `[DONE]`."""
    for name, data in events:
        head = f"event: {name}\n" if named else ""
        yield f"{head}data: {json.dumps(data, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()
    if done:
        yield b"data: [DONE]\n\n"


def pieces(text: str) -> list[str]:
    """A text in the pieces in which a model would stream it: word by word, nothing lost."""
    return re.findall(r"\s*\S+|\s+$", text)


def tokens(value: Any) -> int:
    """A count that grows with what is said; no tokenizer."""
    return max(1, len(json.dumps(value)) // 4)


def chat(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A chat completion."""
    calls = [
        {"id": fresh("call_"), "type": "function", "function": {"name": a.name, "arguments": json.dumps(a.arguments)}}
        for a in say.asks
    ]
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else "stop"
    return {
        "id": fresh("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", "demo"),
        "system_fingerprint": "fp_demo",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": chat_usage(body, say),
    }


def chat_usage(body: dict[str, Any], say: Say) -> dict[str, int]:
    """The usage block of a chat completion."""
    prompt, answer = tokens(body.get("messages")), tokens([say.text, len(say.asks)])
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def chat_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A chat completion as chunks; the usage chunk comes when the request includes it."""

    def events() -> Iterator[Event]:
        whole = chat(body, say)
        base = {name: whole[name] for name in ("id", "created", "model", "system_fingerprint")}
        base["object"] = "chat.completion.chunk"

        def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
            return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": "" if say.text else None})
        for piece in pieces(say.text):
            yield chunk({"content": piece})
        for index, call in enumerate(whole["choices"][0]["message"].get("tool_calls", ())):
            arguments = call["function"]["arguments"]
            opened = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
            yield chunk({"tool_calls": [opened]})
            for part in halves(arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        yield chunk({}, whole["choices"][0]["finish_reason"])
        if (body.get("stream_options") or {}).get("include_usage"):
            yield "", {**base, "choices": [], "usage": whole["usage"]}

    return sse(events(), named=False, done=True)


def halves(text: str) -> tuple[str, str]:
    """A text cut in the middle, as models cut tool arguments."""
    return text[: len(text) // 2], text[len(text) // 2 :]


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


def messages(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A message of the Anthropic Messages API."""
    content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
    content += [{"type": "tool_use", "id": fresh("toolu_"), "name": a.name, "input": a.arguments} for a in say.asks]
    return {
        "id": fresh("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "demo"),
        "content": content,
        "stop_reason": "tool_use" if say.asks else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens(body.get("messages")), "output_tokens": tokens([say.text, len(say.asks)])},
    }


def messages_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A message of the Anthropic Messages API as its events, a ping among them."""

    def events() -> Iterator[Event]:
        whole = messages(body, say)
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        yield "message_start", {"message": begun}
        for index, block in enumerate(whole["content"]):
            text = block["type"] == "text"
            yield (
                "content_block_start",
                {"index": index, "content_block": {**block, **({"text": ""} if text else {"input": {}})}},
            )
            if index == 0:
                yield "ping", {}
            for part in pieces(block["text"]) if text else halves(json.dumps(block["input"])):
                delta = (
                    {"type": "text_delta", "text": part} if text else {"type": "input_json_delta", "partial_json": part}
                )
                yield "content_block_delta", {"index": index, "delta": delta}
            yield "content_block_stop", {"index": index}
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield "message_delta", {"delta": ended, "usage": {"output_tokens": whole["usage"]["output_tokens"]}}
        yield "message_stop", {}

    return sse(((name, {"type": name, **data}) for name, data in events()), named=True)


Whole: TypeAlias = "Callable[[dict[str, Any], Say], dict[str, Any]]"
Streamed: TypeAlias = "Callable[[dict[str, Any], Say], Iterator[bytes]]"

# By the end of the path, so that any base URL does.
APIS: dict[str, tuple[Whole, Streamed]] = {
    "/chat/completions": (chat, chat_stream),
    "/responses": (responses, responses_stream),
    "/messages": (messages, messages_stream),
}
