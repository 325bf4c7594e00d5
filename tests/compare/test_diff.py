from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.diff import diff, texts
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT

PROMPT = "You help.\nBe kind.\nNever promise a refund before you looked.\nThe end."


def body():
    """90 kB: 120 messages and six tools."""
    messages = [{"role": "user" if i % 2 else "assistant", "content": f"{i} " + "words " * 120} for i in range(119)]
    tools = [{"type": "function", "function": {"name": f"tool{i}", "parameters": {"limit": i}}} for i in range(6)]
    return {"model": "m", "messages": [{"role": "system", "content": PROMPT}, *messages], "tools": tools}


ONE_CHANGE = [
    (lambda b: b["messages"][0].update(content=PROMPT.replace("refund", "credit")),
        "$.messages[0].content", "line 3: refund -> credit"),
    (lambda b: b["messages"].insert(1, {"role": "user", "content": "x"}), "$.messages[1]", "messages[1] added"),
    (lambda b: b["messages"].extend([{"role": "user"}, {"role": "assistant"}]),
        "$.messages[120..121]", "messages[120..121] added"),
    (lambda b: b["messages"].__delitem__(slice(40, 80)), "$.messages[40..79]", "messages[40..79] dropped"),
    (lambda b: b["tools"].insert(0, b["tools"].pop(2)), "$.tools", "reordered [3, 1, 2, 4, 5, 6]"),
    (lambda b: b["tools"][3]["function"]["parameters"].update(limit=9), "$.tools[3].function.parameters.limit", ""),
    (lambda b: b["messages"].insert(60, b["messages"].pop(61)), "$.messages[60..61]", "reordered [62, 61]"),
    (lambda b: b["messages"].__setitem__(slice(20, 60), b["messages"][59:19:-1]),
        "$.messages[20..59]", "reordered [60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, ...]"),
]  # fmt: skip


def test_one_change_in_a_long_body_is_one_difference():
    for edit, path, note in ONE_CHANGE:
        now = body()
        edit(now)
        assert [(one.path, one.note) for one in diff(body(), now)] == [(path, note)]
    tools = body()["tools"]
    renamed = diff(tools, [*tools[:2], {"type": "function", "function": {"name": "new"}}, *tools[3:]])
    assert [one.path for one in renamed] == ["$[2].function.name", "$[2].function.parameters"]


def sides(recorded, now):
    return [(one.path, one.recorded, one.now) for one in diff(recorded, now)]


def test_elements_are_paired_by_what_they_call_themselves_and_by_what_stands_around_them():
    def results(**contents):
        return [{"role": "tool", "tool_call_id": name, "content": text} for name, text in contents.items()]

    paired = [("$[0].tool_call_id", "a", "c"), ("$[1].content", "2", "3")]
    assert sides(results(a="1", b="2"), results(b="3", c="1")) == paired
    around = [("$[0]", "a", "x"), ("$[1]", 1, 9), ("$[2]", "b", 8), ("$[3..4]", [2, 3], ABSENT)]
    assert sides(["a", 1, "b", 2, 3], ["x", 9, 8]) == around
    odd_names = [("$['b c']", 2, ABSENT), (r"$['d\'e']", ABSENT, None)]
    assert sides({"a": 1, "b c": 2}, {"a": 1, "d'e": None}) == odd_names


def test_a_summary_in_place_of_messages():
    recorded = [{"role": "user", "content": str(i)} for i in range(4)]
    summary = {"role": "system", "content": "before: 0 1 2"}
    found = diff(recorded, [summary, recorded[3]])
    assert [(x.path, x.note) for x in found] == [("$[0..2]", "elements[0..2] dropped"), ("$[0]", "elements[0] added")]
    assert (found[0].recorded, found[0].now, found[1].now) == (recorded[:3], ABSENT, summary)


def test_what_python_takes_for_equal_is_not_and_not_a_number_is_itself():
    for pair in ((True, 1), (1, 1.0), (0, False), (None, "null"), ("1", 1), (0.0, -0.0)):
        assert len(diff(*pair)) == len(diff([pair[0]], [pair[1]])) == 1
    assert diff({"x": float("nan")}, {"x": float("nan")}) == ()


