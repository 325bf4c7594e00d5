"""A suite that tests an agent on cassettes, by every client and every way to open one."""

import json

import pytest
import yaml

APP = """
import os
import httpx

URL = os.environ["MODEL_URL"] + "/v1"
MODEL, PROMPT, MORE = "m-1", "You help customers. Be brief.", {"temperature": 0}
TOOLS = [{"type": "function", "function": {"name": "lookup", "description": "Find it.", "parameters": {"type": "object"}}}]

def body(question):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    return {"model": MODEL, "messages": messages, "tools": TOOLS, **MORE}

def by_openai(question):
    import openai
    client = openai.OpenAI(base_url=URL, api_key="sk-test", max_retries=0)
    return client.chat.completions.create(**body(question)).id

def by_httpx(question):
    return httpx.post(URL + "/chat/completions", json=body(question)).json()["id"]

async def by_httpx_async(question):
    async with httpx.AsyncClient() as client:
        return (await client.post(URL + "/chat/completions", json=body(question))).json()["id"]

def by_requests(question):
    import requests
    return requests.post(URL + "/chat/completions", json=body(question)).json()["id"]

async def by_aiohttp(question):
    import aiohttp
    async with aiohttp.ClientSession() as session, session.post(URL + "/chat/completions", json=body(question)) as reply:
        return (await reply.json())["id"]
"""

MARKED = """
import asyncio, threading
import pytest, app

@pytest.fixture(scope="module")
def vcr_config():
    return {"filter_headers": ["authorization"]}

@pytest.mark.vcr
@pytest.mark.parametrize("ask", [app.by_httpx, app.by_requests])
def test_client(ask):
    assert ask("one")

@pytest.mark.vcr
def test_aiohttp():
    assert asyncio.run(app.by_aiohttp("two"))

@pytest.mark.vcr
def test_thread():
    thread = threading.Thread(target=app.by_httpx, args=("three",))
    thread.start()
    thread.join()
"""

OPENED = """
import asyncio
import pytest, vcr
from vcr.unittest import VCRTestCase
import app

@pytest.fixture
def asked():
    with vcr.use_cassette("tapes/fixture.yaml"):
        app.by_httpx("up")
        yield
        app.by_httpx("down")

def test_fixture(asked):
    pass

@vcr.use_cassette("tapes/decorated.yaml")
def test_decorated():
    assert app.by_openai("one")

@vcr.use_cassette("tapes/coroutine.yaml")
async def ask():
    return await app.by_httpx_async("two")

def test_coroutine():
    assert asyncio.run(ask())

class TestCase(VCRTestCase):
    def test_inherited(self):
        assert app.by_httpx("three")
"""

UNCLOSED = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""The clients of the suite leave sockets to the garbage collector, which comes when it likes."""


@pytest.fixture(scope="module")
def make_suite(shared_project):
    """Makes a suite of test modules, recorded by vcrpy against the model server."""

    def make(*words, **modules):
        made = shared_project()
        made.plugins += ("recording",)
        (made.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
        made.write(app=APP, **modules)
        done = made.run("--record-mode=once", *UNCLOSED, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        made.tapes = {file: file.read_bytes() for file in made.root.rglob("*.yaml")}
        return made

    return make


@pytest.fixture(scope="module")
def marked(make_suite):
    """A suite of pytest-recording's marks."""
    return make_suite(test_marked=MARKED)


def audit(suite, *words, code=0, **environ):
    """Return the JSON of an audit that asks no server and changes no file."""
    hits = suite.server.hits
    done = suite.run("-q", "--vcr=audit", "--json", *UNCLOSED, *words, **environ)
    assert done.returncode == code, done.stdout + done.stderr
    assert suite.server.hits == hits
    assert {file: file.read_bytes() for file in suite.root.rglob("*.yaml")} == suite.tapes
    [line] = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    return json.loads(line)


@pytest.fixture
def suite(project):
    """A project without a model, to which cassettes are written."""
    project.server.stop()
    project.plugins += ("recording", "no:unraisableexception")
    (project.root / "test_shop.py").unlink()
    return project


@pytest.fixture
def write_cassette(project):
    """Writes a cassette of (method, url, body, status, headers, reply) rows below `cassettes`; gives its file."""

    def write(name, *interactions):
        rows = []
        for method, url, body, status, headers, reply in interactions:
            request = {"method": method, "uri": url, "body": body, "headers": {}}
            response = {"status": {"code": status, "message": None}, "headers": headers, "body": {"string": reply}}
            rows.append({"request": request, "response": response})
        file = project.root / "cassettes" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump({"version": 1, "interactions": rows}), encoding="utf-8")
        return file

    return write


@pytest.fixture
def read_cassettes(project):
    """Gives all cassettes by file."""
    return lambda: {file: file.read_bytes() for file in project.root.rglob("cassettes/**/*.yaml")}
