"""`http.client` and `urllib.request` bare: recorded once a wire call, replayed with no server."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import urllib.error
import urllib.request
import xmlrpc.client

import pytest

from pytest_agentreplay.core.model import Body
from pytest_agentreplay.demo.server import ModelServer, Raw
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.http import stdlib

pytestmark = pytest.mark.env("main", "lowest", "lastyear")


def host(server):
    return server.url.removeprefix("http://")


def get(server, *, timeout=5.0, amount=None, method="GET", path="/"):
    """One call by a bare connection: status line, headers and the reads, or the error and what was read before."""
    connection = http.client.HTTPConnection(host(server), timeout=timeout)
    reads = []
    try:
        connection.request(method, path)
        response = connection.getresponse()
        while data := response.read() if amount is None else response.read1(amount):
            reads.append(data)
        return response.status, response.reason, response.version, response.getheaders(), reads, response.isclosed()
    except Exception as error:
        return type(error), str(error), reads
    finally:
        connection.close()


REPLIES = {
    "odd headers": Raw(headers=[("SET-Cookie", "a=1"), ("x-Odd", "1"), ("Set-cookie", "b=2"), ("X-ODD", "2")]),
    "latin-1 header": Raw(headers=[("x-name", "J\xfcrgen")], chunks=(b"x",)),
    "no reason": Raw(reason="", chunks=(b"x",)),
    "own reason": Raw(503, reason="Gone Fishing", chunks=(b"x",)),
    "chunks": Raw(chunks=(b"one", b"two" * 30, b"three")),
    "gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(gzip.compress(b"hello " * 50, mtime=0),)),
    "length": Raw(headers=[("Content-Length", "4")], chunks=(b"abcd",)),
    "too short": Raw(headers=[("Content-Length", "9")], chunks=(b"abcd",), break_after=1),
    "no body": Raw(204, headers=[("Content-Length", "0")], reason="No Content"),
    "up to the end": Raw(head=b"HTTP/1.0 200 OK\r\nx-a: 1\r\n\r\n", chunks=(b"all of it",)),
    "gone before the answer": Raw(status=0, break_after=0),
    "gone in the body": Raw(chunks=(b"a", b"b", b"c"), break_after=2),
    "gone in a chunk": Raw(
        headers=[("Transfer-Encoding", "chunked")], chunks=(b"1\r\na\r\n", b"5\r\nbc"), break_after=2
    ),
    "reset in the body": Raw(chunks=(b"a",), break_after=1, reset=True, delay=0.1),
    "not http": Raw(head=b"NONSENSE\r\n\r\n"),
    "silent": Raw(status=0, hang=True),
    "stalled": Raw(chunks=(b"a", b"b"), hang=True),
    "malformed chunk": Raw(headers=[("Transfer-Encoding", "chunked")], chunks=(b"1\r\na\r\n", b"zz\r\n")),
}


@pytest.mark.parametrize("amount", [None, 100], ids=["whole", "piecewise"])
@pytest.mark.parametrize("name", REPLIES)
def test_the_wire_comes_back_as_it_was(name, amount, both):
    timeout = 0.3 if REPLIES[name].hang else 5.0
    with ModelServer([REPLIES[name]] * 2) as server:
        bare = get(server, timeout=timeout, amount=amount)
        live, replayed, exchanges = both(server, lambda: get(server, timeout=timeout, amount=amount))
    assert live == bare
    assert replayed == live
    assert len(exchanges) == 1


def test_what_is_kept_is_the_body_and_not_its_framing(both):
    with ModelServer([REPLIES["chunks"]]) as server:
        _, _, [exchange] = both(server, lambda: get(server))
    assert list(exchange.outcome.chunks()) == [b"one", b"two" * 30, b"three"]
    assert exchange.outcome.version == "HTTP/1.1"
    assert (exchange.outcome.failure, exchange.outcome.closed) == (None, False)
    assert exchange.call.url == server.url + "/"
    assert exchange.timing.first <= exchange.timing.end


@pytest.mark.parametrize("name", ["gone in the body", "gone in a chunk", "too short"])
def test_a_body_that_was_broken_off_says_so(name, both):
    with ModelServer([REPLIES[name]]) as server:
        _, _, [exchange] = both(server, lambda: get(server))
    assert exchange.outcome.failure.type == "http.client.IncompleteRead"
    assert exchange.outcome.body.data in {b"ab", b"abc", b"abcd"}


def fetched(url, **request):
    """One call by urllib.request, which follows redirects and tells errors of asking and of answering apart."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **request), timeout=5) as response:
            return response.status, response.geturl(), response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.reason, error.read()
    except urllib.error.URLError as error:
        return "could not ask", type(error.reason), str(error)
    except OSError as error:
        return "no answer", type(error), str(error)


