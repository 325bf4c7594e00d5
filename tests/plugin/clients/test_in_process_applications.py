"""An application under test runs in a replay, whatever client calls it in its process; its model calls are frozen."""

import re

import pytest

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
import asyncio, json
from urllib.parse import parse_qs

import agent
import django.conf, django.http, django.urls
import fastapi, flask
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

bottle = flask.Flask(__name__)

@bottle.get("/ask")
def flask_ask():
    return agent.endpoint(flask.request.args["q"])

def django_ask(request):
    return django.http.HttpResponse(agent.endpoint(request.GET["q"]))

async def django_ask_async(request):
    return django.http.HttpResponse(await agent.endpoint_async(request.GET["q"]))

django.conf.settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="k", DEBUG_PROPAGATE_EXCEPTIONS=True)
django.setup()
urlpatterns = [django.urls.path("ask", django_ask), django.urls.path("ask-async", django_ask_async)]

async def aiohttp_ask(request):
    return web.Response(text=await agent.endpoint_async(request.query["q"]))

def aiohttp_app():
    made = web.Application()
    made.router.add_get("/ask", aiohttp_ask)
    return made
"""

TESTS = """
import asyncio, socket, threading, time, urllib.request
from contextlib import contextmanager

import aiohttp, httpx, httpx2, pytest, requests, uvicorn
from aiohttp.test_utils import TestClient as AiohttpClient, TestServer as AiohttpServer
from django.test import AsyncClient as DjangoAsyncClient, Client as DjangoClient
from fastapi.testclient import TestClient

import shop

WAYS = {}

def way(function):
    WAYS[function.__name__] = function
    return function

@way
def fastapi_sync():
    return TestClient(shop.fast).get("/ask?q=Paris").json()["text"]

@way
def fastapi_async():
    with TestClient(shop.fast) as client:
        return client.get("/ask-async?q=Rome").json()["text"]

@way
def starlette_twice():
    client = TestClient(shop.star)
    return [client.get("/ask?q=Oslo").text, client.get("/ask?q=Bonn").text]

@way
def asgi_httpx():
    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(shop.fast), base_url="http://app") as client:
            return (await client.get("/ask-async?q=Lima")).text
    return asyncio.run(main())

@way
def asgi_mounted():
    async def main():
        mounts = {"http://app": httpx2.ASGITransport(shop.star)}
        async with httpx2.AsyncClient(mounts=mounts) as client:
            first, second = await asyncio.gather(client.get("http://app/ask?q=Lima"), client.get("http://app/ask?q=Quito"))
            return first.text, second.text
    return asyncio.run(main())

@way
def wsgi_httpx():
    with httpx.Client(transport=httpx.WSGITransport(shop.bottle), base_url="http://app") as client:
        return client.get("/ask?q=Cairo").text

@way
def flask_client():
    shop.bottle.testing = True
    return shop.bottle.test_client().get("/ask?q=Cairo").text

@way
def django_client():
    return DjangoClient().get("/ask?q=Delhi").content

@way
def django_async_client():
    async def main():
        return (await DjangoAsyncClient().get("/ask-async?q=Delhi")).content
    return asyncio.run(main())

@way
def aiohttp_client():
    async def main():
        async with AiohttpClient(AiohttpServer(shop.aiohttp_app())) as client:
            reply = await client.get("/ask?q=Dakar")
            assert reply.status == 200
            return await reply.text()
    return asyncio.run(main())

@way
def aiohttp_server():
    async def main():
        async with AiohttpServer(shop.aiohttp_app()) as server, httpx2.AsyncClient() as client:
            reply = await client.get(str(server.make_url("/ask?q=Tunis")))
            return reply.raise_for_status().text
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

def get_requests(url):
    reply = requests.get(url)
    reply.raise_for_status()
    return reply.text

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
    assert len(agentreplay.run.turns) == (2 if way in {"starlette_twice", "asgi_mounted"} else 1)

@pytest.mark.agentreplay(allow_hosts=["127.0.0.1"])
@pytest.mark.parametrize("get", [get_httpx, get_requests, get_urllib, get_aiohttp])
def test_uvicorn(get, agentreplay):
    with served(shop.fast, "asyncio" if get is get_httpx else "auto") as url:
        assert get(url + "/ask?q=Turin")
        assert get(url + "/ask-async?q=Turin")
    assert len(agentreplay.run.turns) == 2

class OwnTransport(httpx.BaseTransport):
    def __init__(self, app):
        self.app = app
    def handle_request(self, request):
        return httpx.Response(200, text=self.app(request.url.params["q"]))

def test_own_transport(agentreplay):
    with httpx.Client(transport=OwnTransport(shop.agent.endpoint)) as client:
        assert client.get("http://app/?q=Minsk").text
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.write(agent=AGENT, shop=SHOP, test_shop=TESTS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record("-W", "ignore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout
    project.tests = int(re.search(r"(\d+) passed", done.stdout)[1])
    return project


def test_only_model_calls_are_recorded(shop):
    assert len(shop.snapshots) == shop.tests
    for snapshot in shop.snapshots:
        urls = {x.call.url.partition("/v1/")[2] for x in snapshot.run.exchanges}
        assert urls <= {"chat/completions", "messages"}, snapshot.run.header.test


def test_it_replays_without_the_model(shop):
    done = shop.offline("-W", "ignore")
    assert f"{shop.tests} passed" in done.stdout, done.stdout


def test_an_endpoint_that_fails_fails_in_the_replay(shop):
    agent = (shop.root / "agent.py").read_text(encoding="utf-8")
    shop.edit("agent.py", "    return answer(question)", '    raise RuntimeError("broken")')
    shop.edit("agent.py", "    return await answer_async(question)", '    raise RuntimeError("broken")')
    done = shop.offline("-W", "ignore")
    shop.write(agent=agent)
    assert f"{shop.tests} failed" in done.stdout, done.stdout


def test_an_edited_prompt_diverges(shop):
    shop.edit("agent.py", "Be brief.", "Be short.")
    done = shop.offline("-W", "ignore", COLUMNS="200")
    shop.edit("agent.py", "Be short.", "Be brief.")
    assert f"{shop.tests} failed" in done.stdout, done.stdout
    assert len(re.findall(r"^FAILED .*\[AR-PROMPT\]", done.stdout, re.MULTILINE)) == shop.tests, done.stdout


OLD = """
import socket

import fastapi, httpx2
from fastapi.testclient import TestClient

app = fastapi.FastAPI()

@app.get("/plain")
def plain():
    return "plain"

class Network(httpx2.MockTransport):
    def __init__(self):
        super().__init__(lambda request: httpx2.Response(200, text="plain"))
        self.network = socket  # so it is recorded as a whole, as every transport was

def test_old(agentreplay):
    with httpx2.Client(transport=Network()) as client:
        assert client.get("http://testserver/plain").text
"""


def test_a_snapshot_of_a_test_client_is_reported_as_such(shop):
    shop.write(old__test_old=OLD)
    assert "1 created, all replay" in shop.record("old", "-q").stdout
    shop.edit("old/test_old.py", "httpx2.Client(transport=Network())", "TestClient(app)")
    said = " ".join(shop.offline("old").stdout.split())
    assert "the snapshot holds GET testserver/plain, which stays inside this process and is no longer recorded" in said
    assert "pytest --snapshot-record old/test_old.py::test_old" in said
    assert "git rm old/__agent_snapshots__/test_old/test_old.snapshot.json" in said
