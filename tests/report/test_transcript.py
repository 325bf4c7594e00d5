"""A run as text: what it shows, what it leaves out, and that one behaviour gives one text."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.report.transcript import show, transcript

JSON = (("content-type", "application/json"),)


def reply(body, status=200, reason="OK"):
    data = json.dumps(body).encode()
    return HttpReply(status, reason, headers=JSON, body=Body(data), cuts=(len(data),))


def chat(messages, **fields):
    body = {"model": "gpt-5", "messages": messages, **fields}
    return HttpCall("POST", "https://api.openai.com/v1/chat/completions", JSON, Body(json.dumps(body).encode()))


def says(text=None, *uses, run="a"):
    message = {"role": "assistant", "content": text}
    if uses:
        message["tool_calls"] = [
            {"id": f"call_{run}{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(uses)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if uses else "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return message, reply({"id": f"chatcmpl-{run}", "model": "gpt-5", "choices": [choice], "usage": usage})


SYSTEM = {"role": "system", "content": "You are a shop.\nBe brief."}
USER = {"role": "user", "content": "Where is\nmy order?"}
TOOLS = [{"type": "function", "function": {"name": "lookup_order", "parameters": {"type": "object"}}}]


def sequence(*pairs):
    return Run(
        Header("tests/test_shop.py::test_order"),
        tuple(Exchange(call, outcome, 2 * n, 2 * n + 1) for n, (call, outcome) in enumerate(pairs)),
    )


def order_run(run="a", status="shipped"):
    asked, first = says(None, ("lookup_order", {"order_id": 7}), run=run)
    told = {"role": "tool", "tool_call_id": f"call_{run}0", "content": json.dumps({"status": status})}
    _, last = says("It has shipped.", run=run)
    return sequence(
        (chat([SYSTEM, USER], tools=TOOLS, temperature=0, user=f"user-{run}"), first),
        (ToolCall("lookup_order", {"order_id": 7}), ToolReply({"status": status})),
        (chat([SYSTEM, USER, asked, told], tools=TOOLS, temperature=0, user=f"user-{run}"), last),
    )


GOLDEN = """\
turn 1  gpt-5
  system: You are a shop.
    Be brief.
  tools: lookup_order
  temperature: 0
  user: Where is
    my order?
  asks for lookup_order({"order_id": 7})
  stops: tool_calls
  tokens: input_tokens 10, output_tokens 2
  ran lookup_order({"order_id":7})
    {"status":"shipped"}

turn 2  gpt-5
  tool result lookup_order: {"status": "shipped"}
  answers: It has shipped.
  stops: stop
  tokens: input_tokens 10, output_tokens 2
