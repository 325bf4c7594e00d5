"""The official SDKs: recorded twice they give equal keys, and what they make of a reply is what the dialects read in it."""

from __future__ import annotations

import json
import sys

import anthropic
import httpx
import httpx2
import openai
import pytest

from pytest_agentreplay.compare.key_audit import KeyAudit
from pytest_agentreplay.compare.matching import ClientIds, Matching
from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply
from pytest_agentreplay.model.rules import MATCHED_HEADERS, RuleTable
from pytest_agentreplay.providers import READER, RULES, encode
from pytest_agentreplay.providers.rules import is_declared
from pytest_agentreplay.redaction.placeholders import DIGEST
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from tests.support.exchanges import JSON_TYPE, SSE_TYPE
from tests.traces.neutral import asks, text

pytestmark = pytest.mark.env("main", "legacy", "lowest")

MATCHING = Matching(READER, RULES)
HI = [{"role": "user", "content": "hi"}]


class Wire:
    """Captures what would go on the wire, and answers each request with the next of `replies`, again and again."""

    def __init__(self, sdk, *replies):
        self.calls: list[HttpCall] = []
        self.replies = replies
        self.http = httpx2 if issubclass(sdk.DefaultHttpxClient, httpx2.Client) else httpx
        make, base = (openai.OpenAI, "/v1") if sdk is openai else (anthropic.Anthropic, "")
        client = sdk.DefaultHttpxClient(transport=self.http.MockTransport(self))
        self.client = make(api_key="sk-test", base_url=f"http://127.0.0.1:8000{base}", http_client=client)

    def __call__(self, request):
        request.read()
        headers = tuple((name.decode(), value.decode()) for name, value in request.headers.raw)
        status, headers_back, body = self.replies[len(self.calls) % len(self.replies)]
        self.calls.append(HttpCall(request.method, str(request.url), headers, Body(request.content)))
        return self.http.Response(status, headers=dict(headers_back), content=body)


# ---- keys: what an SDK draws at random is declared, all else matches


