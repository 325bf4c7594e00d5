"""Secrets in base64 that is text. Each key is put together from parts."""

from __future__ import annotations

import base64
import json
import random

import pytest

from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.places import Places

KEY = "gh" + "p_v9zs00ZE1MKZXggWhJ5aQ2rT7uY4pL0xKd7Q"


def stored(text):
    return Redaction(Places({})).text(text)


def packed(text, wrapped=0):
    data = base64.b64encode(text.encode()).decode()
    return "\n".join(data[at : at + wrapped] for at in range(0, len(data), wrapped)) if wrapped else data


@pytest.mark.parametrize("before", ["", "=", "a=", "# settings\nTOKEN="])
@pytest.mark.parametrize("wrapped", [0, 60, 76])
@pytest.mark.parametrize("escaped", [False, True])
def test_a_key_in_base64_goes_and_what_stands_before_it_stays(before, wrapped, escaped):
    text = packed(f"{before}{KEY}\nDEBUG=1\n" + "A=1\n" * 20, wrapped)
    whole = json.dumps({"content": text, "n": 1}) if escaped else f"content {text} end"
    kept = stored(whole)
    assert "[[redacted:github-key:1]]" in kept
    head = base64.b64encode(before.encode()[: len(before) // 3 * 3]).decode()
    assert kept.startswith(whole[: whole.index(text[:4])] + head)
    assert packed(KEY)[4:-4] not in kept
    assert stored(kept) == kept
    if escaped:
        assert json.loads(kept)["n"] == 1


def test_a_private_key_in_base64_of_a_url_and_what_is_known_from_then_on():
    armour = "-----{} RSA PRIVATE KEY-----"
    body = "v9zs00ZE1MKZXggWhJ5aQ2rT7uY4pL0x" * 8
    text = base64.urlsafe_b64encode("\n".join([armour.format("BEGIN"), body, armour.format("END")]).encode()).decode()
    redaction = Redaction(Places({}))
    assert redaction.text(f"the file {text}").startswith("the file [[redacted:private-key:1]]")
    assert redaction.leaks(base64.b64encode(body.encode())) == ("private-key",)


@pytest.mark.parametrize(
    "text",
    [
        packed("the quick brown fox jumps over the lazy dog and runs"),
        packed(json.dumps({"offset": 20, "sort": "created_at", "after": "0b5f2a1e77c94d0fa31c9a3be0c1de45"})),
        packed("set it to ghp_<your key>, or to ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        base64.b64encode(random.Random(3).randbytes(3000)).decode(),
        "0123456789abcdef" * 8,
    ],
)
def test_other_base64_stays(text):
    assert stored(f'{{"v":"{text}"}}') == f'{{"v":"{text}"}}'
