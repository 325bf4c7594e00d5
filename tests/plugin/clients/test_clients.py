"""Every HTTP client and SDK: recorded against a live server, replayed with none; the same results and raw chunks."""

import json

import pytest

pytestmark = pytest.mark.env("clients", "lastyear")

CALLS = '''
import asyncio, http.client, io, os, urllib.request
import aiohttp_or_none
import anthropic, boto3, cohere, groq, httpx, httpx2, huggingface_hub, mistralai.client, ollama, openai, requests, urllib3
from botocore.config import Config
from google import genai

URL = os.environ["MODEL_URL"]
USER = [{"role": "user", "content": "Where is order A-17?"}]
KEY = "any"
Mistral = getattr(mistralai.client, "Mistral", None) or mistralai.Mistral
CASES, KEPT = {}, []

def kept(client):
    """Some clients close when nobody holds them any more."""
    KEPT.append(client)
    return client

def case(function):
    CASES[function.__name__] = function
    return function

def plain(value):
    """A result as data."""
    for name in ("model_dump", "to_dict", "dict"):
        if hasattr(value, name):
            return plain(getattr(value, name)())
    if isinstance(value, dict):
        # A client that gives its headers gives a cookie while recording, and its placeholder in a replay.
        return {str(k): plain(v) for k, v in value.items() if k != "sdk_http_response"}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)

def three(name, sync, asynchronous, ask):
    """The four ways of one SDK: sync and async, whole and streamed. `ask(client, stream)` makes the call."""

    def whole():
        return plain(ask(kept(sync()), False))

    def stream():
        return [plain(event) for event in ask(kept(sync()), True)]

    async def awaited(value):
        return await value if hasattr(value, "__await__") else value

    def async_whole():
        async def main():
            return plain(await awaited(ask(kept(asynchronous()), False)))
        return asyncio.run(main())

    def async_stream():
        async def main():
            return [plain(event) async for event in await awaited(ask(kept(asynchronous()), True))]
        return asyncio.run(main())

    CASES[name], CASES[name + "_stream"] = whole, stream
    CASES["async_" + name], CASES["async_" + name + "_stream"] = async_whole, async_stream

def chat(client, stream):
    return client.chat.completions.create(model="m", messages=USER, stream=stream)

def answer(client, stream):
    return client.responses.create(model="m", input="Where is order A-17?", stream=stream)

def message(client, stream):
    return client.messages.create(model="m", max_tokens=9, messages=USER, stream=stream)

three("openai", lambda: openai.OpenAI(base_url=URL + "/v1", api_key=KEY), lambda: openai.AsyncOpenAI(base_url=URL + "/v1", api_key=KEY), chat)
three("openai_responses", lambda: openai.OpenAI(base_url=URL + "/v1", api_key=KEY), lambda: openai.AsyncOpenAI(base_url=URL + "/v1", api_key=KEY), answer)
three("anthropic", lambda: anthropic.Anthropic(base_url=URL, api_key=KEY), lambda: anthropic.AsyncAnthropic(base_url=URL, api_key=KEY), message)
three("groq", lambda: groq.Groq(base_url=URL, api_key=KEY), lambda: groq.AsyncGroq(base_url=URL, api_key=KEY), chat)
three("ollama", lambda: ollama.Client(host=URL), lambda: ollama.AsyncClient(host=URL), lambda c, stream: c.chat("m", USER, stream=stream))
three(
    "cohere",
    lambda: cohere.ClientV2(api_key=KEY, base_url=URL),
    lambda: cohere.AsyncClientV2(api_key=KEY, base_url=URL),
    lambda c, stream: c.chat_stream(model="m", messages=USER) if stream else c.chat(model="m", messages=USER),
)
three(
    "huggingface",
    lambda: huggingface_hub.InferenceClient(base_url=URL + "/v1", api_key=KEY),
    lambda: huggingface_hub.AsyncInferenceClient(base_url=URL + "/v1", api_key=KEY),
    lambda c, stream: c.chat_completion(USER, model="m", stream=stream),
)

def mistral(client, stream):
    return (client.chat.stream if stream else client.chat.complete)(model="m", messages=USER)

def mistral_async(client, stream):
    return (client.chat.stream_async if stream else client.chat.complete_async)(model="m", messages=USER)

three(
    "mistral",
    lambda: ("sync", Mistral(server_url=URL, api_key=KEY)),
    lambda: ("async", Mistral(server_url=URL, api_key=KEY)),
    lambda c, stream: (mistral if c[0] == "sync" else mistral_async)(c[1], stream),
)

def google():
    return kept(genai.Client(api_key=KEY, vertexai=False, http_options={"base_url": URL}))

def generate(models, stream):
    return (models.generate_content_stream if stream else models.generate_content)(model="gemini-x", contents="hi")

three("google_genai", lambda: google().models, lambda: google().aio.models, generate)

def bedrock():
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "eu-west-1"}
    return boto3.client("bedrock-runtime", endpoint_url=URL, config=Config(retries={"max_attempts": 1}), **keys)

ASKED = {"modelId": "claude-x", "messages": [{"role": "user", "content": [{"text": "Where is order A-17?"}]}]}

@case
def bedrock_converse():
    return plain(bedrock().converse(**ASKED)["output"])

@case
def bedrock_converse_stream():
    return plain(list(bedrock().converse_stream(**ASKED)["stream"]))

# ---- bare clients: raw chunks

BODY = {"model": "m", "messages": USER, "stream": True}
PATH = "/v1/chat/completions"

def told(chunks):
    return [bytes(chunk).decode("latin-1") for chunk in chunks]

@case
def requests_whole():
    with requests.Session() as session:
        return [session.post(URL + "/p", json={"n": n}).json() for n in range(2)]

@case
def requests_stream():
    with requests.post(URL + PATH, json=BODY, stream=True) as response:
        return told(response.iter_content(None))

@case
def urllib3_whole():
    with urllib3.PoolManager() as http:
        return http.request("POST", URL + "/p", json={"a": 1}).json()

@case
def urllib3_stream():
    with urllib3.PoolManager() as http:
        response = http.request("POST", URL + PATH, json=BODY, preload_content=False)
        return told(response.read_chunked())

@case
def http_client():
    connection = http.client.HTTPConnection(URL.removeprefix("http://"))
    connection.request("POST", "/p", body=b"abc")
    got = connection.getresponse().read()
    connection.close()
    return told([got])

@case
def http_client_stream():
    import json
    connection = http.client.HTTPConnection(URL.removeprefix("http://"))
    connection.request("POST", PATH, body=json.dumps(BODY))
    response = connection.getresponse()
    got = []
    while chunk := response.read1():
        got.append(chunk)
    connection.close()
    return told(got)

@case
def urllib_request():
    with urllib.request.urlopen(URL + "/p", data=b"abc") as response:
        return told([response.read()])

def httpx_of(library):
    def stream():
        with library.stream("POST", URL + PATH, json=BODY) as response:
            return told(response.iter_raw())

    def async_stream():
        async def main():
            async with library.AsyncClient() as client, client.stream("POST", URL + PATH, json=BODY) as response:
                return told([chunk async for chunk in response.aiter_raw()])
        return asyncio.run(main())

    CASES[library.__name__ + "_stream"], CASES["async_" + library.__name__ + "_stream"] = stream, async_stream

httpx_of(httpx)
httpx_of(httpx2)

if aiohttp_or_none.aiohttp:
    from aiohttp_or_none import aiohttp

    @case
    def aiohttp_kept():
        async def main():
            async with aiohttp.ClientSession() as session:
                got = []
                for n in range(3):
                    async with session.post(URL + "/p", json={"n": n}) as response:
                        got.append(await response.json())
                return got
        return asyncio.run(main())

    @case
    def aiohttp_stream():
        async def main():
            async with aiohttp.ClientSession() as session, session.post(URL + PATH, json=BODY) as response:
                return told([chunk async for chunk, _ in response.content.iter_chunks() if chunk])
        return asyncio.run(main())

    if hasattr(openai, "DefaultAioHttpClient") and aiohttp_or_none.backed:
        @case
        def async_openai_on_aiohttp_stream():
            async def main():
                async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key=KEY, http_client=openai.DefaultAioHttpClient()) as client:
                    return [plain(event) async for event in await chat(client, True)]
            return asyncio.run(main())
'''