"""


def test_a_run_reads_turn_by_turn():
    assert transcript(order_run(), READER) == GOLDEN


def test_ids_times_and_header_leave_no_trace():
    other = order_run(run="zz")
    other = replace(
        other,
        header=replace(other.header, recorded="2026-11-20T10:00:00Z", clock=5, seed=9),
        exchanges=tuple(replace(x, timing=Timing(1, 2, 99 + x.start)) for x in other.exchanges),
    )
    assert transcript(other, READER) == GOLDEN


def test_one_other_result_changes_its_lines_alone():
    before, after = GOLDEN.splitlines(), transcript(order_run(status="lost"), READER).splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        ('    {"status":"shipped"}', '    {"status":"lost"}'),
        ('  tool result lookup_order: {"status": "shipped"}', '  tool result lookup_order: {"status": "lost"}'),
    ]


def test_an_empty_run():
    assert transcript(Run(Header("t")), READER) == "(nothing crossed a boundary)\n"


def test_parallel_tools_read_alike_in_whatever_order_they_began():
    asked, first = says(None, ("a", {"n": 1}), ("b", {}))
    del asked

    def run(*names):
        calls = [
            Exchange(
                ToolCall(name, {"n": 1} if name == "a" else {}), ToolReply(name), 2 + n, 9 - n, lane=f"main.{n + 1}"
            )
            for n, name in enumerate(names)
        ]
        return Run(Header("t"), (Exchange(chat([USER]), first, 0, 1), *calls))

    assert transcript(run("a", "b"), READER) == transcript(run("b", "a"), READER)


def test_tools_one_after_the_other_keep_their_order():
    one, two = (ToolCall("a"), ToolReply(1)), (ToolCall("b"), ToolReply(2))
    assert transcript(sequence(one, two), READER) != transcript(sequence(two, one), READER)


def test_lanes_beside_the_first_stand_in_order_of_their_texts():
    _, hello = says("hello")

    def lanes(*texts):
        beside = [
            Exchange(chat([{"role": "user", "content": text}]), hello, 2 + n, 9 + n, lane=f"main.{n + 1}")
            for n, text in enumerate(texts)
        ]
        return Run(Header("t"), (Exchange(chat([USER]), hello, 0, 1), *beside))

    text = transcript(lanes("north", "south"), READER)
    assert text == transcript(lanes("south", "north"), READER)
    assert "turn 1  gpt-5  lane 2\n" in text
    assert "turn 1  gpt-5  lane 3\n" in text


def test_images_are_named_and_not_spelt_out():
    data = base64.b64encode(bytes(range(256)) * 1600).decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    _, hello = says("a cat")
    call = chat([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}])
    run = sequence((call, hello), (ToolCall("scan"), ToolReply({"page": data})))
    text = transcript(run, READER)
    assert "<image/png 409.6 kB sha256:" in text
    assert max(map(len, text.splitlines())) < 200


def test_a_rewritten_history_is_said():
    _, hello = says("hi")
    messages = [{"role": "user", "content": str(n)} for n in range(4)]
    run = sequence((chat(messages), hello), (chat([messages[0], messages[3]]), hello))
    assert "history: 3 of 4 messages were rewritten or left out" in transcript(run, READER)


def test_failures_retries_and_ends():
    _, hello = says("hi")
    call = chat([USER])
    busy = reply({"error": {"message": "slow down", "type": "rate_limit"}}, 429, "Too Many Requests")
    run = Run(
        Header("t"),
        (
            Exchange(ToolCall("first"), Failure("builtins.KeyError", "7"), 0, 1),
            Exchange(call, busy, 2, 3),
            Exchange(call, hello, 4, 5, attempt=2),
            Exchange(ToolCall("pages"), ToolReply(items=(1, "two"), closed=True), 6, 7),
            Exchange(HttpCall("GET", "https://api.example.com/rates"), HttpReply(204, "No Content"), 8, 9),
            Exchange(chat([USER]), Failure("httpx.ReadTimeout", "too slow"), 10, 11),
            Exchange(ToolCall("last"), None, 12, None),
        ),
    )
    lines = [line.strip() for line in transcript(run, READER).splitlines()]
    for line in (
        "turn 0  before the first model call",
        "raised KeyError: 7",
        "tried gpt-5",
        "status 429 Too Many Requests",
        "- 1",
        "(the agent stopped reading here)",
        "GET api.example.com/rates",
        "status 204 No Content",
        "raised ReadTimeout: too slow",
        "did not end",
    ):
        assert line in lines or any(it.startswith(line) for it in lines), line


@pytest.mark.parametrize("evil", ["\x1b[2Jgone", "a\u202eb", "\ud800", "a\rb", "x\x00y", "\x9b31m"])
def test_nothing_that_a_terminal_would_obey(evil):
    _, hello = says(evil, (f"tool{evil}", {"x": evil}))
    call = chat([{"role": evil, "content": evil}], tools=[{"type": "function", "function": {"name": evil}}])
    run = replace(
        sequence((call, hello), (ToolCall(evil, {evil: evil}), ToolReply(evil)), (ToolCall("t"), Failure(evil, evil))),
        header=Header(evil, recorded=evil),
    )
    for text in (transcript(run, READER), show(run, READER)):
        text.encode()
        assert not set(text) & set("\x1b\u202e\r\x00\x9b")


def test_a_transcript_survives_being_read_line_by_line():
    """What a text file gives back is what was written: no carriage return or odd line separator inside a line."""
    _, hello = says("a\r\nb\x0bc\u2028d\x85e")
    text = transcript(sequence((chat([USER]), hello)), READER)
    assert text.splitlines() == text.removesuffix("\n").split("\n")


def test_anthropic_reads_alike():
    body = {
        "model": "claude",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "hi"}],
    }
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"n": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    again = [
        *body["messages"],
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "seven"}]},
    ]

    def call(body):
        return HttpCall("POST", "https://api.anthropic.com/v1/messages", JSON, Body(json.dumps(body).encode()))

    run = sequence((call(body), reply(answer)), (call({**body, "messages": again}), reply(answer)))
    text = transcript(run, READER)
    assert "toolu_1" not in text
    assert "  system: Be brief.\n" in text
    assert '  answers: Looking.\n  asks for look({"n":1})\n' in text
    assert "  tool result look: seven\n" in text
    assert text.count("Looking.") == 2


def test_responses_read_alike():
    items = [{"role": "user", "content": "hi"}]
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "look",
            "arguments": '{"n":1}',
            "status": "completed",
        },
    ]
    answer = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5", "output": output}

    def call(items):
        body = {"model": "gpt-5", "input": items, "instructions": "Be brief."}
        return HttpCall("POST", "https://api.openai.com/v1/responses", JSON, Body(json.dumps(body).encode()))

    again = [*items, *output, {"type": "function_call_output", "call_id": "call_1", "output": "seven"}]
    text = transcript(sequence((call(items), reply(answer)), (call(again), reply(answer))), READER)
    for identity in ("rs_1", "msg_1", "fc_1", "call_1", "resp_1", "gAAA"):
        assert identity not in text
    assert "  tool result look: seven\n" in text
    assert text.count("Looking.") == 2


def test_show_numbers_exchanges_and_says_how_long_they_took():
    run = order_run()
    run = replace(
        run,
        header=Header(
            run.header.test,
            recorded="2026-11-20T10:00:00Z",
            outcome={"status": "failed", "type": "AssertionError", "message": "no refund"},
            kit={
                "models": [{"provider": "openai", "model": "gpt-5", "served": "gpt-5-2026"}, 7, {"served": []}],
                "packages": {"openai": "3.52"},
            },
        ),
        exchanges=tuple(replace(x, timing=Timing(0, 1, 12_000_000 * (x.start + 1))) for x in run.exchanges),
    )
    text = show(run, READER)
    assert text.partition("\n\n")[0].splitlines() == [
        "test: tests/test_shop.py::test_order",
        "recorded: 2026-11-20T10:00:00Z",
        "outcome: failed AssertionError: no refund",
        "model: openai gpt-5 (served by gpt-5-2026)",
        'model: ""',
        "packages: openai 3.52",
        "exchanges: 3",
    ]
    assert "turn 1  gpt-5   #1  12 ms\n" in text
    assert 'ran lookup_order({"order_id":7})   #2  36 ms\n' in text


def test_show_spells_out_what_ran_inside_a_tool():
    run = Run(
        Header("t"),
        (
            Exchange(ToolCall("study"), ToolReply("done"), 0, 5),
            Exchange(ToolCall("search"), ToolReply(1), 1, 2, lane="main.1", parent=0, attempt=2),
        ),
    )
    assert "  ran search()   #2  no end  attempt 2  main.1\n" in show(run, READER)
    assert "search" not in transcript(run, READER)


def test_show_one_turn_at_a_width():
    text = show(order_run(), READER, turn=2, width=30)
    assert text.startswith("turn 2  gpt-5")
    assert "turn 1" not in text
    assert max(map(len, text.splitlines())) == 30
    with pytest.raises(LookupError, match="the turns of this run: 1, 2"):
        show(order_run(), READER, turn=9)


KEYS = st.sampled_from(
    ["role", "content", "type", "text", "tool_calls", "tool_call_id", "function", "name", "arguments", "id", "input"]
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "system", "text", "tool_use", "tool_result", "reasoning", "{", ""]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(messages=st.lists(TREES, max_size=4), tools=TREES, value=TREES)
def test_whatever_was_sent_can_be_read(messages, tools, value):
    _, hello = says("hi", ("look", value))
    calls = [chat(messages[:n], tools=tools, stop=value) for n in range(len(messages) + 1)]
    run = sequence(*((call, hello) for call in calls), (ToolCall("t", {"x": value}), ToolReply(value)))
    for text in (transcript(run, READER), show(run, READER)):
        assert text.endswith("\n")
        assert text.splitlines() == text.removesuffix("\n").split("\n")
