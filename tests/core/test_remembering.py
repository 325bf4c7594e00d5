from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.model import Body, HttpCall
from pytest_agentreplay.core.redaction import Redaction, known
from pytest_agentreplay.core.redaction.known import Remembering, overlap
from pytest_agentreplay.core.redaction.places import Places

SECRET = "sk-demo-Q7wE9rTy2Zx4"
PLACES = {"tmp": "/tmp/pytest-7/x", "user": "ada"}
PIECES = st.sampled_from([
    SECRET, SECRET[:7], SECRET[7:], "/tmp/pytest-7/x", "/tmp/pyt", "est-7/x", "ada", "a", "{{tmp}}", "{{", "}}", " ",
    "\\n", "[[redacted:key:1]]", "word " * 20, "x" * 90,
])  # fmt: skip


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(st.tuples(PIECES, st.floats(0, 1), st.integers(0, 30)), min_size=5, max_size=30), st.integers(0, 10))
def test_a_text_that_grows_and_changes_is_redacted_as_if_it_were_new(edits, seed):
    small, known.SMALL = known.SMALL, 0
    try:
        growing = Redaction(Places(PLACES))
        growing.learn("key", SECRET)
        text = "".join(random.Random(seed).choices("abc /", k=3000))
        for piece, where, gone in edits:
            at = int(where * len(text))
            text = text[:at] + piece + text[at + gone :]
            new = Redaction(Places(PLACES))
            new.learn("key", SECRET)
            call = HttpCall("POST", "https://x.test", body=Body(text.encode()))
            assert growing.call(call).body == new.call(call).body
    finally:
        known.SMALL = small


def test_only_what_is_new_is_scanned():
    seen = []
    remember = Remembering(lambda data: seen.append(len(data)) or [])
    history = b'{"messages":['
    for turn in range(50):
        history += b'{"role":"user","content":"%d %s"},' % (turn, b"word " * 300)
        remember(history + b'],"tools":[' + b"schema" * 2000 + b"]}", 100, 0)
    assert sum(seen[1:]) < 50 * (1600 + 4 * 100)
    remember(history, 100, 1)
    assert seen[-1] == len(history), "under another state nothing is taken over"


def test_overlap_counts_nothing_twice():
    assert overlap(b"aaaa", b"aaaaaa") == (4, 0)
    assert overlap(b"abcd", b"abXcd") == (2, 2)
    assert overlap(b"", b"x") == (0, 0)
