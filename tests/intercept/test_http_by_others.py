"""An HTTP client that another package patches: recorded once a wire call, replayed byte for byte with no server.

`httpcore` used bare is such a client: nothing of ours patches it, and it stands on sockets. Its patch is the one of the
page "Another HTTP client". `wee`, below, is somebody's client that returns its replies whole.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import types

import httpcore
import httpx
import pytest
import trio

from pytest_agentreplay import capture, plugins
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.model.exchanges import Body, Failure
from tests.support.capturing import started
from tests.support.model_server import ModelServer, Raw
from tests.support.pages import ROOT, blocks_of
from tests.support.tapes import Player, both, recording, running
from tests.support.wire import (
    REPLIES,
    early_close_comes_back,
    refused_connection,
    reply_comes_back,
    request_is_kept,
)

pytestmark = pytest.mark.env("main", "lowest")

PAGE = ROOT / "docs" / "extending" / "add-an-http-client.md"


@pytest.fixture(autouse=True)
def patched(monkeypatch):
    """`httpcore` under the patch of the page, for one test."""
    for pool, name in ((httpcore.ConnectionPool, "handle_request"), (httpcore.AsyncConnectionPool, ASYNC)):
        monkeypatch.setattr(pool, name, vars(pool)[name])
    [patch] = [block.text for block in blocks_of(PAGE) if block.title == "httpcore_recorded.py"]
    module = types.ModuleType("httpcore_recorded")
    exec(compile(patch, PAGE, "exec"), vars(module))
    module.patch(httpcore)
    module.patch(httpcore)


ASYNC = "handle_async_request"


def fetch(how, url, *, method="GET", closing=None, timeout=5.0, content=None):
    """One wire call by either kind of pool: (status, reason, version, raw headers, chunks), or the error."""
    chunks, more = [], {"content": content, "extensions": {"timeout": {"read": timeout, "connect": timeout}}}

    def told(response):
        said = response.extensions
        return response.status, said["reason_phrase"], said["http_version"], response.headers, chunks

    async def main():
        async with (
            httpcore.AsyncConnectionPool() as pool,
            pool.stream(method, url, **more) as response,
        ):
            async for chunk in response.aiter_stream():
                chunks.append(chunk)
                if len(chunks) == closing:
                    break
            return told(response)

    try:
        if how == "asyncio":
            return asyncio.run(main())
        if how == "trio":
            return trio.run(main)
        with httpcore.ConnectionPool() as pool, pool.stream(method, url, **more) as response:
            for chunk in response.iter_stream():
                chunks.append(chunk)
                if len(chunks) == closing:
                    break
            return told(response)
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        return type(error), str(error), chunks


FRAMED_OTHERWISE = {"up to the end", "chunks", "gone in a chunk"}
"""Replies whose chunks come as the system cuts them; each run cuts them otherwise."""


@pytest.mark.parametrize("how", ["sync", "asyncio"])
@pytest.mark.parametrize("name", [name for name in REPLIES if name not in FRAMED_OTHERWISE])
def test_the_wire_comes_back_as_it_was(name, how):
    live, [exchange] = reply_comes_back(name, lambda url, timeout: fetch(how, url, timeout=timeout))
    if isinstance(live[0], int):
        assert list(exchange.outcome.chunks()) == live[-1]
        assert exchange.suspended == (how == "asyncio")


def test_trio_too():
    live, _ = reply_comes_back("gone in the body", lambda url, _: fetch("trio", url))
    assert live[0] is httpcore.RemoteProtocolError


@pytest.mark.parametrize("how", ["sync", "asyncio"])
def test_a_stream_is_replayed_as_far_as_it_was_read(how):
    early_close_comes_back(lambda url, count: fetch(how, url, closing=count)[-1])


@pytest.mark.parametrize("how", ["sync", "asyncio"])
def test_a_refused_connection_and_a_timeout_are_raised_again(how):
    live, [exchange] = refused_connection(lambda url: fetch(how, url))
    assert live[0] is httpcore.ConnectError
    assert isinstance(exchange.outcome, Failure)
    live, [exchange] = reply_comes_back("silent", lambda url, timeout: fetch(how, url, timeout=timeout))
    assert live[0] is httpcore.ReadTimeout
    assert exchange.outcome.type == "httpcore.ReadTimeout"


@pytest.mark.parametrize("how", ["sync", "asyncio"])
def test_a_body_is_kept_and_sent_as_ever(how):
    exchange, _ = request_is_kept(lambda url: fetch(how, url, method="POST", content=b'{"a": 1}')[0])
    assert exchange.call.method == "POST"
    assert exchange.call.url.startswith("http://127.0.0.1:")
    assert ("Content-Length", "8") in exchange.call.headers


def test_a_body_that_can_be_read_once_is_sent_too():
    def send(url):
        with httpcore.ConnectionPool() as pool:
            headers = {"Content-Length": "3"}
            return pool.request("POST", url, headers=headers, content=iter([b"a", b"bc"])).status

    exchange, _ = request_is_kept(send)
    assert exchange.call.body == Body(b"abc")


def test_a_request_that_was_not_recorded_is_refused():
    with running(Player()), pytest.raises(ReplayDiverged, match="nothing for GET"):
        fetch("sync", "http://127.0.0.1:9/")


def test_what_another_patch_records_is_recorded_once_and_its_names_of_exceptions_are_kept():
    with ModelServer() as server:
        live, exchanges = both(server, lambda: httpx.get(server.url).json())
    assert live
    assert len(exchanges) == 1


def test_tasks_wait_for_their_answers_as_with_every_client():
    async def main(url):
        async with httpcore.AsyncConnectionPool() as pool:
            slow = asyncio.create_task(pool.request("GET", url + "/slow"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(slow, 0.2)
            return (await pool.request("GET", url + "/next")).status

    with ModelServer([REPLIES["silent"], "done"]) as server:
        _, [given_up, _] = both(server, lambda: asyncio.run(main(server.url)))
    assert given_up.outcome.cancelled


class Unreachable(Exception):
    """An exception whose constructor sets what its arguments do not show."""

    def __init__(self, request):
        super().__init__("nobody answers")
        self.request = request


class Session:
    """A client on a raw socket, which returns its replies whole."""

    def send(self, method, url, *, body=b""):
        host, _, path = url.removeprefix("http://").partition("/")
        try:
            with socket.create_connection(host.split(":"), 5) as wire:
                head = f"{method} /{path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
                wire.sendall(head.encode() + body)
                wire.shutdown(socket.SHUT_WR)  # the server waits for another request otherwise
                data = b"".join(iter(lambda: wire.recv(65536), b""))
        except OSError:
            raise Unreachable((method, url)) from None
        head, _, data = data.partition(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        pairs = [tuple(header.split(": ", 1)) for header in headers]
        return types.SimpleNamespace(status=int(line.split()[1]), headers=pairs, data=data)

    def begin(self, method, url, *, body=b""):
        """As `send`, beside the event loop: a plain function that returns an awaitable."""
        return asyncio.get_running_loop().run_in_executor(None, lambda: self.send(method, url, body=body))


def read_call(session, method, url, *, body=b""):
    return plugins.HttpCall(method, url, (), plugins.Body(body))


def read_reply(response):
    body = plugins.Body(response.data)
    return plugins.HttpReply(response.status, headers=tuple(response.headers), body=body)


def make_response(reply, chunks, session, method, url, *, body=b""):
    assert chunks is None
    return types.SimpleNamespace(status=reply.status, headers=list(reply.headers), data=reply.body.data)


WHOLE = {"read_call": read_call, "read_reply": read_reply, "make_response": make_response}


@pytest.fixture
def wee(monkeypatch):
    """Returns a function that patches `wee`, with more or other fields of `HttpClient`, and returns a session."""

    def patch(**more):
        session = type("Session", (), {"send": Session.send, "begin": Session.begin, "__module__": "wee"})
        library = types.ModuleType("wee")
        library.Session, library.Unreachable = session, Unreachable
        monkeypatch.setitem(sys.modules, "wee", library)
        monkeypatch.setattr(Unreachable, "__module__", "wee")
        client = plugins.HttpClient(**WHOLE | more)
        plugins.wrap_http(session, "send", client)
        plugins.wrap_http(session, "begin", client, is_async=True)
        plugins.wrap_http(session, "of_another_version", client)
        return session()

    return patch


def test_a_client_whose_replies_are_whole(wee):
    session = wee()

    def act():
        reply = session.send("POST", server.url + "/a", body=b"x")
        return reply.status, reply.headers, reply.data

    async def wait():
        reply = await session.begin("POST", server.url + "/b", body=b"y")
        return reply.status, reply.headers, reply.data

    created = Raw(201, headers=[("X-Odd", "1"), ("Content-Length", "6")], chunks=(b"one", b"two"))
    with ModelServer([created, REPLIES["no body"]]) as server:
        live, exchanges = both(server, lambda: [act(), asyncio.run(wait())])
    assert [reply[0] for reply in live] == [201, 204]
    assert [exchange.call.body.data for exchange in exchanges] == [b"x", b"y"]
    assert exchanges[0].outcome.body == Body(b"onetwo")
    assert [exchange.suspended for exchange in exchanges] == [False, True]


def read_once(session, method, url, *, body=()):
    data = b"".join(body)
    return plugins.HttpCall(method, url, (), plugins.Body(data)), (session, method, url), {"body": data}


def test_a_body_that_was_read_is_sent_in_its_stead(wee):
    session = wee(read_call=read_once)
    with ModelServer([REPLIES["length"]]) as server:
        _, [exchange] = both(server, lambda: session.send("POST", server.url, body=iter([b"a", b"bc"])).data)
    assert exchange.call.body == Body(server.requests[0].body) == Body(b"abc")


def test_functions_of_an_async_client_may_wait(wee):
    def waiting(function):
        async def wait(*args, **kwargs):
            await asyncio.sleep(0)
            return function(*args, **kwargs)

        return wait

    session = wee(**{name: waiting(function) for name, function in WHOLE.items()})

    async def act():
        return (await session.begin("GET", server.url)).data

    with ModelServer([REPLIES["length"]]) as server:
        live, [exchange] = both(server, lambda: asyncio.run(act()))
    assert live == exchange.outcome.body.data == b"abcd"


def test_a_reply_that_cannot_be_read_is_a_failure_of_the_call(wee):
    def read_reply(response):
        raise Unreachable("gone")

    session = wee(read_reply=read_reply)

    def act():
        with pytest.raises(Unreachable, match="nobody answers"):
            session.send("GET", server.url)

    with ModelServer([REPLIES["length"]]) as server:
        _, [exchange] = both(server, act)
    assert exchange.outcome.type == "wee.Unreachable"


WRONG = {
    "read_call of the patch of wee returned NoneType, no HttpCall": {"read_call": lambda *_, **__: None},
    "read_call of the patch of wee returned a URL that is bytes, no text": {
        "read_call": lambda *_, **__: plugins.HttpCall("GET", b"x")
    },
    "read_reply of the patch of wee returned dict, no HttpReply": {"read_reply": lambda _: {}},
    "read_reply of the patch of wee returned headers that are no pairs of texts": {
        "read_reply": lambda _: plugins.HttpReply(200, headers=((b"a", b"b"),))
    },
    "read_reply of the patch of wee returned a body that is str, no Body": {
        "read_reply": lambda _: plugins.HttpReply(200, body="x")
    },
}


@pytest.mark.parametrize("problem", WRONG)
def test_a_function_of_a_patch_that_returns_something_else_is_named_and_nothing_is_recorded(wee, problem):
    session = wee(**WRONG[problem])
    with ModelServer([REPLIES["length"]]) as server, recording(problems=1) as tape:
        with pytest.raises(TypeError, match=problem):
            session.send("GET", server.url)
        assert problem in str(tape.interception.observed.problems)


def test_an_exception_gets_what_its_constructor_would_have_set(wee):
    def revive(error, session, method, url, *, body=b""):
        error.request = method, url
        return error

    session = wee(revive=revive)
    with pytest.raises(Unreachable):
        session.send("GET", "http://127.0.0.1:9/")

    def act():
        with pytest.raises(Unreachable, match="nobody answers") as raised:
            session.send("GET", "http://127.0.0.1:9/")
        return raised.value.request

    with ModelServer() as server:
        live, _ = both(server, act)
    assert live == ("GET", "http://127.0.0.1:9/")


CHAT = b'{"model": "old", "messages": [{"role": "user", "content": "hi"}]}'


def change(call, session, method, url, *, body=b""):
    return (session, call.method, call.url), {"body": call.body.data}


def test_a_run_that_changes_requests_changes_those_of_a_client_that_lets_it(wee):
    with ModelServer() as server:
        for more in ({"change": change}, {}):
            session = wee(**more)
            with recording() as tape:
                tape.interception.scope.changes = {"model": "new"}
                url = server.url + "/v1/chat/completions"
                if not more:
                    with pytest.raises(ReplayDiverged):
                        session.send("POST", url, body=CHAT)
                    continue
                session.send("POST", url, body=CHAT)
                assert b'"new"' in server.requests[-1].body
                assert b'"new"' in tape.exchanges[1].call.body.data
        assert server.hits == 1


def test_a_service_notices_no_fault_of_a_patch(wee):
    def fail(*args, **kwargs):
        raise LookupError

    for fields, body, kept in (
        ({"read_call": fail}, b"abc", 0),
        ({"read_reply": fail}, b"abc", 1),
        ({"read_call": lambda *_, **__: None}, b"abc", 0),
        ({"read_reply": lambda _: {}}, b"abc", 1),
        ({"read_call": read_once}, iter([b"a", b"bc"]), 1),
    ):
        with ModelServer([REPLIES["length"]]) as server, started() as taken, capture.run("service"):
            # Not before: a capture takes every earlier patch back, and has the registry make it anew.
            session = wee(**fields)
            assert session.send("POST", server.url, body=body).data == b"abcd"
        assert server.requests[0].body == b"abc"
        assert [len(ended.exchanges) for ended in taken] == [kept], fields


def test_outside_of_tests_the_function_just_runs(wee):
    session = wee()
    assert interceptions.find_interception() is None
    with ModelServer([REPLIES["length"], REPLIES["length"]]) as server:
        assert session.send("GET", server.url).status == 200
        assert asyncio.run(httpcore_status(server.url)) == 200


async def httpcore_status(url):
    async with httpcore.AsyncConnectionPool() as pool:
        return (await pool.request("GET", url)).status
