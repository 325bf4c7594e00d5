"""JSON paths: what each step means, what is no path, and that jsonpath-ng finds the same."""

from __future__ import annotations

import contextlib
import copy
import json
import time
import warnings
from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpath_ng.ext.parser import parse

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.json_paths import Step, format_path, show
from pytest_agentreplay.model.path_parsing import compile_path, split_path

pytestmark = pytest.mark.env("main", "lowest")

TREE = {
    "id": "r1",
    "x-y": 1,
    "a'b": 2,
    "messages": [{"id": "m1", "text": "hi"}, {"id": "m2", "meta": {"id": "deep"}}, "bare"],
    "tools": {"a": {"name": "find", "n": 1}, "b": {"name": "refund", "n": 2.5, "ok": True}},
    "params": {"0": "name, not index"},
}
RELEASE = tuple(map(int, version("jsonpath-ng").split(".")[:2]))
NEWEST = RELEASE >= (1, 16)
"""Whether jsonpath-ng knows all of the language; from 1.6 on it reads most of it."""
PLACES = {
    "$": ["$"], "$.id": ["$.id"], "$['x-y']": ["$['x-y']"], '$["x-y"]': ["$['x-y']"], "$.x-y": ["$['x-y']"],
    r"$['a\'b']": [r"$['a\'b']"], "$.messages[*].id": ["$.messages[0].id", "$.messages[1].id"],
    "$.messages[-1]": ["$.messages[2]"], "$.messages[0].id": ["$.messages[0].id"], "$.messages[9]": [],
    "$.messages.id": [], "$.id.more": [], "$.params[0]": [], "$.params['0']": ["$.params['0']"],
    "$.messages[1].*": ["$.messages[1].id", "$.messages[1].meta"], "$..[0]": ["$.messages[0]"],
    "$..id": ["$.id", "$.messages[0].id", "$.messages[1].id", "$.messages[1].meta.id"],
    "$.messages..id": ["$.messages[0].id", "$.messages[1].id", "$.messages[1].meta.id"],
    "$..messages[*].meta": ["$.messages[1].meta"],
    "$.messages.[0].'id'": ["$.messages[0].id"], "$[id]": ["$.id"], "$['id', 'x-y']": ["$.id", "$['x-y']"],
    "$.messages[1:]": ["$.messages[1]", "$.messages[2]"], "$.messages[:-2].id": ["$.messages[0].id"],
    "$.tools[1:]": [], "$.messages[?(@.text == 'hi')].id": ["$.messages[0].id"],
    '$.messages[?(@.meta.id == "deep")]': ["$.messages[1]"], "$.messages[?(@.id)]": ["$.messages[0]", "$.messages[1]"],
    "$.messages[?@.id > 'm1']": ["$.messages[1]"], "$.tools[?(@.n >= 2)]": ["$.tools.b"],
    "$.tools[?(@.n < 2)].name": ["$.tools.a.name"], "$.tools[?(@.ok == true)]": ["$.tools.b"],
    "$.tools[?(@.n == '1')]": [], "$.tools[?(@.ok == 1)]": [], "$.tools[?(@.ok != true)]": ["$.tools.a"],
    "$..[?(@.name == 'find')].n": ["$.tools.a.n"], "$[?(@..n == 2.5)]": ["$.tools"],
    "$[?(@[?(@.n == 1)])]": ["$.tools"], "$.messages[?(@ == 'bare')]": ["$.messages[2]"],
    "$.tools[?(@.name == 'refund' & @.n > 2)]": ["$.tools.b"], "$.id[?(@.x == 1)]": [],
}  # fmt: skip
NEWER_PLACES = {
    "$.messages[0, 2, -1]": ["$.messages[0]", "$.messages[2]"], "$.messages[::-2]": ["$.messages[2]", "$.messages[0]"],
    "$.messages[?(!@.id)]": ["$.messages[2]"], "$.tools[?(@.n == 1 || @.ok == true)]": ["$.tools.a", "$.tools.b"],
    "$.tools[?(@.name == 'refund' && @.n > 3)]": [], "$.tools[?(@.ok == @.nothing)]": ["$.tools.a"],
    "$.tools[?(@.n == $.tools.a.n)]": ["$.tools.a"], "$.tools[?(@.ok == null)]": [],
}  # fmt: skip
NO_PATHS = {
    "": "starts with $", "id": "starts with $", ".a": "starts with $", "$.": "column 2", "$[": "column 2",
    "$.a.": "column 4, at '.'", "$['x]": "column 2", "$.a b": "column 4, at ' b'", "$...a": "column 2",
    "$.a[1:2:0]": "slice leads to no place", "$.a[?(@.b": "column 4, at '[?(@.b'", "$.a[(@.length-1)]": "column 4",
    "$.a[?(@.b =~ 'x')]": "=~ is for tests alone", "$.a[/b]": "sortedthis leads to no place", "$.`len`": "column 2",
    "$.a | $.b": "column 4", "$.a + $.b": "column 4", "$.a where b": "column 4", "$.a[?(@.`len` > 1)]": "len leads",
    "$[?($..a == 1)]": "after $ in a filter", "$..a[?(@..b)]": "a filter with ..", "$.a[?(@.b.`parent`)]": "parent leads",
    "$[?(@..a[?(@..b)])]": "a filter with ..", f"$[?(@.a == '{'x' * 500}')]": "at most 500 characters",
    f"$[{'9' * 5000}]": "at most 500 characters", "$[?(@.a in ['b'])]": "column 2", "$[?(@.a == len('b'))]": "column 2",
}  # fmt: skip


