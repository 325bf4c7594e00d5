"""What tests can say about runs, and what they are told when it is not so."""

from __future__ import annotations

from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cases.assertions import assert_same_run, first_divergence
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.model.exchanges import Failure, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.values.deserializer import to_plain
from tests.support.chat_runs import QUESTION, ask, result_of, run, say, tool
from tests.support.tables import words


def two_turns(order_id=7, result=None, said="It has shipped."):
    return run(
        (ask(), say(None, ("lookup_order", {"order_id": order_id}))),
        tool("lookup_order", result or {"status": "shipped"}, order_id=order_id),
        (ToolCall("refund", {"order_id": order_id}), Failure("builtins.KeyError", "7")),
        (ask(QUESTION, result_of("call_0", "shipped")), say(said)),
    )


def view_of(*pairs, **more):
    return RunView(lambda: run(*pairs, **more), READER)


@pytest.fixture
def view():
    return RunView(two_turns, READER)


def told(call, *arguments, **keywords):
    with pytest.raises(AssertionError) as caught:
        call(*arguments, **keywords)
    lines = str(caught.value).splitlines()
    assert len(lines) <= 6
    return lines


def test_a_view_tells_turns_calls_text_and_usage(view):
    first, second = view.turns
    assert (first.number, first.lane, first.model, first.finish_reasons) == (1, "main", "gpt-5", ("tool_calls",))
    assert [use.name for use in first.tool_uses] == ["lookup_order"]
    assert [call.name for call in first.tool_calls] == ["lookup_order", "refund"]
    assert second.text == view.final_text == "It has shipped."
    assert view.usage == {name: 2 * count for name, count in first.usage.items()}
    assert len(view) == len(view.model_calls) == 2
    lookup, refund = view.tool_calls
    assert (lookup.arguments, lookup.result) == ({"order_id": 7}, {"status": "shipped"})
    assert (lookup.failed, lookup.turn) == (False, 1)
    assert (refund.result, refund.failed) == ("KeyError: 7", True)


def test_a_view_is_live():
    runs = [run()]
    view = RunView(lambda: runs[-1], READER)
    assert (len(view), view.final_text, view.usage, view.turns) == (0, "", {}, ())
    runs.append(two_turns())
    assert len(view) == 2
    assert view.run is runs[-1]


def test_what_ran_inside_a_tool_call_is_part_of_it():
    view = view_of(tool("research", "done"), (ask(), say("inner")), tool("search", 1), parents={1: 0, 2: 0})
    assert [call.name for call in view.tool_calls] == ["research"]
    assert [turn.number for turn in view.turns] == [0]
    assert view.model_calls == ()


def test_reprs_are_one_short_line(view):
    assert repr(view) == "<run of 2 model calls, 2 tool calls: lookup_order, refund>"
    assert repr(view.turns[0]) == "<turn 1 gpt-5 -> lookup_order>"
    assert repr(view.turns[1]) == "<turn 2 gpt-5 'It has shipped.'>"
    assert repr(view.tool_calls[0]) == "lookup_order(order_id=7) -> {'status': 'shipped'}"
    assert repr(view.tool_calls[1]) == "refund(order_id=7) raised KeyError: 7"
    long = RunView(lambda: two_turns(result={"text": "word\n" * 10_000}, said="a\n" * 10_000), READER)
    for shown in (long, *long.turns, *long.tool_calls):
        assert len(repr(shown)) < 160
        assert "\n" not in repr(shown)


def test_tool_calls_by_name_and_by_arguments(view):
    view.assert_tool_calls(["lookup_order", "refund"])
    view.assert_tool_calls([("lookup_order", {"order_id": 7}), ("refund", {"order_id": ANY})])
    view.assert_tool_calls(["refund"], order="subsequence")
    view.assert_tool_calls([], order="subsequence")
    view.assert_tool_calls(["refund", "lookup_order"], order="multiset")


