from __future__ import annotations

import json
import random
import string
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.compare.align import divergences, first_divergence
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Failure,
    Header,
    HttpCall,
    HttpReply,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.providers import READER, RULES
from tests.support.written_runs import SYSTEM, conversation

HI = {"role": "user", "content": "hi"}


def kinds(a, b):
    return [(one.kind, one.turn) for one in divergences(a, b, READER)]


def lost_at_nine(i):
    return {"order": i, "status": "lost" if i == 9 else "open", "note": f"row {i} of the table"}


def refund_at_four(i):
    return ("refund", {"id": 4}) if i == 4 else ("lookup", {"id": i})


def swapped(i, messages):
    """In turn five a result is given back under the id of another call."""
    return [*messages[:-1], messages[-1] | {"tool_call_id": messages[3]["tool_call_id"]}] if i == 5 else messages


def marked(one):
    return lambda i, m: [m[0], m[1] | {"x": True if i < 3 else one}, *m[2:]]


CREDIT, BRIEF = {"system": SYSTEM.replace("refund", "credit")}, {"system": SYSTEM.replace("short", "brief")}
TRIMMED = {"edit": lambda i, messages: messages[:2] + messages[6:] if i == 15 else messages}
HOT = {"fields": lambda i: {"temperature": 1} if i >= 20 else {}}
SAID_TWO = {"words": lambda i: "Hm." if i == 2 else f"step {i}"}
GERMAN = {"words": lambda i: f"schritt {i}", "ids": "b"}
OTHER = GERMAN | {"result": lambda i: {"x": i}, "asked": lambda i: ("refund", {"id": -i})}
TOP_P = {"fields": lambda i: {"top_p": 1} if i > 9 else {}}
UNSEEN = {"recorded": False}
# Of a conversation of so many turns, what the first has and what the second has of its own: kinds, turns, paths, words
PARTS = {
    "the same": (5, {}, {}, [], [], ""),
    "ids of another run": (8, {}, {"ids": "b"}, [], [], ""),
    "a tool result, sent again": (30, UNSEEN, UNSEEN | {"result": lost_at_nine}, [(Kind.RESULT, 10)],
        ["$.messages[19].content -> status"], "open -> lost"),
    "a tool result, recorded": (12, {}, {"result": lost_at_nine}, [(Kind.RESULT, 9)], ["$.value.status"], "$.value.status"),
    "the prompt": (30, {}, CREDIT, [(Kind.PROMPT, 1)], ["$.messages[0].content"], "line 3: refund -> credit"),
    "ids and the prompt": (8, {}, BRIEF | {"ids": "b"}, [(Kind.PROMPT, 1)], ["$.messages[0].content"], "short -> brief"),
    "a hundred turns": (100, {}, CREDIT | {"ids": "b"}, [(Kind.PROMPT, 1)], ["$.messages[0].content"], "credit"),
    "a result and a parameter": (30, UNSEEN, UNSEEN | HOT | {"result": lost_at_nine}, [(Kind.RESULT, 10), (Kind.MODEL, 20)],
        ["$.messages[19].content -> status", "$.temperature"], "$.temperature"),
    "a trimmed history": (30, {}, TRIMMED, [(Kind.HISTORY, 15)], ["$.messages[2..5]"], "messages[2..5] dropped"),
    "an extra turn": (30, {}, {"extra": {13}}, [(Kind.EXTRA, 13)], None, ""),
    "a turn left out": (30, {}, {"skip": {7}}, [(Kind.MISSING, 7)] * 2, None, ""),
    "a turn left out, tools unseen": (30, UNSEEN, UNSEEN | {"skip": {7}}, [(Kind.MISSING, 7)], None, ""),
    "the id of another call": (8, {}, {"ids": "b", "edit": swapped}, None, ["$.messages[9].tool_call_id"], ""),
    "true and one": (3, {"fields": lambda i: {"store": True}}, {"fields": lambda i: {"store": 1}},
        [(Kind.MODEL, 1)], ["$.store"], ""),
    "true and one in a message": (4, {"edit": marked(True)}, {"edit": marked(1)}, [(Kind.PROMPT, 3)], None, ""),
    "another reply": (10, {}, {"asked": refund_at_four, "ids": "b"}, [(Kind.REPLY, 4)], ["$.tool_calls[0].name"], ""),
    "other words": (6, {}, SAID_TWO, [(Kind.REPLY, 2)], None, "step 2"),
    "what follows from a reply": (20, {}, OTHER, [(Kind.REPLY, 1), (Kind.REPLY, 20)], None, ""),
    "a reply and a parameter": (20, {}, GERMAN | TOP_P,
        [(Kind.REPLY, 1), (Kind.MODEL, 10), (Kind.REPLY, 10), (Kind.REPLY, 20)], None, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_where_two_conversations_part(name):
    turns, before, after, where, places, words = PARTS[name]
    a, b = conversation(turns, **before), conversation(turns, **after)
    found = divergences(a, b, READER)
    assert where is None or [(one.kind, one.turn) for one in found] == where
    assert all(one.turns == turns for one in found)
    assert places is None or [x.path for one in found for x in one.differences] == places
    assert words in "".join(one.summary for one in found)
    assert first_divergence(a, b, READER) == (found[0] if found else None)


def rates(writing, names):
    book = writing.Book()
    book.model([{"role": "user", "content": "rates"}])
    book.together(*((ToolCall("rates", {"to": to}), ToolReply(1)) for to in names))
    return book.run()


def test_overlapping_tools_may_come_in_any_order(writing):
    run = rates(writing, ("EUR", "USD", "GBP"))
    assert divergences(run, rates(writing, ("GBP", "USD", "EUR")), READER) == ()
    (one,) = divergences(run, rates(writing, ("USD", "GBP", "CHF")), READER)
    assert (one.kind, one.turn, one.lane) == (Kind.ARGS, 1, "main")
    assert [(x.recorded, x.now) for x in one.differences] == [("EUR", "CHF")]


def run_of(writing, *exchanges):
    """A run of calls with their outcomes, one after the other."""
    book = writing.Book()
    for call, outcome in exchanges:
        book.add(call, outcome, **({"finish": None} if outcome is None else {}))
    return book.run()


def tools(writing, *names, before=(), together=()):
    book = writing.Book()
    if together:
        book.together(*((ToolCall(name, {"id": 1}), ToolReply(name)) for name in together))
    for call, outcome in before:
        book.add(call, outcome)
    for name in names:
        book.tool(name, name, id=1)
    return book.run()


def test_white_space_of_a_body_and_the_date_of_a_model_are_no_difference(writing):
    runs = []
    for model, indent in (("gpt-x-1", None), ("gpt-x-2", 1)):
        call = writing.chat([HI])
        spaced = Body(json.dumps(json.loads(call.body.data), indent=indent).encode())
        reply = writing.completion("ho", model=model, system_fingerprint=model)
        runs.append(run_of(writing, (replace(call, body=spaced), reply)))
    assert runs[0].exchanges[0].call.body != runs[1].exchanges[0].call.body
    assert divergences(*runs, READER) == ()


def test_other_arguments_under_the_same_reply(writing):
    asked = writing.chat([HI]), writing.completion("", [("call_000001", "lookup", {"id": 7})])
    runs = [run_of(writing, asked, (ToolCall("lookup", {"id": number}), ToolReply("row"))) for number in (7, 8)]
    (one,) = divergences(*runs, READER)
    assert one.kind is Kind.ARGS
    assert "asked for the recorded arguments" in one.cause
    (back,) = divergences(*reversed(runs), READER)
    assert "exactly these arguments" in back.cause


def test_another_tool_another_order_and_one_more_or_less(writing):
    def run(*names):
        return tools(writing, *names, before=[(writing.chat([HI]), writing.completion("ok"))])

    assert kinds(run("a", "b", "c"), run("a", "x", "c")) == [(Kind.TOOL, 1)]
    assert kinds(run("a", "b", "c"), run("a", "c")) == [(Kind.MISSING, 1)]
    assert kinds(run("a", "c"), run("a", "b", "c")) == [(Kind.EXTRA, 1)]
    (one,) = divergences(run("a", "b", "c"), run("b", "c", "a"), READER)
    assert (one.kind, one.recorded.call.name) == (Kind.ORDER, "a")
    assert "later" in one.summary
    other = tools(writing, "b", "c", "a", before=[(writing.chat([HI]), writing.completion("other"))])
    assert kinds(run("a", "b", "c"), other) == [(Kind.REPLY, 1)], (
        "what follows from another reply is no place of its own"
    )
    assert kinds(tools(writing, "a", "b", "c"), tools(writing, "c", "a", "b")) == [(Kind.ORDER, 0)]
    overlapping = tools(writing, together=("a", "b", "c"))
    assert divergences(overlapping, tools(writing, "c", "a", "b"), READER) == (), "it moved and overlapped"
    polls = ["poll"] * 700
    assert kinds(tools(writing, *polls), tools(writing, *polls, "poll", "poll")) == [(Kind.EXTRA, 0)] * 2


def test_requests_that_no_dialect_knows(writing):
    def run(amount, answer):
        call = HttpCall("POST", "https://rates.test/v1/pay", writing.JSON, Body(json.dumps({"n": amount}).encode()))
        if not isinstance(answer, Failure):
            answer = HttpReply(200, headers=writing.JSON, body=Body(json.dumps(answer).encode()))
        return run_of(writing, (call, answer))

    assert kinds(run(1, 1), run(2, 1)) == [(Kind.REQUEST, 0)]
    assert kinds(run(1, {"a": 1}), run(1, {"a": 2})) == [(Kind.RESULT, 0)]
    (one,) = divergences(run(1, {"a": 1}), run(1, Failure("httpx.ReadTimeout", "slow")), READER)
    assert one.differences[-1].now == "httpx.ReadTimeout: slow"


def test_the_end_of_the_test_comes_last():
    a, b = conversation(3), conversation(3, system="other")
    failed = replace(a.header, outcome={"status": "failed", "type": "AssertionError", "message": "no\nmore"})
    assert [one.kind for one in divergences(a, replace(b, header=failed), READER)] == [Kind.PROMPT, Kind.OUTCOME]
    (one,) = divergences(a, replace(a, header=failed), READER)
    assert one.summary == "the test ended failed (AssertionError), recorded passed"
    assert divergences(a, replace(a, header=replace(a.header, outcome={})), READER) == ()


def test_an_answer_that_failed_broke_off_or_never_came(writing):
    slow = HttpReply(429, headers=writing.JSON, body=Body(b'{"error": {"message": "slow down"}}'))
    answers = [writing.completion("ok"), slow, Failure("httpx2.ReadTimeout", "too late"), None]
    runs = [run_of(writing, (writing.chat([HI]), outcome)) for outcome in answers]
    for one in runs:
        for other in runs:
            assert [x.kind for x in divergences(one, other, READER)] == [Kind.REPLY] * (one is not other)
    whole, broken = ToolReply(items=(1, 2)), ToolReply(items=(1, 2), failure=Failure("ValueError", "bad row"))
    sides = (run_of(writing, (ToolCall("rows"), reply)) for reply in (whole, broken))
    (one,) = divergences(*sides, READER)
    assert [(x.path, x.now) for x in one.differences] == [("$.raised", "ValueError: bad row")]


def test_a_changed_answer_is_told_beside_its_changed_request(writing):
    def run(prompt, words, amount, result, url):
        return run_of(
            writing,
            (writing.chat([{"role": "user", "content": prompt}]), writing.completion(words)),
            (ToolCall("refund", {"amount": amount}), ToolReply(result)),
            (HttpCall("GET", url), HttpReply(200, body=Body(result.encode()))),
        )

    url = "https://shop.example/a?x="
    recorded = run("Refund A-17", "done", 18, "paid 18", url + "1")
    told = divergences(recorded, run("Refund A-18", "refused", 1, "paid 1", url + "2"), READER)
    assert [one.kind for one in told] == [Kind.PROMPT, Kind.REPLY, Kind.ARGS, Kind.RESULT], "no reply asked for them"
    told = divergences(recorded, run("Refund A-17", "done", 1, "paid 1", url + "2"), READER)
    assert [one.kind for one in told] == [Kind.ARGS, Kind.RESULT, Kind.REQUEST, Kind.RESULT]
    assert "18 -> 1" in told[1].summary
    assert "another one too" in told[1].cause
    told = divergences(recorded, run("Refund A-17", "done", 1, "paid 18", url + "1"), READER)
    assert [one.kind for one in told] == [Kind.ARGS]


def test_the_first_other_reply_behind_another_prompt_is_told_with_what_it_asks_for_and_so_is_the_last_one(writing):
    def run(prompt, amount, tax, answer):
        look, pay = ("call_000001", "look", {"id": 7}), ("call_000002", "pay", {"amount": amount})
        ask = [{"role": "system", "content": prompt}, HI]
        replies = [writing.completion("", [look]), writing.completion("", [pay]), writing.completion(answer)]
        told = [json.loads(reply.body.data)["choices"][0]["message"] for reply in replies]
        results = [{"role": "tool", "tool_call_id": use[0], "content": "ok"} for use in (look, pay)]
        calls = [ask, [*ask, told[0], results[0]], [*ask, told[0], results[0], told[1], results[1]]]
        tools = [ToolCall("look", {"id": 7}), ToolCall("pay", {"amount": amount, "tax": tax})]
        chats = [(writing.chat(call), reply) for call, reply in zip(calls, replies, strict=True)]
        return run_of(writing, chats[0], (tools[0], ToolReply("ok")), chats[1], (tools[1], ToolReply("ok")), chats[2])

    def told(*now):
        found = divergences(run("Be kind.", 20, 1, "paid"), run(*now), READER)
        return [(one.kind, one.turn, one.differences[0].path) for one in found]

    prompt = (Kind.PROMPT, 1, "$.messages[0].content")
    amount = (Kind.REPLY, 2, "$.tool_calls[0].arguments.amount")
    tax, last = (Kind.ARGS, 2, "$.amount"), (Kind.REPLY, 3, "$.text")
    assert told("Be nice.", 20, 1, "paid") == [prompt]
    assert told("Be nice.", 25, 1, "paid") == [prompt, amount], "the call is what the reply asks for"
    assert told("Be nice.", 25, 2, "paid") == [prompt, amount, tax], "the reply asked for no other tax"
    assert told("Be nice.", 25, 1, "no") == [prompt, amount, last]
    assert told("Be nice.", 20, 1, "no") == [prompt, last]


def lanes(writing, *, names=("main.1", "main.2"), words=("shoes", "hats")):
    """Two sub-agents that talk at the same time."""
    book = writing.Book()
    for turn in range(2):
        start = book.clock
        for offset, (lane, word) in enumerate(zip(names, words, strict=True)):
            x = book.model([{"role": "user", "content": f"find {word} {turn}"}], lane=lane)
            book.exchanges[-1] = replace(x, start=start + offset, finish=start + 4 + offset)
        book.clock = start + 10
    return book.run()


def test_lanes_part_by_what_they_say_and_not_by_their_numbers(writing):
    a = lanes(writing)
    assert divergences(a, lanes(writing, names=("main.2", "main.1")), READER) == ()
    first, second = divergences(a, lanes(writing, words=("boots", "caps")), READER)[:2]
    assert {(x.lane, x.who) for x in (first, second)} == {(name, f"lane {name}") for name in ("main.1", "main.2")}
    assert any("also, independently, in lane main.2" in line for line in first.detail)
    b = replace(a, exchanges=tuple(x for x in a.exchanges if x.lane == "main.1"))
    assert [one.kind for one in divergences(a, b, READER)] == [Kind.MISSING] * 2
    assert [one.kind for one in divergences(b, a, READER)] == [Kind.EXTRA] * 2


STEPS = st.lists(
    st.tuples(st.sampled_from(["lookup", "refund", "model"]), st.integers(0, 2), st.sampled_from(["open", "shut"])),
    max_size=9,
)


def written(writing, steps):
    book = writing.Book()
    messages = [{"role": "user", "content": "go"}]
    for name, number, word in steps:
        if name == "model":
            messages = [*messages, {"role": "user", "content": f"{number}"}]
            book.model(messages, writing.completion(word))
        else:
            book.tool(name, word, id=number)
    return book.run()


@settings(suppress_health_check=list(HealthCheck))
@given(one=STEPS, other=STEPS)
def test_no_run_parts_from_itself_and_the_other_way_round_is_the_mirror_image(writing, one, other):
    a, b = written(writing, one), written(writing, other)
    assert divergences(a, writing.later(a, 3), READER) == ()
    there, back = divergences(a, b, READER), divergences(b, a, READER)
    mirror = {Kind.MISSING: Kind.EXTRA, Kind.EXTRA: Kind.MISSING}

    def sides(found, turned):
        named = (mirror.get(x.kind, x.kind) if turned else x.kind for x in found)
        # Words that came are a prompt, words that went are history; both are changed requests.
        return Counter(Kind.HISTORY if x in {Kind.PROMPT, Kind.HISTORY} else x for x in named)

    assert sides(there, turned=False) == sides(back, turned=True)
    assert bool(there) == (one != other)


def thinking_run(draw):
    """An agent on Anthropic's API that sends its signed thoughts back, as the API asks."""
    signature = "".join(random.Random(draw).choices(string.ascii_letters + "+/=", k=120))
    thought = {"type": "thinking", "thinking": "I look it up.", "signature": signature}
    use = {"type": "tool_use", "id": f"toolu_{draw}abcdefgh", "name": "look", "input": {}}
    asked = {"role": "user", "content": "Where is my order?"}
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "shipped"}
    later = [asked, {"role": "assistant", "content": [thought, use]}, {"role": "user", "content": [result]}]
    replies = ([thought, use], [{"type": "text", "text": "It is on its way."}])
    exchanges = []
    for n, (messages, content) in enumerate(zip(([asked], later), replies, strict=True)):
        sent = {"model": "m", "max_tokens": 9, "messages": messages}
        body = {"id": f"msg_{draw}_{n}", "type": "message", "role": "assistant", "content": content}
        call = HttpCall("POST", "https://api.anthropic.com/v1/messages", (), Body(json.dumps(sent).encode()))
        headers = (("content-type", "application/json"),)
        reply = HttpReply(200, headers=headers, body=Body(json.dumps(body).encode()))
        exchanges.append(Exchange(call, reply, 2 * n, 2 * n + 1))
    return Run(Header("t"), tuple(exchanges))


def test_thoughts_that_are_signed_anew_are_no_change_of_the_history():
    assert not list(divergences(thinking_run(1), thinking_run(2), READER, matching=Matching(READER, RULES)))