def test_which_places_a_path_means_and_what_is_no_path():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of `&`, which old releases have alone
        known = PLACES | (NEWER_PLACES if NEWEST else {})
        assert {path: [show(place) for place, _ in compile_path(path).find(TREE)] for path in known} == known
    for path, problem in NO_PATHS.items():
        with pytest.raises(SettingsError) as caught:
            compile_path(path)
        assert str(caught.value).startswith(f"{path!r} is no path into a body: "), path
        assert problem in str(caught.value) or not NEWEST, "old releases refuse some with words of their own"
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(NEWEST, reason="of releases that read something else")
def test_what_an_old_release_would_misread_is_refused():
    for path in ("$[?(@.a == null)]", "$[?(@.* == 1)]"):
        with pytest.raises(SettingsError, match=r"need jsonpath-ng 1\.16"):
            compile_path(path)
    assert compile_path("$[?(@.a == 'null')]").find([{"a": "null"}]) == [((0,), {"a": "null"})]


def test_a_pattern_is_taken_from_code_alone():
    path = "$.tools[?(@.name =~ '^re')]"
    assert [show(place) for place, _ in compile_path(path, patterns=True).find(TREE)] == ["$.tools.b"]
    with pytest.raises(SettingsError, match="=~ is for tests alone"):
        compile_path(path)
    with pytest.raises(SettingsError, match="column 8"):
        compile_path("$.tools[?(@.name =~ '(')]", patterns=True)


def test_how_far_a_path_leads():
    assert compile_path("$.tools.a.x[0]").reach(TREE) == (compile_path("$.tools.a"), [TREE["tools"]["a"]])
    assert compile_path("$.messages[*].nothing").reach(TREE)[1] == TREE["messages"]
    assert compile_path("$.x").reach(TREE) == (compile_path("$"), [TREE])
    assert compile_path("$.a.b").reach({}, {"a": 1})[1] == [1]
    assert compile_path("$.a.b").reach()[1] == []


def test_a_path_and_what_stands_behind_it():
    assert split_path("$.a = x = y", " = ") == ("$.a", "x = y")
    assert split_path("$.a[?(@.b=='=')].c=why = not") == ("$.a[?(@.b=='=')].c", "why = not")
    assert split_path("$.a['=']['it\\'s ='] =b") == ("$.a['=']['it\\'s =']", "b")
    assert split_path("$.a[=b") == ("$.a[", "b")
    assert split_path("$.a") == ("$.a", "")


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
    assert compile_path("$..a..b").remove({"a": {"a": {"b": 1}}}) == {"a": {"a": {}}}, "found once"
    assert compile_path("$[?(@ > 1)]").remove([1, 2, 0, 3]) == [1, 0]
    if NEWEST:
        assert compile_path("$[2, 0]").remove([1, 2, 3]) == [2]
        assert compile_path("$[::-1]").remove([1, 2, 3]) == []
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


KEYS = st.sampled_from(["a", "b", "x-y", "it's", "a\\", "", "0", "é", "*", "a\nb"]) | st.text(max_size=4)
NUMBERS = st.integers(-3, 3)
BOUNDS = st.just("") | NUMBERS.map(str)
QUERIES = st.sampled_from(["@", "@.a", "@['x-y'].b", "@[0]", "@.a[*].b", *(["@.*"] if NEWEST else [])])
VALUES = st.sampled_from(["1", "-2.5", "'a'", '"it\'s"', "true"])
CONDITIONS = (
    st.builds("{} {} {}".format, QUERIES, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), VALUES) | QUERIES
)
FILTERS = CONDITIONS.map("[?({})]".format)
if NEWEST:
    ANY_OF = st.lists(CONDITIONS, min_size=2, max_size=3).map(" || ".join) | CONDITIONS.map("!(@.b) && {}".format)
    FILTERS |= (ANY_OF | QUERIES.map("!{}".format)).map("[?{}]".format).filter(lambda text: "!(" not in text)
