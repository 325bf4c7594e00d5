from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.align import divergences, first_divergence
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.model import Body, Failure, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.dialects import READER


def kinds(a, b):
    return [(one.kind, one.turn) for one in divergences(a, b, READER)]


@pytest.fixture
def talk(writing):
    return writing.conversation


# The six changes, in a conversation of thirty turns whose tools were not frozen.


def test_a_changed_tool_result_is_one_difference_and_its_resending_none(talk):
    a = talk(recorded=False)
    b = talk(
        recorded=False,
        result=lambda i: {"order": i, "status": "lost" if i == 9 else "open", "note": f"row {i} of the table"},
    )
    (one,) = divergences(a, b, READER)
    assert (one.kind, one.turn, one.turns) == (Kind.RESULT, 10, 30)
    assert [x.path for x in one.differences] == ["$.messages[19].content"]
    assert "open -> lost" in one.summary


def test_one_word_of_the_system_prompt(talk, writing):
    (one,) = divergences(talk(), talk(system=writing.SYSTEM.replace("refund", "credit")), READER)
    assert (one.kind, one.turn) == (Kind.PROMPT, 1)
    assert "line 3: refund -> credit" in one.summary


def test_a_tool_result_and_a_parameter_are_two(talk):
    a = talk(recorded=False)
    b = talk(
        recorded=False,
        result=lambda i: {"order": i, "status": "lost" if i == 9 else "open", "note": f"row {i} of the table"},
        fields=lambda i: {"temperature": 1} if i >= 20 else {},
    )
    first, second = divergences(a, b, READER)
    assert (first.kind, first.turn) == (Kind.RESULT, 10)
    assert (second.kind, second.turn) == (Kind.MODEL, 20)
    assert [x.path for x in second.differences] == ["$.temperature"]


def test_a_trimmed_history(talk):
    b = talk(edit=lambda i, messages: messages[:2] + messages[6:] if i == 15 else messages)
    (one,) = divergences(talk(), b, READER)
    assert (one.kind, one.turn) == (Kind.HISTORY, 15)
    assert "messages[2..5] dropped" in one.summary


def test_one_extra_turn(talk):
    (one,) = divergences(talk(), talk(extra={13}), READER)
    assert (one.kind, one.turn) == (Kind.EXTRA, 13)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_turn_that_was_skipped(talk, recorded):
    found = divergences(talk(recorded=recorded), talk(recorded=recorded, skip={7}), READER)
    assert [(x.kind, x.turn) for x in found] == [(Kind.MISSING, 7)] * (2 if recorded else 1)


# What is the same.


def test_a_run_does_not_part_from_itself_nor_from_its_twin(talk, writing):
    run = talk(5)
    assert first_divergence(run, run, READER) is None
    assert first_divergence(run, writing.later(run, 7), READER) is None


def test_ids_that_replies_minted_are_matched_by_their_reply(talk):
    assert divergences(talk(8, ids="a"), talk(8, ids="b"), READER) == ()


def test_a_result_given_back_under_another_calls_id_is_seen(talk):
    def swap(i, messages):
        return [*messages[:-1], messages[-1] | {"tool_call_id": messages[3]["tool_call_id"]}] if i == 5 else messages

    (one,) = divergences(talk(8, ids="a"), talk(8, ids="b", edit=swap), READER)
    assert (one.turn, [x.path for x in one.differences]) == (5, ["$.messages[9].tool_call_id"])
    assert one.differences[0].now == "call_a00001"


def test_ids_change_and_one_word_too(talk, writing):
    (one,) = divergences(talk(8, ids="a"), talk(8, ids="b", system=writing.SYSTEM.replace("short", "brief")), READER)
    assert [x.path for x in one.differences] == ["$.messages[0].content"]


def test_overlapping_tools_may_come_in_any_order(writing):
    calls = [(ToolCall("rates", {"to": to}), ToolReply(to)) for to in ("EUR", "USD", "GBP")]
    runs = []
    for order in (calls, calls[::-1]):
        book = writing.Book()
        book.together(*order)
        runs.append(book.run())
    assert divergences(*runs, READER) == ()


