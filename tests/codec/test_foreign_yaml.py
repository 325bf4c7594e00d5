"""YAML of other tools: what their writers write comes back, shared values and bytes included; the rest is refused."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.codec import foreign_yaml
from pytest_agentreplay.errors import TraceError

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=40) | st.sampled_from(
    [
        "no",
        "~",
        "null",
        "1_000",
        "12:30:45",
        "2026-11-20",
        "0x1f",
        "1.5",
        "<<",
        "=",
        "- a",
        "a: b",
        "line\nline\n",
        "✅",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(-1e15, 1e15) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


def load(text):
    return foreign_yaml.load(text, file="some.yaml", error=TraceError)


@given(VALUES, st.sampled_from([yaml.SafeDumper, getattr(yaml, "CSafeDumper", yaml.SafeDumper)]), st.booleans())
def test_what_pyyaml_writes_comes_back(value, dumper, flow):
    text = yaml.dump({"a": value, "b": [value, value]}, Dumper=dumper, default_flow_style=flow, allow_unicode=True)

    assert load(text) == {"a": value, "b": [value, value]}


@given(st.binary(max_size=200))
def test_bytes_come_back_by_their_surrogates(data):
    held = load(yaml.safe_dump({"body": data}))["body"]

    assert held.encode("utf-8", "surrogateescape") == data


def test_shared_values_are_one_value():
    held = load("a: &x {k: [1]}\nb: *x\n")

    assert held["a"] is held["b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
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
    ],
)
def test_what_no_writer_needs_is_refused_with_its_place(text, said):
    with pytest.raises(TraceError, match=said) as caught:
        load(text)
    assert str(caught.value).startswith("some.yaml")
