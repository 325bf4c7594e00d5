"""A conversation that is sent again with each turn: what is remembered finds what a look at the whole would find."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import Body, HttpCall
from pytest_agentreplay.redaction import known
from pytest_agentreplay.redaction.known import SpanMemory
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.spans import splice
from pytest_agentreplay.snapshots.codec.dedup_reader import count_shared

SECRET = "sk-demo-Q7wE9rTy2Zx4"
PIECES = st.sampled_from([
    SECRET, SECRET[:7], SECRET[7:], "/tmp/pytest-7/x", "/tmp/pyt", "est-7/x", "ada", "a", "{{tmp}}", "{{", "}}", " ",
    "\\n", "[[redacted:key:1]]", "word " * 20, "x" * 90, '"password": "7Kdx9Qm2' + 'Lp4Tz"', "mail ada.love@example.org",
    "Bearer Qw3rTy8u" + "Io9pAs5dFg", "sk-" + "proj-aB3dE6gH9jK2mN5pQ8rT1vW4", "postgres://u:7Kdx9Qm2" + "Lp@h/db",
    '\\"', "%20",
])  # fmt: skip


@given(st.lists(st.tuples(PIECES, st.floats(0, 1), st.integers(0, 30)), min_size=5, max_size=30), st.integers(0, 10))
def test_a_text_that_grows_and_changes_is_redacted_as_if_it_were_new(edits, seed):
    small, known.SMALL = known.SMALL, 0
    try:
        growing = Redaction(Places({"tmp": "/tmp/pytest-7/x", "user": "ada"}), policy=Policy(pii=True))
        growing.learn("key", SECRET)
        text = "".join(random.Random(seed).choices("abc /", k=3000))
        for piece, where, gone in edits:
            at = int(where * len(text))
            text = text[:at] + piece + text[at + gone :]
            before = growing.run.secrets.generation
            kept = growing.redact_content(HttpCall("POST", "https://x.test", body=Body(text.encode()))).body.data
            # A value that has just become known is found in what came before it by the next look alone.
            if growing.run.secrets.generation == before:
                assert kept == splice(text.encode(), growing.text.find_whole(text.encode()))
    finally:
        known.SMALL = small


def test_only_what_is_new_is_scanned_and_an_overlap_counts_nothing_twice():
    seen = []
    remember = SpanMemory(lambda data: seen.append(len(data)) or [])
    history = b'{"messages":['
    for turn in range(50):
        history += b'{"role":"user","content":"%d %s"},' % (turn, b"word " * 300)
        remember(history + b'],"tools":[' + b"schema" * 2000 + b"]}", 100, 0)
    assert sum(seen[1:]) < 50 * (1600 + 4 * 100)
    remember(history, 100, 1)
    assert seen[-1] == len(history), "under another state nothing is taken over"
    pairs = ((b"aaaa", b"aaaaaa"), (b"abcd", b"abXcd"), (b"", b"x"))
    assert [count_shared(*pair) for pair in pairs] == [(4, 0), (2, 2), (0, 0)]
