"""Fixtures: what a tool gives for which arguments, what is refused, and that what is written is read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cases import fixtures, render
from pytest_agentreplay.cases.fixtures import Fixture, FixtureAnswer, Fixtures, of_answers
from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.model.exchanges import Failure, ToolReply

LOOKUP = """\
tool: lookup_order
match: [$.order_id, $.user.id]
answers:
  - arguments: {order_id: A-1001, user: {id: u-7}, page: 1}
    result: {status: shipped, note: null}
    recorded: true
  - arguments: {order_id: A-1001}
    error: {type: shop.Lost, message: gone, bases: [builtins.Exception]}
    written: true
    why: nobody asked without a user
  - arguments: {order_id: A-2002}
    items: [1, {a: 2}]
    error: "StopIteration: enough"
    recorded: true
  - arguments: {order_id: A-3003}
    result: first
    then:
      - error: KeyError
      - json: '{"deep": [1e400, "\\ud800"]}'
    recorded: true
"""


def read(*texts):
    return fixtures.read_fixtures({f"fixtures/f-{n}.yaml": text.encode() for n, text in enumerate(texts, 1)})


def test_a_tool_answers_by_the_arguments_that_count():
    told = read(LOOKUP.replace("1e400", "1"))
    given_back = told.answer("lookup_order", {"order_id": "A-1001", "user": {"id": "u-7"}, "page": 99})
    assert given_back.outcome() == ToolReply({"status": "shipped", "note": None})
    assert (given_back.written, given_back.file, given_back.place) == (False, "fixtures/f-1.yaml", "4:5")
    assert told.answer("lookup_order", {"order_id": "A-1001", "user": {"id": "u-8"}}) is None
    assert told.answer("lookup_order", {}) is None
    assert told.answer("mail", {"order_id": "A-1001"}) is None
    assert told.tools == ("lookup_order",)
    told = read("tool: a\nanswers:\n- {arguments: {x: 1, y: [1, 2]}, result: 1, recorded: true}\n")
    assert told.answer("a", {"y": [1, 2], "x": 1}) is not None, "all count unless something else is said"
    assert told.answer("a", {"x": 1}) is None
    assert told.answer("a", {"x": True, "y": [1, 2]}) is None, "true is not 1"
    assert Fixtures().answer("a", {}) is None


def test_an_error_the_items_of_a_generator_and_what_followed_in_turn_are_answers_too():
    told = read(LOOKUP.replace("1e400", "1"))
    written = told.answer("lookup_order", {"order_id": "A-1001"})
    assert written.outcome() == Failure("shop.Lost", "gone", ("gone",), ("builtins.Exception",))
    assert (written.written, written.why) == (True, "nobody asked without a user")
    items = told.answer("lookup_order", {"order_id": "A-2002"}).outcome()
    assert items == ToolReply(None, (1, {"a": 2}), Failure("builtins.StopIteration", "enough", ("enough",)))
    answer = told.answer("lookup_order", {"order_id": "A-3003"})
    last = ToolReply({"deep": [1, "\ud800"]})
    assert [answer.outcome(n) for n in range(4)] == [ToolReply("first"), Failure("builtins.KeyError"), last, last]
    with pytest.raises(CaseError, match="json is a text that is JSON"):
        read(LOOKUP.replace("1e400", "NaN"))


HEAD = "tool: a\nanswers:\n"


REFUSED = [
    ("a: 1", "1:1: 'a' is no key of a fixture"),
    ("tool: ''\nanswers: []", "1:1: tool is the name"),
    ("tool: a", "1:1: answers is a list"),
    ("tool: a\nanswers: {}", "2:1: answers is a list"),
    ("tool: a\nmatch: x\nanswers: [{}]", "2:1: match is a list"),
    ("tool: a\nmatch: [order_id]\nanswers: [{}]", "2:9: 'order_id' is no path"),
    ("tool: a\nmatch: [$..a]\nanswers: [{}]", "2:9: is the path of an argument"),
    ("tool: a\nmatch: [$]\nanswers: [{}]", "2:9: is the path of an argument"),
    (HEAD + "- x", "3:3: an answer is keys and values"),
    (HEAD + "- {result: 1}", "3:3: an answer is recorded: true or written: true"),
    (HEAD + "- {result: 1, recorded: true, written: true}", "3:3: an answer is recorded: true or"),
    (HEAD + "- {result: 1, written: yes}", "3:3: an answer is recorded: true or"),
    (HEAD + "- {recorded: true}", "3:3: an answer has one of result, json, items and error; here is none"),
    (HEAD + "- {result: 1, error: E, recorded: true}", "here are result and error"),
    (HEAD + "- {result: 1, arguments: [1], recorded: true}", "3:15: arguments are keys and values"),
    (HEAD + "- {resul: 1, recorded: true}", "3:4: 'resul' is no key of an answer: did you mean result?"),
    (HEAD + "- {error: {typ: x}, recorded: true}", "3:12: 'typ' is no key of error: did you mean type?"),
    (HEAD + "- {error: {message: x}, recorded: true}", "3:4: error is a text like KeyError: 7"),
    (HEAD + "- {error: [], recorded: true}", "3:4: error is keys and values"),
    (HEAD + "- {error: {type: x, args: 1}, recorded: true}", "args and bases"),
    (HEAD + "- {items: 1, recorded: true}", "3:4: items is a list"),
    (HEAD + "- {json: '{', recorded: true}", "3:4: json is a text that is JSON"),
    (HEAD + "- {result: 1, why: x, recorded: true}", "3:15: why is a text, of a written answer"),
    (HEAD + "- {result: 1, then: 2, recorded: true}", "3:15: then is a list"),
    (HEAD + "- {result: 1, then: [{}], recorded: true}", "3:22: an answer has one of"),
]


def test_what_cannot_be_meant_is_refused_with_its_place():
    for text, told in REFUSED:
        with pytest.raises(CaseError) as caught:
            read(text)
        assert str(caught.value).startswith("fixtures/f-1.yaml:")
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)


ONE = "tool: a\nmatch: [$.x]\nanswers:\n- {arguments: {x: 1, y: 1}, result: 1, recorded: true}\n"


TWICE = [
    (ONE + "- {arguments: {x: 1, y: 2}, result: 1, recorded: true}\n",),
    (ONE + "- {arguments: {x: 1}, result: 2, written: true}\n",),
    (ONE, ONE),
    (ONE, "tool: a\nanswers:\n- {arguments: {x: 1, y: 5}, result: 2, written: true}\n"),
    ("tool: a\nmatch: [$.y]\nanswers:\n- {arguments: {y: 1}, result: 2, written: true}\n", ONE),
]


def test_two_answers_to_one_call_are_refused():
    for texts in TWICE:
        with pytest.raises(CaseError, match=r"two answers \((recorded|written) and (recorded|written)\) fit the same"):
            read(*texts)


def test_two_answers_that_meet_at_a_call_to_come_are_refused_then():
    told = read(ONE, "tool: a\nmatch: [$.z]\nanswers:\n- {arguments: {x: 9, z: 1}, result: 2, written: true}\n")
    assert told.answer("a", {"x": 1}).outcome() == ToolReply(1)
    with pytest.raises(CaseError, match=r"f-1\.yaml:4:3: two answers .* fixtures/f-2\.yaml:4:3 has the other"):
        told.answer("a", {"x": 1, "z": 1})


# Writing


def test_recorded_calls_become_one_fixture_with_what_followed_in_turn():
    calls = [({"q": 1}, ToolReply("a")), ({"q": 2}, ToolReply("b")), ({"q": 1}, Failure("shop.Lost", "x"))]
    fixture = of_answers("search", [*calls, ({"q": 2}, ToolReply("b"))])
    assert [answer.outcomes for answer in fixture.answers] == [
        (ToolReply("a"), Failure("shop.Lost", "x")),
        (ToolReply("b"),),
    ]
    assert render.fixture_text(fixture) == (
        "tool: search\nanswers:\n  - arguments: {q: 1}\n    result: a\n    then:\n"
        "      - error: {type: shop.Lost, message: x, args: []}\n    recorded: true\n"
        "  - {arguments: {q: 2}, result: b, recorded: true}\n"
    )


def test_a_file_has_a_name_that_any_system_takes_and_no_two_tools_share_one():
    names = {
        "lookup_order": "lookup_order",
        "Shop.Lookup Order": "shop-lookup-order",
        "../../etc/passwd": "etc-passwd",
        "CON": "tool-con",
        "lpt9": "tool-lpt9",
        "日本": "tool",
        "a" * 500: "a" * 60,
    }
    assert {tool: render.fixture_name(tool, 1) for tool in names} == {
        tool: f"fixtures/{name}-1.yaml" for tool, name in names.items()
    }
    told = [Fixture(tool, (FixtureAnswer({}, (ToolReply(1),)),)) for tool in ("a b", "A-B", "a.b")]
    assert [*render.fixture_files(told)] == [f"fixtures/a-b-{n}.yaml" for n in (1, 2, 3)]


ODD = ["no", "1e5", "a\nb\n", "\u2028", "\ud800", "\0", "# x", "- y"]
TEXTS = st.text(max_size=12) | st.sampled_from(ODD)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda of: st.lists(of, max_size=3) | st.dictionaries(TEXTS, of, max_size=3), max_leaves=8
)
NAMES = st.text(alphabet="abc_é ", min_size=1, max_size=5).filter(lambda name: name == name.strip())
FAILURES = st.builds(Failure, st.just("shop.Lost"), st.text(alphabet="a\nb: ", max_size=5), st.just(("x", 1)))
OUTCOMES = st.builds(ToolReply, VALUES) | FAILURES
CALLS = st.lists(st.tuples(st.dictionaries(NAMES, st.integers(-9, 9), max_size=2), OUTCOMES), min_size=1, max_size=4)


@given(NAMES, CALLS)
def test_any_result_that_json_has_comes_back(tool, calls):
    told = of_answers(tool, calls)
    again = fixtures.read_fixtures({name: text.encode() for name, text in render.fixture_files([told]).items()})
    seen: dict[str, int] = {}
    for arguments, outcome in calls:
        key = json.dumps(arguments, sort_keys=True)
        assert again.answer(tool, arguments).outcome(seen.get(key, 0)) == outcome
        seen[key] = seen.get(key, 0) + 1


def test_what_no_text_can_hold_and_too_many_files_are_refused():
    with pytest.raises(CaseError, match="the answers of a cannot be written"):
        render.fixture_text(of_answers("a", [({"x": "\ud800"}, ToolReply(1))]))
    with pytest.raises(CaseError, match="more than 2,000"):
        fixtures.read_fixtures({f"{n}.yaml": b"" for n in range(2001)})
