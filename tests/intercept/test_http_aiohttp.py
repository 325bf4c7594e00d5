"""aiohttp: recorded once a wire call, kept connections included, replayed with no server."""

from __future__ import annotations

import asyncio
import gzip
import io

import aiohttp
import pytest
from aiohttp import connector

from pytest_agentreplay.core.model import Body
from pytest_agentreplay.demo.server import ModelServer, Raw
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.http import aiohttp as http_aiohttp

pytestmark = pytest.mark.env("clients", "lastyear")


def get(server, *, timeout=None, method="GET", closing=None):
    """One call: status line, raw headers and chunks, or the error."""
    timeout = timeout or {"total": 5}

    async def main():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(**timeout), auto_decompress=False) as session:
            chunks = []
            try:
                async with session.request(method, server.url + "/p") as response:
                    head = response.status, response.reason, response.version, response.raw_headers
                    # aiohttp's one stream without a body can be gone through by chunks once in a process.
                    content = response.content
                    stream = (
                        content.iter_any() if response.status == 204 else (c async for c, _ in content.iter_chunks())
                    )
                    async for chunk in stream:
                        if chunk:  # none comes where the end of the body arrives in a segment of its own
                            chunks.append(chunk)
                        if len(chunks) == closing:
                            break
                    return *head, chunks
            except (TimeoutError, aiohttp.ClientError) as error:
                return type(error), str(error), chunks

    return asyncio.run(main())


REPLIES = {
    "odd headers": Raw(headers=[("SET-Cookie", "a=1"), ("x-Odd", "1"), ("Set-cookie", "b=2"), ("X-ODD", "2")]),
    "own reason": Raw(503, reason="Gone Fishing", chunks=(b"x",)),
    "chunks": Raw(chunks=(b"one", b"two" * 30, b"three"), delay=0.02),
    "gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(gzip.compress(b"hello " * 50, mtime=0),)),
    "length": Raw(headers=[("Content-Length", "4")], chunks=(b"abcd",)),
    "too short": Raw(headers=[("Content-Length", "9")], chunks=(b"abcd",), break_after=1),
    "no body": Raw(204, headers=[("Content-Length", "0")], reason="No Content"),
    "up to the end": Raw(head=b"HTTP/1.0 200 OK\r\nx-a: 1\r\n\r\n", chunks=(b"all of it",)),
    "gone before the answer": Raw(status=0, break_after=0),
    "gone in the body": Raw(chunks=(b"a", b"b", b"c"), break_after=2, delay=0.02),
    "reset in the body": Raw(chunks=(b"a",), break_after=1, reset=True, delay=0.1),
}
WAITS = {
    "silent": Raw(status=0, hang=True),
    "stalled": Raw(chunks=(b"a", b"b"), hang=True, delay=0.02),
}


@pytest.mark.parametrize("name", REPLIES)
def test_the_wire_comes_back_as_it_was(name, both):
    with ModelServer([REPLIES[name]] * 4) as server:
        bare = get(server)
        live, replayed, exchanges = both(server, lambda: get(server))
    assert live == bare
    assert replayed == live
    # aiohttp asks a second time by itself when a connection was gone.
    assert len(exchanges) == (2 if name == "gone before the answer" else 1)


@pytest.mark.parametrize("timeout", [{"total": 0.3}, {"sock_read": 0.3}], ids=["total", "of a read"])
@pytest.mark.parametrize("name", WAITS)
def test_a_wait_that_was_too_long_is_not_waited_for_again(name, timeout, both):
    with ModelServer([WAITS[name]] * 4) as server:
        bare = get(server, timeout=timeout)
        live, replayed, exchanges = both(server, lambda: get(server, timeout=timeout))
    assert live == bare
    assert replayed == live
    failure = exchanges[-1].outcome if name == "silent" else exchanges[-1].outcome.failure
    assert "TimeoutError" in failure.type


def test_what_is_kept_is_the_body_and_not_its_framing(both):
    with ModelServer([REPLIES["chunks"]]) as server:
        _, _, [exchange] = both(server, lambda: get(server))
    assert list(exchange.outcome.chunks()) == [b"one", b"two" * 30, b"three"]
    assert (exchange.outcome.failure, exchange.outcome.closed) == (None, False)
    assert exchange.call.url == server.url + "/p"
    assert exchange.timing.first <= exchange.timing.end
    assert exchange.suspended


