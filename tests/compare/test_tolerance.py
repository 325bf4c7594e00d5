"""When two results are near enough: exact, but for what somebody says."""

import random
import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.tolerance import TolerancePolicy, parse, view
from pytest_agentreplay.compare.tolerance.comparing import match_elements
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.canonical_json import canonical

SCALAR = st.none() | st.booleans() | st.integers(-99, 99) | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["a", "b", "score", "$tuple", "$object", "$set"])
JSON = st.recursive(
    SCALAR | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=15,
)


def rules(*rows):
    return TolerancePolicy(parse(*row.split(" = ")) for row in rows)


def near(recorded, now, *rows):
    return rules(*rows).is_near("search", recorded, now)


ROWS = [
    "search $ = unordered", "search $..score = 0.5", "search $.a = ignore", "search $[*] = 10%", "search $..* = exact",
]  # fmt: skip


@given(JSON, JSON, st.lists(st.sampled_from(ROWS), max_size=4))
def test_what_is_settled_is_near_when_it_is_equal_and_settling_again_changes_nothing(recorded, now, rows):
    tolerances = rules(*rows)
    settled = tolerances.settle("search", recorded, now)
    assert tolerances.is_near("search", recorded, now) == (canonical(settled) == canonical(recorded))
    assert canonical(tolerances.settle("search", recorded, settled)) == canonical(settled) or rows
    assert near(recorded, recorded, *rows), "everything is near itself under any tolerance"
    assert near(recorded, now) == (canonical(recorded) == canonical(now)), "without tolerances near is equal"


@given(JSON, JSON)
def test_what_is_ignored_is_near_whatever_it_is(recorded, now):
    assert near(recorded, now, "search $ = ignore")
    assert near({"id": 1, "at": recorded}, {"id": 1, "at": now}, "search $.at = ignore")
    assert near({"id": 1}, {"id": 1, "at": now}, "search $.at = ignore")
    assert near({"id": 1, "at": recorded}, {"id": 1}, "search $.at = ignore")
    assert not near({"id": 1, "at": recorded}, {"id": 2, "at": now}, "search $.at = ignore")


@given(st.lists(JSON, max_size=6), st.randoms())
def test_another_order_is_near_when_order_is_no_matter(items, chance):
    mixed = items.copy()
    chance.shuffle(mixed)
    assert near(items, mixed, "search $ = unordered")
    assert near({"rows": items}, {"rows": mixed}, "search $.rows = unordered")
    assert not near(items, [*mixed, "one more"], "search $ = unordered")


@given(st.lists(st.integers(0, 6), max_size=6), st.lists(st.integers(0, 6), max_size=6))
def test_as_many_pairs_are_found_as_there_can_be(old, new):
    def close(at, to):
        return abs(old[at] - new[to]) <= 1

    found = match_elements([str(one) for one in old], [str(one) for one in new], close)
    assert len({*found.values()}) == len(found)
    assert all(close(at, to) for at, to in found.items())
    padded = [*new, *[99] * max(0, len(old) - len(new))]
    best = max(sum(abs(a - b) <= 1 for a, b in zip(old, order, strict=False)) for order in permutations(padded))
    assert len(found) == best