AIOHTTP = """
import os, sys

if os.environ.get("WITHOUT_AIOHTTP"):
    sys.modules["aiohttp"] = aiohttp = None
else:
    import aiohttp

def works():
    import openai
    try:
        openai.DefaultAioHttpClient()
    except Exception:
        return False
    return True

backed = aiohttp is not None and works()
"""

TESTS = """
import json, os, pathlib
import pytest, calls, shop

@pytest.mark.parametrize("name", calls.CASES)
def test_client(name, agentreplay):
    result = calls.CASES[name]()
    shop.note(name)
    folder = pathlib.Path(os.environ["RESULTS"])
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
"""

SHOP = """
import pathlib

def note(name):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(name + "\\n")
    return name
"""

THEIRS = ("-W", "ignore", "--tb=short")
"""The SDKs warn of themselves."""


def results(project, folder):
    found = sorted((project.root / folder).glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in found}


def both(project, *words, **environ):
    """Record and replay with no server; gives the results of each."""
    recorded = project.record(*THEIRS, "--agentreplay-no-prove", *words, RESULTS=f"live{len(words)}", **environ)
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert "not recorded" not in recorded.stdout
    replayed = project.offline(*THEIRS, *words, RESULTS=f"again{len(words)}", **environ)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    return results(project, f"live{len(words)}"), results(project, f"again{len(words)}")


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(environ={"HF_HUB_DISABLE_TELEMETRY": "1"})
    made.write(calls=CALLS, aiohttp_or_none=AIOHTTP, test_calls=TESTS, shop=SHOP)
    (made.root / "pytest.ini").write_text("[pytest]\npythonpath = .\nagentreplay_tools = shop.note\n", encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def table(project):
    return both(project)


def test_every_client_gives_the_same_results_without_a_server(project, table):
    live, again = table
    assert len(live) > 45
    for name, result in live.items():
        assert again[name] == result, name
    runs = {s.run.header.test.partition("[")[2].rstrip("]"): s.run for s in project.snapshots}
    for name, run in runs.items():
        wire = [x for x in run.exchanges if x.call.boundary == "http"]
        count = {"requests_whole": 2, "aiohttp_kept": 3}.get(name, 1)
        assert len(wire) == count, f"{name}: one exchange for each wire call"
        assert all(x.outcome.failure is None and x.outcome.status == 200 for x in wire), name


def test_a_stream_is_kept_in_its_chunks(project, table):
    live, _ = table
    runs = {s.run.header.test.partition("[")[2].rstrip("]"): s.run for s in project.snapshots}
    for name in ("requests_stream", "urllib3_stream", "http_client_stream", "httpx_stream", "aiohttp_stream"):
        (reply,) = [x.outcome for x in runs[name].exchanges if x.call.boundary == "http"]
        assert len(live[name]) > 3
        assert "".join(live[name]) == reply.body.data.decode("latin-1")
    for name in ("requests_stream", "urllib3_stream", "httpx_stream"):
        (reply,) = [x.outcome for x in runs[name].exchanges if x.call.boundary == "http"]
        assert len(reply.cuts) >= len(live[name]) - 1


def test_clients_where_aiohttp_is_not(project):
    live, again = both(project, "-k", "google_genai", WITHOUT_AIOHTTP="1")
    assert again == live
    assert len(again) == 4
