"""Cohere's chat, embed and rerank of version 2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import halves, numbers, pieces, sse, tokens
from pytest_agentreplay.demo.script import fresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.replies.words import Event
    from pytest_agentreplay.demo.script import Say


def chat(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A chat reply in one piece; what is said beside tool calls is their plan."""
    message: dict[str, Any] = {"role": "assistant"}
    if say.asks:
        message["tool_plan"] = say.text
        message["tool_calls"] = [
            {"id": fresh(f"{a.name}_"), "type": "function", "function": {"name": a.name, "arguments": arguments}}
            for a in say.asks
            if (arguments := json.dumps(a.arguments))
        ]
    else:
        message["content"] = [{"type": "text", "text": say.text}]
    given, made = tokens(body.get("messages")), tokens([say.text, len(say.asks)])
    counted = {"input_tokens": given, "output_tokens": made}
    finish = "TOOL_CALL" if say.asks else "COMPLETE"
    usage = {"billed_units": counted, "tokens": counted}
    return {"id": fresh(""), "message": message, "finish_reason": finish, "usage": usage}


def chat_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A chat reply as its events."""

    def events() -> Iterator[Event]:
        whole = chat(body, say)
        empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        yield "message-start", {"id": whole["id"], "delta": {"message": empty}}
        if say.asks:
            for piece in pieces(say.text):
                yield "tool-plan-delta", {"delta": {"message": {"tool_plan": piece}}}
            yield from call_events(whole["message"]["tool_calls"])
        else:
            yield "content-start", within(0, content={"type": "text", "text": ""})
            for piece in pieces(say.text):
                yield "content-delta", within(0, content={"text": piece})
            yield "content-end", {"index": 0}
        yield "message-end", {"delta": {"finish_reason": whole["finish_reason"], "usage": whole["usage"]}}

    return sse(((name, {"type": name, **data}) for name, data in events()), named=True)


def call_events(calls: list[dict[str, Any]]) -> Iterator[Event]:
    """The events of the tool calls."""
    for index, call in enumerate(calls):
        opened = {**call, "function": {**call["function"], "arguments": ""}}
        yield "tool-call-start", within(index, tool_calls=opened)
        for part in halves(call["function"]["arguments"]):
            yield "tool-call-delta", within(index, tool_calls={"function": {"arguments": part}})
        yield "tool-call-end", {"index": index}


def within(index: int, **message: Any) -> dict[str, Any]:
    """A change of the message's part number `index`."""
    return {"index": index, "delta": {"message": message}}


def embed(body: dict[str, Any], _say: Say) -> dict[str, Any]:
    """A vector for each text, by type of number."""
    texts = body.get("texts") or []
    vectors = [numbers(8) for _ in texts or body.get("inputs") or body.get("images") or ()]
    meta = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": tokens(texts)}}
    return {"id": fresh(""), "embeddings": {"float": vectors}, "texts": texts, "meta": meta}


def rerank(body: dict[str, Any], _say: Say) -> dict[str, Any]:
    """The documents by their scores, which are new each time."""
    scores = [abs(score) for score in numbers(len(body.get("documents", ())))]
    ranked = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[: body.get("top_n")]
    found = [{"index": index, "relevance_score": scores[index]} for index in ranked]
    return {"id": fresh(""), "results": found, "meta": {"billed_units": {"search_units": 1}}}
