"""URLs in parts, which hosts are this machine, and what a body holds."""

from __future__ import annotations

import gzip
import urllib.parse
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.matching.address import boundary, content, decode_body, is_loopback, split
from pytest_agentreplay.model.exchanges import Body

HERE = ["localhost", "api.localhost", "127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]
ELSEWHERE = [
    "::ffff:10.0.0.1", "10.0.0.1", "0.0.0.0", "127.0.0.1.example.com", "notlocalhost", "example.com", "",
]  # fmt: skip


def test_which_hosts_are_this_machine():
    assert [host for host in [*HERE, *ELSEWHERE] if is_loopback(host)] == HERE


def test_a_url_has_parts_and_no_url_is_an_error():
    url = split("HTTPS://me:pw@API.Example.com.:443?b=1&a=%20x&b=&c#top")
    assert (url.scheme, url.host, url.port, url.path) == ("https", "api.example.com", None, "/")
    assert url.query == (("b", "1"), ("a", " x"), ("b", ""), ("c", ""))
    assert (url.userinfo, url.fragment) == ("me:pw", "top")
    assert split("http://[::1]:8080/x").loopback
    for broken in ("http://[::1", "http://a:99999/", "http://a:port/", "", "::", "\0"):
        assert not split(broken).loopback
    assert split("http://a/?q=%ff").query != split("http://a/?q=%fe").query, "bytes that are no text stay distinct"


def test_a_placeholder_in_the_user_info_is_no_address():
    url = split("http://user:[[redacted:key:2]]@127.0.0.1:9/login?q=[[redacted:key:1]]")
    assert (url.userinfo, url.host, url.port, url.path) == ("user:[[redacted:key:2]]", "127.0.0.1", 9, "/login")
    assert url.query == (("q", "[[redacted:key:1]]"),)
    elsewhere = split("http://localhost/a?q=[[redacted:key:1]]&to=a@b")
    assert (elsewhere.userinfo, elsewhere.query) == ("", (("q", "[[redacted:key:1]]"), ("to", "a@b")))


# --- bodies


PLAIN = b'{"text":"' + b"abc" * 200 + b'"}'
ZIPPED = gzip.compress(PLAIN, mtime=0)


def deflated(*, raw=False):
    machine = zlib.compressobj(wbits=-15 if raw else 15)
    return machine.compress(PLAIN) + machine.flush()


def held(data, kind=None, coding=None):
    headers = (("Content-Encoding", coding), ("content-type", kind))
    return content(tuple(header for header in headers if header[1] is not None), Body(data))


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("", PLAIN), ("identity", PLAIN), ("gzip", ZIPPED), ("X-GZIP", ZIPPED), ("deflate", deflated()),
        ("deflate", deflated(raw=True)),
    ],
)  # fmt: skip
def test_codings_are_undone(coding, data):
    assert decode_body(data, coding) == (PLAIN, True)
    found = held(data, "application/json", coding)
    assert (found.kind, found.tree) == ("json", {"text": "abc" * 200})


def test_of_a_broken_body_what_came_is_read_and_what_is_beyond_bounds_stays_as_it_is():
    text, whole = decode_body(ZIPPED[:-12], "gzip")
    assert not whole
    assert text
    assert PLAIN.startswith(text)
    bomb = gzip.compress(b"\0" * (65 * 1024 * 1024), 9, mtime=0)
    for coding, data in (("compress", b"xx"), ("gzip", b"no gzip"), ("gzip", bomb)):
        assert decode_body(data, coding) == (data, False)
        found = held(data, coding=coding)
        assert (found.kind, found.tree, found.data) == ("bytes", None, data)


def multipart(mark, *parts, end=b"--\r\n"):
    return b"".join(b"--" + mark + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + mark + end


def test_a_multipart_is_its_parts_where_it_is_whole():
    named = b'Content-Disposition: form-data; name="a"\r\n\r\nx--B y'
    found = held(multipart(b"B", named, b"\r\nbare", b"K: v\r\n\r\n\xff\x00"), 'multipart/form-data; boundary="B"')
    assert found.kind == "multipart"
    first, bare, raw = found.tree[1:-1]
    assert first == {"headers": 'Content-Disposition: form-data; name="a"', "body": "x--B y"}
    assert bare == {"headers": "", "body": "bare"}
    assert raw["body"]["bytes"] == 2
    part = b"K: v\r\n\r\nx"
    broken = [("B", b""), ("B", multipart(b"B", part, end=b"")), ("B", multipart(b"BB", part))]
    for mark, data in [*broken, ("B", multipart(b"B", b"no blank line")), ("", multipart(b"B", part))]:
        assert held(data, f"multipart/form-data; boundary={mark}").kind == "bytes", data
    assert boundary("multipart/form-data; charset=x; Boundary=abc") == "abc"
    assert boundary("multipart/form-data") == ""


def test_json_is_known_by_its_type_or_its_first_sign():
    assert held(b'[{"a":1}]').tree == [{"a": 1}]
    assert held(b"3", "application/vnd.api+json").tree == 3
    assert held(b"3", "text/plain").kind == held(b"{half").kind == "bytes"


FORM = "application/x-www-form-urlencoded"
FORMS = [
    (b'{"q":"2+2"}', "json", {"q": "2+2"}),
    (b' [{"q":"a=1&b=2"}]', "json", [{"q": "a=1&b=2"}]),
    *((data, "bytes", None) for data in (b"make && rm -rf build", b"2+2", b"a&b=1", b"=1", b"a=%zz", b"q=1 1")),
    (b"a=1+2&b=&c=%2B&a=2", "form", {"a": ["1 2", "2"], "b": "", "c": "+"}),
    (b"items[0][id]=x%20y&t=ab==", "form", {"items[0][id]": "x y", "t": "ab=="}),
    (b"", "form", {}),
]


def test_a_body_is_a_form_where_an_encoder_may_have_written_it():
    for data, kind, tree in FORMS:
        for found in (held(data, FORM), held(data, f"{FORM}; charset=utf-8")):
            assert (found.kind, found.tree) == (kind, tree), data


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(TEXT.filter(bool), TEXT), min_size=1))
def test_what_urllib_encodes_is_a_form(fields):
    assert held(urllib.parse.urlencode(fields).encode(), FORM).kind == "form"
