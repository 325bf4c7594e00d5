from __future__ import annotations

import base64
import html
import json
import quopri
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.redaction.encodings import DEEPEST
from pytest_agentreplay.redaction.known import Known
from pytest_agentreplay.redaction.views import (
    View,
    ViewTooDeep,
    list_views,
    list_views_below,
    squeeze,
    unescape,
)

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
    "octal": lambda text: (
        '{"k": "' + "".join(f"\\{byte:03o}" if byte < 128 else chr(byte) for byte in text.encode()) + '"}'
    ),
    "form": lambda text: "a=1&q=" + quote_plus(text) + "&b=+2",
    "mail": lambda text: quopri.encodestring(f"{text} =".encode()).decode(),
    "named": lambda text: "<p>" + html.escape(text) + "</p>",
    "painted": lambda text: text[:5] + "\x1b[31m" + text[5:9] + "\x1b[0m" + text[9:],
}


def found(data):
    """Where the word is read."""
    views = ((view, view.text.find(WORD)) for view in list_views(data, deep=True))
    return [view.map_back(at, at + len(WORD)) for view, at in views if at >= 0]


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


def test_views_end_where_escapes_do_and_what_is_escaped_too_often_is_told():
    assert [view.text for view in list_views(b'{"a": "plain"}', deep=True)] == [b'{"a": "plain"}']
    assert len(list(list_views(b'{"a": "line\\nline"}', deep=False))) == 1
    data = b'{"a": "x ' + b"\\u005c" + b"u005c" * (DEEPEST + 4) + b'u0041 y"}'
    with pytest.raises(ViewTooDeep) as told:
        list(list_views_below(data))
    assert data[told.value.start : told.value.end].startswith(b"\\u005c")
    deep = "x"
    for _ in range(5):
        deep = json.dumps(deep)
    assert [view.text.count(b"\\") for view in list_views_below(deep.encode())][-1] == 0


def test_base64_is_undone_once_where_it_says_ascii():
    text = b"# a file of a repository: " + WORD + b" at its end"
    for letters in (base64.b64encode(text), base64.urlsafe_b64encode(text).rstrip(b"="), base64.encodebytes(text * 3)):
        data = b'{"file": "' + letters + b'"}'
        start, end = next(span for span in found(data) if span != (0, 0))
        assert WORD in base64.b64decode(data[start:end].replace(b"\n", b"") + b"==")
        assert (end - start) % 4 in {0, 1}
    twice = base64.b64encode(base64.b64encode(text))
    picture = base64.b64encode(bytes(range(256)))
    assert [found(data) for data in (twice, picture)] == [[], []]


def test_cut_words_are_joined():
    assert squeeze(View(b"'Qz7w''Lp0x'\nNeedle")).text == b"Qz7wLp0xNeedle"
    assert squeeze(View(b"nothing to join")) is None
    known = Known()
    known.learn("key", 'Qz7w"Lp0x' + "Needle")
    for cut in (b"'Qz7w\"''Lp0xNeedle'", b'Qz7w"Lp0\nxNeedle'):
        assert {secret.category for _, _, secret in known.find(View(cut))} == {"key"}, "a value with quotes of its own"
