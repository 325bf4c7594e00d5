"""Streams are stored as events that people can read, and come back with every byte and cut."""

from __future__ import annotations

import json
import random

import pytest

from pytest_agentreplay.model.exchanges import Failure
from pytest_agentreplay.snapshots import codec
from tests.support.stored_runs import comes_back, longest_line, post, reply, run_of


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def chat(tokens, *, dump=compact, newline="\n"):
    kind = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763650000, "model": "gpt-5"}
    deltas = [({"role": "assistant", "content": ""}, None), *(({"content": t}, None) for t in tokens), ({}, "stop")]
    choices = ({"index": 0, "delta": delta, "logprobs": None, "finish_reason": end} for delta, end in deltas)
    said = [dump({**kind, "choices": [choice]}) for choice in choices]
    return "".join(f"data: {one}{newline * 2}" for one in [*said, "[DONE]"]).encode()


def named(*events):
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def anthropic(tokens):
    deltas = [{"index": 0, "delta": {"type": "text_delta", "text": t}} for t in tokens]
    message = {"id": "msg_1", "role": "assistant", "content": [], "usage": {"input_tokens": 9}}
    return named(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({"type": "content_block_delta", **delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )


def responses(tokens):
    rng, kind = random.Random(1), "response.output_text.delta"
    deltas = ({"delta": t, "sequence_number": n, "obfuscation": f"{rng.random():.9f}"} for n, t in enumerate(tokens))
    events = (compact({"type": kind, "item_id": "msg_1", **delta}) for delta in deltas)
    return "".join(f"event: {kind}\ndata: {event}\n\n" for event in events).encode()


def streamed(data, cuts=None, failure=None):
    """The body of a stream as it is stored, and the whole text."""
    told = reply(
        data, (len(data),) if cuts is None else cuts, failure=failure, headers=(("content-type", "text/event-stream"),)
    )
    text = comes_back(run_of((post(), told)))
    found = codec.loads(text, file="f").run.exchanges[0].outcome
    assert list(found.chunks()) == list(told.chunks())
    return json.loads(text)["exchanges"][0]["response"]["body"], text


TOKENS = ["Your", " order", " A-", "1001", " é", "\n\n", " 😀", "?", "\u2028", "\\", ' "quoted"', ""]


def test_tokens_of_a_stream_read_as_text():
    body, text = streamed(chat(TOKENS))
    first, row, stop, done = body["events"]
    assert row == ["e1", *TOKENS]
    assert done == {"data": "[DONE]"}
    assert stop["data"]["choices"][0]["finish_reason"] == "stop"
    assert first["data"]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert body["templates"]["e1"]["data"]["choices"][0]["delta"] == {"content": {"$hole": 0}}
    assert '"Your", " order", " A-", "1001"' in text


@pytest.mark.parametrize("make", [chat, anthropic, responses], ids=lambda f: f.__name__)
def test_200_tokens_stay_small(make):
    data = make([random.Random(n).choice(TOKENS[:4]) for n in range(200)])
    body, text = streamed(data, tuple(len(part) + 2 for part in data.split(b"\n\n")[:-1]))
    assert "templates" in body
    assert len(text) < len(data) / 2
    assert len(text.splitlines()) < 320
    assert longest_line(text) <= 120


def test_events_keep_their_names_and_several_values_of_one_event_are_a_list():
    body, _ = streamed(anthropic(TOKENS))
    assert body["style"] == "pa"
    assert body["events"][2] == {"event": "ping", "data": {"type": "ping"}}
    assert body["templates"]["e1"]["event"] == "content_block_delta"
    body, _ = streamed(responses(["a", "b", "c"]))
    assert [row[:2] for row in body["events"][0][1:]] == [["a", 0], ["b", 1], ["c", 2]]


def test_cuts_fall_through_the_middle_of_a_character_of_a_line_end_and_of_an_event():
    data = chat(TOKENS, newline="\r\n")
    for size in (1, 2, 3, 7, 64, 1000):
        whole, rest = divmod(len(data), size)
        streamed(data, (size,) * whole + ((rest,) if rest else ()))


ODD = {
    "CRLF": chat(TOKENS, newline="\r\n"),
    "mixed line ends": chat(["a", "b", "c"]) + chat(["d"], newline="\r\n"),
    "default separators": chat(TOKENS, dump=json.dumps),
    "half an event": chat(TOKENS)[:-40],
    "half a character": chat(["é"] * 4).partition(b"\xc3")[0] + b"\xc3",
    "comments": b": ping\n\n" * 5 + chat(["a"]),
    "no space": b'data:{"a":1}\n\ndata:{"a":2}\n\n',
    "several data lines": b"data: one\ndata: two\n\n" + chat(["a", "b"]),
    "odd numbers": b'data: {"a":1E+2}\n\ndata: {"a":-0}\n\ndata: {"a":1.0}\n\n',
    "bad json": b'data: {"a":\n\ndata: [1\n\n',
    "deep": b'data: {"a":' + b"[" * 70 + b"]" * 70 + b"}\n\n",
    "surrogates": b'data: {"t":"\\ud83d"}\n\n' * 4,
    "surrogate key": b'data: {"\\ud83d":1}\n\n' * 4,
    "dollars": b'data: {"$text":["a"],"$hole":0,"$$":"$"}\n\ndata: {"$text":["b"],"$hole":1,"$$":"$"}\n\n' * 3,
    "no shape": b"id: 1\nretry: 5\nevent: x\n\n",
    "many holes": "".join(f"data: {compact([n + k for k in range(9)])}\n\n" for n in range(9)).encode(),
    "other kinds": b'data: {"a":1}\n\ndata: {"a":true}\n\ndata: {"a":1.5}\n\ndata: {"a":null}\n\n' * 3,
    "long tokens": "".join(f"data: {compact({'t': 'word ' * 60 + str(n)})}\n\n" for n in range(5)).encode(),
    "three newlines": b"data: a\n\n\ndata: b\n\n\n\n",
    "no events": b"one\n\ntwo\n\nthree",
    "blank": b"\n\n",
}


def test_odd_streams_come_back():
    for data in ODD.values():
        streamed(data)


def test_a_broken_stream_keeps_what_came_and_what_broke_it():
    data = chat(TOKENS)[:-33]
    reset = Failure("httpx2.ReadError", "reset", bases=("builtins.Exception",))
    body, _ = streamed(data, (100, len(data) - 100), reset)
    assert body["rest"]["$text"][0][0].startswith("data: {")
