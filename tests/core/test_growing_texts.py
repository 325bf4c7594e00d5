"""A conversation that is sent again with each turn: what is remembered finds what a look at the whole would find."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.core.model import Body, HttpCall
from pytest_agentreplay.core.redaction import Redaction, known
from pytest_agentreplay.core.redaction.known import Remembering, overlap
from pytest_agentreplay.core.redaction.placeholders import splice
from pytest_agentreplay.core.redaction.places import Places
from pytest_agentreplay.core.redaction.policy import Policy

SAID = "the order was sent back because its key and the token of page two said so, %20 and a \\n more"
KINDS = [
    '"password": "{}"', "Bearer {}", "sk-" + "proj-{}", "postgres://u:{}@h/db", "mail ada{}@example.org", "plain {}",
]  # fmt: skip
LETTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def message(dice):
    text = " ".join(dice.choices(SAID.split(), k=dice.randint(5, 120)))
    if dice.random() < 0.4:
        secret = "".join(dice.choices(LETTERS, k=dice.randint(14, 60)))
        text += dice.choice(KINDS).format(secret) + " " + " ".join(dice.choices(SAID.split(), k=20))
    return json.dumps({"inner": text}) if dice.random() < 0.3 else text


def asked(redaction, body):
    return redaction.call(HttpCall("POST", "https://api.test/v1/chat", body=Body(body))).body.data


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(6, 12))])
def test_every_turn_is_stored_as_if_it_were_looked_at_alone(seed):
    dice = random.Random(seed)
    redaction = Redaction(Places({"root": "/home/ada/shop", "user": "adalove"}), policy=Policy(pii=seed % 3 == 0))
    said = [{"role": "system", "content": message(dice) * 6}]
    for _ in range(14):
        said.append({"role": "user", "content": message(dice)})
        if dice.random() < 0.2:
            said[dice.randrange(len(said))]["content"] = message(dice)  # an edited history
        if dice.random() < 0.1:
            del said[1 : dice.randint(1, 4)]
        body = json.dumps({"model": "m", "messages": said}).encode()
        kept = asked(redaction, body)
        assert kept == splice(body, redaction._both(body))
        assert redaction._both(kept) == []


SECRET = "sk-demo-Q7wE9rTy2Zx4"
PIECES = st.sampled_from([
    SECRET, SECRET[:7], SECRET[7:], "/tmp/pytest-7/x", "/tmp/pyt", "est-7/x", "ada", "a", "{{tmp}}", "{{", "}}", " ",
    "\\n", "[[redacted:key:1]]", "word " * 20, "x" * 90,
])  # fmt: skip


def knowing():
    redaction = Redaction(Places({"tmp": "/tmp/pytest-7/x", "user": "ada"}))
    redaction.learn("key", SECRET)
    return redaction


@given(st.lists(st.tuples(PIECES, st.floats(0, 1), st.integers(0, 30)), min_size=5, max_size=30), st.integers(0, 10))
def test_a_text_that_grows_and_changes_is_redacted_as_if_it_were_new(edits, seed):
    small, known.SMALL = known.SMALL, 0
    try:
        growing, text = knowing(), "".join(random.Random(seed).choices("abc /", k=3000))
        for piece, where, gone in edits:
            at = int(where * len(text))
            text = text[:at] + piece + text[at + gone :]
            assert asked(growing, text.encode()) == asked(knowing(), text.encode())
    finally:
        known.SMALL = small


def test_only_what_is_new_is_scanned_and_an_overlap_counts_nothing_twice():
    seen = []
    remember = Remembering(lambda data: seen.append(len(data)) or [])
    history = b'{"messages":['
    for turn in range(50):
        history += b'{"role":"user","content":"%d %s"},' % (turn, b"word " * 300)
        remember(history + b'],"tools":[' + b"schema" * 2000 + b"]}", 100, 0)
    assert sum(seen[1:]) < 50 * (1600 + 4 * 100)
    remember(history, 100, 1)
    assert seen[-1] == len(history), "under another state nothing is taken over"
    pairs = ((b"aaaa", b"aaaaaa"), (b"abcd", b"abXcd"), (b"", b"x"))
    assert [overlap(*pair) for pair in pairs] == [(4, 0), (2, 2), (0, 0)]
