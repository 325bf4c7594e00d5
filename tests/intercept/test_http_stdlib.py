"""`http.client` and `urllib.request` bare: recorded once a wire call, replayed with no server."""

from __future__ import annotations

import http.client
import io
import json
import urllib.error
import urllib.request

import pytest

from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.http import stdlib
from pytest_agentreplay.model.exchanges import Body
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer, Raw
from tests.support.tapes import both
from tests.support.wire import (
    REPLIES,
    early_close_comes_back,
    refused_connection,
    reply_comes_back,
    request_is_kept,
)

pytestmark = pytest.mark.env("main", "lowest", "lastyear")


def connect(url, timeout=5.0):
    return http.client.HTTPConnection(url.removeprefix("http://"), timeout=timeout)


def get(url, timeout=5.0, *, amount=None, method="GET"):
    """One call by a bare connection: status line, headers and the reads, or the error and what was read before."""
    connection = connect(url, timeout)
    reads = []
    try:
        connection.request(method, "/")
        response = connection.getresponse()
        while data := response.read() if amount is None else response.read1(amount):
            reads.append(data)
        return response.status, response.reason, response.version, response.getheaders(), reads, response.isclosed()
    except Exception as error:
        return type(error), str(error), reads
    finally:
        connection.close()


def post(url, method="POST", path="/p", **request):
    """The answer to a call by a bare connection."""
    connection = connect(url)
    connection.request(method, path, **request)
    with connection.getresponse() as response:
        got = response.read()
    connection.close()
    return got


IN_PIECES = ("chunks", "length", "no body", "gone in a chunk", "too short", "stalled")
"""Replies that are read piece by piece in the default lane, too."""


@pytest.mark.parametrize(
    ("name", "amount"),
    [
        *((name, None) for name in REPLIES),
        *((name, 100) for name in IN_PIECES),
        *rare(*((name, 100) for name in REPLIES if name not in IN_PIECES)),
    ],
)
def test_the_wire_comes_back_as_it_was(name, amount):
    _, [exchange] = reply_comes_back(name, lambda url, timeout: get(url, timeout, amount=amount))
    outcome = exchange.outcome
    if name == "chunks":
        assert list(outcome.chunks()) == [b"one", b"two" * 30, b"three"], "the body, and not its framing"
        assert (outcome.version, outcome.failure, outcome.closed) == ("HTTP/1.1", None, False)
        assert exchange.timing.first <= exchange.timing.end
    elif name in {"gone in the body", "gone in a chunk", "too short"} and amount is None:
        assert outcome.failure.type == "http.client.IncompleteRead"
        assert outcome.body.data in {b"ab", b"abc", b"abcd"}


def fetched(url):
    """One call by urllib.request, which follows redirects and tells errors of asking and of answering apart."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, response.geturl(), response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.reason, error.read()
    except urllib.error.URLError as error:
        return "could not ask", type(error.reason), str(error)
    except OSError as error:
        return "no answer", type(error), str(error)


def test_urllib_follows_redirects_and_reads_errors():
    there = Raw(302, headers=[("Location", "/there"), ("Content-Length", "0")])
    with ModelServer([there, "done", Raw(404, reason="No", chunks=(b"gone",)), Raw(status=0, break_after=0)]) as server:
        live, exchanges = both(server, lambda: [fetched(server.url + "/here") for _ in range(3)])
    assert [x.call.url.rpartition("/")[2] for x in exchanges] == ["here", "there", "here", "here"]
    assert live[1] == (404, "No", b"gone")
    assert live[2][:2] == ("no answer", http.client.RemoteDisconnected)


def test_a_refused_connection_is_an_error_of_asking():
    live, [exchange] = refused_connection(fetched)
    assert live[:2] == ("could not ask", ConnectionRefusedError)
    assert exchange.outcome.args


BODIES = {
    "bytes": lambda: {"body": b"abc"},
    "text": lambda: {"body": "abc"},
    "file": lambda: {"body": io.BytesIO(b"abc")},
    "text file": lambda: {"body": io.StringIO("abc")},
    "list": lambda: {"body": [b"a", b"bc"]},
    "generator": lambda: {"body": iter([b"a", b"bc"])},
    "file of known length": lambda: {"body": io.BytesIO(b"abc"), "headers": {"Content-Length": "3"}},
    "chunked by the caller": lambda: {
        "body": iter([b"a", b"bc"]),
        "encode_chunked": True,
        "headers": {"Transfer-Encoding": "chunked"},
    },
}


@pytest.mark.parametrize("kind", BODIES)
def test_request_bodies_are_kept_and_sent_as_ever(kind):
    exchange, sent = request_is_kept(lambda url: post(url, **BODIES[kind]()))
    assert exchange.call.body == Body(b"abc")
    assert exchange.call.headers == sent.headers


@pytest.mark.parametrize(
    ("header", "pieces"),
    [
        (("Content-Length", "3"), (b"a", b"bc")),
        (("Transfer-Encoding", "chunked"), (b"1\r\na\r\n", b"2\r\nbc\r\n", b"0\r\n\r\n")),
    ],
    ids=["of a length", "chunked"],
)
def test_a_body_that_is_sent_piece_by_piece_is_kept_whole(header, pieces):
    def send(url):
        connection = connect(url)
        connection.putrequest("PUT", "/p?a=1", skip_accept_encoding=True)
        connection.putheader(*header)
        connection.endheaders()
        for piece in pieces:
            connection.send(piece)
        got = connection.getresponse().read()
        connection.close()
        return got

    exchange, _ = request_is_kept(send)
    assert exchange.call.body == Body(b"abc")
    assert exchange.call.url.endswith("/p?a=1")


def test_a_connection_that_was_open_before_serves_live_calls_before_and_after():
    with ModelServer() as server:
        connection = connect(server.url)

        def one(path):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())["id"]

        first = one("/before")
        live, exchanges = both(server, lambda: [one("/a"), one("/b")])
        assert len({first, *live, one("/after")}) == len(server.requests) == 4
        assert len(exchanges) == 2
        connection.close()


def test_early_close_is_replayed_at_its_place():
    def read(url, count):
        connection = connect(url)
        connection.request("GET", "/")
        with connection.getresponse() as response:
            got = [response.read1() for _ in range(count)]
        connection.close()
        return got

    early_close_comes_back(read)


def test_a_head_has_no_body():
    with ModelServer([Raw(headers=[("Content-Length", "4")])]) as server:
        _, [exchange] = both(server, lambda: get(server.url, method="HEAD"))
    assert not exchange.outcome.closed


def test_install_twice_wraps_once():
    def patches():
        return [vars(http.client.HTTPConnection)[name] for name in ("endheaders", "send", "getresponse")]

    registry.install()
    kept = patches()
    stdlib.patch(http.client)
    assert patches() == kept