def test_a_tool_call_that_is_otherwise_is_shown_with_its_nearest(view):
    assert told(view.assert_tool_calls, ["lookup_order", ("refund", {"order_id": 8})]) == [
        "tool call 2 is another one (turn 1)",
        "  expected  refund(order_id=8)",
        "  there     refund(order_id=7) raised KeyError: 7",
        "  nearest   refund in turn 1: order_id 8 -> 7",
        "  all calls  lookup_order, refund",
    ]
    lines = told(view.assert_tool_calls, [("lookup_order", {}), "refund"])
    assert "order_id nothing -> 7" in lines[3], "arguments are compared whole"
    missing = told(view.assert_tool_calls, ["lookup_order", "refund", "send_mial"])
    assert missing[:3] == ["tool call 3 was not made", "  expected  send_mial", "  there     no more calls"]
    extra = told(view.assert_tool_calls, ["lookup_order"])
    assert extra[:2] == ["tool call 2 was not expected (turn 1)", "  expected  no more calls"]
    assert "  nearest   lookup_order" in told(view.assert_tool_calls, ["lookup_orders", "refund"])


def test_an_order_that_was_not_kept_and_a_bag_that_lacks_one_or_has_too_many(view):
    lines = told(view.assert_tool_calls, ["refund", "lookup_order"], order="subsequence")
    assert lines[:2] == ["expected tool call 2 did not come after refund (turn 1)", "  expected  lookup_order"]
    lacking = told(view.assert_tool_calls, ["refund", "refund"], order="multiset")
    assert lacking[0] == "1 of 2 expected tool calls were not made"
    assert "lookup_order(order_id=7)" in lacking[2]
    assert told(view.assert_tool_calls, ["refund"], order="multiset")[0] == "1 tool call was not expected (turn 1)"


def test_a_loose_expectation_makes_room_for_a_strict_one():
    view = view_of(tool("pay", 1, sum=1), tool("pay", 1, sum=2))
    view.assert_tool_calls(["pay", ("pay", {"sum": 1})], order="multiset")
    view.assert_tool_calls([("pay", {"sum": ANY}), ("pay", {"sum": 1})], order="multiset")


def test_an_expectation_that_is_none_and_an_unknown_order(view):
    for slip in ("lookup_order", [7], [("a", "b")], [("a",)], [None]):
        with pytest.raises(TypeError):
            view.assert_tool_calls(slip)
    with pytest.raises(ValueError, match="subsequence"):
        view.assert_tool_calls([], order="any")


def test_a_turn_by_its_tool_text_model_and_request(view):
    view.assert_turn(1, tool="lookup_order")
    view.assert_turn(1, tool=("lookup_order", {"order_id": 7}), model="gpt-5")
    view.assert_turn(1, tool="refund")
    view.assert_turn(2, text="It has shipped.", text_contains="shipped")
    view.assert_turn(-1, text_contains="shipped")
    view.assert_turn(1, jsonpath="$.messages[0].content", equals="Where is my order?")
    view.assert_turn(2, jsonpath="$.messages[*].role", equals=["user", "tool"])
    view.assert_turn(2, jsonpath="$.messages[?(@.role=='tool')].content")


PATH = "$.messages[0].content"
PARCEL = {"jsonpath": PATH, "equals": "Where is my parcel?"}
OTHER_ORDER, NEITHER = ("lookup_order", {"order_id": 8}), "neither asked for tool {} nor called it so"
OTHERWISE = [
    (2, {"tool": "refund"}, f"turn 2 {NEITHER.format('refund')}", "refund", "no tool", ""),
    (1, {"tool": OTHER_ORDER}, f"turn 1 {NEITHER.format('lookup_order')}", "lookup_order(order_id=8)", "lookup_order, refund", "nearest   lookup_order in turn 1: order_id 8 -> 7"),
    (2, {"model": "gpt-4"}, "turn 2 asked another model", "gpt-4", "gpt-5", ""),
    (2, {"text_contains": "SHIPPED"}, "turn 2 does not say it", "'SHIPPED' in the text", "'It has shipped.'", "nearest   'shipped' (other case)"),
    (2, {"text": "It has gone."}, "turn 2 says something else", "'It has gone.'", "'It has shipped.'", "differs   gone -> shipped"),
    (1, PARCEL, f"turn 1: {PATH} is something else", "'Where is my parcel?'", "'Where is my order?'", "differs   parcel -> order"),
    (1, {"jsonpath": "$.messages[3].content"}, "turn 1: $.messages[3].content finds nothing in the request", "something", "nothing", "nearest   $.messages has 1 items"),
    (7, {}, "there is no turn 7 in lane main", "turn 7", "turns 1-2", "lanes     main"),
]  # fmt: skip


