"""Every HTTP client and SDK: recorded against a live server, replayed with none; the same results and raw chunks."""

import json

import pytest

from tests.support.small_projects import furnished, passed, recorded, runs

pytestmark = pytest.mark.env("clients", "lastyear")

CALLS = '''
import asyncio, http.client, os
from concurrent.futures import ThreadPoolExecutor
import aiohttp_or_none
import anthropic, boto3, cohere, groq, httpx, huggingface_hub, mistralai.client, ollama, openai, requests
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
def requests_stream():
    with requests.post(URL + PATH, json=BODY, stream=True) as response:
        return told(response.iter_content(None))

@case
def requests_at_once():
    said = []
    def ask(name):
        for n in range(3):
            said.append(requests.post(URL + "/ask", json={"text": f"{name} {n}. Known: {said}"}).json()["text"])
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, "abcdef"))
    return said

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
def httpx_stream():
    with httpx.stream("POST", URL + PATH, json=BODY) as response:
        return told(response.iter_raw())

if aiohttp_or_none.aiohttp:
    from aiohttp_or_none import aiohttp

    @case
    def aiohttp_at_once():
        said = []
        async def ask(session, name):
            for n in range(3):
                async with session.post(URL + "/ask", json={"text": f"{name} {n}. Known: {said}"}) as response:
                    said.append((await response.json())["text"])
        async def main():
            async with aiohttp.ClientSession() as session:
                await asyncio.gather(*(ask(session, name) for name in "abcdef"))
        asyncio.run(main())
        return said

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
import pytest, calls

@pytest.mark.parametrize("name", calls.CASES)
def test_client(name, agentreplay):
    result = calls.CASES[name]()
    folder = pathlib.Path(os.environ["RESULTS"])
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
"""

THEIRS = ("-W", "ignore", "--tb=short")
"""The SDKs warn of themselves."""


def results(project, folder):
    found = sorted((project.root / folder).glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in found}


def both(project, *words, **environ):
    """The results of a recording, and those of a replay with no server."""
    recorded(project, *THEIRS, *words, RESULTS=f"live{len(words)}", **environ)
    assert "not recorded" not in project.recording.stdout
    passed(project.offline(*THEIRS, *words, RESULTS=f"again{len(words)}", **environ))
    return results(project, f"live{len(words)}"), results(project, f"again{len(words)}")


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(environ={"HF_HUB_DISABLE_TELEMETRY": "1"})
    return furnished(made, calls=CALLS, aiohttp_or_none=AIOHTTP, test_calls=TESTS)


def test_every_client_gives_the_same_results_without_a_server_and_streams_are_kept_in_their_chunks(project):
    live, again = both(project)
    assert len(live) > 40
    assert [name for name, result in live.items() if again[name] != result] == []
    wires = {}
    for name, run in runs(project).items():
        if "at_once" in name:
            continue
        (wires[name],) = (x.outcome for x in run.exchanges if x.call.boundary == "http")
        assert (wires[name].failure, wires[name].status) == (None, 200), name
    for name in ("requests_stream", "http_client_stream", "httpx_stream", "aiohttp_stream"):
        assert len(live[name]) > 3
        reply = wires[f"client[{name}]"]
        assert "".join(live[name]) == reply.body.data.decode("latin-1")
        assert len(reply.cuts) >= len(live[name]) - 1 or name in {"http_client_stream", "aiohttp_stream"}


def test_clients_where_aiohttp_is_not(project):
    live, again = both(project, "-k", "google_genai", WITHOUT_AIOHTTP="1")
    assert again == live
    assert len(again) == 4