@pytest.mark.parametrize(
    ("recorded", "now", "row", "same"),
    [
        ({"score": 0.81}, {"score": 0.80}, "search $.score = 0.01", True),
        ({"score": 0.81}, {"score": 0.79}, "search $.score = 0.01", False),
        ({"score": 200}, {"score": 202}, "search $.score = 1%", True),
        ({"score": 200}, {"score": 203}, "search $.score = 1 %", False),
        ({"score": 1}, {"score": True}, "search $.score = 5", False),
        ({"score": 1}, {"score": 1.0}, "search $.score = 0", True),
        ({"score": 1}, {"score": None}, "search $.score = 5", False),
        ([[0.1, 0.2]], [[0.1001, 0.2]], "search $[*] = 0.001", True),
        ({"vector": [0.1]}, {"vector": [0.1001]}, "sea* $..vector = 0.001", True),
        ({"vector": [0.1]}, {"vector": [0.1001]}, "other $..vector = 0.001", False),
        ({"$tuple": [1.0, 2]}, {"$tuple": [1.1, 2]}, "search $[0] = 0.2", True),
        ({"$tuple": [1, 2]}, [1, 2], "search $[0] = ignore", False),
        ({"$object": {"at": 1, "id": 2}}, {"$object": {"at": 3, "id": 2}}, "search $.at = ignore", True),
        ({"$object": ["a.B", {"at": 1}]}, {"$object": ["a.C", {"at": 3}]}, "search $.at = ignore", False),
        ({"$codec": ["numpy.float32", 0.5]}, {"$codec": ["numpy.float32", 0.51]}, "search $ = 0.02", True),
        ({"$decimal": "1.00"}, {"$decimal": "1.01"}, "search $ = 0.01", True),
        ({"$decimal": "nan"}, {"$decimal": "1"}, "search $ = 9", False),
        ({"$set": ["a", "b"]}, {"$set": ["b", "a"]}, "search $.x = ignore", True),
        ({"$deque": [[1], None]}, {"$deque": [[2], None]}, "search $[0] = ignore", True),
        ({"$arm": [0, "A", {"$object": {"x": 1}}]}, {"$arm": [0, "A", {"$object": {"x": 2}}]}, "search $.x = ignore", True),
        ({"key": "[[redacted:api-key:1]]"}, {"key": "[[redacted:api-key:2]]"}, "search $.x = ignore", True),
        ({"key": "[[redacted:api-key:1]]"}, {"key": "[[redacted:cookie:1]]"}, "search $.x = ignore", False),
        ([{"id": 1, "s": 0.5}, {"id": 2, "s": 0.4}], [{"id": 2, "s": 0.41}, {"id": 1, "s": 0.5}], "search $ = unordered", False),
    ],
)  # fmt: skip
def test_what_each_says(recorded, now, row, same):
    assert near(recorded, now, row) is same


def test_tolerances_hold_together_and_the_last_one_wins():
    before = [{"id": 1, "s": 0.5, "at": 1}, {"id": 2, "s": 0.4, "at": 2}]
    after = [{"id": 2, "s": 0.41, "at": 8}, {"id": 1, "s": 0.5, "at": 9}]
    rows = ["search $ = unordered", "search $[*].s = 0.02", "search $[*].at = ignore"]
    assert near(before, after, *rows)
    assert not near(before, after, *rows, "search $[*].at = exact")
    assert not near({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 2}}, "search $.a = 5", "search $.a.b = exact")


def test_what_is_left_differs_alone_and_a_view_leads_through_classes_and_tuples():
    settled = rules("search $[*].s = 0.1", "search $ = unordered").settle(
        "search", [{"id": 1, "s": 0.5}, {"id": 2, "s": 0.4}], [{"id": 3, "s": 0.4}, {"id": 1, "s": 0.55}]
    )
    assert settled == [{"id": 1, "s": 0.5}, {"id": 3, "s": 0.4}]
    assert view({"$object": ["a.B", {"x": {"$tuple": [1, {"$decimal": "1"}]}}]}) == {"x": [1, {"$decimal": "1"}]}


def test_long_lists_in_another_order_are_quick():
    items = [{"id": number, "score": number / 7} for number in range(2000)]
    mixed = items.copy()
    random.Random(7).shuffle(mixed)
    assert near(items, mixed, "search $ = unordered", "search $[*].score = 0.001")


INVALID = [
    ("search", "ignore", "write it like lookup_order $.updated_at"),
    ("$.score", "ignore", "write it like"),
    ("search $.score", "about", "write ignore, unordered, exact, a number"),
    ("search $.score", "-1", "write ignore"),
    ("search $.[", "ignore", "column"),
]


def test_what_cannot_be_meant_is_refused():
    for place, how, said in INVALID:
        with pytest.raises(SettingsError, match=re.escape(said)):
            parse(place, how)
