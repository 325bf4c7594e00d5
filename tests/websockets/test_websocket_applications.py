"""An application behind a WebSocket of the test's own process runs in a replay; its model calls are frozen."""

import re

import pytest

from tests.support.small_projects import edited, furnished, recorded, runs

pytestmark = pytest.mark.env("clients")

AGENT = """
import os
import httpx2

PROMPT = "Be brief."

def answer(question):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    body = {"model": "m", "messages": messages}
    reply = httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body)
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]

def endpoint(question):
    return answer(question)
"""

APPS = """
import aiohttp
import agent
from aiohttp import web
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

async def talk(websocket):
    async for question in websocket:
        await websocket.send(agent.endpoint(question))

def talk_in_thread(websocket):
    for question in websocket:
        websocket.send(agent.endpoint(question))

async def star_talk(websocket):
    await websocket.accept()
    async for question in websocket.iter_text():
        await websocket.send_text(agent.endpoint(question))

star = Starlette(routes=[WebSocketRoute("/talk", star_talk)])

async def aiohttp_talk(request):
    websocket = web.WebSocketResponse()
    await websocket.prepare(request)
    async for message in websocket:
        await websocket.send_str(agent.endpoint(message.data))
    return websocket

async def aiohttp_chat(request):
    body = await request.json()
    text = agent.endpoint(body["messages"][0]["content"])
    return web.json_response({"choices": [{"message": {"role": "assistant", "content": text}}]})

def aiohttp_app():
    made = web.Application()
    made.router.add_get("/v1/realtime", aiohttp_talk)
    made.router.add_post("/v1/chat/completions", aiohttp_chat)
    return made

async def fake_model(websocket):
    async for _ in websocket:
        await websocket.send('{"type": "response.done", "response": {"id": "r1", "output": []}}')
"""

TESTS = """
import asyncio, json, threading, time
from contextlib import contextmanager

import aiohttp, httpx2, pytest, uvicorn
from aiohttp.test_utils import TestClient as AiohttpClient, TestServer as AiohttpServer
from starlette.testclient import TestClient
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.sync.client import connect as connect_sync
from websockets.sync.server import serve as serve_sync

import apps

WAYS = {}

def way(function):
    WAYS[function.__name__] = function
    return function

def port_of(server):
    return list(server.sockets)[0].getsockname()[1]

@contextmanager
def in_thread(run, stop):
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join()

@contextmanager
def uvicorn_served():
    server = uvicorn.Server(uvicorn.Config(apps.star, port=0, log_level="error", ws="websockets-sansio"))
    with in_thread(server.run, lambda: setattr(server, "should_exit", True)):
        while not server.started:
            time.sleep(0.01)
        yield f"ws://127.0.0.1:{port_of(server.servers[0])}/talk"

async def ask(url):
    async with connect(url) as websocket:
        await websocket.send("Paris?")
        first = await websocket.recv()
        await websocket.send("Rome?")
        return first, await websocket.recv()

@way
def same_loop():
    async def main():
        async with serve(apps.talk, "127.0.0.1", 0) as server:
            return await ask(f"ws://127.0.0.1:{port_of(server)}/talk")
    return asyncio.run(main())

@way
def thread_and_sync_client():
    with serve_sync(apps.talk_in_thread, "127.0.0.1", 0) as server:
        with in_thread(server.serve_forever, server.shutdown):
            with connect_sync(f"ws://127.0.0.1:{server.socket.getsockname()[1]}") as websocket:
                websocket.send("Paris?")
                first = websocket.recv()
                websocket.send("Rome?")
                return first, websocket.recv()

@way
def uvicorn_and_websockets():
    with uvicorn_served() as url:
        return asyncio.run(ask(url))

@way
def uvicorn_and_aiohttp():
    async def main(url):
        async with aiohttp.ClientSession() as session, session.ws_connect(url) as websocket:
            await websocket.send_str("Paris?")
            first = await websocket.receive_str()
            await websocket.send_str("Rome?")
            return first, await websocket.receive_str()
    with uvicorn_served() as url:
        return asyncio.run(main(url))

@way
def starlette_test_client():
    with TestClient(apps.star).websocket_connect("/talk") as websocket:
        websocket.send_text("Paris?")
        first = websocket.receive_text()
        websocket.send_text("Rome?")
        return first, websocket.receive_text()

@way
def aiohttp_test_client():
    async def main():
        async with AiohttpClient(AiohttpServer(apps.aiohttp_app())) as client:
            async with client.ws_connect("/v1/realtime") as websocket:
                await websocket.send_str("Paris?")
                first = await websocket.receive_str()
            body = {"model": "m", "messages": [{"role": "user", "content": "Rome?"}]}
            reply = await client.post("/v1/chat/completions", json=body)
            return first, (await reply.json())["choices"][0]["message"]["content"]
    return asyncio.run(main())

@pytest.mark.agentreplay(allow=["host:127.0.0.1"])
@pytest.mark.parametrize("way", WAYS)
def test_way(way, agentreplay):
    first, second = WAYS[way]()
    assert first and second
    assert len(agentreplay.run.turns) == 2
"""

FAKE = """
import asyncio
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
import apps

@pytest.mark.agentreplay(allow=["host:127.0.0.1"])
def test_fake(agentreplay):
    async def main():
        async with serve(apps.fake_model, "127.0.0.1", 0) as server:
            port = list(server.sockets)[0].getsockname()[1]
            async with connect(f"ws://127.0.0.1:{port}/v1/realtime?model=m") as websocket:
                await websocket.send('{"type": "response.create"}')
                return await websocket.recv()
    assert "r1" in asyncio.run(main())
    assert len(agentreplay.run.model_calls) == 1
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = furnished(shared_project(), agent=AGENT, apps=APPS, test_shop=TESTS, fake__test_fake=FAKE)
    return recorded(project, "-W", "ignore")


def test_only_model_calls_and_declared_hosts_are_recorded(shop):
    calls = {name: [x.call for x in run.exchanges] for name, run in runs(shop).items()}
    assert [call.method for call in calls.pop("fake")] == ["OPEN", "SEND"]
    assert len(calls) == 6
    model = shop.server.url.rpartition(":")[2]
    for name, made in calls.items():
        assert {call.url.rpartition(":")[2] for call in made} == {f"{model}/v1/chat/completions"}, name


def test_it_replays_without_the_model(shop):
    assert "7 passed" in shop.offline("-W", "ignore").stdout


def test_an_endpoint_that_fails_fails_in_the_replay(shop):
    with edited(shop, "agent.py", "    return answer(question)", '    raise RuntimeError("broken")'):
        assert "6 failed, 1 passed" in shop.offline("-W", "ignore").stdout


def test_an_edited_prompt_diverges(shop):
    with edited(shop, "agent.py", "Be brief.", "Be short."):
        done = shop.offline("-W", "ignore", COLUMNS="200")
    assert len(re.findall(r"^FAILED .*\[AR-PROMPT\]", done.stdout, re.MULTILINE)) == 6, done.stdout