def test_urllib_follows_redirects_and_reads_errors(both):
    there = Raw(302, headers=[("Location", "/there"), ("Content-Length", "0")])
    with ModelServer([there, "done", Raw(404, reason="No", chunks=(b"gone",)), Raw(status=0, break_after=0)]) as server:
        live, replayed, exchanges = both(server, lambda: [fetched(server.url + "/here") for _ in range(3)])
    assert live == replayed
    assert [x.call.url.rpartition("/")[2] for x in exchanges] == ["here", "there", "here", "here"]
    assert live[1] == (404, "No", b"gone")
    assert live[2][:2] == ("no answer", http.client.RemoteDisconnected)


def test_a_refused_connection_is_an_error_of_asking(both):
    with ModelServer() as server:
        pass
    live, replayed, [exchange] = both(server, lambda: fetched(server.url))
    assert live == replayed
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
def test_request_bodies_are_kept_and_sent_as_ever(kind, both):
    def act():
        connection = http.client.HTTPConnection(host(server))
        connection.request("POST", "/p", **BODIES[kind]())
        with connection.getresponse() as response:
            got = response.read()
        connection.close()
        return got

    with ModelServer() as server:
        act()
        live, replayed, [exchange] = both(server, act)
        bare, recorded = server.requests
    assert live == replayed
    assert (recorded.body, recorded.headers) == (bare.body, bare.headers)
    assert exchange.call.body == Body(b"abc")
    assert exchange.call.headers == recorded.headers


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_sent_piece_by_piece(chunked, both):
    def act():
        connection = http.client.HTTPConnection(host(server))
        connection.putrequest("PUT", "/p?a=1", skip_accept_encoding=True)
        connection.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", "3")))
        connection.endheaders()
        for piece in (b"1\r\na\r\n", b"2\r\nbc\r\n", b"0\r\n\r\n") if chunked else (b"a", b"bc"):
            connection.send(piece)
        got = connection.getresponse().read()
        connection.close()
        return got

    with ModelServer() as server:
        live, replayed, [exchange] = both(server, act)
    assert live == replayed
    assert server.requests[0].body == b"abc"
    assert exchange.call.body == Body(b"abc")
    assert exchange.call.url == server.url + "/p?a=1"


def test_a_connection_that_is_kept_and_one_that_was_open_before(both):
    with ModelServer() as server:
        connection = http.client.HTTPConnection(host(server))

        def one(path):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())["id"]

        first = one("/before")
        live, replayed, exchanges = both(server, lambda: [one("/a"), one("/b")])
        assert live == replayed
        assert len({first, *live, one("/after")}) == 4
        assert len(exchanges) == 2
        assert len(server.requests) == 4
        connection.close()


def test_early_close_is_replayed_at_its_place(both, running, Player):
    def act(count):
        connection = http.client.HTTPConnection(host(server))
        connection.request("GET", "/")
        with connection.getresponse() as response:
            got = [response.read1() for _ in range(count)]
        connection.close()
        return got

    with ModelServer([Raw(chunks=(b"a", b"b", b"c"), delay=0.05)]) as server:
        live, replayed, exchanges = both(server, lambda: act(2))
        assert live == replayed == [b"a", b"b"]
        assert exchanges[0].outcome.closed
        with running(Player(exchanges)), pytest.raises(ReplayDiverged, match="after 2 chunks"):
            act(3)


def test_what_stands_on_it(both):
    reply = xmlrpc.client.dumps((7,), methodresponse=True).encode()
    headers = [("Content-Type", "text/xml"), ("Content-Length", str(len(reply)))]

    def act():
        with xmlrpc.client.ServerProxy(server.url) as proxy:
            return proxy.add(3, 4)

    with ModelServer([Raw(headers=headers, chunks=(reply,))]) as server:
        live, replayed, _ = both(server, act)
    assert live == replayed == 7


def test_a_head_has_no_body(both):
    with ModelServer([Raw(headers=[("Content-Length", "4")])]) as server:
        live, replayed, [exchange] = both(server, lambda: get(server, method="HEAD"))
    assert live == replayed
    assert not exchange.outcome.closed


def test_install_twice_wraps_once(both):
    del both
    kept = [vars(http.client.HTTPConnection)[name] for name in ("endheaders", "send", "getresponse")]
    stdlib.patch(http.client)
    assert kept == [vars(http.client.HTTPConnection)[name] for name in ("endheaders", "send", "getresponse")]
