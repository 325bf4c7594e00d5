"""Runs as they are recorded: model calls in OpenAI's words, tool calls, and what went wrong."""

from __future__ import annotations

import json

from pytest_agentreplay.model.exchanges import Exchange, Failure, Header, Run, Timing, ToolCall, ToolReply
from tests.support import exchanges

QUESTION = {"role": "user", "content": "Where is my order?"}
SECOND = 10**9


def ask(*messages, model="gpt-5", **fields):
    return exchanges.call({"model": model, "messages": [*(messages or (QUESTION,))], **fields})


def say(text=None, *uses, usage=True, status=200, cost=None, run=""):
    """A reply that says a text or asks for tools (name, arguments); ids hold the word `run`."""
    if status >= 400:
        return exchanges.reply({"error": {"message": text, "type": "requests"}}, status=status, reason="OK")
    message = {"role": "assistant", "content": text}
    if uses:
        told = enumerate((name, json.dumps(arguments)) for name, arguments in uses)
        message["tool_calls"] = [exchanges.chat_use(f"call_{run}{n}", *use) for n, use in told]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if uses else "stop"}
    body = {"id": f"chatcmpl-{run}1", "object": "chat.completion", "model": "gpt-5-2026", "choices": [choice]}
    if usage:
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        body["usage"] |= {} if cost is None else {"cost": cost}
    return exchanges.reply(body, reason="OK")


def message_of(reply):
    """The message of a reply, as the next request sends it again."""
    return json.loads(reply.body.data)["choices"][0]["message"]


def result_of(call_id, said):
    """The message that gives a model the result of a tool."""
    return {"role": "tool", "tool_call_id": call_id, "content": said}


def tool(name, result=None, raises="", **arguments):
    outcome = Failure("builtins.RuntimeError", raises, (raises,)) if raises else ToolReply(result)
    return ToolCall(name, arguments), outcome


def run(*pairs, kit=None, outcome=None, lanes=None, parents=None, times=True):
    """A run of (call, outcome) pairs, each a second long, one after the other."""
    crossed = (
        Exchange(
            *(call, outcome, 2 * n, 2 * n + 1, (lanes or {}).get(n, "main")),
            parent=(parents or {}).get(n),
            timing=Timing(n * SECOND, None, (n + 1) * SECOND) if times else Timing(),
        )
        for n, (call, outcome) in enumerate(pairs)
    )
    return Run(Header("tests/test_a.py::test_b", outcome=outcome or {}, kit=kit or {}), tuple(crossed))


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
    searched = (
        (ask(), say("Let me search.", ("search", {"q": "order"}))),
        tool("search", raises="nothing found", q="order"),
    )
    return run(*searched * times, kit={"case": {"status": "error", "output": None, "limits": "GraphRecursionError"}})
