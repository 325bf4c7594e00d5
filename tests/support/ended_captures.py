"""Captured runs as they are handed over at their end, made by hand."""

from __future__ import annotations

import json

from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Failure,
    HttpCall,
    HttpReply,
    RawCall,
    RawOutcome,
    RawValue,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.runs.capture.ended_capture import EndedCapture

BEGAN = 1_795_860_000_000_000_000  # 2026-11-28
URL = "https://api.openai.com/v1/chat/completions"
STAND_IN = Failure("raw")


def ask(*messages, headers=(), **more):
    """A call of a model."""
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": text} for text in messages]} | more
    return HttpCall("POST", URL, (("content-type", "application/json"), *headers), Body(json.dumps(body).encode()))


def answer(text, tool=None, **headers):
    """A reply of a model, which may ask for a tool."""
    message = {"role": "assistant", "content": text}
    if tool is not None:
        use = {"id": "call_1", "type": "function", "function": {"name": tool[0], "arguments": json.dumps(tool[1])}}
        message["tool_calls"] = [use]
    body = json.dumps({"id": "c1", "model": "gpt-5", "object": "chat.completion", "choices": [{"message": message}]})
    kept = (("content-type", "application/json"), *headers.items())
    return HttpReply(200, "OK", headers=kept, body=Body(body.encode()), cuts=(len(body),))


CALLS = (
    (ask("where is my order?"), answer(None, ("lookup_order", {"order": "o1"}))),
    (ToolCall("lookup_order", {"order": "o1"}), ToolReply({"state": "shipped"})),
    (ask("where is my order?", "shipped"), answer("It is shipped.")),
)


def end(identity="a1", name="refund", *, calls=CALLS, failure=None, **more):
    """An ended run that made these calls one after the other."""
    starts = range(1, 2 * len(calls), 2)
    exchanges = tuple(Exchange(ToolCall("raw"), STAND_IN, start, start + 1) for start in starts)
    raw = dict(zip(starts, calls, strict=True))
    for key in ("input", "output", "annotations"):
        if key in more:
            more[key] = RawValue(more[key])
    if failure is not None:
        failure = RawValue({"type": "ValueError", "message": failure})
    return EndedCapture(
        **{"id": identity, "name": name, "began": BEGAN, "seconds": 0.5, "exchanges": exchanges, "size": 1_000}
        | {"calls": {start: RawCall(call) for start, (call, _) in raw.items()}, "failure": failure}
        | {"outcomes": {start: RawOutcome(reply) for start, (_, reply) in raw.items() if reply is not None}}
        | more
    )
