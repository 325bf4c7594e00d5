"""YAML: ours holds JSON's values and no others, every trick refused with its place; that of others; and what we write."""

import json
import re
import time
from unittest import mock

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentreplay.errors import PolicyError, TraceError
from pytest_agentreplay.snapshots.codec import strict_yaml, yaml_text


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


PLAIN = [
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
]  # fmt: skip


def test_values_are_those_of_json_and_their_places_are_told():
    for text, value in PLAIN:
        assert json.dumps(load(text).value, sort_keys=True) == json.dumps(value, sort_keys=True), text
    places = load("a: 1\nlist:\n  - x\n  -   key: y\n").places
    assert [places["a",], places["list",], places["list", 0], places["list", 1, "key"]] == ["1:1", "2:1", "3:5", "4:7"]


NOT_PLAIN = {
    "tags": [
        *(("a: !!python/object/apply:os.system ['touch pwned']", "1:4"), ("a: !!python/name:os.system", "1:4")),
        *(("a: !!str x", "1:4"), ("a: ! x", "1:4"), ("a: !env HOME", "1:4"), ("? !!binary aGk=\n: 1", "1:3")),
    ],
    "anchors": [("a: &x 1", "1:4"), ("&k a: 1", "1:1")],
    "aliases": [("a: *x", "1:4"), ("*x : 1", "1:1")],
    "merge": [("<<: {a: 1}", "1:1")],
    "twice": [("x:\n  a: 1\n  b: 2\n  a: 3", "4:3"), ("a: 1\n'a': 2", "2:1")],
    "more than one": [("a: 1\n---\nb: 2", "2:1"), ("---\n---\n", "2:1")],
    "empty": [("", "1:1"), ("# nothing", "")],
    "directives": [("%YAML 1.1\n---\na: 1", "1:1"), ("%TAG ! tag:x,2000:\n---\na: 1", "1:1")],
    "key must be text": [("? [a, b]\n: 1", "1:3"), ("{{ a }}: 1", "")],
    "key is missing": [("? \n: 1", "")],
    "beyond": [("a: 1e999", "1:4")],
    "digits": [("a: " + "9" * 5000, "1:4")],
    "no YAML": [("a: [1", ""), ("a: 'x", ""), ("\ta: 1", "1:1"), ("a: b: c", "1:5")],
    "": [('a: "\\ud83d"', ""), ('a: "\\U00110000"', "")],
    "U+0000": [('a: "\\0"', "1:4"), ("a: x\0y", "1:5")],
    "U+001B": [("a: 1\nb: \x1b[31m", "2:4")],
    "U+007F": [("a: \x7f", "1:4")],
    "U+FEFF": [("a: \ufeffx", "1:4")],
    "byte order": [(b"\xef\xbb\xbfa: 1", "1:1"), ("a: 1".encode("utf-16"), "1:1")],
    "UTF-8": [(b"a: 1\nb: \xff", "2:4"), (b"a: \xed\xa0\x80", "1:4")],
}


def test_what_is_no_plain_data_is_refused_with_its_place():
    for word, texts in NOT_PLAIN.items():
        for text, place in texts:
            error = refused(text)
            assert word in str(error), text
            assert error.file == "some.yaml"
            assert not place or error.place == place, text


BOMBS = [
    *("[" * 400_000, "- " * 400_000, "{a: " * 200_000, "? " * 300_000, "[?" * 300_000, "a: [" * 200_000),
    *("x" * (1 << 21), "-\n" * 500_000, "a" * 1000 + ": [" * 300_000, laughs(9, 9), laughs(30_000, 2)),
    *("!" * 1_000_000, "&" * 1_000_000, ":" * 1_000_000, "'" * 999_999, '"' + "\\" * 999_999, "\n" * 1_000_000),
    "|" + "\n" * 1_000_000 + " x\n- y",
]


def test_bombs_are_refused_soon():
    for text in BOMBS:
        refused(text)


SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)


def trees(texts, keys):
    """JSON values with such texts, and objects with such keys."""
    inner = SCALARS | texts
    return st.recursive(
        inner, lambda of: st.lists(of, max_size=4) | st.dictionaries(keys, of, max_size=4), max_leaves=12
    )


KEPT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff\u2028\u2029"))


def read(text):
    """The value of a text, or the refusal."""
    try:
        return load(text).value
    except PolicyError as error:
        return error


@given(trees(KEPT, st.text("abc<é ", max_size=4)))
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


# What we write.