QUOTED = KEYS.map(lambda name: show((name + " ",))[2:-1])
BRACKETS = st.lists(QUOTED, min_size=2, max_size=3).map(", ".join) | st.builds("{}:{}".format, NUMBERS, BOUNDS)
if NEWEST:
    BRACKETS |= st.lists(NUMBERS.map(str), min_size=2, max_size=3).map(",".join)
    BRACKETS |= st.builds("{}:{}:{}".format, BOUNDS, BOUNDS, st.sampled_from(["", 1, -2]))
CHOICES = FILTERS | BRACKETS.map("[{}]".format)
WANTS = KEYS | NUMBERS | st.none() | CHOICES.map(lambda text: compile_path(f"${text}").steps[0].want)
STEPS = st.builds(Step, WANTS, st.booleans())


@given(st.lists(STEPS, max_size=4))
def test_a_path_that_is_formatted_and_compiled_again_is_the_same(steps):
    text = format_path(steps)
    assert compile_path(text) == (text, tuple(steps))
    assert compile_path(compile_path(text).text).steps == tuple(steps)


# What both of them read: old releases of jsonpath-ng take the index of what is no list, find nothing by `..*` in one,
# and filter lists alone.
SHARED = st.sampled_from([".a", ".b", "['x-y']", ".*", "[*]", "[0]", "[-1]", "['a', 'b']", "[1:]", "[:1]"])
if NEWEST:
    SHARED |= st.sampled_from(["..a", "..*", "[0, 2]", "[::2]", "[::-1]"]) | FILTERS
DOCUMENTS = st.recursive(
    st.integers(-3, 3) | st.sampled_from(["a", "it's", True, False, None, 1.5, -2.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x-y"]), inner, max_size=3),
    max_leaves=15,
)


@pytest.mark.skipif(RELEASE < (1, 7), reason="releases before 1.7 fail on what is no list")
@given(st.lists(SHARED, max_size=4).map(lambda steps: "$" + "".join(steps)), DOCUMENTS)
def test_jsonpath_ng_finds_the_same_in_the_same_order(path, tree):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = [match.value for match in parse(path).find(tree)]
    ours = compile_path(path).find(tree)
    if path.count("..") > 1:  # jsonpath-ng finds a place once for each way that leads to it
        assert {json.dumps(value) for _, value in ours} == {json.dumps(value) for value in theirs}
    elif ".." in path:  # it lists each depth on its own
        assert sorted(json.dumps(value) for _, value in ours) == sorted(map(json.dumps, theirs))
    else:
        assert [json.dumps(value) for _, value in ours] == [json.dumps(value) for value in theirs]
    for place, value in ours:
        assert compile_path(show(place)).find(tree) == [(place, value)]
    assert len({place for place, _ in ours}) == len(ours)


ODD = (
    *(
        "$" + "[?(@" * 120,
        "$[" + "'" * 490,
        "$['" + "\\'" * 240,
        "$[" + "'\\" * 240,
        "$[?" + "(" * 490,
        "$[?" + "!" * 490,
    ),
    *(
        "$[?(" + "@.a == 1 || " * 38 + "@.a)]",
        "$[?(@" + "[?(@" * 60 + ".a" + ")]" * 61,
        "$" + "..a" * 100,
        "$" + "[*]" * 2000,
    ),
    *("$" + "..*" * 30, "$..[?(@.*.*.*.*.*.*.*.*)]", "$[?(@.*[?(@.*[?(@.*[?(@.* == 9)])])])]", "$..*[?(@.* == 9)]"),
    *(
        "$[" + "," * 490,
        "$[" + "1," * 240 + "1]",
        "$[" + ":" * 490 + "]",
        "$" + "." * 5000,
        "$" + "['" * 3000,
        "$" + "['a" * 3000,
    ),
)


@given(st.sampled_from(ODD))
def test_no_path_takes_long(path):
    tree: object = {"a": 1}
    for _ in range(200):
        tree = {"a": tree, "b": [1, 2]}
    began = time.process_time()
    with contextlib.suppress(SettingsError):
        compile_path.__wrapped__(path).find([tree, tree])
    assert time.process_time() - began < 2, path[:40]


@given(st.text("$.[]'\"?()@*ab0:,=<&|!~`\\ -/+", max_size=30))
def test_any_text_is_a_path_or_refused(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(SettingsError):
            assert compile_path(f"${text}").text == f"${text}"
