"""httpx and httpx2 are recorded once a wire call and replayed byte for byte, by any client, with no server."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import anthropic
import anyio
import httpx
import httpx2
import openai
import pytest
import trio

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.http import httpx as http_httpx
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.model.exchanges import Body, Exchange, Failure, HttpReply
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer, Raw
from tests.support.tapes import Plain, Player, both, recording, replaying, running
from tests.support.wire import REPLIES, early_close_comes_back, refused_connection, reply_comes_back

pytestmark = pytest.mark.env("main", "legacy", "lowest")

libraries = pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)
clients = pytest.mark.parametrize(
    ("library", "how"),
    [(httpx, "sync"), (httpx2, "async"), *rare((httpx, "async"), (httpx2, "sync"))],
    ids=lambda value: getattr(value, "__name__", value),
)
NOWHERE = "http://nowhere.test/"


def outside(library):
    """A transport that answers from a handler, and counts as a network client: it holds a socket module."""

    class Outside(library.MockTransport):
        def __init__(self, handler):
            super().__init__(handler)
            self.network = socket

    return Outside


def fetch(library, how, method, url, *, closing=None, timeout=5.0, client=None, **request):
    """One wire call by either kind of client: (status, reason, version, raw headers, chunks), or the error."""
    chunks = []

    def told(response):
        return response.status_code, response.reason_phrase, response.http_version, response.headers.raw, chunks

    async def main():
        async with (
            library.AsyncClient(timeout=timeout, **(client or {})) as http,
            http.stream(method, url, **request) as response,
        ):
            async for chunk in response.aiter_raw():
                chunks.append(chunk)
                if len(chunks) == closing:
                    break
            return told(response)

    try:
        if how == "async":
            return asyncio.run(main())
        with (
            library.Client(timeout=timeout, **(client or {})) as http,
            http.stream(method, url, **request) as response,
        ):
            for chunk in response.iter_raw():
                chunks.append(chunk)
                if len(chunks) == closing:
                    break
            return told(response)
    except Exception as error:
        return type(error), str(error), error.request.method, chunks


def content(library, how, transport):
    """What a client of this transport makes of an answer."""
    if how == "sync":
        with library.Client(transport=transport) as client:
            return client.get(NOWHERE).content

    async def main():
        async with library.AsyncClient(transport=transport) as client:
            return (await client.get(NOWHERE)).content

    return asyncio.run(main())


SDKS = {
    "chat": lambda c: c.chat.completions.create(model="m", messages=USER),
    "chat stream": lambda c: c.chat.completions.create(model="m", messages=USER, stream=True),
    "responses stream": lambda c: c.responses.create(model="m", input="hi", stream=True),
    "messages": lambda c: c.messages.create(model="m", max_tokens=9, messages=USER),
    "messages stream": lambda c: c.messages.create(model="m", max_tokens=9, messages=USER, stream=True),
}
USER = [{"role": "user", "content": "Where is my order A-1001?"}]


def speak(server, name, how, *, retries=0):
    """What an SDK gives, which differs with each real call."""
    sdk = anthropic if name.startswith("messages") else openai
    kind = getattr(sdk, ("Async" if how == "async" else "") + ("OpenAI" if sdk is openai else "Anthropic"))
    user = kind(base_url=server.url + ("/v1" if sdk is openai else ""), api_key="key", max_retries=retries)
    if how == "sync":
        with user:
            reply = SDKS[name](user)
            return [event.to_dict() for event in reply] if "stream" in name else reply.to_dict()

    async def main():
        async with user:
            reply = await SDKS[name](user)
            return [event.to_dict() async for event in reply] if "stream" in name else reply.to_dict()

    return asyncio.run(main())


@pytest.mark.parametrize(("name", "how"), [*zip(SDKS, ["sync", "async", "sync", "async", "sync"], strict=True)])
def test_an_sdk_gets_the_same_again_without_a_server(name, how):
    with ModelServer() as server:
        live, [exchange] = both(server, lambda: speak(server, name, how))
        assert speak(server, name, how) != live
    assert exchange.attempt == 1
    assert exchange.suspended == (how == "async")
    assert (exchange.call.method, exchange.outcome.status) == ("POST", 200)
    assert exchange.timing.first <= exchange.timing.end


FRAMED_OTHERWISE = {"up to the end", "chunks", "too short", "gone in a chunk", "gzip of a length"}


@clients
@pytest.mark.parametrize("name", [name for name in REPLIES if name not in FRAMED_OTHERWISE])
def test_the_wire_comes_back_as_it_was(name, library, how):
    live, [exchange] = reply_comes_back(name, lambda url, timeout: fetch(library, how, "GET", url, timeout=timeout))
    if isinstance(live[0], int):
        assert list(exchange.outcome.chunks()) == live[-1]
        assert exchange.outcome.failure is None
        assert not exchange.outcome.closed


@clients
def test_connection_refused_is_a_recorded_outcome(library, how):
    live, [exchange] = refused_connection(lambda url: fetch(library, how, "GET", url))
    assert live[0] is library.ConnectError
    assert exchange.outcome.type == f"{library.__name__}.ConnectError"
    assert f"{library.__name__}.NetworkError" in exchange.outcome.bases


@pytest.mark.parametrize(("name", "how"), [("chat", "async"), ("messages stream", "sync")])
def test_retries_are_attempts_of_their_own(name, how):
    with ModelServer([REPLIES["half json"], REPLIES["half json"], "third time lucky"]) as server:
        live, exchanges = both(server, lambda: speak(server, name, how, retries=2))
    assert "third" in str(live)
    assert [(x.attempt, x.outcome.status) for x in exchanges] == [(1, 429), (2, 429), (3, 200)]
    # The streaming SDK closes a 429 unread.
    assert exchanges[0].outcome.body.data == (b"" if exchanges[0].outcome.closed else b'{"error": {"mess')


@pytest.mark.parametrize(("name", "how"), [("chat", "sync"), ("messages", "async")])
def test_a_refusal_comes_out_of_an_sdk_at_once(name, how):
    asked = []

    class Refusing(Player):
        def decide(self, call, moment):
            asked.append(call)
            return super().decide(call, moment)

    with ModelServer() as server, running(Refusing()), pytest.raises(ReplayDiverged, match="nothing for POST 127"):
        speak(server, name, how, retries=5)
    assert len(asked) == 1
    assert server.requests == []


@clients
def test_a_transport_with_a_network_client_of_its_own_is_not_entered_in_a_replay(library, how):
    asked = []

    def answer(request):
        asked.append(request)
        return library.Response(200, json={"n": len(asked)})

    def act():
        return content(library, how, outside(library)(answer))

    with recording() as tape:
        live = act()
    assert len(asked) == 1
    with replaying(tape):
        assert act() == live
    with running(Player()), pytest.raises(ReplayDiverged):
        act()
    assert len(asked) == 1


@clients
def test_what_stays_inside_the_process_passes_recording_and_replaying(library, how):
    """Mocks and own transports that never reach a network transport, subclasses of network transports included."""

    class Own(library.BaseTransport, library.AsyncBaseTransport):
        def handle_request(self, request):
            return library.Response(200, stream=library.ByteStream(b"mine"))

        async def handle_async_request(self, request):
            return self.handle_request(request)

    class Network(library.HTTPTransport if how == "sync" else library.AsyncHTTPTransport):
        handle_request, handle_async_request = Own.handle_request, Own.handle_async_request

    mock = library.MockTransport(lambda request: library.Response(200, stream=library.ByteStream(b"mine")))
    for transport in (mock, Own(), Network()):
        for client in ({"transport": transport}, {"mounts": {"http://nowhere.test": transport}}):
            with running(Player()) as player:
                assert fetch(library, how, "GET", NOWHERE, client=client)[-1] == [b"mine"]
            assert player.latched is None


@clients
def test_a_transport_around_a_network_transport_runs_and_what_it_sends_is_frozen(library, how):
    base = library.HTTPTransport if how == "sync" else library.AsyncHTTPTransport
    runs = []

    class Retrying(library.BaseTransport, library.AsyncBaseTransport):
        def __init__(self):
            self.inner = base()

        def handle_request(self, request):
            runs.append(request)
            while (response := self.inner.handle_request(request)).status_code == 503:
                response.read()
            return response

        async def handle_async_request(self, request):
            runs.append(request)
            while (response := await self.inner.handle_async_request(request)).status_code == 503:
                await response.aread()
            return response

        def close(self):
            self.inner.close()

        async def aclose(self):
            await self.inner.aclose()

    class Tagging(base):
        def handle_request(self, request):
            runs.append(request)
            return super().handle_request(request)

        async def handle_async_request(self, request):
            runs.append(request)
            return await super().handle_async_request(request)

    for transport, sent in ((Retrying, 2), (Tagging, 1)):
        runs.clear()
        script = [Raw(503, chunks=(b"busy",))] * (sent - 1) + [Raw(chunks=(b"done",))]
        with ModelServer(script) as server:
            live, exchanges = both(
                server,
                lambda: fetch(library, how, "GET", server.url, client={"transport": transport()}),  # noqa: B023
            )
        assert live[-1] == [b"done"]
        assert (len(exchanges), len(runs)) == (sent, 2)


def reply_kinds(library):
    """What transports give: made in memory, streamed, read ahead, compressed and read ahead."""
    raw = gzip.compress(b"zipped", mtime=0)
    zipped = {"content-encoding": "gzip"}

    def streamed():
        yield b"one"
        yield b""
        yield b"two"

    def read(response):
        response.read()
        return response

    return {
        "json": lambda: library.Response(200, json={"a": 1}),
        "empty": lambda: library.Response(200),
        "stream": lambda: library.Response(200, content=streamed()),
        "own stream": lambda: library.Response(200, stream=library.ByteStream(b"abc")),
        "gzip": lambda: library.Response(200, content=raw, headers=zipped),
        "read ahead": lambda: read(library.Response(200, content=streamed())),
        "gzip read ahead": lambda: read(library.Response(200, content=iter([raw]), headers=zipped)),
    }


@libraries
def test_what_a_users_transport_gives_comes_back(library):
    for kind, reply in reply_kinds(library).items():
        made = []

        def handler(request, made=made, reply=reply):
            made.append(request)
            return reply()

        with recording() as tape:
            live = content(library, "sync", outside(library)(handler))
        with replaying(tape):
            assert content(library, "sync", outside(library)(handler)) == live, kind
        assert len(made) == len(tape.exchanges) == 1
        assert not tape.exchanges[1].suspended


@libraries
def test_suspended_is_said_of_what_really_gave_way(library):
    async def slowly():
        yield b"one"
        await asyncio.sleep(0)
        yield b"two"

    async def pausing(request):
        await asyncio.sleep(0)
        return library.Response(200)

    for handler, suspended in (
        (lambda request: library.Response(200), False),
        (pausing, True),
        (lambda request: library.Response(200, content=slowly()), True),
    ):
        with recording() as tape:
            content(library, "async", outside(library)(handler))
        assert tape.exchanges[1].suspended == suspended


@libraries
def test_a_transport_that_calls_out_with_a_client_is_recorded_by_those_calls(library):
    class Fetching(library.BaseTransport):
        """Asks for a token first, with a client of its own, as auth transports do."""

        def handle_request(self, request):
            with library.Client() as inner:
                token = inner.get(server.url + "/token").json()["id"]
                return library.Response(200, content=inner.get(server.url, headers={"x-token": token}).content)

    with ModelServer() as server:
        _, exchanges = both(server, lambda: content(library, "sync", Fetching()))
    assert [x.call.url for x in exchanges] == [server.url + "/token", server.url]
    assert server.hits == 2


def test_each_hop_of_a_redirect_is_a_wire_call():
    there = Raw(307, headers=[("Location", "/there"), ("Content-Length", "0")])
    with ModelServer([there, "done"]) as server:
        _, exchanges = both(
            server, lambda: httpx.post(server.url + "/here", content=b"abc", follow_redirects=True).text
        )
    assert [(x.call.url.rpartition("/")[2], x.call.body.data) for x in exchanges] == [
        ("here", b"abc"),
        ("there", b"abc"),
    ]


async def parts():
    yield b"ab"
    yield b"c"


MULTIPART = {"files": {"f": ("n.txt", b"data")}, "headers": {"content-type": "multipart/form-data; boundary=b"}}
BODIES = {
    "stream": lambda how: {"content": parts() if how == "async" else iter([b"ab", b"c"])},
    "multipart": lambda how: MULTIPART,
    "bytes": lambda how: {"content": b"\xff\x00"},
    "nothing": lambda how: {},
}


@clients
@pytest.mark.parametrize("kind", BODIES)
def test_request_bodies_are_kept_and_still_sent(kind, library, how):
    with ModelServer() as server:
        _, [exchange] = both(server, lambda: fetch(library, how, "POST", server.url + "/p#frag", **BODIES[kind](how)))
    call, sent = exchange.call, server.requests[0]
    assert call.body.data == sent.body
    assert (call.body.data == b"") == (kind == "nothing")
    assert call.url == server.url + "/p"
    assert [(n.lower(), v) for n, v in call.headers] == [(n.lower(), v) for n, v in sent.headers]


@libraries
def test_a_client_built_before_serves_threads_and_executors(library):
    with ModelServer() as server, library.Client() as client:

        def one(number):
            return client.get(f"{server.url}/{number}").json()["id"]

        async def in_executors():
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, one, 8), await asyncio.to_thread(one, 9)

        def act():
            with ThreadPoolExecutor(2) as pool:
                return [*pool.map(one, range(4)), *asyncio.run(in_executors())]

        live, exchanges = both(server, act)
    assert len(set(live)) == len(exchanges) == 6
    assert len({x.lane for x in exchanges}) > 4


@libraries
def test_trio_and_anyio(library):
    async def act():
        async with library.AsyncClient() as client, client.stream("GET", server.url) as response:
            return [chunk async for chunk in response.aiter_raw()]

    with ModelServer() as server:
        for run in (trio.run, anyio.run):
            both(server, lambda: run(act))  # noqa: B023


class Gated:
    """Chunks of which all but the first wait for `go_on`."""

    go_on = threading.Event()

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return self

    def __iter__(self):
        yield b"one"
        assert self.go_on.wait(5)
        yield b"two"
        yield b"three"


def test_recording_passes_chunks_on_as_they_come_and_keeps_their_times():
    with (
        ModelServer([Raw(chunks=Gated())]) as server,
        recording() as tape,
        httpx2.Client() as client,
        client.stream("GET", server.url) as response,
    ):
        chunks = response.iter_raw()
        assert next(chunks) == b"one"
        assert tape.exchanges[1].outcome is None
        Gated.go_on.set()
        assert list(chunks) == [b"two", b"three"]
    exchange = tape.exchanges[1]
    assert exchange.outcome.cuts == (3, 3, 5)
    assert exchange.timing.first < exchange.timing.end


@clients
def test_early_close_is_replayed_at_its_place(library, how):
    early_close_comes_back(lambda url, count: fetch(library, how, "GET", url, closing=count)[-1])


@pytest.mark.parametrize("read", [0, 1])
def test_a_dropped_response_is_settled_when_the_run_ends(read):
    kept = []

    def act():
        client = httpx.Client()
        response = client.send(client.build_request("GET", server.url), stream=True)
        chunks = response.iter_raw()
        kept.append((client, response, chunks))
        return response.status_code, [next(chunks) for _ in range(read)]

    with ModelServer([Raw(chunks=(b"a", b"b"), delay=0.02)]) as server:
        with recording() as tape:
            live = act()
            assert tape.exchanges[1].outcome is None
        outcome = tape.exchanges[1].outcome
        assert outcome.closed
        assert outcome.body == Body(b"a" * read)
        with replaying(tape):
            assert act() == live
        for client, response, chunks in kept:
            chunks.close()
            response.close()
            client.close()
    assert tape.exchanges[1].outcome is outcome


CANCELLED = {"before the answer": Raw(status=0, hang=True), "in the body": Raw(chunks=(b"a",), hang=True)}


@pytest.mark.parametrize("when", CANCELLED)
@pytest.mark.parametrize(("runner", "library"), [("asyncio", httpx), ("trio", httpx2)], ids=["asyncio", "trio"])
def test_cancellation_waits_to_be_cancelled_again(runner, library, when):
    got = []

    async def read():
        async with library.AsyncClient(timeout=5) as client, client.stream("GET", server.url) as response:
            async for chunk in response.aiter_raw():
                got.append(chunk)  # noqa: PERF401  what came before the cancellation stays

    async def given_up():
        """When it is time to cancel: a while after the server has been asked, or has begun to answer."""
        while not (server.hits if when == "before the answer" else got):  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await anyio.sleep(0.1)

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await given_up()
            group.cancel_scope.cancel()
        return list(got), group.cancel_scope.cancelled_caught

    def act():
        got.clear()
        return anyio.run(main, backend=runner)

    with ModelServer([CANCELLED[when]]) as server:
        with recording() as tape:
            live = act()
        with replaying(tape) as player:
            assert act() == live
        assert server.hits == 1
    assert player.latched is None
    outcome = tape.exchanges[1].outcome
    failure = outcome if when == "before the answer" else outcome.failure
    assert failure.cancelled
    assert failure.type == {"asyncio": "asyncio.exceptions.CancelledError", "trio": "trio.Cancelled"}[runner]


HALF = HttpReply(200, body=Body(b"a"), cuts=(1,), failure=Failure("builtins.GeneratorExit"))


@pytest.mark.parametrize("outcome", [None, HALF], ids=["no answer", "half an answer"])
def test_a_sync_call_that_never_ended_holds_its_thread_until_the_test_is_over(outcome):
    with recording() as tape, httpx.Client(transport=outside(httpx)(lambda _: httpx.Response(200))) as client:
        client.get(NOWHERE)
    exchange = Exchange(tape.exchanges[1].call, outcome, 1, None)
    seen = []

    def work():
        try:
            httpx.get(NOWHERE)
        except BaseException as error:
            seen.append(error)

    with running(Player([exchange])) as player:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
    thread.join(5)
    assert [type(error) for error in seen] == [ReplayDiverged]
    assert player.latched is None
    with running(Player([exchange])) as player, pytest.raises(ReplayDiverged, match="no answer had come"):
        httpx.get(NOWHERE)
    assert player.latched is not None


def test_install_twice_wraps_once_and_rests_outside_a_test():
    def patches():
        return [c._transport_for_url for m in (httpx, httpx2) for c in (m.Client, m.AsyncClient)]

    registry.install()
    wrapped = patches()
    registry.install()
    for library in (httpx, httpx2):
        http_httpx.patch(library)
    assert wrapped == patches()
    assert all(not hasattr(seam.__wrapped__, "__agentreplay__") for seam in wrapped)
    with httpx.Client() as client:
        assert client._transport_for_url(httpx.URL("http://a/")) is client._transport


def test_a_straggler_is_refused_after_its_test():
    interception = interceptions.Interception(Player(), Plain())
    token = lanes.CALL_CONTEXT.set(lanes.CallContext(interception))
    interception.end()
    try:
        with ModelServer() as server, pytest.raises(ReplayDiverged, match="after its test had ended"):
            httpx.get(server.url)
    finally:
        lanes.CALL_CONTEXT.reset(token)
    assert len(interception.ending.late) == 1
    assert server.hits == 0