ODD = [
    "no", "1e5", "-", "a: b", "a #b", "|", "{x", "'q'", "\n\nx", "x\ny\n", "x\ny", "x\n\n y\n", " x\ny", "a\tb\nc",
    "~", "- x", "?", "1_000", "12:30:45", "0x1f", "=", "<<", "---", "...", "x:", "é", "a\\b", "%YAML", "@a", "`a",
    "&a", "*a", "!t", "a\n---\nb", "a\n...\nb\n", "a\r\nb", "\u2028", "\x85", "\ufeff", "x\n\n\n", "null", "TRUE", "",
]  # fmt: skip
LINES = st.lists(st.sampled_from(["a", "b: c", " # d", "", "  x", "- e", "..."]), max_size=5).map("\n".join)
WRITTEN = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
    | st.sampled_from(ODD)
    | LINES
)


@given(trees(WRITTEN, WRITTEN))
@example([1e16, 1e-7, -0.0, 1e300, 10**30])
@example({"x" * 2000: 1, "two\nlines": 2, "": {"": ODD}})
@example([*ODD, {text: text for text in ODD}, {"\x85\U00010000": None}])
def test_what_is_written_is_read_back(value):
    assert repr(load(yaml_text.dump(value)).value) == repr(value)
    with mock.patch.object(yaml, "CSafeLoader", yaml.SafeLoader):  # where there is no C
        assert repr(load(yaml_text.dump(value)).value) == repr(value)


MADE_TO_BE_READ = """\
short: {a: 1, b: [true, null]}
text: |
  one
  two
items:
  - name: a
    text: |-
      x
      y
  - word: 1
sentences:
  - this one is a whole sentence, and stands alone
  - '"quoted", as JSON is, without a backslash'
  - short
empty: [{}, []]
"""


def test_what_is_written_is_made_to_be_read():
    value = load(MADE_TO_BE_READ).value
    assert value["items"] == [{"name": "a", "text": "x\ny"}, {"word": 1}]
    assert yaml_text.dump(value) == MADE_TO_BE_READ


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\0", "\ud800"])
def test_what_yaml_cannot_say_is_refused(value):
    with pytest.raises(ValueError, match="no"):
        yaml_text.dump({"a": value})


# That of other tools: what their writers write comes back, shared values and bytes included.


def foreign(text):
    return strict_yaml.load_foreign(text, file="some.yaml", error=TraceError)


DUMPERS = [yaml.SafeDumper, getattr(yaml, "CSafeDumper", yaml.SafeDumper)]
TAKEN_FOR_ANOTHER = [
    "no",
    "~",
    "null",
    "1_000",
    "12:30:45",
    "2026-11-20",
    "0x1f",
    "1.5",
    "1e5",
    "<<",
    "=",
    "- a",
    "a\nb\n",
]
ASSIGNED = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=40) | st.sampled_from(
    TAKEN_FOR_ANOTHER
)


@given(trees(ASSIGNED, ASSIGNED), st.sampled_from(DUMPERS), st.booleans())
def test_what_pyyaml_writes_comes_back(value, dumper, flow):
    told = {"a": value, "b": [value, value]}
    assert foreign(yaml.dump(told, Dumper=dumper, default_flow_style=flow, allow_unicode=True)) == told


@given(st.binary(max_size=200))
def test_bytes_come_back_by_their_surrogates(data):
    assert foreign(yaml.safe_dump({"body": data}))["body"].encode("utf-8", "surrogateescape") == data


NEEDLESS = [
    ("a: !!python/object/apply:os.system ['true']", "only !!binary and !!str"),
    ("a: !!set {b}", "only !!binary and !!str"),
    ("a: !own b", "only !!binary and !!str"),
    ("a: *b", r"\*b names nothing before it"),
    ("a: &b [*b]", r"\*b names nothing before it"),
    ("a: &k x\n*k : y", "an alias is no key"),
    ("a: {<<: {b: 1}}", "merge keys"),
    ("a: 1\na: 2", "twice"),
    ("[" * 70 + "]" * 70, "deeper than 64"),
    ("a: !!binary '?'", "no base64"),
    ("a: 'x", "is no YAML"),
]


def test_shared_values_are_one_value_and_what_no_writer_needs_is_refused_with_its_place():
    held = foreign("a: &x {k: [1]}\nb: *x\n")
    assert held["a"] is held["b"]
    for text, said in NEEDLESS:
        with pytest.raises(TraceError, match=said) as caught:
            foreign(text)
        assert str(caught.value).startswith("some.yaml")
