"""Odd bodies come back byte for byte, and say in the file what they are."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.bodies import StoredBody
from pytest_agentreplay.snapshots.codec.dedup_reader import Items
from tests.support.stored_runs import first_stored, post, reply, run_of

FILL = ',"pad":"' + "x y " * 60 + '"'

BODIES = {
    "json": [
        *(b'{"a":1}', b'{"a": 1, "b": [1, 2]}', b'{\n  "a": 1,\n  "b": {}\n}', b'{\n\t"a": null\n}', b"{}"),
        *(b'{\n    "a": [\n        {\n            "k": "v"\n        }\n    ]\n}\n', b'{"a":[],"b":{}}'),
        *(b'{"a":"\\u00e9\\ud83d\\ude00"}', '{"a":"é😀\u2028"}'.encode(), '{"a":"é","b":"\\u00e9"}'.encode()),
        *(b'{"a":"\\u001b[0m\\u0000"}', b'{"a":"\\/"}', b'{"a":"\\u003c"}'),  # escapes
        *(b'{"a":1E+2,"b":-0,"c":1.0,"d":1.10,"e":12345678901234567890123}', b'{"a":0.1000000000000000055}'),
        *(
            b'{"messages":[{"n":1E+2},{"n":-0}]}',
            b'{"messages":[{"a":1},"b"]}',
            b'{"input":["a","m1..m3"],"stop":["$"]}',
        ),
        *(b'{"a":"\\ud800"}', b'{"a":{"\\ud800":1}}', b'{"a":{"b":1,"b":2}}', b'{"a":{"b" : 1}}'),
        *(
            b'{"$ref":"m1","a":{"$text":["x"],"$$":1}}',
            b'{"messages":[{"m1":{"a":1}},{"$item":"m1"}]}',
        ),  # look like ours
        b'{"a":' + b"[" * 90 + b"]" * 90 + b"}",
    ],
    "text": [
        *(b'{"\\ud800":1}', b'{"a":1,"a":2}', b'{"a" : 1}', b'{"a":NaN}', b'{"a":1} x', b' {"a":1}'),
        *(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a":' + b"9" * 5000 + b"}"),
        *(b'{"a":[{"b":1},{"b"', b'{"a":', b'{"a":1 "b":2}', b"{a:1}", b'{"messages":[{"a":1} {"b":2}]}'),
        *(b"[1,2,3]", b'"just text"', b'\xef\xbb\xbf{"a":1}', b"grant_type=client&scope=a+b"),
        *(b"one\r\ntwo\r\n" * 9, b"\n" * 60),
    ],
    "lines": [b'{"a":1}\n\n', b'{"a":1}\n{"b":2}\nno JSON\n'],
    "base64": [b'{"a":"\xc3"}', '{"a":1}'.encode("utf-16"), bytes(range(256))],
}
REPLIES = [b'{"error": {"message": "Rate limit', b"<html>\n<p>502</p>\n</html>\n", b'{"a":1}\n{"a":2}\n', b"1.50"]


def exchanged(request=b"", answer=b""):
    return run_of((post(request), reply(answer)))


def test_a_request_and_a_reply_come_back_short_and_long():
    for body, kind in ((body, kind) for kind, bodies in BODIES.items() for body in bodies):
        stored = first_stored(exchanged(body, body))["request"]["body"]
        assert kind in stored, body
        padded = body.replace(b"{", b"{" + FILL[1:].encode() + b",", 1)
        first_stored(exchanged(padded, padded))
    for body in REPLIES:
        first_stored(exchanged(b"", body))


@pytest.mark.parametrize("body", [BODIES["json"][0], BODIES["json"][2], b"[1, 2]", b"[1,2]\n"])
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


def test_a_body_that_would_not_come_back_is_stored_plain(monkeypatch):
    pieces = Items.pieces
    monkeypatch.setattr(Items, "pieces", lambda *words: [*pieces(*words), " "])
    stored = json.loads(codec.dumps(exchanged(b'{"a":1}', b"")))["exchanges"][0]
    assert stored["request"]["body"]["text"] == '{"a":1}'


def test_a_body_that_does_not_even_come_back_plain_is_refused(monkeypatch):
    monkeypatch.setattr(StoredBody, "read_content", lambda self: b"other")
    with pytest.raises(CannotWrite, match="response of exchange 1"):
        codec.dumps(exchanged(b"", b"abc"))
