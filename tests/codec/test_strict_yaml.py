"""The strict YAML loader: JSON's values and no others, every trick refused at once with its line and column."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.codec import strict_yaml
from pytest_agentreplay.errors import PolicyError

CORPUS = Path(os.environ.get("AGENTREPLAY_CORPUS") or Path(__file__).parents[1] / "corpus") / "hostile_corpus.jsonl"
ROWS = [row for row in map(json.loads, CORPUS.read_text("utf-8").splitlines()) if row["class"].startswith("yaml")]


def load(text):
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return strict_yaml.load(data, file="some.yaml", error=PolicyError)


def refused(text):
    """The refusal: typed, in one line, with file and place, and soon."""
    began = time.process_time()
    with pytest.raises(PolicyError) as caught:
        load(text)
    assert time.process_time() - began < 5, "a generous bound: it takes milliseconds"
    said = str(caught.value)
    assert said.startswith("some.yaml")
    assert "\n" not in said
    assert len(said) < 300
    return caught.value


def laughs(anchors, aliases):
    """So many anchors, each of so many aliases of the one before."""
    lines = [f"a0: &a0 [{', '.join(['lol'] * aliases)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * aliases)}]" for n in range(1, anchors)]
    return "\n".join(lines)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_hostile_rows(row):
    payload = row["payload"]
    if sizes := re.match(r"(\d+) anchors x (\d+) aliases", payload):
        payload = laughs(*map(int, sizes.groups()))
    if row["expect"] == "reject":
        refused(payload)
        return
    try:
        value = load(payload).value
    except PolicyError:
        return
    told = dict(line.split(": ", 1) for line in payload.splitlines())
    assert value == {
        key: json.loads(text) if re.fullmatch(r"true|false|null|-?\d+", text) else text for key, text in told.items()
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: no\nb: yes\nc: on\nd: ~\ne: Null\nf: True", {"a": "no", "b": "yes", "c": "on", "d": "~", "e": "Null", "f": "True"}),
        ("a: 12:30:45\nb: 1_000\nc: 0x1F\nd: 0o7\ne: 017\nf: .5\ng: .inf", {"a": "12:30:45", "b": "1_000", "c": "0x1F", "d": "0o7", "e": "017", "f": ".5", "g": ".inf"}),
        ("a: 2024-01-01\nb: =\nc: 1.0.0", {"a": "2024-01-01", "b": "=", "c": "1.0.0"}),
        ("a: true\nb: false\nc: null\nd:\ne: 1\nf: -1.5\ng: 2e3", {"a": True, "b": False, "c": None, "d": None, "e": 1, "f": -1.5, "g": 2000.0}),
        ("a: 'true'\nb: \"1\"\nc: ''\n", {"a": "true", "b": "1", "c": ""}),
        ("1: a\ntrue: b\n", {"1": "a", "true": "b"}),
        ("'<<': a\n'': b", {"<<": "a", "": "b"}),
        ("text: |\n  a\n  b\nfolded: >\n  a\n  b\n", {"text": "a\nb\n", "folded": "a b\n"}),
        ("[a, {b: [c]}]", ["a", {"b": ["c"]}]),
        ('- \U0001f600\n- "\\u00e9"\n- é', ["\U0001f600", "é", "é"]),
        ("# a remark\n--- # and another\na: 1 # and one more\n...\n", {"a": 1}),
    ],
)  # fmt: skip
def test_values_are_those_of_json(text, value):
    found = load(text).value
    assert found == value
    assert json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True), "types too"


def test_places_are_told_of_values():
    places = load("a: 1\nlist:\n  - x\n  -   key: y\n").places
    assert places["a",] == "1:1"
    assert places["list",] == "2:1"
    assert places["list", 0] == "3:5"
    assert places["list", 1, "key"] == "4:7"


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("a: !!python/object/apply:os.system ['touch pwned']", "1:4", "tags"),
        ("a: !!python/name:os.system", "1:4", "tags"),
        ("a: !!str x", "1:4", "tags"),
        ("a: ! x", "1:4", "tags"),
        ("a: !env HOME", "1:4", "tags"),
        ("? !!binary aGk=\n: 1", "1:3", "tags"),
        ("a: &x 1", "1:4", "anchors"),
        ("&k a: 1", "1:1", "anchors"),
        ("a: *x", "1:4", "aliases"),
        ("*x : 1", "1:1", "aliases"),
        ("<<: {a: 1}", "1:1", "merge"),
        ("x:\n  a: 1\n  b: 2\n  a: 3", "4:3", "twice"),
        ("a: 1\n'a': 2", "2:1", "twice"),
        ("a: 1\n---\nb: 2", "2:1", "more than one"),
        ("---\n---\n", "2:1", "more than one"),
        ("", "1:1", "empty"),
        ("# nothing", "", "empty"),
        ("%YAML 1.1\n---\na: 1", "1:1", "directives"),
        ("%TAG ! tag:x,2000:\n---\na: 1", "1:1", "directives"),
        ("? [a, b]\n: 1", "1:3", "key must be text"),
        ("{{ a }}: 1", "", "key must be text"),
        ("? \n: 1", "", "key is missing"),
        ("a: 1e999", "1:4", "beyond"),
        ("a: " + "9" * 5000, "1:4", "digits"),
        ("a: [1", "", "no YAML"),
        ("a: 'x", "", "no YAML"),
        ("\ta: 1", "1:1", "no YAML"),
        ("a: b: c", "1:5", "no YAML"),
        ('a: "\\0"', "1:4", "U+0000"),
        ('a: "\\ud83d"', "", ""),
        ('a: "\\U00110000"', "", ""),
        ("a: x\0y", "1:5", "U+0000"),
        ("a: 1\nb: \x1b[31m", "2:4", "U+001B"),
        ("a: \x7f", "1:4", "U+007F"),
        ("a: \ufeffx", "1:4", "U+FEFF"),
        (b"\xef\xbb\xbfa: 1", "1:1", "byte order"),
        ("a: 1".encode("utf-16"), "1:1", "byte order"),
        (b"a: 1\nb: \xff", "2:4", "UTF-8"),
        (b"a: \xed\xa0\x80", "1:4", "UTF-8"),
    ],
)  # fmt: skip
def test_what_is_no_plain_data_is_refused_with_its_place(text, place, word):
    error = refused(text)
    assert word in str(error)
    assert error.file == "some.yaml"
    if place:
        assert error.place == place


@pytest.mark.parametrize(
    "text",
    [
        "[" * 400_000,
        "- " * 400_000,
        "{a: " * 200_000,
        "? " * 300_000,
        "[?" * 300_000,
        "a: [" * 200_000,
        "x" * (1 << 21),
        "-\n" * 500_000,
        "a" * 1000 + ": [" * 300_000,
        laughs(9, 9),
        laughs(30_000, 2),
        "!" * 1_000_000,
        "&" * 1_000_000,
        ":" * 1_000_000,
        "'" * 999_999,
        '"' + "\\" * 999_999,
        "\n" * 1_000_000,
        "|" + "\n" * 1_000_000 + " x\n- y",
    ],
    ids=range(18),
)
def test_bombs_are_refused_soon(text):
    refused(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff\u2028\u2029")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc<é ", max_size=4), inner, max_size=4),
    max_leaves=20,
)


def read(text):
    """The value of a text, or the refusal."""
    try:
        return load(text).value
    except PolicyError as error:
        return error


@given(JSON)
def test_json_is_read_as_json(value):
    """JSON is YAML, so that a policy may be written by a program that knows no YAML."""
    found = read(json.dumps(value))
    if isinstance(found, PolicyError):  # a surrogate pair is two escapes in JSON, and none in YAML
        assert re.search(r"\\ud[89ab]", json.dumps(value)), found
    else:
        assert found == value


@given(st.text(st.characters(codec="utf-8")) | st.text("-:[]{}&*!|>'\"%@`,?# \nab01\\<~"))
def test_any_text_is_read_or_refused(text):
    found = read(text)
    if isinstance(found, PolicyError):
        assert str(found).startswith("some.yaml")
    else:
        json.dumps(found)
