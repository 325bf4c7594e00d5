"""An application under test runs in a replay, whatever client calls it in its process; its model calls are frozen."""

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded, summary

pytestmark = pytest.mark.env("clients")

AGENT = """
import os
import anthropic, openai

PROMPT = "Be brief."

def answer(question):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    http = openai.DefaultHttpxClient(verify=False)  # certificates take 0.3 seconds to load
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0, http_client=http) as client:
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content

async def answer_async(question):
    http = anthropic.DefaultAsyncHttpxClient(verify=False)
    async with anthropic.AsyncAnthropic(
        base_url=os.environ["MODEL_URL"], api_key="k", max_retries=0, http_client=http
    ) as client:
        reply = await client.messages.create(
            model="m", max_tokens=9, system=PROMPT, messages=[{"role": "user", "content": question}]
        )
        return reply.content[0].text

def endpoint(question):
    return answer(question)

async def endpoint_async(question):
    return await answer_async(question)
"""

SHOP = """
import agent
import fastapi
from aiohttp import web
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

fast = fastapi.FastAPI()

@fast.get("/ask")
def fast_ask(q: str):
    return {"text": agent.endpoint(q)}

@fast.get("/ask-async")
async def fast_ask_async(q: str):
    return {"text": await agent.endpoint_async(q)}

async def star_ask(request):
    return PlainTextResponse(await agent.endpoint_async(request.query_params["q"]))

star = Starlette(routes=[Route("/ask", star_ask)])

async def aiohttp_ask(request):
    return web.Response(text=await agent.endpoint_async(request.query["q"]))

def aiohttp_app():
    made = web.Application()
    made.router.add_get("/ask", aiohttp_ask)
    return made
"""

TESTS = """
import asyncio, threading, time, urllib.request
from contextlib import contextmanager

import aiohttp, httpx, httpx2, pytest, uvicorn
from aiohttp.test_utils import TestClient as AiohttpClient, TestServer as AiohttpServer
from fastapi.testclient import TestClient

import shop

WAYS = {}

def way(function):
    WAYS[function.__name__] = function
    return function

@way
def fastapi_async():
    with TestClient(shop.fast) as client:
        return client.get("/ask-async?q=Rome").json()["text"]

@way
def starlette_twice():
    client = TestClient(shop.star)
    return [client.get("/ask?q=Oslo").text, client.get("/ask?q=Bonn").text]

@way
def aiohttp_client():
    async def main():
        async with AiohttpClient(AiohttpServer(shop.aiohttp_app())) as client:
            reply = await client.get("/ask?q=Dakar")
            assert reply.status == 200
            return await reply.text()
    return asyncio.run(main())

@contextmanager
def served(app, loop):
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", loop=loop))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield "http://127.0.0.1:%d" % server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()

def get_httpx(url):
    return httpx.get(url).raise_for_status().text

def get_urllib(url):
    with urllib.request.urlopen(url) as reply:
        return reply.read()

def get_aiohttp(url):
    async def main():
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(url) as reply:
            return await reply.text()
    return asyncio.run(main())

@pytest.mark.parametrize("way", WAYS)
def test_way(way, agentreplay):
    said = WAYS[way]()
    assert said
    assert len(agentreplay.run.turns) == (2 if way == "starlette_twice" else 1)

@pytest.mark.agentreplay(allow=["host:127.0.0.1"])
@pytest.mark.parametrize("get", [get_httpx, get_urllib, get_aiohttp])
def test_uvicorn(get, agentreplay):
    with served(shop.fast, "asyncio" if get is get_httpx else "auto") as url:
        assert get(url + "/ask?q=Turin")
        assert get(url + "/ask-async?q=Turin")
    assert len(agentreplay.run.turns) == 2
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    return recorded(furnished(shared_project(), agent=AGENT, shop=SHOP, test_shop=TESTS), "-W", "ignore")


def test_only_model_calls_are_recorded_and_the_rest_replays_without_the_model(shop):
    for snapshot in shop.snapshots:
        urls = {x.call.url.partition("/v1/")[2] for x in snapshot.run.exchanges}
        assert urls <= {"chat/completions", "messages"}, snapshot.run.header.test
    assert f"{len(shop.files)} passed" in passed(shop.offline("-W", "ignore")).stdout


def test_an_endpoint_that_fails_fails_in_the_replay(shop):
    broken = '    raise RuntimeError("broken")'
    with (
        edited(shop, "agent.py", "    return answer(question)", broken),
        edited(shop, "agent.py", "    return await answer_async(question)", broken),
    ):
        assert len(summary(shop.offline("-W", "ignore"))) == len(shop.files)


def test_an_edited_prompt_diverges(shop):
    with edited(shop, "agent.py", "Be brief.", "Be short."):
        told = summary(shop.offline("-W", "ignore", COLUMNS="200"))
    assert len(told) == len(shop.files)
    assert all("[AR-PROMPT]" in said for said in told.values()), told
