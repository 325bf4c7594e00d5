"""Bodies as the real SDKs write them are structured, compact and small."""

from __future__ import annotations

import json

import anthropic
import httpx
import httpx2
import openai
import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.core.model import Body, Exchange, Header, HttpCall, HttpReply, Run

pytestmark = pytest.mark.env("main", "legacy", "lowest")

QUESTION = "Wo ist meine Bestellung? 😀 </script> \u2028 " * 8
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}


def captured(sdk, reply: dict | bytes):
    """A client for an SDK, whose calls are kept as exchanges, all answered with `reply`."""
    library = httpx2 if issubclass(sdk.DefaultHttpxClient, httpx2.Client) else httpx
    kept: list[Exchange] = []

    def handle(request):
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        kind = "text/event-stream" if isinstance(reply, bytes) else "application/json"
        call = HttpCall(request.method, str(request.url), (("content-type", "application/json"),), Body(request.read()))
        kept.append(Exchange(call, HttpReply(200, body=Body(data), cuts=(len(data),)), len(kept), len(kept)))
        return library.Response(200, headers={"content-type": kind}, content=data)

    return library.Client(transport=library.MockTransport(handle)), kept


def stored(exchanges: list[Exchange]) -> list[dict]:
    run = Run(Header("t"), tuple(exchanges))
    text = codec.dumps(run)
    found = codec.loads(text, file="f").run
    assert found == run
    assert [x.call.body.data for x in found.exchanges] == [x.call.body.data for x in run.exchanges]
    bodies = [x["request"]["body"] for x in json.loads(text)["exchanges"]]
    assert all("json" in body and "style" not in body for body in bodies), "compact, every one"
    return [body["json"] for body in bodies]


def test_openai_chat_and_responses():
    chat = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5", "choices": []}
    http, kept = captured(openai, chat)
    client = openai.OpenAI(api_key="none", base_url="http://a/v1", http_client=http)
    tools = [{"type": "function", "function": {"name": "lookup_order", "parameters": SCHEMA}}]
    messages: list = [{"role": "system", "content": "Be brief.\n" * 30}, {"role": "user", "content": QUESTION}]
    for turn in range(3):
        client.chat.completions.create(model="gpt-5", messages=messages, tools=tools, temperature=0.2, stop=["END"])
        messages = [*messages, {"role": "assistant", "content": f"turn {turn}"}, {"role": "user", "content": "Sure?"}]
    client.responses.create(model="gpt-5", input=QUESTION, instructions="Be brief.\n" * 30, metadata={"user": "é"})
    first, second, third, answer = stored(kept)
    assert [next(iter(entry)) for entry in first["messages"]] == ["m1", "m2"]
    assert second["messages"][0] == "m1..m2"
    assert third["messages"][0] == "m1..m4"
    assert "s1" in answer["instructions"]["$item"]


def test_anthropic_messages_and_their_stream():
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    http, kept = captured(anthropic, message)
    client = anthropic.Anthropic(api_key="none", base_url="http://a", http_client=http)
    system = [{"type": "text", "text": "Be brief.\n" * 30, "cache_control": {"type": "ephemeral"}}]
    tools = [{"name": "lookup_order", "description": "Look an order up.", "input_schema": SCHEMA}]
    for content in (QUESTION, [{"type": "text", "text": QUESTION, "cache_control": {"type": "ephemeral"}}]):
        client.messages.create(
            model="claude", max_tokens=9, system=system, tools=tools, messages=[{"role": "user", "content": content}]
        )
    first, second = stored(kept)
    assert next(iter(first["system"][0])) == "s1"
    assert second["system"] == ["s1"]
    assert second["tools"] == ["t1"]
