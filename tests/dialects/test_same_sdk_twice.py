"""Each SDK recorded twice against one server gives equal keys: what it draws at random is declared, all else matches."""

from __future__ import annotations

import json
import sys

import anthropic
import httpx
import httpx2
import openai
import pytest

from pytest_agentreplay.core.matching import ClientIds, Matching
from pytest_agentreplay.core.model import Body, HttpCall
from pytest_agentreplay.dialects import READER, RULES

pytestmark = pytest.mark.env("main", "legacy", "lowest")

MATCHING = Matching(READER, RULES)

TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}
FLAT_TOOL = {
    "type": "function",
    "name": "look",
    "strict": True,
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False, "required": []},
}


class Server:
    """Captures what would go on the wire; every first attempt is refused, so that the SDK retries."""

    def __init__(self, reply, http):
        self.calls: list[HttpCall] = []
        self.raw: list[list[tuple[str, str]]] = []
        self.reply, self.http = reply, http

    def __call__(self, request):
        request.read()
        headers = [(k.decode(), v.decode()) for k, v in request.headers.raw]
        self.raw.append(headers)
        self.calls.append(HttpCall(request.method, str(request.url), tuple(headers), Body(request.content)))
        if len(self.calls) % 2:
            return self.http.Response(500, headers={"retry-after-ms": "1"}, json={"error": {"message": "once more"}})
        return self.http.Response(200, json=self.reply)


CHAT_REPLY = {
    "id": "c1",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
}


def chat(client):
    client.chat.completions.create(
        model="gpt-5", messages=[{"role": "user", "content": "hi"}], tools=[TOOL], temperature=0.2
    )


def chat_stream(client):
    client.chat.completions.create(
        model="gpt-5",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
        prompt_cache_key="k",
    ).close()


def responses(client):
    client.responses.create(
        model="gpt-5",
        instructions="be kind",
        input=[{"role": "user", "content": "hi"}],
        tools=[FLAT_TOOL],
        previous_response_id="resp_1",
    )


def files(client):
    client.files.create(file=("a.jsonl", b'{"a":1}\n'), purpose="batch")


def transcription(client):
    client.audio.transcriptions.create(file=("a.wav", b"\x00\xff\x01"), model="whisper-1", language="en")


def embeddings(client):
    client.embeddings.create(model="e", input=["a", "b"])


def listing(client):
    client.files.list(limit=3, order="asc")


def messages(client):
    client.messages.create(
        model="claude",
        max_tokens=10,
        system="be kind",
        messages=[{"role": "user", "content": "hi"}],
        tools=[{"name": "look", "input_schema": {"type": "object"}}],
        extra_headers={"anthropic-beta": "x-2025"},
    )


def message_stream(client):
    client.messages.create(
        model="claude", max_tokens=10, messages=[{"role": "user", "content": "hi"}], stream=True
    ).close()


def openai_calls(do):
    http = (
        httpx2
        if "httpx2" in {base.__module__.partition(".")[0] for base in openai.DefaultHttpxClient.__mro__}
        else httpx
    )
    server = Server(CHAT_REPLY, http)
    transport = http.MockTransport(server)
    client = openai.OpenAI(
        api_key="sk-test",
        base_url="http://127.0.0.1:8000/v1",
        http_client=openai.DefaultHttpxClient(transport=transport),
    )
    with client:
        do(client)
    return server


def anthropic_calls(do):
    http = (
        httpx2
        if "httpx2" in {base.__module__.partition(".")[0] for base in anthropic.DefaultHttpxClient.__mro__}
        else httpx
    )
    server = Server(
        {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        http,
    )
    transport = http.MockTransport(server)
    client = anthropic.Anthropic(
        api_key="sk-test",
        base_url="http://127.0.0.1:8000",
        http_client=anthropic.DefaultHttpxClient(transport=transport),
    )
    with client:
        do(client)
    return server


def keys(calls):
    ids = ClientIds()
    return [MATCHING.key(call, ids) for call in calls]


RUNS = [
    *((openai_calls, do) for do in (chat, chat_stream, responses, files, transcription, embeddings, listing)),
    *((anthropic_calls, do) for do in (messages, message_stream)),
]


@pytest.mark.parametrize(("record", "do"), RUNS, ids=[do.__name__ for _, do in RUNS])
def test_twice_the_same_keys(record, do):
    first, second = record(do), record(do)
    assert len(first.calls) == 2, "one call and its retry"
    assert keys(first.calls) == keys(second.calls)
    assert len(set(keys(first.calls))) == 1, "a retry is the same call"


@pytest.mark.parametrize(("record", "do"), RUNS, ids=[do.__name__ for _, do in RUNS])
def test_every_header_that_an_sdk_sends_matches_or_is_declared(record, do):
    from pytest_agentreplay.core.rules import MATCHED_HEADERS, RuleTable

    table = RuleTable(RULES)
    sent = {name.lower() for headers in record(do).raw for name, _ in headers}
    assert {name for name in sent - MATCHED_HEADERS if table.named("header", name, "") is None} <= {"x-should-retry"}


@pytest.mark.parametrize(("record", "do"), RUNS, ids=[do.__name__ for _, do in RUNS])
def test_another_machine_with_other_versions_gives_the_same_keys(record, do, monkeypatch):
    first = record(do)
    monkeypatch.setattr(sys, "version", "3.99 (elsewhere)")
    second = record(do)
    noisy = [
        HttpCall(
            c.method,
            c.url.replace(":8000", ":9123"),
            tuple(
                (k, "other/9" if k.lower() in {"user-agent", "authorization", "x-api-key"} else v) for k, v in c.headers
            ),
            c.body,
        )
        for c in second.calls
    ]
    assert keys(first.calls) == keys(noisy)


def test_uploads_draw_another_boundary_each_time():
    bodies = {call.body.data for server in (openai_calls(files), openai_calls(files)) for call in server.calls}
    assert len(bodies) > 1, "else this test shows nothing"


def test_a_changed_upload_is_another_call():
    def other(client):
        client.files.create(file=("a.jsonl", b'{"a":2}\n'), purpose="batch")

    assert keys(openai_calls(files).calls) != keys(openai_calls(other).calls)


@pytest.mark.parametrize(
    ("record", "do", "dialect"),
    [
        (openai_calls, chat, "openai_chat"),
        (openai_calls, chat_stream, "openai_chat"),
        (openai_calls, responses, "openai_responses"),
        (anthropic_calls, messages, "anthropic"),
        (anthropic_calls, message_stream, "anthropic"),
        (openai_calls, embeddings, "openai_embeddings"),
    ],
)
def test_the_dialect_is_known_behind_a_loopback_address(record, do, dialect):
    call = record(do).calls[0]
    reading = READER.read_call(call)
    assert reading.dialect == dialect
    sent = json.loads(call.body.data)
    if dialect != "generic":
        assert reading.kind == ("embeddings" if do is embeddings else "model")
        assert reading.model == sent["model"]
        assert reading.stream is bool(sent.get("stream"))
