"""A conversation that is sent again with each turn: what is remembered finds what a look at the whole would find."""

from __future__ import annotations

import json
import random

import pytest

from pytest_agentreplay.core.model import Body, HttpCall
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.placeholders import splice
from pytest_agentreplay.core.redaction.places import Places
from pytest_agentreplay.core.redaction.policy import Policy

WORDS = [
    "the", "order", "was", "sent", "back", "because", "its", "key", "and", "the", "token", "of", "page", "two",
    "said", "so,", "%20", "and", "a", "\\n", "more",
]  # fmt: skip


def secret(dice):
    return "".join(dice.choices("abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=dice.randint(14, 60)))


def message(dice):
    text = " ".join(dice.choices(WORDS, k=dice.randint(5, 120)))
    kinds = [
        '"password": "{}"', "Bearer {}", "sk-" + "proj-{}", "postgres://u:{}@h/db", "mail ada{}@example.org",
        "plain {}",
    ]  # fmt: skip
    if dice.random() < 0.4:
        text += dice.choice(kinds).format(secret(dice)) + " " + " ".join(dice.choices(WORDS, k=20))
    return json.dumps({"inner": text}) if dice.random() < 0.3 else text


@pytest.mark.parametrize("seed", range(12))
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
        kept = redaction.call(HttpCall("POST", "https://api.test/v1/chat", body=Body(body))).body.data
        assert kept == splice(body, redaction._both(body))
        assert redaction._both(kept) == []
