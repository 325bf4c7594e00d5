"""Every fault and oddity of the wire, and what each HTTP client must make of them once they are recorded."""

import gzip

import pytest

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Body
from tests.support.model_server import ModelServer, Raw
from tests.support.tapes import Player, both, running

ZIPPED = gzip.compress(b"hello " * 50, mtime=0)
UMLAUT = "grün".encode()
REPLIES = {
    "odd headers": Raw(headers=[("SET-Cookie", "a=1"), ("x-Odd", "1"), ("Set-cookie", "b=2"), ("X-ODD", "2")]),
    "latin-1 header": Raw(headers=[("x-name", "J\xfcrgen")], chunks=(b"x",)),
    "no reason": Raw(reason="", chunks=(b"x",)),
    "own reason": Raw(503, reason="Gone Fishing", chunks=(b"x",)),
    "chunks": Raw(chunks=(b"one", b"two" * 30, b"three"), delay=0.02),
    "cut in a character": Raw(chunks=(UMLAUT[:3], UMLAUT[3:])),
    "gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(ZIPPED,)),
    "gzip of a length": Raw(
        headers=[("Content-Encoding", "gzip"), ("Content-Length", str(len(ZIPPED)))], chunks=(ZIPPED,)
    ),
    "broken gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(b"no gzip", b"at all")),
    "length": Raw(headers=[("Content-Length", "4")], chunks=(b"abcd",)),
    "no body": Raw(204, headers=[("Content-Length", "0")], reason="No Content"),
    "up to the end": Raw(head=b"HTTP/1.0 200 OK\r\nx-a: 1\r\n\r\n", chunks=(b"all of it",)),
    "half json": Raw(429, headers=[("Retry-After", "0.01")], chunks=(b'{"error": {"mess',), reason="Too Many"),
    "too short": Raw(headers=[("Content-Length", "9")], chunks=(b"abcd",), break_after=1),
    "gone before the answer": Raw(status=0, break_after=0),
    "gone in the body": Raw(chunks=(b"a", b"b", b"c"), break_after=2, delay=0.02),
    "gone in a chunk": Raw(
        headers=[("Transfer-Encoding", "chunked")], chunks=(b"1\r\na\r\n", b"5\r\nbc"), break_after=2
    ),
    "reset in the body": Raw(chunks=(b"a",), break_after=1, reset=True, delay=0.04),
    "not http": Raw(head=b"NONSENSE\r\n\r\n"),
    "malformed chunk": Raw(headers=[("Transfer-Encoding", "chunked")], chunks=(b"1\r\na\r\n", b"zz\r\n")),
    "silent": Raw(status=0, hang=True),
    "stalled": Raw(chunks=(b"a", b"b"), hang=True, delay=0.02),
}


def reply_comes_back(name, get, exchanges=1):
    """`get(url, timeout)` gives the same bare, recorded and replayed; returns that, and the exchanges."""
    timeout = 0.2 if REPLIES[name].hang else 5.0
    with ModelServer([REPLIES[name]] * 4) as server:
        bare = get(server.url, timeout)
        live, made = both(server, lambda: get(server.url, timeout))
    assert live == bare, name
    assert len(made) == exchanges, name
    return live, made


def request_is_kept(send):
    """`send(url)` makes the same request recorded as bare, and gives the same; returns the exchange and the request."""
    with ModelServer() as server:
        send(server.url)
        _, [exchange] = both(server, lambda: send(server.url))
        bare, recorded = server.requests
    assert (recorded.body, recorded.headers) == (bare.body, bare.headers)
    assert exchange.call.body == Body(recorded.body)
    return exchange, recorded


def early_close_comes_back(read):
    """`read(url, count)` gives that many chunks and closes: in a replay it gets no more of them than were recorded."""
    with ModelServer([Raw(chunks=(b"a", b"b", b"c"), delay=0.05)]) as server:
        live, [exchange] = both(server, lambda: read(server.url, 2))
        assert live == [b"a", b"b"]
        assert exchange.outcome.closed
        assert exchange.outcome.cuts == (1, 1)
        with running(Player([exchange])) as player, pytest.raises(ReplayDiverged, match="after 2 chunks"):
            read(server.url, 3)
        assert player.latched.kind is Kind.EXTRA
        with running(Player([exchange])):
            assert read(server.url, 1) == [b"a"]


def refused_connection(get):
    """What `get(url)` gives where nobody listens, recorded and replayed alike; and the exchanges."""
    with ModelServer() as server:
        pass
    live, exchanges = both(server, lambda: get(server.url))
    return live, exchanges
