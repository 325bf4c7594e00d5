"""The small language in which tests write runs down."""

from __future__ import annotations

import json
from dataclasses import replace

from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply

URL = "https://api.openai.com/v1/chat/completions"
JSON = (("content-type", "application/json"),)
SYSTEM = "You are a shop assistant.\nBe short.\nNever promise a refund before you looked.\nAnswer in English."
TOOLS = [
    {"type": "function", "function": {"name": "lookup", "parameters": {"properties": {"id": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "refund", "parameters": {"properties": {"id": {"type": "integer"}}}}},
]


def chat(messages, *, url=URL, headers=JSON, **fields):
    body = {"model": "gpt-x", "messages": messages, "tools": TOOLS} | fields
    body = {key: value for key, value in body.items() if value is not ...}
    return HttpCall("POST", url, headers, Body(json.dumps(body).encode()))


def completion(text="", uses=(), *, minted="a1", model="gpt-x-2026", finish=None, **fields):
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for id_, name, arguments in uses
    ]
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    finish = finish or ("tool_calls" if calls else "stop")
    body = {"id": f"chatcmpl-{minted}", "model": model, "choices": [{"message": message, "finish_reason": finish}]}
    return HttpReply(200, "OK", headers=JSON, body=Body(json.dumps(body | fields).encode()))


class Book:
    """Writes a run exchange by exchange: each has ended before the next begins, unless `during` says otherwise."""

    def __init__(self, lane="main"):
        self.exchanges = []
        self.clock = 0
        self.lane = lane

    def add(self, call, outcome=None, *, lane=None, finish=..., **fields):
        start, self.clock = self.clock, self.clock + 2
        finish = start + 1 if finish is ... else finish
        self.exchanges.append(Exchange(call, outcome, start, finish, lane or self.lane, **fields))
        return self.exchanges[-1]

    def model(self, messages, reply=None, *, lane=None, **fields):
        return self.add(chat(messages, **fields), reply or completion("ok"), lane=lane)

    def tool(self, name, value=None, *, lane=None, **arguments):
        return self.add(ToolCall(name, arguments), ToolReply(value), lane=lane)

    def together(self, *calls):
        """Calls that all begin before any ends, each in a lane of its own."""
        first = self.clock
        for number, (call, outcome) in enumerate(calls):
            finish = first + len(calls) + (len(calls) - number)
            self.exchanges.append(Exchange(call, outcome, first + number, finish, f"main.{number + 1}"))
        self.clock = first + 2 * len(calls) + 2

    def run(self, **outcome):
        return Run(Header("tests/test_shop.py::test_refund", outcome=outcome), tuple(self.exchanges))


def conversation(
    n=30,
    *,
    system=SYSTEM,
    result=lambda i: {"order": i, "status": "open", "note": f"row {i} of the table"},
    asked=lambda i: ("lookup", {"id": i}),
    words=lambda i: f"step {i}",
    edit=lambda i, messages: messages,
    fields=lambda i: {},
    ids="a",
    recorded=True,
    skip=(),
    extra=(),
):
    """A run of `n` turns in which the model asks for one tool each time, and the agent resends its history."""
    book = Book()
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Where is my order?"}]
    for i in range(1, n + 1):
        name, arguments = asked(i)
        minted = f"call_{ids}{i:05d}"
        messages = edit(i, messages)
        reply = completion(words(i), [(minted, name, arguments)], minted=f"{ids}{i:05d}")
        for _ in range(2 if i in extra else 1):
            note = [{"role": "user", "content": "Are you sure?"}] if _ else []
            if i not in skip:
                book.model([*messages, *note], reply, **fields(i))
        messages = [*messages, json.loads(reply.body.data)["choices"][0]["message"]]
        if recorded and i not in skip:
            book.tool(name, result(i), **arguments)
        content = json.dumps(result(i))
        messages = [*messages, {"role": "tool", "tool_call_id": minted, "content": content}]
    return book.run(status="passed")


def later(run, by):
    """The same run with other readings of the counter."""
    moved = [replace(x, start=x.start + by, finish=None if x.finish is None else x.finish + by) for x in run.exchanges]
    return replace(run, exchanges=tuple(moved))


class Writing:
    SYSTEM, TOOLS, URL, JSON = SYSTEM, TOOLS, URL, JSON
    Book, chat, completion, conversation, later = Book, *map(staticmethod, (chat, completion, conversation, later))
