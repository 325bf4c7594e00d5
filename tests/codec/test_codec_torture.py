"""Odd bodies come back byte for byte, and say in the file what they are."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.codec.bodies import BodyReader
from pytest_agentreplay.codec.styles import Style
from pytest_agentreplay.errors import CannotWrite
from tests.support.stored_runs import first_stored, post, reply, run_of

FILL = ',"pad":"' + "x y " * 60 + '"'

REQUESTS = {
    "compact": (b'{"a":1}', "json"),
    "default": (b'{"a": 1, "b": [1, 2]}', "json"),
    "indent 2": (b'{\n  "a": 1,\n  "b": {}\n}', "json"),
    "indent 4, newline": (b'{\n    "a": [\n        {\n            "k": "v"\n        }\n    ]\n}\n', "json"),
    "tabs": (b'{\n\t"a": null\n}', "json"),
    "empty object": (b"{}", "json"),
    "empty arrays": (b'{"a":[],"b":{}}', "json"),
    "escaped": (b'{"a":"\\u00e9\\ud83d\\ude00"}', "json"),
    "unescaped": ('{"a":"é😀\u2028"}'.encode(), "json"),
    "escaped and not": ('{"a":"é","b":"\\u00e9"}'.encode(), "json"),
    "control": (b'{"a":"\\u001b[0m\\u0000"}', "json"),
    "odd numbers": (b'{"a":1E+2,"b":-0,"c":1.0,"d":1.10,"e":12345678901234567890123}', "json"),
    "odd numbers in a message": (b'{"messages":[{"n":1E+2},{"n":-0}]}', "json"),
    "lone surrogate": (b'{"a":"\\ud800"}', "json"),
    "lone surrogate in a key": (b'{"a":{"\\ud800":1}}', "json"),
    "dollar keys": (b'{"$ref":"m1","a":{"$text":["x"],"$$":1}}', "json"),
    "lists of texts": (b'{"input":["a","m1..m3"],"stop":["$"]}', "json"),
    "mixed list": (b'{"messages":[{"a":1},"b"]}', "json"),
    "items that look like definitions": (b'{"messages":[{"m1":{"a":1}},{"$item":"m1"}]}', "json"),
    "escaped slash": (b'{"a":"\\/"}', "json"),
    "unicode escape of ascii": (b'{"a":"\\u003c"}', "json"),
    "excess digits": (b'{"a":0.1000000000000000055}', "json"),
    "inner duplicate": (b'{"a":{"b":1,"b":2}}', "json"),
    "inner spacing": (b'{"a":{"b" : 1}}', "json"),
    "deep": (b'{"a":' + b"[" * 90 + b"]" * 90 + b"}", "json"),
    "top-level lone surrogate key": (b'{"\\ud800":1}', "text"),
    "outer duplicate": (b'{"a":1,"a":2}', "text"),
    "outer spacing": (b'{"a" : 1}', "text"),
    "very deep": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "text"),
    "NaN": (b'{"a":NaN}', "text"),
    "huge int": (b'{"a":' + b"9" * 5000 + b"}", "text"),
    "truncated": (b'{"a":[{"b":1},{"b"', "text"),
    "trailing": (b'{"a":1} x', "text"),
    "two newlines": (b'{"a":1}\n\n', "text"),
    "leading space": (b' {"a":1}', "text"),
    "array": (b"[1,2,3]", "text"),
    "string": (b'"just text"', "text"),
    "BOM": (b'\xef\xbb\xbf{"a":1}', "text"),
    "form": (b"grant_type=client&scope=a+b", "text"),
    "CRLF": (b"one\r\ntwo\r\n" * 9, "text"),
    "only newlines": (b"\n" * 60, "text"),
    "half a character": (b'{"a":"\xc3"}', "base64"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "base64"),
    "bytes": (bytes(range(256)), "base64"),
    "colon only": (b'{"a":', "text"),
    "no comma": (b'{"a":1 "b":2}', "text"),
    "bad key": (b"{a:1}", "text"),
    "unclosed array": (b'{"messages":[{"a":1} {"b":2}]}', "text"),
}


REPLIES = {
    "half a JSON": b'{"error": {"message": "Rate limit',
    "html": b"<html>\n<body>502 Bad Gateway</body>\n</html>\n",
    "lines of JSON": b'{"a":1}\n{"a":2}\n',
    "number": b"1.50",
}


def exchanged(request=b"", answer=b""):
    return run_of((post(request), reply(answer)))


def test_a_request_and_a_reply_come_back_short_and_long():
    for name, (body, kind) in REQUESTS.items():
        stored = first_stored(exchanged(body, body))["request"]["body"]
        assert kind in stored, name
        assert stored["size"] == len(body)
        padded = body.replace(b"{", b"{" + FILL[1:].encode() + b",", 1)
        first_stored(exchanged(padded, padded))
    for body in REPLIES.values():
        first_stored(exchanged(b"", body))


@pytest.mark.parametrize("body", [REQUESTS["compact"][0], REQUESTS["indent 2"][0], b"[1, 2]", b"[1,2]\n"])
def test_replies_in_known_styles_are_read_as_json(body):
    assert "json" in first_stored(exchanged(b"", body))["response"]["body"]


def test_what_is_not_exact_is_kept_as_written_in_its_place_alone():
    body = b'{"messages":[{"role":"user","content":"hi"},{"n":1E+2}],"seed":-0}'
    stored = first_stored(exchanged(body, b""))["request"]["body"]["json"]
    assert stored == {
        "messages": [{"m1": {"role": "user", "content": "hi"}}, {"m2": {"$raw": '{"n":1E+2}'}}],
        "seed": {"$raw": "-0"},
    }


def test_long_texts_are_lines_and_long_lines_are_cut_after_words():
    prompt = "Rules:\n" + "Look an order up before you refund it. " * 8 + "\n\nEnd."
    stored = first_stored(exchanged(json.dumps({"system": prompt}).encode(), b""))["request"]["body"]["json"]
    lines = stored["system"]["$item"]["s1"]["$text"]
    assert lines[0] == "Rules:"
    assert lines[2:] == ["", "End."]
    assert all(piece.endswith(" ") for piece in lines[1])
    assert "".join(lines[1]) == prompt.split("\n")[1]
    word = "sk-" + "a" * 300
    assert word in codec.dumps(exchanged(json.dumps({"a": f"the key {word} is here " * 3}).encode(), b""))


def test_cuts_are_left_out_when_the_reply_came_in_one_piece():
    assert "cuts" not in first_stored(exchanged(b"", b"abc"))["response"]


def test_a_body_that_would_not_come_back_is_stored_plain(monkeypatch):
    compose = Style.compose
    calls = []

    def wrong_when_read(self, fields):
        calls.append(1)
        return compose(self, fields) + " " * (len(calls) == 2)

    monkeypatch.setattr(Style, "compose", wrong_when_read)
    stored = json.loads(codec.dumps(exchanged(b'{"a":1}', b"")))["exchanges"][0]
    assert stored["request"]["body"]["text"] == '{"a":1}'


def test_a_body_that_does_not_even_come_back_plain_is_refused(monkeypatch):
    monkeypatch.setattr(BodyReader, "reply", lambda self, stored: b"other")
    with pytest.raises(CannotWrite, match="response of exchange 1"):
        codec.dumps(exchanged(b"", b"abc"))
