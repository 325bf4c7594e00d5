"""Every word of the vocabulary: when it holds, when it does not and what is told then, and when nobody can say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cases.checks.values import is_same
from pytest_agentreplay.cases.evidence import CaseEvidence, frozen, meets_tools
from pytest_agentreplay.cases.judging import WORDS, check_word
from pytest_agentreplay.cases.schema import model
from pytest_agentreplay.cases.turn import ToolCallView
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.providers import READER
from tests.support.chat_runs import ask, loop, refund, run, say

pytestmark = pytest.mark.env("main")

REFUND, LOOP = frozen(refund()), frozen(loop())
PLAIN = frozen(run((ask(), say("It costs 20 EUR."))))
AS_JSON = frozen(run((ask(), say('{"price": 20, "items": [{"id": 1}, {"id": 2}], "note": null}'))))
LIMITED = frozen(run((ask(), say("Rate limit reached", status=429))))
BILLED = frozen(run((ask(), say("ok", cost=0.02)), (ask(), say("ok", cost=0.03))))
UNTOLD = frozen(run((ask(), say("ok", usage=False)), (ask(), say("ok")), times=False))
OUTSIDE = CaseEvidence(output="ok", unknown=frozenset({"tool_calls", "status", "errors"}))
KEY = "sk-proj-" + "a1B2" * 12

HOLDS = [
    ("status", "ok", REFUND),
    ("status", "error", LOOP),
    ("status", "error", LIMITED),
    ("output", {"exists": True}, REFUND),
    ("output", {"exists": False}, LOOP),
    ("output", {"equals": "I have refunded order A-1001."}, REFUND),
    ("output", {"contains": "refunded", "not_contains": "sorry", "matches": r"A-[0-9]{4}"}, REFUND),
    ("output", {"path": "$.price", "equals": 20}, AS_JSON),
    ("output", {"path": "$.items[*].id", "equals": 2}, AS_JSON),
    ("output", {"path": "$..id", "exists": True}, AS_JSON),
    ("output", {"path": "$.absent", "exists": False}, AS_JSON),
    ("output", {"path": "$.note", "equals": None}, AS_JSON),
    ("output", {"contains": "price"}, AS_JSON),
    ("tool_called", "lookup_order", REFUND),
    ("tool_called", {"name": "lookup_order", "arguments": {"$.order_id": "A-1001"}, "times": 1}, REFUND),
    ("tool_called", {"name": "issue_refund", "arguments": {"amount": 20.0}}, REFUND),
    ("tool_called", {"name": "search", "at_least": 5, "at_most": 5}, LOOP),
    ("tool_called", {"name": "mail", "at_least": 0, "at_most": 2}, REFUND),
    ("tool_not_called", "mail", REFUND),
    ("tool_not_called", {"name": "issue_refund", "arguments": {"amount": 21}}, REFUND),
    ("tool_failed", "issue_refund", REFUND),
    ("forbidden_tools", ["mail", "delete"], REFUND),
    ("tool_order", {"equal": ["lookup_order", "issue_refund"]}, REFUND),
    ("tool_order", {"subsequence": [{"name": "issue_refund", "arguments": {"amount": 20}}]}, REFUND),
    ("tool_order", {"multiset": ["issue_refund", "lookup_order"]}, REFUND),
    ("repeated_call", "search", LOOP),
    ("repeated_call", {"at_least": 5}, LOOP),
    ("repeated_call", {"name": "lookup_order", "at_most": 1}, REFUND),
    ("turns", {"at_most": 3, "at_least": 3}, REFUND),
    ("tokens", {"at_most": 36, "at_least": 36}, REFUND),
    ("tokens", {"at_least": 12}, UNTOLD),
    ("cost", {"at_most": 0.00005, "prices": {"gpt-5": {"input": 1, "output": 2}}}, PLAIN),
    ("cost", {"at_most": 0.05, "at_least": 0.05}, BILLED),
    ("cost", {"at_most": 1.5}, frozen(run((ask(), say("ok")), kit={"case": {"cost": 1.5}}))),
    ("duration", {"at_most": 5, "at_least": 5}, REFUND),
    ("error", "RuntimeError", REFUND),
    ("error", {"class": "builtins.RuntimeError", "text": "bank"}, REFUND),
    ("error", {"text": "Rate limit"}, LIMITED),
    ("error", {"class": "HTTP 429"}, LIMITED),
    ("exchange", {"at": 1, "side": "request", "path": "$.messages[0].content", "contains": "order"}, REFUND),
    (
        "exchange",
        {"at": 1, "side": "request", "path": "$.messages[?(@.role == 'user')].content", "exists": True},
        REFUND,
    ),
    ("exchange", {"at": -1, "side": "reply", "path": "$.choices[0].finish_reason", "equals": "stop"}, REFUND),
    ("exchange", {"at": "lookup_order", "side": "reply", "path": "$.status", "equals": "late"}, REFUND),
    ("exchange", {"at": "issue_refund", "side": "request", "path": "$.amount", "exists": True}, REFUND),
    ("no_secret_in_output", True, REFUND),
]
FAILS = [
    ("status", "error", REFUND, "expected  error"),
    ("output", {"exists": False}, REFUND, "there     'I have refunded"),
    ("output", {"exists": True}, LOOP, "there     nothing"),
    ("output", {"equals": "I have refunded order A-1002."}, REFUND, "differs"),
    ("output", {"contains": "i HAVE"}, REFUND, "nearest   'I have' (other case)"),
    ("output", {"contains": "I  have"}, REFUND, "other spaces"),
    ("output", {"not_contains": "refunded"}, REFUND, "there     'I have refunded"),
    ("output", {"contains": "refunded", "not_contains": "A-1001"}, REFUND, "no 'A-1001'"),
    ("output", {"matches": "^sorry"}, REFUND, "expected  /^sorry/"),
    ("output", {"path": "$.prize", "equals": 20}, AS_JSON, "nearest   price, items, note"),
    ("output", {"path": "$.price", "equals": True}, frozen(run((ask(), say('{"price": 1}')))), "there     1"),
    ("output", {"path": "$.a", "contains": "x"}, PLAIN, "there     nothing"),
    ("tool_called", "lookup_orders", REFUND, "nearest   lookup_order"),
    ("tool_called", {"name": "issue_refund", "arguments": {"amount": 21}}, REFUND, "amount 21 -> 20"),
    ("tool_called", {"name": "issue_refund", "arguments": {"$.currency": "EUR"}}, REFUND, "'EUR' -> nothing"),
    ("tool_called", {"name": "search", "at_most": 2}, LOOP, "expected  search 1 to 2 times"),
    ("tool_called", {"name": "search", "times": 6}, LOOP, "5 of 5 calls"),
    ("tool_not_called", "issue_refund", REFUND, "in turn 2"),
    ("tool_failed", "lookup_order", REFUND, "did not fail"),
    ("tool_failed", "lookup", REFUND, "all calls  lookup_order, issue_refund"),
    ("forbidden_tools", ["mail", "issue_refund"], REFUND, "is forbidden"),
    ("tool_order", {"equal": ["issue_refund", "lookup_order"]}, REFUND, "tool call 1 is another one"),
    ("tool_order", {"subsequence": ["issue_refund", "lookup_order"]}, REFUND, "did not come after issue_refund"),
    ("tool_order", {"multiset": ["issue_refund"]}, REFUND, "was not expected"),
    ("repeated_call", "lookup_order", REFUND, "1 times lookup_order"),
    ("repeated_call", {"at_most": 4}, LOOP, "too often"),
    ("turns", {"at_most": 2}, REFUND, "3 turns"),
    ("turns", {"at_least": 4}, REFUND, "at least 4"),
    ("tokens", {"at_most": 11}, UNTOLD, "12 tokens"),
    ("cost", {"at_most": 0.04}, BILLED, "more than 0.04 of cost"),
    ("duration", {"at_most": 1}, REFUND, "5 seconds"),
    ("error", "ValueError", REFUND, "RuntimeError: bank is closed"),
    ("error", {"text": "open"}, PLAIN, "there     no error"),
    ("exchange", {"at": 1, "side": "request", "path": "$.model", "equals": "gpt-4"}, REFUND, "there     'gpt-5'"),
    ("exchange", {"at": "lookup_order", "side": "reply", "path": "$.price", "exists": False}, REFUND, "there     20"),
    ("no_secret_in_output", True, replace(PLAIN, output=f"use {KEY}"), "of category"),
    ("no_secret_in_output", True, replace(PLAIN, output={"key": "[[redacted:key:1]]"}), "of category key"),
]
AT_MOST = {"at_most": 1}


def rows(evidence, **words):
    """(word, what is wanted, evidence), for each of the wanted ones of each word."""
    return [(word, wanted, evidence) for word, many in words.items() for wanted in many]


CANNOT_SAY = [
    *rows(LOOP, output=[{"contains": "x"}, {"not_contains": "x"}, {"path": "$.a", "exists": False}]),
    *rows(LOOP, no_secret_in_output=[True]),
    *rows(AS_JSON, output=[{"path": "$.absent", "not_contains": "x"}]),
    *rows(replace(OUTSIDE, unknown=frozenset({"output"})), output=[{"exists": False}]),
    *rows(OUTSIDE, status=["ok"], tool_called=[{"name": "a", "at_least": 0, "at_most": 1}], tool_not_called=["a"]),
    *rows(OUTSIDE, tool_failed=["a"], forbidden_tools=[["a"]], tool_order=[{"subsequence": []}], error=["ValueError"]),
    *rows(OUTSIDE, repeated_call=[AT_MOST], turns=[AT_MOST], tokens=[AT_MOST]),
    *rows(UNTOLD, tokens=[{"at_most": 100}, {"at_least": 100}], duration=[AT_MOST]),
    *rows(REFUND, cost=[AT_MOST, {"at_most": 1, "prices": {"gpt-4": {"input": 1, "output": 1}}}]),
    *rows(REFUND, exchange=[{"at": at, "side": "reply", "exists": False} for at in (9, "mail")]),
    *rows(REFUND, no_identity_but=["$.user_id"]),
]


def test_it_holds():
    assert [row for row in HOLDS if check_word(*row) != (True, ())] == []


def test_it_does_not_hold_and_says_what_was_there():
    for word, wanted, evidence, told in FAILS:
        held, lines = check_word(word, wanted, evidence)
        assert held is False, (word, wanted)
        assert told in "\n".join(lines)
        assert len(lines) <= 6
        assert KEY not in "\n".join(lines)


def test_nobody_can_say():
    for word, wanted, evidence in CANNOT_SAY:
        held, lines = check_word(word, wanted, evidence)
        assert held is None, (word, wanted)
        assert lines[0].startswith("cannot say: ")


def test_every_word_is_tried_in_every_way():
    assert {row[0] for row in HOLDS} == set(WORDS) - {"no_identity_but"}
    assert {row[0] for row in FAILS} == set(WORDS) - {"no_identity_but"}
    assert {row[0] for row in CANNOT_SAY} == set(WORDS)
    assert set(model.check_model().model_fields) == set(WORDS)


def test_what_is_tried_here_can_be_written_in_a_case():
    for word, wanted, *_ in (*HOLDS, *FAILS, *CANNOT_SAY):
        model.check_model().model_validate({word: wanted})


ASSERTS = [
    ("assert_status", ("ok",), {}, ("error",), {}),
    ("assert_output", (), {"contains": "refunded"}, (), {"contains": "sorry"}),
    ("assert_output", (), {"equals": "I have refunded order A-1001."}, (), {"equals": None}),
    ("assert_tool_called", ("lookup_order", {"order_id": "A-1001"}), {"times": 1}, ("mail",), {}),
    ("assert_tool_not_called", ("mail",), {}, ("lookup_order", {"order_id": "A-1001"}), {}),
    ("assert_tool_failed", ("issue_refund",), {}, ("lookup_order",), {}),
    ("assert_tool_order", (["lookup_order", ("issue_refund", {"amount": 20})],), {}, (["lookup_order"],), {}),
    ("assert_forbidden_tools", ("mail",), {}, ("issue_refund",), {}),
    ("assert_repeated_call", (), {"at_most": 1}, (), {}),
    ("assert_turns", (), {"at_most": 3}, (), {"at_most": 2}),
    ("assert_tokens", (), {"at_most": 36}, (), {"at_most": 35}),
    ("assert_cost", (), {"at_most": 1, "prices": {"gpt-5": {"input": 1, "output": 1}}}, (), {"at_most": 1}),
    ("assert_duration", (), {"at_most": 5}, (), {"at_most": 4}),
    ("assert_error", ("RuntimeError", "bank"), {}, ("ValueError",), {}),
    ("assert_exchange", (1, "request"), {"path": "$.model", "equals": "gpt-5"}, (9, "reply"), {"exists": True}),
    ("assert_no_secret_in_output", (), {}, None, {}),
    ("assert_no_identity_but", None, {}, ("$.user_id", "u-7"), {}),
]


def test_tests_assert_in_the_same_words_and_every_word_has_its_assertion():
    view = RunView(refund, READER)
    for name, good, good_words, bad, bad_words in ASSERTS:
        if good is not None:
            getattr(view, name)(*good, **good_words)
        if bad is not None:
            with pytest.raises(AssertionError) as caught:
                getattr(view, name)(*bad, **bad_words)
            assert str(caught.value).count("\n") <= 6
    assert {f"assert_{word}" for word in WORDS} == {row[0] for row in ASSERTS}


NOT_MEANT = [
    ("assert_output", {"matches": "(?=a)b"}, "look-ahead"),
    ("assert_output", {}, "says nothing"),
    ("assert_output", {"path": "price", "exists": True}, "starts with"),
    ("assert_turns", {}, "add at_most"),
    ("assert_turns", {"at_most": 1, "at_least": 2}, "more than at_most"),
    ("assert_tool_called", {"name": "a", "times": 1, "at_most": 2}, "both bounds"),
    ("assert_tool_order", {"tools": [], "order": "any"}, "order is"),
    ("assert_error", {}, "add class or text"),
    ("assert_no_identity_but", {"path": "$.users[*]"}, "ends in no name"),
]


def test_an_assertion_that_cannot_be_meant_is_no_failure_of_the_run():
    for name, words, told in NOT_MEANT:
        with pytest.raises(ValueError, match=told):
            getattr(RunView(refund, READER), name)(**words)


# Evidence


def test_an_imported_run_says_its_own_output_and_status():
    told = {"status": "ok", "output": {"a": 1}, "input": {"arguments": {}}}
    told["faults"] = [{"type": "E", "message": "m"}, 5]
    evidence = frozen(refund(kit={"case": told}, outcome={"status": "failed", "type": "KeyError"}))
    assert (evidence.status, evidence.output, evidence.input) == ("ok", {"a": 1}, {"arguments": {}})
    assert ("E", "m") in evidence.errors


ENDS = [
    ({"status": "passed"}, "ok"),
    ({"status": "failed", "type": "builtins.AssertionError", "message": "assert 1"}, "ok"),
    ({"status": "failed", "type": "Failed"}, "ok"),
    ({"status": "failed", "type": "shop.Lost", "message": "gone"}, "error"),
    ({}, "ok"),
]


def test_a_recording_ends_as_its_test_does_unless_that_only_wanted_something_else():
    for outcome, status in ENDS:
        evidence = frozen(refund(outcome=outcome))
        assert evidence.status == status
        assert (evidence.errors[-1] == ("shop.Lost", "gone")) is (status == "error")


def test_a_last_reply_that_asks_for_tools_is_no_output():
    assert frozen(run((ask(), say("Let me look.", ("search", {}))))).output is None
    assert frozen(run((ask(), say("Let me look.", ("search", {}))), (ask(), say("Done.")))).output == "Done."


def test_tools_that_no_boundary_met_are_those_that_the_model_asked_for():
    results = {"role": "tool", "tool_call_id": "call_0", "content": '{"user_id": 7}'}
    asked = ask(), say(None, ("look", {"q": 1}))
    evidence = frozen(run(asked, (ask({"role": "user", "content": "?"}, results), say("x"))))
    (call,) = evidence.tool_calls
    assert (call.name, call.arguments, call.result, call.turn) == ("look", {"q": 1}, {"user_id": 7}, 1)
    assert frozen(evidence.run, with_requested=False).tool_calls == ()
    assert meets_tools(refund())
    assert not meets_tools(evidence.run)


def test_an_error_in_an_object_is_a_failed_call():
    def told(result):
        return CaseEvidence(tool_calls=(ToolCallView("pay", {}, result),))

    assert check_word("tool_failed", "pay", told({"error": "declined"})).holds
    assert check_word("tool_failed", "pay", told({"is_error": True})).holds
    assert check_word("tool_failed", "pay", told({"error": None, "status": "failed"})).holds is False


# Properties

TOOLS = st.sampled_from("abc")
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, 1.0, 2.5]) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSONS, JSONS)
def test_equal_means_the_same_json(a, b):
    def plain(value):
        return json.dumps(value, sort_keys=True).replace("-0.0", "0.0").replace(".0", "")

    assert is_same(a, a)
    assert is_same(a, b) == is_same(b, a) == (plain(a) == plain(b))


@given(st.lists(st.tuples(TOOLS, st.integers(0, 2)), max_size=6), TOOLS, st.integers(0, 4))
def test_calls_are_counted(calls, name, bound):
    evidence = CaseEvidence(tool_calls=tuple(ToolCallView(tool, {"n": n}) for tool, n in calls))
    count = [tool for tool, _ in calls].count(name)
    most = max((calls.count(call) for call in calls if call[0] == name), default=0)
    assert check_word("tool_called", {"name": name, "times": bound}, evidence).holds is (count == bound)
    assert check_word("tool_called", {"name": name, "at_least": bound}, evidence).holds is (count >= bound)
    assert check_word("tool_not_called", name, evidence).holds is (count == 0)
    assert check_word("forbidden_tools", [name], evidence).holds is (count == 0)
    assert check_word("repeated_call", {"name": name, "at_least": bound}, evidence).holds is (most >= bound)
    assert check_word("repeated_call", {"name": name, "at_most": bound}, evidence).holds is (most <= bound)
    names = [tool for tool, _ in calls]
    for how in ("equal", "subsequence", "multiset"):
        assert check_word("tool_order", {how: names}, evidence).holds
    assert check_word("tool_order", {"equal": [*names, name]}, evidence).holds is False
    assert check_word("tool_order", {"multiset": [*names, name]}, evidence).holds is False


def test_a_run_of_any_depth_makes_no_word_raise():
    deep: object = "x"
    for _ in range(5_000):
        deep = [deep]
    evidence = CaseEvidence(output=deep, tool_calls=(ToolCallView("a", {"x": deep}, deep),), input=deep)  # type: ignore[arg-type]
    for word, wanted in (row[:2] for row in HOLDS):
        assert check_word(word, wanted, evidence).holds in {True, False, None}
