"""aiohttp: recorded once a wire call, kept connections included, replayed with no server."""

from __future__ import annotations

import asyncio
import io

import aiohttp
import pytest
from aiohttp import connector

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.http import aiohttp as http_aiohttp
from tests.support.model_server import ModelServer, Raw
from tests.support.tapes import Player, both, running
from tests.support.wire import (
    REPLIES,
    early_close_comes_back,
    refused_connection,
    reply_comes_back,
    request_is_kept,
)

pytestmark = pytest.mark.env("clients", "lastyear")

MALFORMED = {"latin-1 header", "no reason", "cut in a character", "broken gzip", "gone in a chunk", "half json"}
MALFORMED |= {"not http", "malformed chunk", "gzip of a length"}
"""What aiohttp's parser, which is another one with each release, makes something else of."""


def get(url, timeout=5.0, *, closing=None):
    """One call: status line, raw headers and chunks, or the error."""
    limit = timeout if isinstance(timeout, dict) else {"total": timeout}

    async def main():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(**limit), auto_decompress=False) as session:
            chunks = []
            try:
                async with session.get(url + "/p") as response:
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


async def read(url, **request):
    async with aiohttp.ClientSession() as session, session.post(url, **request) as response:
        return await response.read()


@pytest.mark.parametrize("name", sorted(REPLIES.keys() - MALFORMED))
def test_the_wire_comes_back_as_it_was(name):
    # aiohttp asks a second time by itself when a connection was gone.
    _, exchanges = reply_comes_back(name, get, exchanges=2 if name == "gone before the answer" else 1)
    outcome = exchanges[-1].outcome
    if name == "chunks":
        assert list(outcome.chunks()) == [b"one", b"two" * 30, b"three"], "the body, and not its framing"
        assert (outcome.failure, outcome.closed) == (None, False)
        assert exchanges[0].call.url.endswith("/p")
        assert exchanges[0].timing.first <= exchanges[0].timing.end
        assert exchanges[0].suspended
    elif REPLIES[name].hang:
        assert "TimeoutError" in (getattr(outcome, "failure", None) or outcome).type


@pytest.mark.parametrize("name", ["silent", "stalled"])
def test_a_timeout_of_one_read_is_not_waited_for_again(name):
    with ModelServer([REPLIES[name]] * 4) as server:
        live, _ = both(server, lambda: get(server.url, {"sock_read": 0.3}))
        assert live == get(server.url, {"sock_read": 0.3})


def test_connections_that_are_kept_serve_one_call_after_the_other():
    async def main():
        async def one(path):
            async with session.post(server.url + path, json={"path": path}) as response:
                return (await response.json())["id"]

        async with aiohttp.ClientSession() as session:
            return [await one("/a"), await one("/b"), *await asyncio.gather(*[one(f"/{n}") for n in range(4)])]

    with ModelServer() as server:
        live, exchanges = both(server, lambda: asyncio.run(main()))
    assert len(set(live)) == len(exchanges) == 6


def test_redirects_and_cookies_are_aiohttps_own():
    async def main():
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(server.url + "/here") as response:
            return await response.text(), [was.status for was in response.history], len(jar)

    there = Raw(302, headers=[("Location", "/there"), ("Set-Cookie", "a=1"), ("Content-Length", "0")])
    with ModelServer([there, Raw(headers=[("Content-Length", "4")], chunks=(b"done",))]) as server:
        live, exchanges = both(server, lambda: asyncio.run(main()))
    assert live == ("done", [302], 1)
    assert [x.call.url.rpartition("/")[2] for x in exchanges] == ["here", "there"]


def test_connection_refused_is_told_as_ever():
    live, exchanges = refused_connection(get)
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
}


@pytest.mark.parametrize("kind", BODIES)
def test_request_bodies_are_kept_and_sent_as_ever(kind):
    request_is_kept(lambda url: asyncio.run(read(url, **BODIES[kind]())))


def test_early_close_is_replayed_at_its_place():
    early_close_comes_back(lambda url, count: get(url, closing=count)[-1])


@pytest.mark.parametrize("name", ["silent", "stalled"])
def test_who_was_cancelled_waits_to_be_cancelled_again(name):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(read(server.url), 0.2)

    with ModelServer([REPLIES[name]]) as server:
        _, [exchange] = both(server, lambda: asyncio.run(main()))
    assert (exchange.outcome if name == "silent" else exchange.outcome.failure).cancelled


def test_a_refused_call_is_a_divergence_and_no_error_of_the_connection():
    with running(Player()), pytest.raises(ReplayDiverged):
        asyncio.run(read("http://nowhere.test/", json={"a": 1}))


def test_install_twice_wraps_once():
    registry.install()
    kept = vars(connector.BaseConnector)["connect"]
    http_aiohttp.patch(connector)
    assert vars(connector.BaseConnector)["connect"] is kept