def test_one_overlapping_tool_with_other_arguments(writing):
    runs = []
    for names in (("EUR", "USD", "GBP"), ("USD", "GBP", "CHF")):
        book = writing.Book()
        book.model([{"role": "user", "content": "rates"}])
        book.together(*((ToolCall("rates", {"to": to}), ToolReply(1)) for to in names))
        runs.append(book.run())
    (one,) = divergences(*runs, READER)
    assert (one.kind, one.turn, one.lane) == (Kind.ARGS, 1, "main")
    assert [(x.recorded, x.now) for x in one.differences] == [("EUR", "CHF")]


def test_white_space_of_a_body_is_no_difference(talk):
    a = talk(3)
    first = a.exchanges[0]
    spaced = json.dumps(json.loads(first.call.body.data), indent=1).encode()
    b = replace(
        a, exchanges=(replace(first, call=replace(first.call, body=type(first.call.body)(spaced))), *a.exchanges[1:])
    )
    assert divergences(a, b, READER) == ()


def test_true_is_not_one(talk):
    a, b = talk(3, fields=lambda i: {"store": True}), talk(3, fields=lambda i: {"store": 1})
    assert [x.path for x in divergences(a, b, READER)[0].differences] == ["$.store"]


def test_a_message_that_is_equal_to_python_only(talk):
    a = talk(4, edit=lambda i, m: [*m[:1], m[1] | {"x": True}, *m[2:]])
    b = talk(4, edit=lambda i, m: [*m[:1], m[1] | {"x": True if i < 3 else 1}, *m[2:]])
    assert kinds(a, b) == [(Kind.PROMPT, 3)]


# Answers and ends.


def test_another_reply_to_the_same_request_and_nothing_that_follows_from_it(talk):
    a = talk(10)
    b = talk(10, asked=lambda i: ("refund", {"id": 4}) if i == 4 else ("lookup", {"id": i}), ids="b")
    (one,) = divergences(a, b, READER)
    assert (one.kind, one.turn) == (Kind.REPLY, 4)
    assert [x.path for x in one.differences] == ["$.tool_calls[0].arguments.id", "$.tool_calls[0].name"][1:]


def test_other_words_in_a_reply(talk):
    (one,) = divergences(talk(6), talk(6, words=lambda i: "Hm." if i == 2 else f"step {i}"), READER)
    assert (one.kind, one.turn) == (Kind.REPLY, 2)
    assert "step 2" in one.summary


def test_a_served_model_of_another_date_alone_is_no_divergence(writing):
    runs = []
    for model in ("gpt-x-1", "gpt-x-2"):
        book = writing.Book()
        book.model([{"role": "user", "content": "hi"}], writing.completion("ho", model=model, system_fingerprint=model))
        runs.append(book.run())
    assert divergences(*runs, READER) == ()


def test_another_tool_result_is_told_at_the_tool(talk):
    b = talk(12, result=lambda i: {"order": i, "status": "lost" if i == 9 else "open", "note": f"row {i} of the table"})
    (one,) = divergences(talk(12), b, READER)
    assert (one.kind, one.turn, one.recorded.call.name) == (Kind.RESULT, 9, "lookup")
    assert "$.value.status" in one.summary


def test_other_arguments_under_the_same_reply(writing):
    runs = []
    for number in (7, 8):
        book = writing.Book()
        book.model([{"role": "user", "content": "x"}], writing.completion("", [("call_000001", "lookup", {"id": 7})]))
        book.tool("lookup", "row", id=number)
        runs.append(book.run())
    (one,) = divergences(*runs, READER)
    assert one.kind is Kind.ARGS
    assert "asked for the recorded arguments" in one.cause
    (back,) = divergences(*reversed(runs), READER)
    assert "exactly these arguments" in back.cause


def test_another_tool_and_another_order(writing):
    def run(*names):
        book = writing.Book()
        book.model([{"role": "user", "content": "x"}])
        for name in names:
            book.tool(name, id=1)
        return book.run()

    assert kinds(run("a", "b", "c"), run("a", "x", "c")) == [(Kind.TOOL, 1)]
    assert kinds(run("a", "b", "c"), run("a", "c")) == [(Kind.MISSING, 1)]
    assert kinds(run("a", "c"), run("a", "b", "c")) == [(Kind.EXTRA, 1)]
    (one,) = divergences(run("a", "b", "c"), run("b", "c", "a"), READER)
    assert one.kind is Kind.ORDER
    assert one.recorded.call.name == "a"
    assert "later" in one.summary