def test_connections_that_are_kept_serve_one_call_after_the_other(both):
    async def main():
        async with aiohttp.ClientSession() as session:
            got = []
            for path in ("/a", "/b", "/c"):
                async with session.post(server.url + path, json={"path": path}) as response:
                    got.append((await response.json())["id"])
            more = await asyncio.gather(*[one(session, n) for n in range(4)])
            return got + more

    async def one(session, number):
        async with session.get(f"{server.url}/{number}") as response:
            return (await response.json())["id"]

    with ModelServer() as server:
        live, replayed, exchanges = both(server, lambda: asyncio.run(main()))
    assert live == replayed
    assert len(set(live)) == len(exchanges) == 7


def test_redirects_and_cookies_are_aiohttps_own(both):
    async def main():
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(server.url + "/here") as response:
            return await response.text(), [was.status for was in response.history], len(jar)

    there = Raw(302, headers=[("Location", "/there"), ("Set-Cookie", "a=1"), ("Content-Length", "0")])
    with ModelServer([there, Raw(headers=[("Content-Length", "4")], chunks=(b"done",))]) as server:
        live, replayed, exchanges = both(server, lambda: asyncio.run(main()))
    assert live == replayed == ("done", [302], 1)
    assert [x.call.url.rpartition("/")[2] for x in exchanges] == ["here", "there"]


def test_connection_refused_is_told_as_ever(both):
    with ModelServer() as server:
        pass
    live, replayed, exchanges = both(server, lambda: get(server))
    assert live == replayed
    assert live[0] is aiohttp.ClientConnectorError
    assert exchanges[0].outcome.args


async def generated():
    yield b"a"
    yield b"bc"


BODIES = {
    "bytes": lambda: {"data": b"abc"},
    "text": lambda: {"data": "abc"},
    "json": lambda: {"json": {"a": 1}},
    "file": lambda: {"data": io.BytesIO(b"abc")},
    "form": lambda: {"data": {"a": "1"}},
    "generator": lambda: {"data": generated()},
    "nothing": dict,
    "waits to go on": lambda: {"data": b"abc", "expect100": True},
}


@pytest.mark.parametrize("kind", [name for name in BODIES if name != "waits to go on"])
def test_request_bodies_are_kept_and_sent_as_ever(kind, both):
    async def main():
        async with aiohttp.ClientSession() as session, session.post(server.url, **BODIES[kind]()) as response:
            return await response.read()

    with ModelServer() as server:
        asyncio.run(main())
        live, replayed, [exchange] = both(server, lambda: asyncio.run(main()))
        bare, recorded = server.requests
    assert live == replayed
    assert (recorded.body, recorded.headers) == (bare.body, bare.headers)
    assert exchange.call.body == Body(recorded.body)


def test_early_close_is_replayed_at_its_place(both, running, Player):
    with ModelServer([Raw(chunks=(b"a", b"b", b"c"), delay=0.05)]) as server:
        live, replayed, exchanges = both(server, lambda: get(server, closing=2))
        assert live == replayed
        assert live[-1] == [b"a", b"b"]
        assert exchanges[0].outcome.closed
        with running(Player(exchanges)) as interception, pytest.raises(ReplayDiverged, match="after 2 chunks"):
            get(server)
        assert interception.backend.latched is not None


@pytest.mark.parametrize("name", WAITS)
def test_who_was_cancelled_waits_to_be_cancelled_again(name, both):
    def act():
        async def main():
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(read(), 0.2)

        async def read():
            async with aiohttp.ClientSession() as session, session.get(server.url) as response:
                await response.read()

        return asyncio.run(main())

    with ModelServer([WAITS[name]]) as server:
        _, _, [exchange] = both(server, act)
    failure = exchange.outcome if name == "silent" else exchange.outcome.failure
    assert failure.cancelled


def test_a_refused_call_is_a_divergence_and_no_error_of_the_connection(running, Player):
    with running(Player()) as interception, pytest.raises(ReplayDiverged):
        asyncio.run(post("http://nowhere.test/"))
    del interception


async def post(url):
    async with aiohttp.ClientSession() as session, session.post(url, json={"a": 1}) as response:
        await response.read()


def test_install_twice_wraps_once(both):
    del both
    kept = vars(connector.BaseConnector)["connect"]
    http_aiohttp.patch(connector)
    assert vars(connector.BaseConnector)["connect"] is kept
