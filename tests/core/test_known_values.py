"""A known value is found in whatever spelling a program gives it, in plain text and in JSON strings."""

from __future__ import annotations

import base64
import json
import quopri

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.model import Body, HttpCall, HttpReply
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.places import Places

KEY = "Tr0ub4dor" + "-Kq7Zx9Lm2+Ab/4"
POST = HttpCall("POST", "https://api.test/v1/x")


def b64(data):
    return base64.b64encode(data).decode()


def cut(value, between):
    return between.join((value[:6], value[6:13], value[13:]))


SPELLINGS = {
    "upper": str.upper,
    "lower": str.lower,
    "swapped": str.swapcase,
    "octal": lambda value: "".join(f"\\{byte:03o}" for byte in value.encode()),
    "octal-in-part": lambda value: f"\\{ord(value[0]):03o}{value[1:-1]}\\{ord(value[-1]):03o}",
    "octal-dump": lambda value: " ".join(f"{byte:03o}" for byte in value.encode()),
    "hex-dump": lambda value: value.encode().hex(" "),
    "hex-colons": lambda value: value.encode().hex(":").upper(),
    "quoted-printable": lambda value: "".join(f"={byte:02X}" for byte in value.encode()),
    "quoted-printable-lines": lambda value: quopri.encodestring(("x" * 70 + value).encode()).decode(),
    "quoted-printable-crlf": lambda value: cut(value, "=\r\n"),
    "continued": lambda value: cut(value, "\\\n"),
    "continued-indented": lambda value: cut(value, "\\\n    "),
    "continued-crlf": lambda value: cut(value, "\\\r\n"),
    "wrapped": lambda value: cut(value, "\n"),
    "quoted-in-parts": lambda value: cut(value, "''"),
    "base64": lambda value: b64(value.encode()),
    "base64-twice": lambda value: b64(b64(value.encode()).encode()),
    "base64-twice-inside": lambda value: b64(b"x: " + b64(b'{"k": "' + value.encode() + b'"}').encode() + b" y"),
    "base64-of-utf16": lambda value: b64(f"echo {value}".encode("utf-16-le")),
    "base64-of-utf16-be": lambda value: b64(f"echo {value}".encode("utf-16-be")),
    "utf16": lambda value: value.encode("utf-16-le").decode(),
    "utf16-be": lambda value: value.encode("utf-16-be").decode(),
    "hex-of-utf16": lambda value: value.encode("utf-16-le").hex(),
}


def stored(data, key=KEY):
    redaction = Redaction(Places({}))
    assert redaction.learn("key", key)
    after = redaction.outcome(POST, HttpReply(200, body=Body(data), cuts=(len(data),))).body.data
    return after, redaction


@pytest.mark.parametrize("before", ["", "the key: ", "x"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_known_value_is_found_however_it_is_spelled(spelling, before):
    text = SPELLINGS[spelling](KEY)
    for written in (text, json.dumps({"out": text}), json.dumps({"in": json.dumps({"out": text})})):
        data = f"{before}{written} and more".encode()
        after, redaction = stored(data)
        assert b"[[redacted:key:1]]" in after, data
        assert redaction.leaks(data) == ("key",)
        assert redaction.leaks(after) == ()


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_a_body_in_utf_16(coding):
    after, redaction = stored(f"clé: {KEY}\n".encode(coding) + b"plain ASCII behind it, much longer than that" * 3)
    assert b"[[redacted:key:1]]" in after
    assert redaction.leaks(after) == ()


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    value=st.text(st.sampled_from("abXY9+=&\\\"' \n%-_]["), min_size=8, max_size=24),
    spelling=st.sampled_from([*SPELLINGS]),
)
def test_any_value_in_any_spelling(value, spelling):
    value = value.strip()
    redaction = Redaction(Places({}))
    if not redaction.learn("key", value) or (
        spelling.startswith(("continued", "wrapped", "quoted-in", "quoted-printable-crlf"))
    ):
        return
    if value.upper().lower() != value.lower() or len(value) < 8:
        return
    data = SPELLINGS[spelling](value).encode()
    after = redaction.outcome(POST, HttpReply(200, body=Body(data), cuts=(len(data),))).body.data
    assert b"[[redacted:key:1]]" in after
    assert redaction.leaks(after) == ()


@pytest.mark.parametrize(
    "text",
    [
        "a troubador and a key", "Tr0ub4dor alone \\n Kq7Zx9Lm2", "https://api.test/?a=12&b=34=56",
        r"C:\temp\new\105 \101 and \\163\\150", "=3D=41 =\nAbc", "54 72 30 75 62 00 11",
        b64(b"any other text that is long enough to be looked at"),
        b64(b64(b"any other text that is long enough to be looked at").encode()),
        "plain".encode("utf-16-le").decode(),
    ],
)  # fmt: skip
def test_what_only_looks_alike_stays(text):
    for written in (text, json.dumps({"t": text})):
        after, _ = stored(written.encode())
        assert after == written.encode()