def test_requests_that_no_dialect_knows(writing):
    def run(amount, answer, raises=None):
        book = writing.Book()
        call = replace(
            writing.chat([]),
            url="https://rates.test/v1/pay",
            body=type(writing.chat([]).body)(json.dumps({"n": amount}).encode()),
        )
        book.add(
            call,
            Failure("httpx.ReadTimeout", "slow")
            if raises
            else HttpReply(200, headers=writing.JSON, body=type(call.body)(json.dumps(answer).encode())),
        )
        return book.run()

    assert kinds(run(1, 1), run(2, 1)) == [(Kind.REQUEST, 0)]
    assert kinds(run(1, {"a": 1}), run(1, {"a": 2})) == [(Kind.RESULT, 0)]
    (one,) = divergences(run(1, {"a": 1}), run(1, 1, raises=True), READER)
    assert one.differences[-1].now == "httpx.ReadTimeout: slow"


def test_the_end_of_the_test_comes_last(talk, writing):
    a, b = talk(3), talk(3, system="other")
    b = replace(
        b, header=replace(b.header, outcome={"status": "failed", "type": "AssertionError", "message": "no\nmore"})
    )
    assert [one.kind for one in divergences(a, b, READER)] == [Kind.PROMPT, Kind.OUTCOME]
    b = replace(a, header=b.header)
    (one,) = divergences(a, b, READER)
    assert one.summary == "the test ended failed (AssertionError), recorded passed"
    assert divergences(a, replace(a, header=replace(a.header, outcome={})), READER) == ()


def test_an_answer_that_failed_or_never_came(writing):
    def run(outcome):
        book = writing.Book()
        book.add(writing.chat([{"role": "user", "content": "hi"}]), outcome, finish=None if outcome is None else 1)
        return book.run()

    answers = [
        writing.completion("ok"),
        HttpReply(429, headers=writing.JSON, body=type(writing.chat([]).body)(b'{"error": {"message": "slow down"}}')),
        Failure("httpx2.ReadTimeout", "too late"),
        None,
    ]
    for one in answers:
        for other in answers:
            assert [x.kind for x in divergences(run(one), run(other), READER)] == [Kind.REPLY] * (one is not other)


def test_items_and_what_broke_them_off(writing):
    def run(reply):
        book = writing.Book()
        book.add(ToolCall("rows"), reply)
        return book.run()

    whole, broken = ToolReply(items=(1, 2)), ToolReply(items=(1, 2), failure=Failure("ValueError", "bad row"))
    (one,) = divergences(run(whole), run(broken), READER)
    assert [(x.path, x.now) for x in one.differences] == [("$.raised", "ValueError: bad row")]


def test_what_follows_from_another_reply_is_not_told(talk):
    b = talk(
        20, words=lambda i: f"schritt {i}", result=lambda i: {"x": i}, asked=lambda i: ("refund", {"id": -i}), ids="b"
    )
    assert kinds(talk(20), b) == [(Kind.REPLY, 1)]
    b = talk(20, words=lambda i: f"schritt {i}", fields=lambda i: {"top_p": 1} if i > 9 else {}, ids="b")
    assert kinds(talk(20), b) == [(Kind.REPLY, 1), (Kind.MODEL, 10), (Kind.REPLY, 10)]


def test_a_changed_answer_is_told_beside_its_changed_request(writing):
    def run(prompt, words, amount, result, url):
        book = writing.Book()
        book.model([{"role": "user", "content": prompt}], writing.completion(words))
        book.tool("refund", result, amount=amount)
        book.add(HttpCall("GET", url), HttpReply(200, body=Body(result.encode())))
        return book.run()

    recorded = run("Refund A-17", "done", 18, "paid 18", "https://shop.example/a?x=1")
    now = run("Refund A-18", "refused", 1, "paid 1", "https://shop.example/a?x=2")
    told = divergences(recorded, now, READER)
    assert [one.kind for one in told] == [Kind.PROMPT, Kind.REPLY], "the rest follows"
    same_model = run("Refund A-17", "done", 1, "paid 1", "https://shop.example/a?x=2")
    told = divergences(recorded, same_model, READER)
    assert [one.kind for one in told] == [Kind.ARGS, Kind.RESULT, Kind.REQUEST, Kind.RESULT]
    assert "18 -> 1" in told[1].summary
    assert "another one too" in told[1].cause
    only_asked = run("Refund A-17", "done", 1, "paid 18", "https://shop.example/a?x=1")
    assert [one.kind for one in divergences(recorded, only_asked, READER)] == [Kind.ARGS]


