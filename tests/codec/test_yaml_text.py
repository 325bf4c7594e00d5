"""JSON values as YAML: whatever is written is read back equal, and is made to be read."""

from __future__ import annotations

from unittest import mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.codec import strict_yaml, yaml_text
from pytest_agentreplay.errors import CaseError

ODD = [
    "no", "1e5", "-", "a: b", "a #b", "|", "{x", "'q'", "\n\nx", "x\ny\n", "x\ny", "x\n\n y\n", " x\ny", "a\tb\nc",
    "~", "- x", "?", "1_000", "12:30:45", "0x1f", "=", "<<", "---", "...", "x:", "é", "a\\b", "%YAML", "@a", "`a",
    "&a", "*a", "!t", "a\n---\nb", "a\n...\nb\n", "a\r\nb", "\u2028", "\x85", "\ufeff", "x\n\n\n", "null", "TRUE", "",
]  # fmt: skip
TEXTS = (
    st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=20)
    | st.sampled_from(ODD)
    | st.lists(st.sampled_from(["a", "b: c", " # d", "", "  x", "- e", "..."]), max_size=5).map("\n".join)
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def back(text):
    return strict_yaml.load(text.encode(), file="some.yaml", error=CaseError).value


@settings(deadline=None, max_examples=300)
@given(VALUES)
def test_what_is_written_is_read_back(value):
    assert repr(back(yaml_text.dumped(value))) == repr(value)
    assert repr(back(f"a: {yaml_text.inline(value)}")["a"]) == repr(value)
    with mock.patch.object(yaml, "CSafeLoader", yaml.SafeLoader):  # where there is no C
        assert repr(back(yaml_text.dumped(value))) == repr(value)


def test_it_is_made_to_be_read():
    value = {
        "short": {"a": 1, "b": [True, None]},
        "text": "one\ntwo\n",
        "items": [{"name": "a", "text": "x\ny"}, {"word": 1}],
        "sentences": ["this one is a whole sentence, and stands alone", "short"],
        "empty": [{}, []],
    }
    assert yaml_text.dumped(value) == (
        "short: {a: 1, b: [true, null]}\n"
        "text: |\n  one\n  two\n"
        "items:\n  - name: a\n    text: |-\n      x\n      y\n  - word: 1\n"
        'sentences:\n  - "this one is a whole sentence, and stands alone"\n  - short\n'
        "empty: [{}, []]\n"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\0", "\ud800", {"x" * 501: 1}])
def test_what_yaml_cannot_say_is_refused(value):
    with pytest.raises(ValueError, match=r"no|so many"):
        yaml_text.dumped({"a": value})