def test_what_is_too_large_or_too_different_is_told_as_a_whole():
    vector = [i / 7 for i in range(1536)]
    found = diff({"v": vector}, {"v": [x + 1e-9 for x in vector]})
    assert [(x.path, x.note[:21]) for x in found] == [("$.v[0..1535]", "1536 elements changed")]
    recorded, now = ["a"] * 1500 + ["b"], ["b"] + ["a"] * 1499 + ["c", "d"]
    assert diff(recorded, now)[0].note == "too different to align: 1501 and 1502 elements"
    assert "too different" in diff([[i] for i in range(2100)], [[-i] for i in range(1, 2100)])[0].note
    recorded = {f"k{i}": {"a": i, "b": [i]} for i in range(12_000)}
    found = diff(recorded, copy.deepcopy(recorded) | {"k3": {"a": -1, "b": [3]}, "k11999": {"a": 11999, "b": [0]}})
    assert [x.path for x in found] == ["$.k3.a", "$.k11999"]
    assert found[1].note == "too large to compare in parts"


def test_nesting_beyond_pythons_patience():
    def deep(value):
        for _ in range(sys.getrecursionlimit() * 2):
            value = {"x": value}
        return value

    assert diff(deep(1), deep(2))[0].note == "nested too deeply to compare in parts"


# Texts.


BRIEFLY = [
    ("refund", "credit", "refund -> credit"),
    ("gpt-4o-mini", "gpt-4.1", "gpt-4o-mini -> gpt-4.1"),
    ("", "x", "added x"),
    ("x", "", "dropped x"),
    ("I am kind", "I am very kind", 'added "very "'),
    ("I am very kind", "I am kind", 'dropped "very "'),
    ("a unlocked b", "a locked b", "unlocked -> locked"),
    ("a\nb\nc", "a\nc", "line 2 dropped"),
    ("a\nd", "a\nb\nc\nd", "lines 2-3 added"),
    ("one two\nthree\nfour", "one too\nthree\nfive", "line 1: two -> too"),
    ("a b\nc\nd", "x b\ny\nz\nd", "line 1: a -> x"),
    ("same text", "same text ", 'added " "'),
    ('{"a": 1}', '{"a":1}', "the same JSON, written otherwise"),
    ("{broken", "{broken}", "{broken -> {broken}"),
]

ALIKE = {
    "composed and decomposed": ("caf\u00e9", "cafe\u0301", "caf\\u00e9 -> cafe\\u0301"),
    "no-break space": ("10 kg", "10\u00a0kg", '" " -> "\\u00a0"'),
    "thin space": ("10\u2009kg", "10\u202fkg", '"\\u2009" -> "\\u202f"'),
    "Cyrillic a": ("paypal", "p\u0430ypal", "paypal -> p\\u0430ypal"),
    "Greek omicron": ("to Oslo now", "to \u039fslo now", "Oslo -> \\u039fslo"),
    "dash": ("a-b", "a\u2011b", "a-b -> a\\u2011b"),
    "fullwidth": ("id A1", "id \uff211", "A1 -> \\uff211"),
    "a letter that is another one": ("caf\u00e9", "cafe", "caf\u00e9 -> cafe"),
    "another alphabet": ("\u043c\u0438\u0440", "\u0434\u043e\u043c", "\u043c\u0438\u0440 -> \u0434\u043e\u043c"),
}


def test_two_texts_are_told_in_a_few_words():
    for recorded, now, note in BRIEFLY:
        (one,) = diff(recorded, now)
        assert (one.note, one.recorded, one.now) == (note, recorded, now)


@pytest.mark.parametrize("name", ALIKE)
def test_texts_that_look_alike_are_told_by_escapes_of_what_tells_them_apart(name):
    recorded, now, note = ALIKE[name]
    (one,) = diff(recorded, now)
    assert one.note == note


def test_an_excerpt_of_texts_that_look_alike_shows_what_tells_them_apart():
    assert texts.excerpt("x" * 90 + " a b", "x" * 90 + " a\u00a0b", 40)[1].endswith(" a\\u00a0b")
    assert texts.excerpt("refund", "refund ", 40) == ('"refund"', '"refund "')
    assert texts.excerpt("say: \u043c\u0438\u0440 x", "say: \u043c\u0438\u0440 y", 40)[0] == "say: \u043c\u0438\u0440 x"


