"""Canonical JSON: equal texts for equal values, and for nothing else."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.canonical_json import NOT_JSON, canonical, digest, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def shuffled(value, order):
    """The same value with the members of every object in another order."""
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: shuffled(value[name], order) for name in names}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@given(JSON, st.randoms(use_true_random=False), st.sampled_from([None, 1, 4]), st.booleans())
def test_order_of_names_white_space_and_escapes_carry_nothing(value, order, indent, ascii_only):
    written = json.dumps(shuffled(value, order), indent=indent, ensure_ascii=ascii_only)
    assert canonical(parse(written.encode("utf-8", "surrogatepass") if ascii_only else written)) == canonical(value)
    assert canonical(parse(canonical(value))) == canonical(value)


APART = [
    ("1", "1.0"), ("1", "true"), ("0", "false"), ('"1"', "1"), ("null", '""'), ("[]", "{}"), ("-0.0", "0.0"),
    ("[1,2]", "[2,1]"), (r'"\ud800"', r'"\ud801"'),
]  # fmt: skip
APART_EXACTLY = [
    ("12345678901234567.11", "12345678901234567.99"), ("1e400", "1e999"), ("-1e400", "1e400"), ("1e-400", "0.0"),
    ("0.1", "0.1000000000000000055511151231257827"), ("9007199254740993.0", "9007199254740992.0"),
    ("90071992547409931", "90071992547409932"), ("1e999999999999999999999", "1e999999999999999999998"),
    ("0.0", "-0.0"), ("1", "1.0"), ('"1e400"', "1e400"),
]  # fmt: skip


def test_values_that_a_server_may_tell_apart_stay_apart():
    assert [pair for pair in APART if digest(canonical(parse(pair[0]))) == digest(canonical(parse(pair[1])))] == []
    exact = [[canonical(parse(f'{{"n": [{text}]}}', exact=True)) for text in pair] for pair in APART_EXACTLY]
    assert [pair for pair in exact if pair[0] == pair[1]] == []
    for one, other in (("1.10", "1.1"), ("1e-07", "1e-7"), ("1e5", "100000.0"), ("1E3", "1e3")):
        assert parse(one, exact=True) == parse(other, exact=True), "the spelling of a number does not count"


NO_JSON = [
    b"", b"{", b"NaN", b'{"a":Infinity}', b"-Infinity", b"\xff\xfe", b"\xef\xbb\xbf{}", b"1" * 5000, b"[" * 100_000,
    b"{} {}", b"'a'",
]  # fmt: skip


def test_what_is_no_strict_json_is_not_json_and_null_is_a_value():
    assert [data[:20] for data in NO_JSON if parse(data) is not NOT_JSON] == []
    assert parse(b"null") is parse(b" null ") is None
    assert canonical({"b": "é", "a": "\n\u2028"}) == '{"a":"\\n\u2028","b":"é"}', "characters stand as themselves"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_that_python_wrote_is_a_float(value):
    assert repr(parse(json.dumps([value]), exact=True)) == repr([value])


def test_an_earlier_value_of_a_repeated_name_is_kept():
    found = parse('{"a": 1, "a": 2, "b": {"c": 3, "c": 3}}', exact=True)
    assert found == {"a": 2, "b": {"c": 3, "$repeated": {"c": [3]}}, "$repeated": {"a": [1]}}
    assert parse('{"a": 1, "a": 2}') == {"a": 2}
