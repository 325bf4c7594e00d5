from __future__ import annotations

import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.redaction.detecting import list_readings
from pytest_agentreplay.redaction.encodings import (
    DEEPEST,
    View,
    ViewTooDeep,
    list_views_below,
    squeeze,
    undo_utf16,
    unescape,
)
from pytest_agentreplay.redaction.known import Known

WORD = b"Qz7wLp0xNeedle"
TEXT = st.text(st.sampled_from("ab \\\"'/\n\t%é€😀&;<{}[]:,u0041nx"), max_size=30)


def in_json(text, **options):
    return json.dumps({"k": text}, **options)


CODINGS = {
    "json": in_json,
    "ascii": lambda text: in_json(text, ensure_ascii=True),
    "php": lambda text: in_json(text).replace("/", "\\/"),
    "letters": lambda text: '{"k": "' + "".join(f"\\u{ord(char):04x}" for char in text) + '"}',
    "percent": lambda text: "https://h.test/?q=" + quote(text, safe=""),
    "twice": lambda text: "/?q=" + quote(quote(text, safe=""), safe=""),
    "entities": lambda text: "<p>" + "".join(f"&#{ord(char)};" for char in text) + "</p>",
    "named": lambda text: "<p>" + html.escape(text) + "</p>",
    "painted": lambda text: text[:5] + "\x1b[31m" + text[5:9] + "\x1b[0m" + text[9:],
}


def found(data):
    """Where the word is read."""
    views = ((reading, reading.view.text.find(WORD)) for reading in list_readings(data, deep=True))
    return [reading.back(at, at + len(WORD)) for reading, at in views if at >= 0]


INNER, OUTER = (
    st.sampled_from(sorted(CODINGS.keys() - {"painted"})),
    st.sampled_from(["json", "ascii", "php", "letters"]),
)


@given(TEXT, TEXT, INNER, OUTER)
def test_what_is_read_in_a_view_stands_where_it_says(before, after, inner, outer):
    data = CODINGS[outer](CODINGS[inner](before + WORD.decode() + after)).encode()
    try:
        spans = found(data)
    except ViewTooDeep:
        return
    assert spans
    for start, end in spans:
        piece = data[start:end]
        assert WORD in piece or found(piece), (data, piece)


def test_every_coding_is_undone_once_and_inside_json():
    once = [coding(WORD.decode()) for coding in CODINGS.values()]
    texts = [text for plain in once for text in (plain, in_json(plain), in_json(in_json(plain)))]
    assert [text for text in texts if not found(text.encode())] == []


@given(TEXT)
def test_one_layer_of_json_is_what_json_reads(text):
    for ascii_only in (False, True):
        body = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        assert unescape(body.encode()).decode("utf-8", "surrogatepass") == text


def test_readings_end_where_escapes_do_and_what_is_escaped_too_often_is_told():
    assert [reading.view.text for reading in list_readings(b'{"a": "plain"}', deep=True)] == [b'{"a": "plain"}']
    assert len(list(list_readings(b'{"a": "line\\nline"}', deep=False))) == 1
    data = b'{"a": "x ' + b"\\u005c" + b"u005c" * (DEEPEST + 4) + b'u0041 y"}'
    with pytest.raises(ViewTooDeep) as told:
        list(list_views_below(data))
    assert data[told.value.start : told.value.end].startswith(b"\\u005c")
    deep = "x"
    for _ in range(5):
        deep = json.dumps(deep)
    assert [view.text.count(b"\\") for view in list_views_below(deep.encode())][-1] == 0


def test_cut_words_are_joined():
    assert squeeze(View(b"'Qz7w''Lp0x'\nNeedle")).text == b"Qz7wLp0xNeedle"
    assert squeeze(View(b"nothing to join")) is None
    wide = undo_utf16(View("Qz7wLp".encode("utf-16-le")))
    assert (wide.text, wide.map_up(1, 3)) == (b"Qz7wLp", (2, 5))
    assert undo_utf16(View(b"ab\0b")) is None
    known = Known()
    known.learn("key", 'Qz7w"Lp0x' + "Needle")
    for cut in (b"'Qz7w\"''Lp0xNeedle'", b'Qz7w"Lp0\nxNeedle'):
        assert {secret.category for _, _, secret in known.find(View(cut))} == {"key"}, "a value with quotes of its own"