def test_a_turn_that_is_otherwise(view):
    for number, conditions, said, expected, there, more in OTHERWISE:
        lines = [said, f"  expected  {expected}", f"  there     {there}", *([f"  {more}"] if more else [])]
        assert told(view.assert_turn, number, **conditions) == lines


def test_equals_needs_a_path_and_another_lane_has_turns_of_its_own(view):
    with pytest.raises(TypeError, match="jsonpath="):
        view.assert_turn(1, equals=1)
    with pytest.raises(ValueError, match=r"jsonpath: .* is no path into a body: column 2"):
        view.assert_turn(1, jsonpath="$.[")
    view = view_of((ask(), say("a")), (ask(), say("b")), lanes={1: "other"})
    view.assert_turn(1, lane="other", text="b")
    assert told(view.assert_turn, 2, lane="other")[2] == "  there     turns 1-1"


@pytest.mark.parametrize(
    ("frozen", "value"),
    [
        ({"$tuple": [1, {"$tuple": []}]}, (1, ())),
        ({"$set": [1, 2]}, {1, 2}),
        ({"$dict": [[1, "a"]]}, {1: "a"}),
        ({"$defaultdict": ["list", [["a", [1]]]]}, {"a": [1]}),
        ({"$object": {"a": {"$tuple": [1]}}}, {"a": (1,)}),
        ({"$object": ["shop.Order", {"a": 1}]}, {"a": 1}),
        ({"$object": [None, [1, 2]]}, [1, 2]),
        ({"$arm": [0, "int", 3]}, 3),
        ({"$codec": ["shop.Money", "3 EUR"]}, "3 EUR"),
        ({"$$a": 1}, {"$a": 1}),
        *((same, same) for same in ({"$unknown": 1}, {"$decimal": "no number"}, {"$set": [[1]]}, {"$dict": [1]})),
        ({"a": 1, "b": [None, True]}, {"a": 1, "b": [None, True]}),
    ],
)
def test_frozen_values_are_seen_plain(frozen, value):
    assert to_plain(frozen) == value


KINDS = words("tuple set frozenset dict counter deque defaultdict object enum codec arm decimal uuid")


def marked(inner):
    """Lists, objects, and what is said to be frozen of one kind or another."""
    marks = st.sampled_from([f"${kind}" for kind in sorted(KINDS)])
    plain_objects = st.dictionaries(st.sampled_from(["a", "$$a"]), inner, max_size=2)
    return st.lists(inner, max_size=3) | plain_objects | st.dictionaries(marks, inner, min_size=1, max_size=1)


@given(st.recursive(st.none() | st.integers(-2, 2) | st.sampled_from(["", "a", "1.5"]), marked, max_leaves=10))
def test_no_frozen_value_is_too_odd_to_be_seen(data):
    to_plain(data)


def test_generators_are_seen_as_lists():
    (call,) = view_of((ToolCall("pages", {}), ToolReply(items=(1, {"$tuple": [2]})))).tool_calls
    assert call.result == [1, (2,)]


def test_runs_that_behave_alike_are_equal(view):
    assert first_divergence(view, two_turns()) is None
    assert view == RunView(two_turns, READER)
    assert_same_run(two_turns(), view)
    assert view != "a run"


def test_runs_that_part(view):
    other = RunView(lambda: two_turns(order_id=8), READER)
    assert view != other
    divergence = first_divergence(view, other)
    assert divergence.turn == 1
    lines = told(assert_same_run, view, other)
    assert lines[0].startswith("runs part at turn 1/2: ")
    assert f"[{divergence.kind.code}]" in lines[0]
    lacking, longer = (Run(two_turns().header, two_turns().exchanges[:count]) for count in (2, 3))
    lines = told(assert_same_run, lacking, longer)
    assert lines[1:4] == ["  call", "    a  nothing", "    b  'tool refund {\"order_id\":7}'"]


def test_what_is_no_run():
    for value in (None, "run", 7, object()):
        with pytest.raises(TypeError, match="expected a run"):
            first_divergence(value, two_turns())