ONCE_MORE = (500, (*JSON_TYPE, ("retry-after-ms", "1")), b'{"error": {"message": "once more"}}')
CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
OPENAI = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}
OPENAI |= {"data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}
ANTHROPIC = {"id": "m1", "type": "message", "role": "assistant", "model": "claude", "content": []}
ANTHROPIC |= {"usage": {"input_tokens": 1, "output_tokens": 1}}
OBJECT = {"type": "object", "properties": {}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": OBJECT}}
FLAT = {"type": "function", "name": "look", "strict": True}
FLAT |= {"parameters": OBJECT | {"additionalProperties": False, "required": []}}
CHAT = {"model": "gpt-5", "messages": HI}
STREAM = {"stream": True, "stream_options": {"include_usage": True}, "prompt_cache_key": "k"}
RESPONSE = {"model": "gpt-5", "instructions": "be kind", "input": HI, "tools": [FLAT], "previous_response_id": "resp_1"}
CLAUDE = {"model": "claude", "max_tokens": 10, "messages": HI}
CLAUDE_TOOLS = {"system": "be kind", "tools": [{"name": "look", "input_schema": {"type": "object"}}]}
CLAUDE_TOOLS |= {"extra_headers": {"anthropic-beta": "x-2025"}}
VOICE = ("a.wav", b"\x00\xff\x01")
DOES = {
    "chat": (openai, "openai_chat", lambda c: c.chat.completions.create(**CHAT, tools=[TOOL], temperature=0.2)),
    "chat stream": (openai, "openai_chat", lambda c: c.chat.completions.create(**CHAT, **STREAM).close()),
    "responses": (openai, "openai_responses", lambda c: c.responses.create(**RESPONSE)),
    "files": (openai, "", lambda c: c.files.create(file=("a.jsonl", b'{"a":1}\n'), purpose="batch")),
    "voice": (openai, "", lambda c: c.audio.transcriptions.create(file=VOICE, model="whisper-1", language="en")),
    "embeddings": (openai, "openai_embeddings", lambda c: c.embeddings.create(model="e", input=["a", "b"])),
    "listing": (openai, "", lambda c: c.files.list(limit=3, order="asc")),
    "messages": (anthropic, "anthropic", lambda c: c.messages.create(**CLAUDE, **CLAUDE_TOOLS)),
    "message stream": (anthropic, "anthropic", lambda c: c.messages.create(**CLAUDE, stream=True).close()),
}


def record(sdk, do):
    """The calls of an SDK whose first attempt is refused, so that it retries."""
    wire = Wire(sdk, ONCE_MORE, (200, JSON_TYPE, json.dumps(OPENAI if sdk is openai else ANTHROPIC).encode()))
    with wire.client:
        do(wire.client)
    return wire.calls


def keys(calls):
    ids = ClientIds()
    return [MATCHING.key(call, ids) for call in calls]


def elsewhere(call):
    """The call of another machine, with other versions and another key."""
    noisy = {"user-agent", "authorization", "x-api-key"}
    headers = tuple((name, "other/9" if name.lower() in noisy else value) for name, value in call.headers)
    return HttpCall(call.method, call.url.replace(":8000", ":9123"), headers, call.body)


@pytest.mark.parametrize("name", DOES)
def test_twice_the_same_keys_on_any_machine(name, monkeypatch):
    sdk, dialect, do = DOES[name]
    first = record(sdk, do)
    monkeypatch.setattr(sys, "version", "3.99 (elsewhere)")
    second = record(sdk, do)
    assert len(first) == 2, "one call and its retry"
    assert len({*keys(first)}) == 1, "a retry is the same call"
    assert keys(first) == keys(second) == keys([elsewhere(call) for call in second])
    table = RuleTable(RULES)
    sent = {header.lower() for call in first for header, _ in call.headers}
    undeclared = {header for header in sent - MATCHED_HEADERS if table.find_rule("header", header, "") is None}
    assert undeclared <= {"x-should-retry"}
    redaction = Redaction(Places({}), is_declared=is_declared)
    kept = [value for call in first for _, value in redaction.headers.redact_request(call.headers, call.url)]
    assert not [value for value in kept if value.startswith(DIGEST)]
    reading = READER.read_call(first[0])
    if dialect:
        body = json.loads(first[0].body.data)
        assert (reading.dialect, reading.model, reading.stream) == (dialect, body["model"], bool(body.get("stream")))
        assert reading.kind == ("embeddings" if name == "embeddings" else "model")


@pytest.mark.parametrize("name", DOES)
def test_every_change_of_a_request_is_seen_or_hidden_by_a_declared_rule(name):
    sdk, _, do = DOES[name]
    audited = KeyAudit(MATCHING, READER).audit(record(sdk, do))
    assert not audited.faults
    rules = {label.partition(" (reason")[0] for label in audited.hidden}
    assert rules <= {"rule openai_chat body $.prompt_cache_key", "rule http header content-type;boundary"}
    assert audited.seen >= 10


# ---- replies: what an SDK makes of a stream that we write is what the dialect reads in the same bytes


def chat(client):
    with client.chat.completions.stream(model="m", messages=HI) as events:
        final = events.get_final_completion().choices[0]
    uses = [(c.id, c.function.name, c.function.arguments) for c in final.message.tool_calls]
    return final.message.content, uses, final.finish_reason


def responses(client):
    with client.responses.stream(model="m", input="hi") as events:
        final = events.get_final_response()
    uses = [(item.call_id, item.name, item.arguments) for item in final.output if item.type == "function_call"]
    return final.output_text, uses, None


def messages(client):
    with client.messages.stream(model="m", max_tokens=9, messages=HI) as events:
        final = events.get_final_message()
    said = "".join(block.text for block in final.content if block.type == "text")
    return said, [(b.id, b.name, b.input) for b in final.content if b.type == "tool_use"], final.stop_reason


SPEAKERS = {"openai_chat": (openai, chat), "openai_responses": (openai, responses), "anthropic": (anthropic, messages)}
SAID = "Let me see, é 😀"
MESSAGE = asks(("toolu_look", "look", {"q": 1}), ("toolu_now", "now", {}), words=SAID) | {"finish_reason": ""}


@pytest.mark.parametrize("dialect", SPEAKERS)
def test_a_stream_that_is_written_is_read_the_same_by_the_sdk_and_by_the_dialect(dialect):
    sdk, ask = SPEAKERS[dialect]
    asked = encode.request(dialect, model="m", messages=(text("user", "hi"),), stream=True)
    body = encode.reply(asked, MESSAGE, model="m-1").body.data
    wire = Wire(sdk, (200, SSE_TYPE, body))
    with wire.client:
        said, uses, stopped = ask(wire.client)
    read = READER.read_reply(wire.calls[0], HttpReply(200, headers=SSE_TYPE, body=Body(body)))
    assert (read.text, [(use.id, use.name, use.arguments) for use in read.tool_uses]) == (said, uses)
    assert (said, [name for _, name, _ in uses]) == (SAID, ["look", "now"])
    assert stopped is None or read.finish_reasons == (stopped,)
