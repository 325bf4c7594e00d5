"""A run as text: what it shows, what it leaves out, and that one behaviour gives one text."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import (
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
from pytest_agentreplay.report.run_view import format_run
from pytest_agentreplay.report.terminal import open_console, render
from pytest_agentreplay.report.transcript import list_edit_notes, write_textconv, write_transcript
from pytest_agentreplay.snapshots.codec import Snapshot
from tests.support import exchanges
from tests.support.chat_runs import ask, message_of, result_of, run, say
from tests.support.tables import words

SYSTEM = {"role": "system", "content": "You are a shop.\nBe brief."}
USER = {"role": "user", "content": "Where is\nmy order?"}
TOOLS = [{"type": "function", "function": {"name": "lookup_order", "parameters": {"type": "object"}}}]
HELLO = say("hello")


def show_run(run, turn=None, width=80):
    """What `agentreplay show` prints, in so many columns."""
    console = open_console(width=width)
    return render(console, *format_run(run, console, turn))


def order_run(name="a", status="shipped", **header):
    fields = {"tools": TOOLS, "temperature": 0, "user": f"user-{name}"}
    result, first = {"status": status}, say(None, ("lookup_order", {"order_id": 7}), run=name)
    told = result_of(f"call_{name}0", json.dumps(result))
    made = run(
        (ask(SYSTEM, USER, **fields), first),
        (ToolCall("lookup_order", {"order_id": 7}), ToolReply(result)),
        (ask(SYSTEM, USER, message_of(first), told, **fields), say("It has shipped.")),
    )
    return replace(made, header=replace(made.header, test="tests/test_shop.py::test_order", **header))


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


def test_a_run_reads_turn_by_turn_and_another_result_changes_its_lines_alone_ids_and_times_none():
    assert write_transcript(order_run()) == GOLDEN
    other = order_run("zz", recorded="2026-11-20T10:00:00Z", clock=5, seed=9)
    other = replace(other, exchanges=tuple(replace(x, timing=Timing(1, 2, 99 + x.start)) for x in other.exchanges))
    assert write_transcript(other) == GOLDEN
    assert write_transcript(Run(Header("t"))) == "(no call was intercepted)\n"
    lost = write_transcript(order_run(status="lost"))
    assert [pair for pair in zip(GOLDEN.splitlines(), lost.splitlines(), strict=True) if pair[0] != pair[1]] == [
        ('    {"status":"shipped"}', '    {"status":"lost"}'),
        ('  tool result lookup_order: {"status": "shipped"}', '  tool result lookup_order: {"status": "lost"}'),
    ]


def beside(*pairs):
    """A turn, and these calls after it, in lanes of their own that end in the opposite order."""
    asked = Exchange(ask(USER), say(None, ("a", {"n": 1}), ("b", {})), 0, 1)
    lanes = (Exchange(*pair, 2 + n, 9 - n, lane=f"main.{n + 1}") for n, pair in enumerate(pairs))
    return write_transcript(Run(Header("t"), (asked, *lanes)))


def test_what_ran_in_parallel_reads_alike_in_whatever_order_it_began():
    one, two = (ToolCall("a", {"n": 1}), ToolReply("a")), (ToolCall("b"), ToolReply("b"))
    assert beside(one, two) == beside(two, one)
    assert write_transcript(run(one, two)) != write_transcript(run(two, one)), "one after the other"
    north, south = ((ask({"role": "user", "content": text}), HELLO) for text in ("north", "south"))
    assert beside(north, south) == beside(south, north)
    assert "turn 1  gpt-5  lane 2\n" in beside(north, south)
    assert "turn 1  gpt-5  lane 3\n" in beside(north, south)


def test_images_are_named_and_not_spelt_out():
    data = base64.b64encode(bytes(range(256)) * 1600).decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    asked = ask({"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]})
    text = write_transcript(run((asked, HELLO), (ToolCall("scan"), ToolReply({"page": data}))))
    assert "<image/png 409.6 kB sha256:" in text
    assert max(map(len, text.splitlines())) < 200


def test_a_rewritten_history_is_said():
    messages = [{"role": "user", "content": str(n)} for n in range(4)]
    text = write_transcript(run((ask(*messages), HELLO), (ask(messages[0], messages[3]), HELLO)))
    assert "history: 3 of 4 messages were rewritten or left out" in text


def test_a_child_process_rewrites_nothing_of_its_tests_conversation_and_may_go_on_with_it():
    system, first = {"role": "system", "content": "Be kind."}, {"role": "user", "content": "first"}
    own = {"role": "user", "content": "the child's own question"}
    turns_of = [[system, first], [system, own], [system, first, own], [system, first, own, first]]
    calls, kit = [(ask(*said), HELLO) for said in turns_of], {"order": {"apart": ["main.p1", "main.j1"]}}
    told = write_transcript(run(*calls, lanes={1: "main.p1.2", 3: "main.j1"}, kit=kit))
    assert "history" not in told
    child, parent, job = told.split("\n\n")[1:4]
    assert ("system: Be kind." in child, "user: the child's own question" in child) == (True, True)
    assert ("system" in parent, "user: first" in parent) == (False, False), "it goes on with its own conversation"
    assert ("system" in job, job.count("user: ")) == (False, 1), "a job goes on with that of its test"


def test_failures_retries_and_ends_are_told():
    busy = exchanges.reply({"error": {"message": "slow down"}}, status=429, reason="Too Many Requests")
    told = run(
        (ToolCall("first"), Failure("builtins.KeyError", "7")),
        (ask(), busy),
        (ask(), HELLO),
        (ToolCall("pages"), ToolReply(items=(1, "two"), closed=True)),
        (HttpCall("GET", "https://api.example.com/rates"), HttpReply(204, "No Content")),
        (ask(), Failure("httpx.ReadTimeout", "too slow")),
        (ToolCall("last"), None),
    )
    made = list(told.exchanges)
    made[2], made[6] = replace(made[2], attempt=2), replace(made[6], finish=None)
    told = replace(told, exchanges=tuple(made))
    lines = [line.strip() for line in write_transcript(told).splitlines()]
    for said in (
        *("turn 0  before the first model call", "raised KeyError: 7", "tried gpt-5", "status 429 Too Many Requests"),
        *("- 1", "(the agent stopped reading here)", "GET api.example.com/rates", "status 204 No Content"),
        *("raised ReadTimeout: too slow", "did not end"),
    ):
        assert any(line.startswith(said) for line in lines), said


@pytest.mark.parametrize(
    "evil", ["\x1b[2Jgone", "a\u202eb", "\ud800", "a\rb", "x\x00y", "\x9b31m", "b\x0bc\u2028d\x85e"]
)
def test_nothing_acts_on_a_terminal_and_each_line_is_one(evil):
    call = ask({"role": evil, "content": evil}, tools=[{"type": "function", "function": {"name": evil}}])
    called = (ToolCall(evil, {evil: evil}), ToolReply(evil)), (ToolCall("t"), Failure(evil, evil))
    told = run((call, say(evil, (f"tool{evil}", {"x": evil}))), *called)
    readable(replace(told, header=Header(evil, recorded=evil)))


def readable(told):
    """Both texts of a run can be written, and read line by line."""
    for text in (write_transcript(told), show_run(told)):
        text.encode()
        assert not set(text) & set("\x1b\u202e\r\x00\x9b")
        assert text.endswith("\n")
        assert text.splitlines() == text.removesuffix("\n").split("\n")


def twice(url, answer, *bodies):
    """A run of two requests to which the same answer came, as text."""
    return write_transcript(run(*((exchanges.call(body, url), exchanges.reply(answer)) for body in bodies)))


def test_other_dialects_read_alike_and_what_a_request_sends_again_is_not_told_twice():
    hi = {"role": "user", "content": "hi"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"n": 1}}
    blocks = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Looking."}, use]
    seven = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "seven"}]}
    body = {"model": "claude", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}]}
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": blocks}
    again = [hi, {"role": "assistant", "content": blocks}, seven]
    url = "https://api.anthropic.com/v1/messages"
    claude = twice(url, answer, *({**body, "messages": messages} for messages in ([hi], again)))
    assert '  user: hi\n  answers: Looking.\n  asks for look({"n":1})\n' in claude
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking."}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"n":1}'},
    ]
    answer = {"id": "resp_1", "object": "response", "model": "gpt-5", "output": output}
    again = [hi, *output, {"type": "function_call_output", "call_id": "call_1", "output": "seven"}]
    url = "https://api.openai.com/v1/responses"
    gpt = twice(url, answer, *({"model": "gpt-5", "input": items} for items in ([hi], again)))
    for text in (claude, gpt):
        assert not [one for one in ("toolu_1", "rs_1", "msg_1", "fc_1", "call_1", "resp_1", "gAAA") if one in text]
        assert "  tool result look: seven\n" in text
        assert text.count("Looking.") == 2


def test_show_numbers_exchanges_and_says_how_long_they_took():
    models = [{"provider": "openai", "model": "gpt-5", "served": "gpt-5-2026"}, 7, {"served": []}]
    outcome = {"status": "failed", "type": "AssertionError", "message": "no refund"}
    kit = {"models": models, "packages": {"openai": "3.52"}}
    told = order_run(recorded="2026-11-20T10:00:00Z", outcome=outcome, kit=kit)
    timed = (replace(x, timing=Timing(0, 1, 12_000_000 * (x.start + 1))) for x in told.exchanges)
    text = show_run(replace(told, exchanges=tuple(timed)))
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


def test_show_alone_spells_out_what_ran_inside_a_tool():
    outer, inner = (ToolCall("study"), ToolReply("done")), (ToolCall("search"), ToolReply(1))
    inside = Exchange(*inner, 1, 2, lane="main.1", parent=0, attempt=2)
    told = Run(Header("t"), (Exchange(*outer, 0, 5), inside))
    assert "  ran search()   #2  no end  attempt 2  main.1\n" in show_run(told)
    assert "search" not in write_transcript(told)


def test_show_one_turn_at_a_width():
    text = show_run(order_run(), turn=2, width=30)
    assert text.startswith("turn 2  gpt-5")
    assert "turn 1" not in text
    assert max(map(len, text.splitlines())) <= 30
    with pytest.raises(LookupError, match="there is no turn 9; it has 1 to 2"):
        show_run(order_run(), turn=9)


KEYS = st.sampled_from(sorted(words("role content type text tool_calls tool_call_id function name arguments id input")))
WORDS = st.sampled_from(["", *sorted(words("user assistant tool system text tool_use tool_result reasoning {"))])
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(messages=st.lists(TREES, min_size=1, max_size=4), tools=TREES, value=TREES)
def test_whatever_was_sent_can_be_read(messages, tools, value):
    calls = [
        exchanges.call({"messages": messages[:n], "tools": tools, "stop": value}) for n in range(len(messages) + 1)
    ]
    hello = say("hi", ("look", value))
    readable(run(*((call, hello) for call in calls), (ToolCall("t", {"x": value}), ToolReply(value))))


def test_one_line_says_of_an_edit_by_hand_why_it_was_accepted_or_that_it_was_not():
    accepted, redacted = {"reason": "cheap", "at": "2026-11-29"}, {"reason": "redacted\x1b"}
    whole = Snapshot(order_run(), "1.0")
    for snapshot, told in (
        (whole, ()),
        (replace(whole, revisions=(accepted,)), ("edited by hand, accepted: cheap (2026-11-29)",)),
        (
            replace(whole, revisions=(accepted, redacted)),
            ("edited by hand, accepted: cheap (2026-11-29); redacted\\x1b",),
        ),
        (replace(whole, revisions=(redacted,)), ("sealed again: redacted\\x1b",)),
        (replace(whole, revisions=(accepted,), sealed=False), ("edited by hand, not accepted",)),
    ):
        assert list_edit_notes(snapshot) == told
        assert write_textconv(snapshot) == "".join(f"{line}\n" for line in told) + write_textconv(whole)
