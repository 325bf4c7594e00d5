"""What a body holds."""

from __future__ import annotations

import gzip
import urllib.parse
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.core.matching.address import boundary, content, decoded
from pytest_agentreplay.core.model import Body

PLAIN = b'{"text":"' + b"abc" * 200 + b'"}'


def deflated(*, raw=False):
    machine = zlib.compressobj(wbits=-15 if raw else 15)
    return machine.compress(PLAIN) + machine.flush()


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("", PLAIN),
        ("identity", PLAIN),
        ("gzip", gzip.compress(PLAIN, mtime=0)),
        ("X-GZIP", gzip.compress(PLAIN, mtime=0)),
        ("deflate", deflated()),
        ("deflate", deflated(raw=True)),
    ],
)
def test_codings_are_undone(coding, data):
    assert decoded(data, coding) == (PLAIN, True)
    held = content((("Content-Encoding", coding), ("content-type", "application/json")), Body(data))
    assert held.kind == "json"
    assert held.tree == {"text": "abc" * 200}


def test_of_a_broken_body_what_came_is_read():
    text, whole = decoded(gzip.compress(PLAIN, mtime=0)[:-12], "gzip")
    assert not whole
    assert text
    assert PLAIN.startswith(text)


@pytest.mark.parametrize(
    ("coding", "data"),
    [("compress", b"xx"), ("gzip", b"no gzip"), ("gzip", gzip.compress(b"\0" * (65 * 1024 * 1024), 9, mtime=0))],
)
def test_what_cannot_be_read_within_bounds_stays_as_it_is(coding, data):
    assert decoded(data, coding) == (data, False)
    held = content((("content-encoding", coding),), Body(data))
    assert (held.kind, held.tree, held.data) == ("bytes", None, data)


def test_a_form_is_its_fields():
    held = content((("content-type", "application/x-www-form-urlencoded; charset=utf-8"),), Body(b"b=1&a=x+y&b=2&e="))
    assert (held.kind, held.tree) == ("form", {"b": ["1", "2"], "a": "x y", "e": ""})


def multipart(mark, *parts, end=b"--\r\n"):
    return b"".join(b"--" + mark + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + mark + end


def test_a_multipart_is_its_parts():
    data = multipart(
        b"B", b'Content-Disposition: form-data; name="a"\r\n\r\nx--B y', b"\r\nbare", b"K: v\r\n\r\n\xff\x00"
    )
    held = content((("content-type", 'multipart/form-data; boundary="B"'),), Body(data))
    assert held.kind == "multipart"
    first, bare, raw = held.tree[1:-1]
    assert first == {"headers": 'Content-Disposition: form-data; name="a"', "body": "x--B y"}
    assert bare == {"headers": "", "body": "bare"}
    assert raw["body"]["bytes"] == 2


@pytest.mark.parametrize(
    ("mark", "data"),
    [
        ("B", b""),
        ("B", multipart(b"B", b"K: v\r\n\r\nx", end=b"")),
        ("B", multipart(b"BB", b"K: v\r\n\r\nx")),
        ("B", multipart(b"B", b"no blank line")),
        ("", multipart(b"B", b"K: v\r\n\r\nx")),
    ],
)
def test_a_multipart_that_is_not_whole_is_bytes(mark, data):
    assert content((("content-type", f"multipart/form-data; boundary={mark}"),), Body(data)).kind == "bytes"


def test_json_is_known_by_its_type_or_its_first_sign():
    assert content((), Body(b'[{"a":1}]')).tree == [{"a": 1}]
    assert content((("content-type", "application/vnd.api+json"),), Body(b"3")).tree == 3
    assert content((("content-type", "text/plain"),), Body(b"3")).kind == "bytes"
    assert content((), Body(b"{half")).kind == "bytes"


def test_boundary():
    assert boundary("multipart/form-data; charset=x; Boundary=abc") == "abc"
    assert boundary("multipart/form-data") == ""


FORM_TYPE = (("content-type", "application/x-www-form-urlencoded"),)


@pytest.mark.parametrize(
    ("data", "kind", "tree"),
    [
        (b'{"q":"2+2"}', "json", {"q": "2+2"}),
        (b' [{"q":"a=1&b=2"}]', "json", [{"q": "a=1&b=2"}]),
        (b"make && rm -rf build", "bytes", None),
        (b"2+2", "bytes", None),
        (b"a&b=1", "bytes", None),
        (b"=1", "bytes", None),
        (b"a=%zz", "bytes", None),
        (b"q=1 1", "bytes", None),
        (b"a=1+2&b=&c=%2B&a=2", "form", {"a": ["1 2", "2"], "b": "", "c": "+"}),
        (b"items[0][id]=x%20y&t=ab==", "form", {"items[0][id]": "x y", "t": "ab=="}),
        (b"", "form", {}),
    ],
)
def test_a_body_is_a_form_where_an_encoder_may_have_written_it(data, kind, tree):
    found = content(FORM_TYPE, Body(data))
    assert (found.kind, found.tree) == (kind, tree)


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1))
def test_what_urllib_encodes_is_a_form(fields):
    fields = [
        (name.encode("utf-8", "ignore").decode() or "x", value.encode("utf-8", "ignore").decode())
        for name, value in fields
    ]
    assert content(FORM_TYPE, Body(urllib.parse.urlencode(fields).encode())).kind == "form"