def test_json_in_a_text_is_compared_by_member_and_its_spelling_as_a_text():
    sides = [json.dumps({"order": json.dumps({"status": word, "ids": ids, "to": "x"})}) for word, ids in (
        ("open", [1, 2]), ("closed", [2, 1]),
    )]  # fmt: skip
    assert [tuple(one) for one in diff({"content": sides[0]}, {"content": sides[1] + "\n"})] == [
        ("$.content -> order -> status", "open", "closed", "open -> closed", 1),
        ("$.content -> order -> ids", [1, 2], [2, 1], "reordered [2, 1]", 1),
    ]
    assert [(one.path, one.rule_path) for one in diff(["[1, 2]"], ["[1]"])] == [("$[0] -> [1]", "$[0]")]
    (same,) = diff("{}", "{ }")
    assert (same.recorded, same.note) == ("{}", "the same JSON, written otherwise")


@pytest.mark.parametrize(
    ("recorded", "now", "places"),
    [("a b c d", "a x c d y", 2), ("be kind", "be very very kind", 1), ("a b\nc\nd", "x b\ny\nz\nd", 3),
     ("a\nb\nc\nd", "a\nd", 1), ("[[redacted:token:1]] a b", "[[redacted:token:2]] a b", 1)],
)  # fmt: skip
def test_places_of_a_text_are_changed_lines_or_the_changed_words_of_one(recorded, now, places):
    assert [one.places for one in diff(recorded, now)] == [places]


def test_changes_far_apart_in_one_line():
    words = [f"w{i}" for i in range(60)]
    now = words.copy()
    now[3], now[50], now[55] = "one", "two", "three"
    assert texts.brief(" ".join(words), " ".join(now)) == "w3 -> one"
    assert texts.brief("a " + "x" * 90, "a " + "y" * 90).endswith("yyyyy")
    cut = [texts.shorten("0123456789" * 10, 20), texts.shorten("short"), texts.shorten("abcdef", 3)]
    assert cut == ["012345678901...56789", "short", "..."]
    source = random.Random(7)
    recorded = " ".join(str(source.random()) for _ in range(9000))
    now = " ".join(str(source.random()) for _ in range(9000))
    assert len(texts.brief(recorded, now)) < 120
    assert len(texts.brief(recorded.replace(" ", "\n"), now.replace(" ", "\n"))) < 140


@pytest.mark.parametrize("size", [1_500, 150_000])
def test_encoded_files_are_told_by_type_size_and_hash(size):
    source = random.Random(size)
    one, other = (base64.b64encode(source.randbytes(size)).decode() for _ in range(2))
    (found,) = diff(one, other)
    old, new = (f"sha256:{hashlib.sha256(base64.b64decode(text)).hexdigest()[:8]}" for text in (one, other))
    assert found.note == f"data: another file ({old} recorded, {new} now)"
    assert found.recorded == f"<data {size / 1000:.1f} kB {old}>"
    (picture,) = diff(f"data:image/png;base64,{one}", f"data:image/png;base64,{other}")
    assert picture.note == f"image/png: another picture ({old} recorded, {new} now)"
    (text,) = diff("x" * 2000 + " y", "x" * 2000 + " z")
    assert text.note == "y -> z"


# Properties.

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=True) | st.text('ab\n {}[]"1', max_size=6)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["a", "id", "role", "b c"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(recorded=VALUES, now=VALUES)
def test_a_difference_is_found_exactly_where_there_is_one(recorded, now):
    assert diff(now, copy.deepcopy(now)) == ()
    found = diff(recorded, now)
    assert bool(found) == (canonical(recorded) != canonical(now))
    assert bool(found) == bool(diff(now, recorded))
    for one in found:
        assert one.path.startswith("$")
        assert one.recorded is not ABSENT or one.now is not ABSENT
        if one.recorded is not ABSENT and one.now is not ABSENT:
            assert canonical(one.recorded) != canonical(one.now)


@given(recorded=st.text("ab c\n", max_size=30), now=st.text("ab c\n", max_size=30))
def test_a_hunk_holds_the_whole_change(recorded, now):
    start, old, new = texts.hunk(recorded, now)
    assert recorded[:start] + new + recorded[start + len(old) :] == now
    if recorded != now:
        assert texts.brief(recorded, now)


@given(value=st.lists(st.integers(0, 3), max_size=8), order=st.randoms(use_true_random=False))
def test_another_order_is_told_as_one(value, order):
    now = value.copy()
    order.shuffle(now)
    found = diff(value, now)
    assert len(found) == (value != now)
    for one in found:
        places = json.loads(one.note.removeprefix("reordered "))
        assert [value[place - 1] for place in places] == now
