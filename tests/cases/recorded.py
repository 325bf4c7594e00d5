"""Runs as they are recorded: model calls in OpenAI's words, tool calls, and what went wrong."""

from __future__ import annotations

import json

from pytest_agentreplay.core.model import (
    Body,
    Exchange,
    Failure,
    Header,
    HttpCall,
    HttpReply,
    Run,
    Timing,
    ToolCall,
    ToolReply,
)

JSON = (("content-type", "application/json"),)
QUESTION = {"role": "user", "content": "Where is my order?"}
SECOND = 10**9


def ask(*messages, model="gpt-5", **fields):
    body = {"model": model, "messages": [*(messages or (QUESTION,))], **fields}
    return HttpCall("POST", "https://api.openai.com/v1/chat/completions", JSON, Body(json.dumps(body).encode()))


def say(text=None, *calls, usage=True, status=200, cost=None):
    message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(calls)
        ]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-5-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        body["usage"] |= {} if cost is None else {"cost": cost}
    if status >= 400:
        body = {"error": {"message": text, "type": "requests"}}
    data = json.dumps(body).encode()
    return HttpReply(status, "OK", headers=JSON, body=Body(data), cuts=(len(data),))


def tool(name, result=None, raises="", **arguments):
    outcome = Failure("builtins.RuntimeError", raises, (raises,)) if raises else ToolReply(result)
    return ToolCall(name, arguments), outcome


def run(*pairs, kit=None, outcome=None, lanes=None, times=True):
    """A run of (call, outcome) pairs, each a second long, one after the other."""
    exchanges = tuple(
        Exchange(
            call,
            reply,
            2 * n,
            2 * n + 1,
            lane=(lanes or {}).get(n, "main"),
            timing=Timing(n * SECOND, None, (n + 1) * SECOND) if times else Timing(),
        )
        for n, (call, reply) in enumerate(pairs)
    )
    return Run(Header("tests/test_a.py::test_b", outcome=outcome or {}, kit=kit or {}), exchanges)


def refund(answer="I have refunded order A-1001.", **more):
    """The agent looks an order up, the refund fails, and it says otherwise."""
    return run(
        (ask(), say(None, ("lookup_order", {"order_id": "A-1001"}))),
        tool("lookup_order", {"status": "late", "price": 20}, order_id="A-1001"),
        (ask(), say("One moment.", ("issue_refund", {"order_id": "A-1001", "amount": 20}))),
        tool("issue_refund", raises="bank is closed", order_id="A-1001", amount=20),
        (ask(), say(answer)),
        **more,
    )


def loop(times=5):
    """The agent searches the same thing again and again, and never answers."""
    pairs = []
    for _ in range(times):
        pairs += [
            (ask(), say("Let me search.", ("search", {"q": "order"}))),
            tool("search", raises="nothing found", q="order"),
        ]
    return run(*pairs, kit={"case": {"status": "error", "output": None, "limits": "GraphRecursionError"}})
