"""Every way in which JSON inside JSON may have written a secret."""

from __future__ import annotations

import itertools
import json

import pytest

from pytest_agentreplay.core.redaction.encodings import JSON_DEPTH, in_strings, secret_guises, written

PLAIN = "sk-live-0123456789abcdef"
VALUES = [
    PLAIN, 'quo"ted-secret', "apo'strophe-secret", "back\\slashed-secret", "lines\nof\ta-key", "schlüssel-4711",
    "a/b/c-secret", '{"k": "-----BEGIN\\\\nMII"}',
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_json_inside_json_is_found_whatever_each_level_does_with_what_is_not_ascii(value):
    needles = written(value)
    for depth in range(JSON_DEPTH + 1):
        for levels in itertools.product([False, True], repeat=depth):
            text = value
            for ascii_only in levels:
                text = json.dumps({"held": text}, ensure_ascii=ascii_only)
            assert any(needle in text.encode() for needle in needles), (depth, levels)


@pytest.mark.parametrize("value", VALUES)
def test_what_python_shows_is_found_too(value):
    needles = written(value)
    for shown in (repr({"held": [value]}), repr(value.encode()), json.dumps({"held": str([value])})):
        assert any(needle in shown.encode() for needle in needles), shown


def test_slashes_may_be_escaped():
    assert b"a\\/b\\/c-secret" in written("a/b/c-secret")
    assert b"a\\\\/b\\\\/c-secret" in written("a/b/c-secret")


def test_a_value_that_json_writes_as_it_is_costs_no_further_needle():
    assert set(in_strings(PLAIN)) == {PLAIN}
    assert all(
        PLAIN.encode() not in needle or len(needle) == len(PLAIN)
        for guise in secret_guises(PLAIN)
        for needle in guise.needles
    )
