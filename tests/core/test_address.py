"""URLs in parts, and which hosts are this machine."""

from __future__ import annotations

import pytest

from pytest_agentreplay.core.matching.address import is_loopback, split


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("api.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("127.0.0.1.example.com", False),
        ("notlocalhost", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_this_machine(host, here):
    assert is_loopback(host) is here


def test_the_parts():
    url = split("HTTPS://me:pw@API.Example.com.:443?b=1&a=%20x&b=&c#top")
    assert (url.scheme, url.host, url.port, url.path) == ("https", "api.example.com", None, "/")
    assert url.query == (("b", "1"), ("a", " x"), ("b", ""), ("c", ""))
    assert (url.userinfo, url.fragment) == ("me:pw", "top")
    assert split("http://[::1]:8080/x").loopback


@pytest.mark.parametrize("url", ["http://[::1", "http://a:99999/", "http://a:port/", "", "::", "\0"])
def test_no_url_is_an_error(url):
    split(url)


def test_bytes_that_are_no_text_stay_distinct():
    assert split("http://a/?q=%ff").query != split("http://a/?q=%fe").query


def test_a_placeholder_in_the_user_info_is_no_address():
    url = split("http://user:[[redacted:key:2]]@127.0.0.1:9/login?q=[[redacted:key:1]]")
    assert (url.userinfo, url.host, url.port, url.path) == ("user:[[redacted:key:2]]", "127.0.0.1", 9, "/login")
    assert url.query == (("q", "[[redacted:key:1]]"),)
    elsewhere = split("http://localhost/a?q=[[redacted:key:1]]&to=a@b")
    assert (elsewhere.userinfo, elsewhere.query) == ("", (("q", "[[redacted:key:1]]"), ("to", "a@b")))
