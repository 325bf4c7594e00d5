"""The path language of the rules."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.rules import compile_path, show

TREE = {
    "id": "r1",
    "x-y": 1,
    "a'b": 2,
    "messages": [{"id": "m1", "text": "hi"}, {"id": "m2", "meta": {"id": "deep"}}, "bare"],
    "params": {"0": "name, not index"},
}
PLACES = {
    "$": ["$"], "$.id": ["$.id"], "$['x-y']": ["$['x-y']"], '$["x-y"]': ["$['x-y']"], "$.x-y": ["$['x-y']"],
    r"$['a\'b']": [r"$['a\'b']"], "$.messages[*].id": ["$.messages[0].id", "$.messages[1].id"],
    "$.messages[-1]": ["$.messages[2]"], "$.messages[0].id": ["$.messages[0].id"], "$.messages[9]": [],
    "$.messages.id": [], "$.id.more": [], "$.params[0]": [], "$.params['0']": ["$.params['0']"],
    "$.messages[1].*": ["$.messages[1].id", "$.messages[1].meta"], "$..[0]": ["$.messages[0]"],
    "$..id": ["$.id", "$.messages[0].id", "$.messages[1].id", "$.messages[1].meta.id"],
    "$.messages..id": ["$.messages[0].id", "$.messages[1].id", "$.messages[1].meta.id"],
    "$..messages[*].meta": ["$.messages[1].meta"],
}  # fmt: skip
NO_PATHS = ["", "id", "$.", "$[", "$.a.", "$['x]", "$.a b", "$[1:2]", "$[?(@.a)]", "$...a", ".a"]


def test_which_places_a_path_means_and_what_is_no_path():
    assert {path: [show(place) for place, _ in compile_path(path).find(TREE)] for path in PLACES} == PLACES
    for path in NO_PATHS:
        with pytest.raises(SettingsError, match=r"is no path into a body.*"):
            compile_path(path)


def test_remove_and_replace_leave_the_tree_itself_alone():
    before = copy.deepcopy(TREE)
    without = compile_path("$.messages[*].id").remove(TREE)
    changed = compile_path("$.messages[*].id").replace(TREE, lambda value: f"<{value}>")
    assert without["messages"] == [{"text": "hi"}, {"meta": {"id": "deep"}}, "bare"]
    assert [m["id"] for m in changed["messages"][:2]] == ["<m1>", "<m2>"]
    assert before == TREE
    assert without["params"] is TREE["params"], "what is not on the way is shared"
    assert compile_path("$.nowhere").remove(TREE) is TREE
    assert compile_path("$.nowhere").replace(TREE, str) is TREE


def test_lists_wholes_places_in_places_and_deep_trees():
    assert compile_path("$.messages[*]").remove(TREE)["messages"] == []
    assert compile_path("$").remove(TREE) is None
    assert compile_path("$").replace(1, lambda value: value + 1) == 2
    assert compile_path("$..a").remove({"a": {"a": {"b": 1}}, "c": 1}) == {"c": 1}
    tree: list = []
    for _ in range(5000):
        tree = [tree]
    assert compile_path("$..name").find(tree) == []


TREES = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(TREES)
def test_a_shown_place_is_a_path_that_means_it_alone_and_removing_it_removes_nothing_else(tree):
    for place, value in compile_path("$..*").find(tree):
        path = compile_path(show(place))
        assert path.find(tree) == [(place, value)]
        expected = holder = copy.deepcopy(tree)
        for key in place[:-1]:
            holder = holder[key]
        del holder[place[-1]]
        assert json.dumps(path.remove(tree)) == json.dumps(expected)