def test_a_call_that_moved_and_overlapped_is_no_divergence(writing):
    def run(*names, together=()):
        book = writing.Book()
        book.together(*((ToolCall(name), ToolReply(name)) for name in together))
        for name in names:
            book.tool(name, name)
        return book.run()

    assert divergences(run(together=("a", "b", "c")), run("c", "a", "b"), READER) == ()
    assert kinds(run("a", "b", "c"), run("c", "a", "b")) == [(Kind.ORDER, 0)]


def test_calls_of_very_many_equal_steps(writing):
    def run(count):
        book = writing.Book()
        for _ in range(count):
            book.tool("poll", "no")
        return book.run()

    assert [x.kind for x in divergences(run(700), run(702), READER)] == [Kind.EXTRA] * 2


# Lanes.


def lanes(writing, *, names=("main.1", "main.2"), words=("shoes", "hats"), more=()):
    """Two sub-agents that talk at the same time."""
    book = writing.Book()
    for _ in range(2):
        start = book.clock
        for offset, (lane, word) in enumerate(zip(names, words, strict=True)):
            x = book.model([{"role": "user", "content": f"find {word} {_}"}], lane=lane)
            book.exchanges[-1] = replace(x, start=start + offset, finish=start + 4 + offset)
        book.clock = start + 10
    for lane in more:
        book.tool("extra", lane=lane)
    return book.run()


def test_lanes_that_got_each_others_number_are_the_same(writing):
    assert divergences(lanes(writing), lanes(writing, names=("main.2", "main.1")), READER) == ()


def test_divergences_of_other_lanes_are_told_with_the_first(writing):
    first, second = divergences(lanes(writing), lanes(writing, words=("boots", "caps")), READER)[:2]
    assert {first.lane, second.lane} == {"main.1", "main.2"}
    assert {first.who, second.who} == {"lane main.1", "lane main.2"}
    assert any("also, independently, in lane main.2" in line for line in first.detail)


def test_a_lane_that_is_not_there(writing):
    a = lanes(writing)
    b = replace(a, exchanges=tuple(x for x in a.exchanges if x.lane == "main.1"))
    assert [one.kind for one in divergences(a, b, READER)] == [Kind.MISSING] * 2
    assert [one.kind for one in divergences(b, a, READER)] == [Kind.EXTRA] * 2


# Properties.

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


@settings(
    derandomize=True, max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_no_run_parts_from_itself(writing, steps):
    run = written(writing, steps)
    assert divergences(run, writing.later(run, 3), READER) == ()


@settings(
    derandomize=True, max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(one=STEPS, other=STEPS)
def test_the_other_way_round_is_the_mirror_image(writing, one, other):
    a, b = written(writing, one), written(writing, other)
    there, back = divergences(a, b, READER), divergences(b, a, READER)
    mirror = {Kind.MISSING: Kind.EXTRA, Kind.EXTRA: Kind.MISSING}

    def sides(found, turned):
        named = (mirror.get(x.kind, x.kind) if turned else x.kind for x in found)
        # Words that came are a prompt, words that went are history; both are changed requests.
        return Counter(Kind.HISTORY if x in {Kind.PROMPT, Kind.HISTORY} else x for x in named)

    assert sides(there, turned=False) == sides(back, turned=True)
    assert bool(there) == (one != other)


def test_two_hundred_turns_in_few_key_computations(talk, writing):
    a, b = talk(200), talk(200, system=writing.SYSTEM.replace("refund", "credit"), ids="b")
    assert kinds(a, b) == [(Kind.PROMPT, 1)]
