"""Streams are stored as events that people can read, and come back with every byte and cut."""

from __future__ import annotations

import json
import random

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.core.model import Body, Exchange, Failure, Header, HttpCall, HttpReply, Run


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def chat(tokens: list[str], *, dump=compact, newline: str = "\n") -> bytes:
    def chunk(delta: dict, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        whole = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1763650000,
            "model": "gpt-5",
            "choices": [choice],
        }
        return f"data: {dump(whole)}{newline * 2}"

    first = chunk({"role": "assistant", "content": ""})
    return (
        first + "".join(chunk({"content": t}) for t in tokens) + chunk({}, "stop") + f"data: [DONE]{newline * 2}"
    ).encode()


def anthropic(tokens: list[str]) -> bytes:
    def event(name: str, **rest: object) -> str:
        return f"event: {name}\ndata: {json.dumps({'type': name, **rest})}\n\n"

    start = event(
        "message_start", message={"id": "msg_1", "role": "assistant", "content": [], "usage": {"input_tokens": 9}}
    )
    begin = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    ping = event("ping")
    deltas = [event("content_block_delta", index=0, delta={"type": "text_delta", "text": t}) for t in tokens]
    end = (
        event("content_block_stop", index=0)
        + event("message_delta", delta={"stop_reason": "end_turn"})
        + event("message_stop")
    )
    return (start + begin + ping + "".join(deltas) + end).encode()


def responses(tokens: list[str]) -> bytes:
    rng = random.Random(1)
    return "".join(
        "event: response.output_text.delta\ndata: "
        + compact(
            {
                "type": "response.output_text.delta",
                "item_id": "msg_1",
                "delta": t,
                "sequence_number": n,
                "obfuscation": f"{rng.random():.9f}",
            }
        )
        + "\n\n"
        for n, t in enumerate(tokens)
    ).encode()


def streamed(data: bytes, cuts: tuple[int, ...] | None = None, failure: Failure | None = None) -> tuple[dict, str]:
    headers = (("content-type", "text/event-stream"),)
    cuts = (len(data),) if cuts is None else cuts
    reply = HttpReply(200, headers=headers, body=Body(data), cuts=cuts, failure=failure)
    run = Run(Header("t"), (Exchange(HttpCall("POST", "http://a/"), reply, 1, 2),))
    text = codec.dumps(run)
    found = codec.loads(text.encode(), file="f").run
    assert found == run
    assert found.exchanges[0].outcome.body.data == data
    assert list(found.exchanges[0].outcome.chunks()) == list(reply.chunks())
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
    tokens = [random.Random(n).choice(TOKENS[:4]) for n in range(200)]
    data = make(tokens)
    cuts = tuple(len(part) + 2 for part in data.split(b"\n\n")[:-1])
    body, text = streamed(data, cuts)
    assert "templates" in body
    assert len(text) < len(data) / 2
    assert len(text.splitlines()) < 320
    assert max(map(len, text.splitlines())) <= 120


def test_events_of_anthropic_keep_their_names():
    body, _ = streamed(anthropic(TOKENS))
    assert body["style"] == "pa"
    assert body["events"][2] == {"event": "ping", "data": {"type": "ping"}}
    assert body["templates"]["e1"]["event"] == "content_block_delta"


def test_several_values_of_one_event_are_a_list():
    body, _ = streamed(responses(["a", "b", "c"]))
    assert [row[:2] for row in body["events"][0][1:]] == [["a", 0], ["b", 1], ["c", 2]]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_cuts_fall_anywhere(size):
    """Through the middle of a character, of a line end, of an event."""
    data = chat(TOKENS, newline="\r\n")
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


@pytest.mark.parametrize("name", ODD)
def test_odd_streams_come_back(name):
    streamed(ODD[name])


def test_a_broken_stream_keeps_what_came_and_what_broke_it():
    data = chat(TOKENS)[:-33]
    body, _ = streamed(
        data, (100, len(data) - 100), Failure("httpx2.ReadError", "reset", bases=("builtins.Exception",))
    )
    assert body["rest"]["$text"][0][0].startswith("data: {")
