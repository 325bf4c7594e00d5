"""httpx and httpx2 are recorded once a wire call and replayed byte for byte, by any client, with no server."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anthropic
import anyio
import httpx
import httpx2
import openai
import pytest
import trio

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.model import Body, Exchange, Failure, HttpReply
from pytest_agentreplay.demo.server import Ask, ModelServer, Raw
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.http import httpx as http_httpx
from pytest_agentreplay.intercept.session import interceptions, lanes

pytestmark = pytest.mark.env("main", "legacy", "lowest")


def outside(library):
    """A transport that answers from a handler, and counts as a network client: it holds a socket module."""

    class Outside(library.MockTransport):
        def __init__(self, handler):
            super().__init__(handler)
            self.network = socket

    return Outside


LIBRARIES = [pytest.param(httpx, id="httpx"), pytest.param(httpx2, id="httpx2")]
HOW = ["sync", "async"]


def fetch(library, how, method, url, *, closing=None, timeout=5.0, client=None, **request):
    """One wire call by either kind of client: (status, reason, version, raw headers, chunks), or the error."""

    def told(response):
        return response.status_code, response.reason_phrase, response.http_version, response.headers.raw

    if how == "sync":
        with library.Client(timeout=timeout, **(client or {})) as http:
            chunks = []
            try:
                with http.stream(method, url, **request) as response:
                    for chunk in response.iter_raw():
                        chunks.append(chunk)
                        if len(chunks) == closing:
                            break
                    return *told(response), chunks
            except Exception as error:
                return type(error), str(error), error.request.method, chunks

    async def main():
        async with library.AsyncClient(timeout=timeout, **(client or {})) as http:
            chunks = []
            try:
                async with http.stream(method, url, **request) as response:
                    async for chunk in response.aiter_raw():
                        chunks.append(chunk)
                        if len(chunks) == closing:
                            break
                    return *told(response), chunks
            except Exception as error:
                return type(error), str(error), error.request.method, chunks

    return asyncio.run(main())


# The SDKs: each way of asking gives something that differs with each real call.

USER = [{"role": "user", "content": "Where is my order A-1001?"}]
SDKS = {
    "chat": (openai, lambda c: c.chat.completions.create(model="m", messages=USER)),
    "chat stream": (openai, lambda c: c.chat.completions.create(model="m", messages=USER, stream=True)),
    "responses": (openai, lambda c: c.responses.create(model="m", input="hi")),
    "responses stream": (openai, lambda c: c.responses.create(model="m", input="hi", stream=True)),
    "messages": (anthropic, lambda c: c.messages.create(model="m", max_tokens=9, messages=USER)),
    "messages stream": (anthropic, lambda c: c.messages.create(model="m", max_tokens=9, messages=USER, stream=True)),
}


def dump(event):
    return event.to_dict()


def speak(server, name, how, *, client=None, retries=0):
    sdk, ask = SDKS[name]
    base = server.url + ("/v1" if sdk is openai else "")
    if how == "sync":
        kind = sdk.OpenAI if sdk is openai else sdk.Anthropic
        with kind(base_url=base, api_key="key", max_retries=retries, http_client=client) as user:
            reply = ask(user)
            return [dump(event) for event in reply] if "stream" in name else dump(reply)
    kind = sdk.AsyncOpenAI if sdk is openai else sdk.AsyncAnthropic

    async def main():
        async with kind(base_url=base, api_key="key", max_retries=retries, http_client=client) as user:
            reply = await ask(user)
            return [dump(event) async for event in reply] if "stream" in name else dump(reply)

    return asyncio.run(main())


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", SDKS)
def test_sdk_gets_the_same_again_without_a_server(name, how, both):
    with ModelServer() as server:
        live, replayed, exchanges = both(server, lambda: speak(server, name, how))
        assert speak(server, name, how) != live
    assert replayed == live
    (exchange,) = exchanges
    assert exchange.attempt == 1
    assert exchange.suspended == (how == "async")
    assert exchange.call.method == "POST"
    assert exchange.outcome.status == 200
    assert exchange.timing.first <= exchange.timing.end


@pytest.mark.parametrize("how", HOW)
def test_a_tool_conversation_after_the_server_has_gone(how, recording, replaying):
    script = [Ask("clock"), "It is late."]
    with ModelServer(script) as server, recording() as tape:
        live = [speak(server, "chat", how), speak(server, "chat stream", how)]
    with replaying(tape):
        assert [speak(server, "chat", how), speak(server, "chat stream", how)] == live


# Every fault and oddity of the wire: (reply, how many chunks are read).

UMLAUT = "grün".encode()
REPLIES = {
    "odd headers": Raw(headers=[("SET-Cookie", "a=1"), ("x-Odd", "1"), ("Set-cookie", "b=2"), ("X-ODD", "2")]),
    "latin-1 header": Raw(headers=[("x-name", "J\xfcrgen")], chunks=(b"x",)),
    "no reason": Raw(reason="", chunks=(b"x",)),
    "own reason": Raw(503, reason="Gone Fishing", chunks=(b"x",)),
    "cut in a character": Raw(chunks=(UMLAUT[:3], UMLAUT[3:])),
    "gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(gzip.compress(b"hello " * 50, mtime=0),)),
    "broken gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(b"no gzip", b"at all")),
    "half json": Raw(429, headers=[("Retry-After", "0.01")], chunks=(b'{"error": {"mess',), reason="Too Many"),
    "length": Raw(headers=[("Content-Length", "4")], chunks=(b"abcd",)),
    "no body": Raw(204, headers=[("Content-Length", "0")], reason="No Content"),
    "gone before the answer": Raw(status=0, break_after=0),
    "gone in the body": Raw(chunks=(b"a", b"b", b"c"), break_after=2),
    "reset in the body": Raw(chunks=(b"a",), break_after=1, reset=True, delay=0.1),
    "not http": Raw(head=b"NONSENSE\r\n\r\n"),
    "silent": Raw(status=0, hang=True),
    "stalled": Raw(chunks=(b"a", b"b"), hang=True),
    "malformed chunk": Raw(headers=[("Transfer-Encoding", "chunked")], chunks=(b"1\r\na\r\n", b"zz\r\n")),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", REPLIES)
def test_the_wire_comes_back_as_it_was(name, library, how, both):
    timeout = 0.3 if REPLIES[name].hang else 5.0
    with ModelServer([REPLIES[name]] * 2) as server:
        bare = fetch(library, how, "GET", server.url, timeout=timeout)
        began = time.monotonic()
        live, replayed, exchanges = both(server, lambda: fetch(library, how, "GET", server.url, timeout=timeout))
        assert time.monotonic() - began < 5
    assert live == bare
    assert replayed == live
    assert len(exchanges) == 1
    if isinstance(live[0], int):
        assert list(exchanges[0].outcome.chunks()) == live[-1]
        assert exchanges[0].outcome.failure is None
        assert not exchanges[0].outcome.closed


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_decoding_and_cookies_are_the_clients_own(library, how, both):
    def act():
        if how == "sync":
            with library.Client() as client:
                first = client.get(server.url)
                return first.text, dict(client.cookies), client.get(server.url).request.headers["cookie"]

        async def main():
            async with library.AsyncClient() as client:
                first = await client.get(server.url)
                return first.text, dict(client.cookies), (await client.get(server.url)).request.headers["cookie"]

        return asyncio.run(main())

    headers = [("content-encoding", "gzip"), ("set-cookie", "seen=1")]
    with ModelServer([Raw(headers=headers, chunks=(gzip.compress(b"hello"),))] * 2) as server:
        live, replayed, exchanges = both(server, act)
    assert live == replayed == ("hello", {"seen": "1"}, "seen=1")
    assert exchanges[0].outcome.body.data.startswith(b"\x1f\x8b")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_connection_refused_is_a_recorded_outcome(library, how, both):
    with ModelServer() as server:
        pass
    live, replayed, exchanges = both(server, lambda: fetch(library, how, "GET", server.url))
    assert live == replayed
    assert live[0] is library.ConnectError
    failure = exchanges[0].outcome
    assert failure.type == f"{library.__name__}.ConnectError"
    assert f"{library.__name__}.NetworkError" in failure.bases


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_failure_recorded_through_one_library_comes_back_through_the_other(library, how, recording, replaying):
    other = httpx2 if library is httpx else httpx
    with ModelServer([Raw(chunks=(b"a", b"b"), hang=True)]) as server, recording() as tape:
        live = fetch(library, how, "GET", server.url, timeout=0.3)
    with replaying(tape):
        replayed = fetch(other, how, "GET", server.url, timeout=0.3)
    assert live[0] is library.ReadTimeout
    assert replayed[0] is other.ReadTimeout
    assert replayed[1:] == live[1:]
    assert live[-1] == [b"a", b"b"]


def test_sdk_errors_are_the_sdks_own(both):
    def act():
        try:
            return speak(server, "chat", "sync")
        except openai.OpenAIError as error:
            return type(error), str(error), getattr(error, "body", None), getattr(error, "request_id", None)

    raws = [REPLIES["half json"], Raw(500, headers=[("x-request-id", "r1")], chunks=(b'{"error": {"code": 7}}',))]
    raws += [REPLIES["gone before the answer"]]
    with ModelServer(raws) as server:
        for expected in (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError):
            live, replayed, _ = both(server, act)
            assert live == replayed
            assert live[0] is expected


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["chat", "messages stream"])
def test_retries_are_attempts_of_their_own(name, how, both):
    with ModelServer([REPLIES["half json"], REPLIES["half json"], "third time lucky"]) as server:
        live, replayed, exchanges = both(server, lambda: speak(server, name, how, retries=2))
    assert replayed == live
    assert "third" in str(live)
    assert [x.attempt for x in exchanges] == [1, 2, 3]
    assert [x.outcome.status for x in exchanges] == [429, 429, 200]
    # The streaming SDK closes a 429 unread.
    assert exchanges[0].outcome.body.data == (b"" if exchanges[0].outcome.closed else b'{"error": {"mess')


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("sdk", [openai, anthropic])
def test_a_refusal_comes_out_of_an_sdk_at_once(sdk, how, running, Player):
    name = "chat" if sdk is openai else "messages"
    asked = []

    class Refusing(Player):
        def decide(self, call, moment):
            asked.append(call)
            return super().decide(call, moment)

    with ModelServer() as server, running(Refusing()), pytest.raises(ReplayDiverged, match="nothing for POST 127"):
        speak(server, name, how, retries=5)
    assert len(asked) == 1
    assert server.requests == []


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_transport_with_a_network_client_of_its_own_is_not_entered_in_a_replay(
    library, how, recording, running, Player
):
    asked = []

    class Seen(outside(library)):
        def handle_request(self, request):
            asked.append(request)
            return super().handle_request(request)

        async def handle_async_request(self, request):
            asked.append(request)
            return await super().handle_async_request(request)

    def act():
        transport = Seen(lambda request: library.Response(200, json={"n": len(asked)}))
        if how == "sync":
            with library.Client(transport=transport) as client:
                return client.get("http://nowhere.test/").json()

        async def main():
            async with library.AsyncClient(transport=transport) as client:
                return (await client.get("http://nowhere.test/")).json()

        return asyncio.run(main())

    with recording() as tape:
        live = act()
    before = len(asked)
    assert before
    with running(Player(tape.exchanges.values())):
        assert act() == live
    with running(Player()), pytest.raises(ReplayDiverged):
        act()
    assert len(asked) == before


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_stays_inside_the_process_passes_recording_and_replaying(library, how, running, Player):
    """Mocks and own transports that never reach a network transport, subclasses of network transports included."""

    class Own(library.BaseTransport, library.AsyncBaseTransport):
        def handle_request(self, request):
            return library.Response(200, stream=library.ByteStream(b"mine"))

        async def handle_async_request(self, request):
            return library.Response(200, stream=library.ByteStream(b"mine"))

    class Network(library.HTTPTransport if how == "sync" else library.AsyncHTTPTransport):
        handle_request, handle_async_request = Own.handle_request, Own.handle_async_request

    for transport in (
        library.MockTransport(lambda request: library.Response(200, stream=library.ByteStream(b"mine"))),
        Own(),
        Network(),
    ):
        for client in ({"transport": transport}, {"mounts": {"http://nowhere.test": transport}}):
            with running(Player()) as interception:
                assert fetch(library, how, "GET", "http://nowhere.test/", client=client)[-1] == [b"mine"]
            assert interception.backend.latched is None


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_transport_around_a_network_transport_runs_and_what_it_sends_is_frozen(library, how, both):
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
            live, replayed, exchanges = both(
                server,
                lambda: fetch(library, how, "GET", server.url, client={"transport": transport()}),  # noqa: B023
            )
        assert live == replayed
        assert live[-1] == [b"done"]
        assert len(exchanges) == sent
        assert len(runs) == 2


def reply_kinds(library):
    """What transports give: made in memory, streamed, read ahead, compressed and read ahead."""
    raw = gzip.compress(b"zipped", mtime=0)

    def streamed():
        yield b"one"
        yield b""
        yield b"two"

    def read(response):
        response.read()
        return response

    zipped = {"content-encoding": "gzip"}
    return {
        "json": lambda: library.Response(200, json={"a": 1}),
        "empty": lambda: library.Response(200),
        "stream": lambda: library.Response(200, content=streamed()),
        "own stream": lambda: library.Response(200, stream=library.ByteStream(b"abc")),
        "gzip": lambda: library.Response(200, content=raw, headers=zipped),
        "read ahead": lambda: read(library.Response(200, content=streamed())),
        "gzip read ahead": lambda: read(library.Response(200, content=iter([raw]), headers=zipped)),
    }


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", reply_kinds(httpx))
def test_user_transports_whatever_they_give(kind, library, recording, replaying):
    made = []

    def handler(request):
        made.append(request)
        return reply_kinds(library)[kind]()

    def act():
        with library.Client(transport=outside(library)(handler)) as client:
            response = client.get("http://nowhere.test/")
            return response.status_code, response.reason_phrase, response.content

    with recording() as tape:
        live = act()
    with replaying(tape):
        assert act() == live
    assert len(made) == len(tape.exchanges) == 1
    assert not tape.exchanges[1].suspended


@pytest.mark.parametrize("library", LIBRARIES)
def test_suspended_is_said_of_what_really_gave_way(library, recording):
    async def slowly():
        yield b"one"
        await asyncio.sleep(0)
        yield b"two"

    async def pausing(request):
        await asyncio.sleep(0)
        return library.Response(200)

    handlers = {
        "at once": (lambda request: library.Response(200), False),
        "before the answer": (pausing, True),
        "in the body": (lambda request: library.Response(200, content=slowly()), True),
    }

    async def act(handler):
        async with library.AsyncClient(transport=outside(library)(handler)) as client:
            return (await client.get("http://nowhere.test/")).content

    for handler, suspended in handlers.values():
        with recording() as tape:
            asyncio.run(act(handler))
        assert tape.exchanges[1].suspended == suspended


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_mounts_and_user_transports_over_the_real_wire(library, how, both):
    transport = library.HTTPTransport if how == "sync" else library.AsyncHTTPTransport
    shapes = [lambda: {"mounts": {"all://127.0.0.1": transport()}}, lambda: {"transport": transport(retries=1)}]
    for shape in shapes:
        with ModelServer() as server:
            live, replayed, exchanges = both(server, lambda: fetch(library, how, "GET", server.url, client=shape()))  # noqa: B023
        assert live == replayed
        assert len(exchanges) == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_transport_that_calls_out_with_a_client_is_recorded_by_those_calls(library, both):
    class Fetching(library.BaseTransport):
        """Asks for a token first, with a client of its own, as auth transports do."""

        def handle_request(self, request):
            with library.Client() as inner:
                token = inner.get(server.url + "/token").json()["id"]
                return library.Response(200, content=inner.get(server.url, headers={"x-token": token}).content)

    def act():
        with library.Client(transport=Fetching()) as client:
            return client.get("http://nowhere.test/").text

    with ModelServer() as server:
        live, replayed, exchanges = both(server, act)
    assert live == replayed
    assert [x.call.url for x in exchanges] == [server.url + "/token", server.url]
    assert server.hits == 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_hop_of_a_redirect_is_a_wire_call(library, both):
    there = Raw(307, headers=[("Location", "/there"), ("Content-Length", "0")])
    body = json.dumps({"a": 1}).encode()

    def act():
        with library.Client(follow_redirects=True) as client:
            return client.post(server.url + "/here", content=body).text

    with ModelServer([there, "done"]) as server:
        live, replayed, exchanges = both(server, act)
    assert live == replayed
    assert [x.call.url.rpartition("/")[2] for x in exchanges] == ["here", "there"]
    assert [x.call.body.data for x in exchanges] == [body, body]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["stream", "multipart", "bytes", "nothing"])
def test_request_bodies_are_kept_and_still_sent(kind, library, how, both):
    def request():
        async def parts():
            yield b"ab"
            yield b"c"

        match kind:
            case "stream":
                return {"content": parts() if how == "async" else iter([b"ab", b"c"])}
            case "multipart":
                return {
                    "files": {"f": ("n.txt", b"data")},
                    "headers": {"content-type": "multipart/form-data; boundary=b"},
                }
            case "bytes":
                return {"content": b"\xff\x00"}
            case _:
                return {}

    with ModelServer() as server:
        live, replayed, exchanges = both(
            server, lambda: fetch(library, how, "POST", server.url + "/p#frag", **request())
        )
    assert live == replayed
    (call,) = [x.call for x in exchanges]
    assert call.body.data == server.requests[0].body
    assert (call.body.data == b"") == (kind == "nothing")
    assert call.url == server.url + "/p"
    assert [(n.lower(), v) for n, v in call.headers] == [(n.lower(), v) for n, v in server.requests[0].headers]


@pytest.mark.parametrize("library", LIBRARIES)
def test_clients_built_before_threads_and_executors(library, both):
    with ModelServer() as server, library.Client() as client:

        def one(number):
            return client.get(f"{server.url}/{number}").json()["id"]

        def act():
            got = {}
            threads = [threading.Thread(target=lambda n=n: got.update({n: one(n)})) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with ThreadPoolExecutor(2) as pool:
                got.update(zip(range(4, 8), pool.map(one, range(4, 8)), strict=True))

            async def main():
                loop = asyncio.get_running_loop()
                got[8] = await loop.run_in_executor(None, one, 8)
                got[9] = await asyncio.to_thread(one, 9)

            asyncio.run(main())
            return got

        live, replayed, exchanges = both(server, act)
    assert live == replayed
    assert len(set(live.values())) == 10
    assert len(exchanges) == 10
    assert len({x.lane for x in exchanges}) > 4


@pytest.mark.parametrize("library", LIBRARIES)
def test_gather_on_one_client_built_before(library, recording, replaying):
    async def act(client):
        replies = await asyncio.gather(*[client.get(f"{server.url}/{n}") for n in range(6)])
        return [reply.json()["id"] for reply in replies]

    async def main():
        async with library.AsyncClient() as client:
            with recording() as tape:
                live = await act(client)
            hits = server.hits
            with replaying(tape):
                assert await act(client) == live
            assert server.hits == hits
            assert len(tape.exchanges) == 6
            return live

    with ModelServer() as server:
        assert len(set(asyncio.run(main()))) == 6


@pytest.mark.parametrize("library", LIBRARIES)
def test_trio_and_anyio(library, both):
    async def act():
        async with library.AsyncClient() as client, client.stream("GET", server.url) as response:
            return [chunk async for chunk in response.aiter_raw()]

    with ModelServer() as server:
        for run in (trio.run, anyio.run):
            live, replayed, _ = both(server, lambda: run(act))  # noqa: B023
            assert live == replayed


def test_recording_keeps_chunks_and_their_times(recording):
    """The first chunk passes on while the server still waits to be let go on."""
    go_on = threading.Event()

    class Slowly:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return self

        def __iter__(self):
            yield b"one"
            assert go_on.wait(5)
            yield b"two"
            yield b"three"

    with (
        ModelServer([Raw(chunks=Slowly())]) as server,
        recording() as tape,
        httpx2.Client() as client,
        client.stream("GET", server.url) as response,
    ):
        chunks = response.iter_raw()
        assert next(chunks) == b"one"
        assert tape.exchanges[1].outcome is None
        go_on.set()
        assert list(chunks) == [b"two", b"three"]
    exchange = tape.exchanges[1]
    assert exchange.outcome.cuts == (3, 3, 5)
    assert exchange.timing.first < exchange.timing.end


# What the agent leaves unread.


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("library", LIBRARIES)
def test_early_close_is_replayed_at_its_place(library, how, both, running, Player):
    with ModelServer([Raw(chunks=(b"a", b"b", b"c"), delay=0.02)]) as server:
        live, replayed, exchanges = both(server, lambda: fetch(library, how, "GET", server.url, closing=2))
        assert live == replayed
        assert exchanges[0].outcome.closed
        assert exchanges[0].outcome.cuts == (1, 1)
        with running(Player(exchanges)) as interception, pytest.raises(ReplayDiverged, match="after 2 chunks"):
            fetch(library, how, "GET", server.url)
        assert interception.backend.latched.kind is Kind.EXTRA
        with running(Player(exchanges)):
            assert fetch(library, how, "GET", server.url, closing=1)[-1] == [b"a"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("read", [0, 1])
def test_a_dropped_response_is_settled_when_the_run_ends(library, read, recording, replaying):
    kept = []

    def act():
        client = library.Client()
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


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("when", CANCELLED)
@pytest.mark.parametrize("runner", ["asyncio", "trio"])
def test_cancellation_waits_to_be_cancelled_again(runner, when, library, recording, replaying):
    got = []

    async def read():
        async with library.AsyncClient(timeout=5) as client, client.stream("GET", server.url) as response:
            async for chunk in response.aiter_raw():
                got.append(chunk)  # noqa: PERF401  what came before the cancellation stays

    async def given_up(sleep):
        """When it is time to cancel: a while after the server has been asked, or has begun to answer."""
        while not (server.hits if when == "before the answer" else got):
            await sleep(0.01)
        await sleep(0.1)

    async def with_asyncio():
        reading = asyncio.ensure_future(read())
        await given_up(asyncio.sleep)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    async def with_trio():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await given_up(trio.sleep)
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught

    def act():
        got.clear()
        if runner == "trio":
            trio.run(with_trio)
        else:
            asyncio.run(with_asyncio())
        return list(got)

    with ModelServer([CANCELLED[when]]) as server:
        with recording() as tape:
            live = act()
        with replaying(tape) as interception:
            assert act() == live
        assert server.hits == 1
    assert interception.backend.latched is None
    outcome = tape.exchanges[1].outcome
    failure = outcome if when == "before the answer" else outcome.failure
    assert failure.cancelled
    assert failure.type == {"asyncio": "asyncio.exceptions.CancelledError", "trio": "trio.Cancelled"}[runner]


def unfinished(url, outcome, recording):
    with recording() as tape, httpx.Client(transport=outside(httpx)(lambda _: httpx.Response(200))) as client:
        client.get(url)
    (exchange,) = tape.exchanges.values()
    return Exchange(exchange.call, outcome, 1, None)


@pytest.mark.parametrize(
    "outcome", [None, HttpReply(200, body=Body(b"a"), cuts=(1,), failure=Failure("builtins.GeneratorExit"))]
)
def test_a_sync_call_that_never_ended_holds_its_thread_until_the_test_is_over(outcome, recording, running, Player):
    exchange = unfinished("http://nowhere.test/", outcome, recording)
    seen = []

    def work():
        try:
            httpx.get("http://nowhere.test/")
        except BaseException as error:
            seen.append(error)

    with running(Player([exchange])) as interception:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        time.sleep(0.05)
        assert thread.is_alive()
    thread.join(5)
    assert [type(error) for error in seen] == [ReplayDiverged]
    assert interception.backend.latched is None
    with running(Player([exchange])) as interception, pytest.raises(ReplayDiverged, match="no answer had come"):
        httpx.get("http://nowhere.test/")
    assert interception.backend.latched is not None


# The seam itself.


def test_install_twice_wraps_once_and_rests_outside_a_test():
    registry.install()
    wrapped = [c._transport_for_url for m in (httpx, httpx2) for c in (m.Client, m.AsyncClient)]
    registry.install()
    for library in (httpx, httpx2):
        http_httpx.patch(library)
    assert wrapped == [c._transport_for_url for m in (httpx, httpx2) for c in (m.Client, m.AsyncClient)]
    assert all(not hasattr(seam.__wrapped__, "__agentreplay__") for seam in wrapped)
    with httpx.Client() as client:
        assert client._transport_for_url(httpx.URL("http://a/")) is client._transport


def test_a_straggler_is_refused_after_its_test(recording, Plain):
    with ModelServer() as server, recording() as tape:
        pass
    token = lanes.CALL_CONTEXT.set(lanes.CallContext(interception := interceptions.Interception(tape, Plain())))
    interception.end()
    try:
        with pytest.raises(ReplayDiverged, match="after its test had ended"):
            httpx.get(server.url)
    finally:
        lanes.CALL_CONTEXT.reset(token)
    assert len(interception.late) == 1
    assert server.hits == 0
