"""Bodies as the real SDKs write them are structured, compact and small."""

from __future__ import annotations

import json

import anthropic
import httpx
import httpx2
import openai
import pytest

from pytest_agentreplay.model.exchanges import Body, HttpCall
from tests.support.stored_runs import comes_back, reply, run_of

pytestmark = pytest.mark.env("main", "legacy", "lowest")

QUESTION = "Wo ist meine Bestellung? 😀 </script> \u2028 " * 8
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}


def captured(sdk, told):
    """A client for an SDK, whose calls are kept, all answered with `told`."""
    library = httpx2 if issubclass(sdk.DefaultHttpxClient, httpx2.Client) else httpx
    kept, data = [], json.dumps(told).encode()

    def handle(request):
        call = HttpCall(request.method, str(request.url), (("content-type", "application/json"),), Body(request.read()))
        kept.append((call, reply(data)))
        return library.Response(200, headers={"content-type": "application/json"}, content=data)

    return library.Client(transport=library.MockTransport(handle)), kept


def stored(pairs):
    bodies = [x["request"]["body"] for x in json.loads(comes_back(run_of(*pairs)))["exchanges"]]
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


def test_anthropic_messages():
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    http, kept = captured(anthropic, message)
    client = anthropic.Anthropic(api_key="none", base_url="http://a", http_client=http)
    mark = {"cache_control": {"type": "ephemeral"}}
    fields = {"model": "claude", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief.\n" * 30, **mark}]}
    tools = [{"name": "lookup_order", "description": "Look an order up.", "input_schema": SCHEMA}]
    for content in (QUESTION, [{"type": "text", "text": QUESTION, **mark}]):
        client.messages.create(**fields, tools=tools, messages=[{"role": "user", "content": content}])
    first, second = stored(kept)
    assert next(iter(first["system"][0])) == "s1"
    assert second["system"] == ["s1"]
    assert second["tools"] == ["t1"]
