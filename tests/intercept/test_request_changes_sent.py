"""What a live run changes in a request to a model is sent and kept so, by every HTTP library; else the call is refused."""

from __future__ import annotations

import asyncio
import importlib
import json
import urllib.request

import pytest

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.model.exchanges import RawCall, ToolCall
from tests.support.model_server import ModelServer
from tests.support.tapes import recording

CHAT = {"model": "m-1", "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi ü"}]}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
CHANGES = {"model": "m-2-with-a-longer-name", "temperature": 0}


def by_httpx(library):
    def post(url, body):
        with importlib.import_module(library).Client() as client:
            return client.post(url, json=body, headers={"x-mine": "1"}).json()

    return post


def by_async_httpx(library):
    async def ask(url, body):
        async with importlib.import_module(library).AsyncClient() as client:
            return (await client.post(url, json=body, headers={"x-mine": "1"})).json()

    return lambda url, body: asyncio.run(ask(url, body))


def by_aiohttp(url, body):
    async def ask():
        async with (
            importlib.import_module("aiohttp").ClientSession() as session,
            session.post(url, json=body, headers={"x-mine": "1"}) as response,
        ):
            return await response.json()

    return asyncio.run(ask())


def by_urllib3(url, body):
    with importlib.import_module("urllib3").PoolManager() as pool:
        return pool.request("POST", url, json=body, headers={"x-mine": "1"}).json()


def by_requests(url, body):
    return importlib.import_module("requests").post(url, json=body, headers={"x-mine": "1"}, timeout=5).json()


WAYS = {
    "httpx": by_httpx("httpx"),
    "httpx async": by_async_httpx("httpx"),
    "httpx2": by_httpx("httpx2"),
    "httpx2 async": by_async_httpx("httpx2"),
    "aiohttp": by_aiohttp,
    "urllib3": by_urllib3,
    "requests": by_requests,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_changed_request_is_sent_and_kept(way):
    pytest.importorskip(way.partition(" ")[0])
    with ModelServer() as server, recording() as tape:
        tape.interception.scope.changes = CHANGES
        answered = WAYS[way](f"{server.url}/v1/chat/completions", CHAT)
        WAYS[way](f"{server.url}/v1beta/models/m-1:generateContent", GEMINI)
        other = WAYS[way](f"{server.url}/orders", {"model": "m-1"})
    chat, gemini, plain = server.requests
    assert chat.json == {**CHAT, **CHANGES}
    assert gemini.path == "/v1beta/models/m-2-with-a-longer-name:generateContent"
    assert gemini.json == {**GEMINI, "generationConfig": {"temperature": 0}}
    assert plain.json == {"model": "m-1"}
    for request in server.requests:
        sent = [(name.lower(), value) for name, value in request.headers]
        assert ("x-mine", "1") in sent
        assert [value for name, value in sent if name == "content-length"] == [str(len(request.body))]
        assert len(sent) == len(dict(sent))
    assert answered["choices"]
    assert other["number"] == 3
    kept = [exchange.call for exchange in tape.exchanges.values()]
    assert [json.loads(call.body.data) for call in kept] == [request.json for request in server.requests]
    assert kept[1].url == server.url + gemini.path


def test_a_request_that_cannot_be_changed_is_not_sent_and_fails_the_test():
    with ModelServer() as server, recording() as tape:
        tape.interception.scope.changes = {"prompt": "Be brief."}
        with pytest.raises(ReplayDiverged, match=r"\[AR-SET\] --replay-set prompt: the request has no system text"):
            by_httpx("httpx")(f"{server.url}/v1/chat/completions", {"model": "m-1", "messages": []})
    assert not server.requests
    assert tape.latched.kind.code == "AR-SET"


def test_a_boundary_that_changes_no_requests_refuses_calls_of_models():
    with recording() as tape:
        tape.interception.scope.changes = CHANGES
        with pytest.raises(ReplayDiverged, match=r"calls of this kind \(model, in_process\) stay as they are"):
            tape.interception.enter(RawCall(ToolCall("ask", {}, boundary="model")))
    with recording() as tape:
        tape.interception.scope.changes = CHANGES
        with pytest.raises(ReplayDiverged, match="this library's requests stay as they are"):
            urllib.request.urlopen("http://127.0.0.1:9/v1/chat/completions", json.dumps(CHAT).encode(), timeout=5)
    assert not tape.exchanges
