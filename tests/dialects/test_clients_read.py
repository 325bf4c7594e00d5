"""The model server speaks to the real clients of every API, never says the same twice, and the dialects read what they do."""

from __future__ import annotations

import gc
import json

import anthropic
import boto3
import cohere
import groq
import huggingface_hub
import mistralai.client
import ollama
import openai
import pytest
from botocore.config import Config
from google import genai
from google.auth.credentials import Credentials

from pytest_agentreplay.core.matching import ClientIds, Matching
from pytest_agentreplay.core.model import Body, HttpCall, HttpReply
from pytest_agentreplay.core.turns import label
from pytest_agentreplay.demo.server import Ask, ModelServer, Say
from pytest_agentreplay.dialects import READER, RULES

pytestmark = [
    pytest.mark.env("clients", "lastyear"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

# The SDK of Mistral has moved within its package.
Mistral = getattr(mistralai.client, "Mistral", None) or mistralai.Mistral


@pytest.fixture(scope="module", autouse=True)
def left_open():
    """Connections of the clients that cannot be closed go while their warnings are still ignored."""
    yield
    gc.collect()


MATCHING = Matching(READER, RULES)
QUESTION = "Where is my order A-1001?"
USER = [{"role": "user", "content": QUESTION}]
SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
FUNCTIONS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": SCHEMA}}
    for name in ("refund", "lookup_order")
]
PLAIN = [{"name": name, "description": "d", "input_schema": SCHEMA} for name in ("refund", "lookup_order")]
BOTH = Say("Let me  look.\n", (Ask("clock"), Ask("refund", {"order": "ü", "cents": 5})))


class Overheard(ModelServer):
    """A model server whose exchanges can be read afterwards, as (call, reply)."""

    def __init__(self, script=None):
        super().__init__(script)
        self.exchanges = []

    def _answer(self, request):
        raw = super()._answer(request)
        call = HttpCall(request.method, self.url + request.path, request.headers, Body(request.body))
        self.exchanges.append((call, HttpReply(raw.status, headers=raw.headers, body=Body(b"".join(raw.chunks)))))
        return raw


# ---- a client each: what it says of a reply, as (text, [(tool, arguments)])


def chat(client, stream, tools):
    more = {"tools": FUNCTIONS} if tools else {}
    if not stream:
        return chat_message(client.chat.completions.create(model="m", messages=USER, **more).choices[0].message)
    return chat_chunks(client.chat.completions.create(model="m", messages=USER, stream=True, **more))


def chat_message(message):
    return message.content or "", [
        (c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()
    ]


def chat_chunks(chunks):
    text, calls = "", {}
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (name or call.function.name or "", arguments + call.function.arguments)
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def openai_chat(url, stream, tools):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        return chat(client, stream, tools)


def azure(url, stream, tools):
    with openai.AzureOpenAI(azure_endpoint=url, api_key="any", api_version="2024-10-21") as client:
        return chat(client, stream, tools)


def groq_chat(url, stream, tools):
    with groq.Groq(base_url=url, api_key="any") as client:
        return chat(client, stream, tools)


def hugging_face(url, stream, tools):
    client = huggingface_hub.InferenceClient(base_url=f"{url}/v1", api_key="any")
    more = {"tools": FUNCTIONS} if tools else {}
    reply = client.chat_completion(USER, model="m", stream=stream, **more)
    return chat_chunks(reply) if stream else chat_message(reply.choices[0].message)


def mistral(url, stream, tools):
    more = {"tools": FUNCTIONS} if tools else {}
    with Mistral(server_url=url, api_key="any") as client:
        if stream:
            return chat_chunks(event.data for event in client.chat.stream(model="mistral-x", messages=USER, **more))
        return chat_message(client.chat.complete(model="mistral-x", messages=USER, **more).choices[0].message)


def gemini(url, stream, tools):
    options = {"base_url": url}
    return gemini_said(genai.Client(api_key="any", vertexai=False, http_options=options), stream, tools)


class Somebody(Credentials):
    """Google credentials that need nobody to ask for a token."""

    def refresh(self, request):
        self.token = "any"


def vertex(url, stream, tools):
    who = {"project": "p", "location": "europe-west4", "credentials": Somebody()}
    return gemini_said(genai.Client(vertexai=True, http_options={"base_url": url}, **who), stream, tools)


def gemini_said(client, stream, tools):
    declared = [{"name": one["name"], "parameters_json_schema": SCHEMA} for one in PLAIN]
    asked = {
        "model": "gemini-x",
        "contents": QUESTION,
        "config": {"tools": [{"function_declarations": declared}]} if tools else {},
    }
    many = client.models.generate_content_stream(**asked) if stream else [client.models.generate_content(**asked)]
    parts = [part for chunk in many for part in chunk.candidates[0].content.parts or ()]
    calls = [(part.function_call.name, part.function_call.args or {}) for part in parts if part.function_call]
    return "".join(part.text or "" for part in parts), calls


def amazon(url):
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "eu-west-1"}
    return boto3.client("bedrock-runtime", endpoint_url=url, config=Config(retries={"max_attempts": 1}), **keys)


def converse(url, stream, tools):
    specs = [{"toolSpec": {"name": t["name"], "inputSchema": {"json": t["input_schema"]}}} for t in PLAIN]
    asked = {"modelId": "eu.anthropic.claude-x-v1:0", "messages": [{"role": "user", "content": [{"text": QUESTION}]}]}
    asked |= {"toolConfig": {"tools": specs}} if tools else {}
    if not stream:
        content = amazon(url).converse(**asked)["output"]["message"]["content"]
        uses = [(block["toolUse"]["name"], block["toolUse"]["input"]) for block in content if "toolUse" in block]
        return "".join(block.get("text", "") for block in content), uses
    text, calls = "", {}
    for event in amazon(url).converse_stream(**asked)["stream"]:
        if "contentBlockStart" in event:
            start = event["contentBlockStart"]
            calls[start["contentBlockIndex"]] = [start["start"]["toolUse"]["name"], ""]
        elif "contentBlockDelta" in event:
            delta = event["contentBlockDelta"]["delta"]
            text += delta.get("text", "")
            if "toolUse" in delta:
                calls[event["contentBlockDelta"]["contentBlockIndex"]][1] += delta["toolUse"]["input"]
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def claude_on_amazon(url, stream, tools):
    keys = {"aws_access_key": "any", "aws_secret_key": "any", "aws_region": "eu-west-1"}
    with anthropic.AnthropicBedrock(base_url=url, **keys) as client:
        return claude(client, stream, tools)


def claude_on_vertex(url, stream, tools):
    with anthropic.AnthropicVertex(
        base_url=f"{url}/v1", project_id="p", region="europe-west1", access_token="any"
    ) as client:
        return claude(client, stream, tools)


def claude(client, stream, tools):
    asked = {"model": "claude-x", "max_tokens": 9, "messages": USER} | ({"tools": PLAIN} if tools else {})
    if not stream:
        content = client.messages.create(**asked).content
        text = "".join(block.text for block in content if block.type == "text")
        return text, [(block.name, block.input) for block in content if block.type == "tool_use"]
    text, calls = "", {}
    for event in client.messages.create(stream=True, **asked):
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            calls[event.index] = [event.content_block.name, ""]
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            text += event.delta.text
        elif event.type == "content_block_delta":
            calls[event.index][1] += event.delta.partial_json
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def ollama_chat(url, stream, tools):
    many = ollama.Client(host=url).chat("llama-x", USER, stream=stream, tools=FUNCTIONS if tools else None)
    messages = [chunk.message for chunk in (many if stream else [many])]
    calls = [(c.function.name, dict(c.function.arguments)) for m in messages for c in m.tool_calls or ()]
    return "".join(m.content or "" for m in messages), calls


def cohere_chat(url, stream, tools):
    client = cohere.ClientV2(api_key="any", base_url=url)
    asked = {"model": "command-x", "messages": USER} | ({"tools": FUNCTIONS} if tools else {})
    if not stream:
        message = client.chat(**asked).message
        calls = [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]
        return (message.tool_plan or "") + "".join(part.text for part in message.content or ()), calls
    text, calls = "", []
    for event in client.chat_stream(**asked):
        message = getattr(getattr(event, "delta", None), "message", None)
        match event.type:
            case "tool-plan-delta":
                text += message.tool_plan
            case "content-delta":
                text += message.content.text
            case "tool-call-start":
                calls.append([message.tool_calls.function.name, ""])
            case "tool-call-delta":
                calls[-1][1] += message.tool_calls.function.arguments
    return text, [(name, json.loads(arguments)) for name, arguments in calls]


SPEAKERS = [
    *(openai_chat, azure, groq_chat, hugging_face, mistral, gemini, vertex, converse, claude_on_amazon),
    *(claude_on_vertex, ollama_chat, cohere_chat),
]


READ_AS = {
    openai_chat: ("openai_chat", "openai", "", "m"),
    azure: ("openai_chat", "openai", "", "m"),
    groq_chat: ("openai_chat", "openai", "", "m"),
    hugging_face: ("openai_chat", "openai", "", "m"),
    mistral: ("openai_chat", "openai", "", "mistral-x"),
    gemini: ("gemini", "gcp.gemini", "", "gemini-x"),
    vertex: ("gemini", "gcp.vertex_ai", "europe-west4", "gemini-x"),
    converse: ("bedrock", "aws.bedrock", "", "eu.anthropic.claude-x-v1:0"),
    claude_on_amazon: ("anthropic", "aws.bedrock", "", "claude-x"),
    claude_on_vertex: ("anthropic", "gcp.vertex_ai", "europe-west1", "claude-x"),
    ollama_chat: ("ollama_chat", "ollama", "", "llama-x"),
    cohere_chat: ("cohere", "cohere", "", "command-x"),
}


def parsed(arguments):
    return json.loads(arguments) if isinstance(arguments, str) else arguments


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("speak", SPEAKERS, ids=lambda speak: speak.__name__)
class TestEveryClient:
    def test_never_the_same_twice(self, speak, stream):
        with ModelServer() as server:
            (said, none), (other, _) = speak(server.url, stream, tools=False), speak(server.url, stream, tools=False)
        assert said != other
        assert said.endswith(QUESTION)
        assert none == []

    def test_asked_twice_it_is_the_same_call(self, speak, stream):
        with Overheard(["Hello.", "Hello."]) as server:
            speak(server.url, stream, tools=True)
            speak(server.url, stream, tools=True)
        first, second = (MATCHING.key(call, ClientIds()) for call, _ in server.exchanges)
        assert first == second

    def test_it_asks_for_the_tool_that_the_user_means(self, speak, stream):
        with ModelServer() as server:
            assert speak(server.url, stream, tools=True) == ("", [("lookup_order", {"order": "A-1001"})])

    def test_it_says_text_and_several_calls(self, speak, stream):
        with Overheard([BOTH]) as server:
            text, calls = speak(server.url, stream, tools=True)
        assert text == BOTH.text
        assert calls == [(ask.name, ask.arguments) for ask in BOTH.asks]
        [(call, reply)] = server.exchanges
        asked, read = READER.read_call(call), READER.read_reply(call, reply)
        assert (asked.dialect, asked.provider, asked.region, asked.model) == READ_AS[speak]
        assert (asked.kind, asked.stream, asked.name) == ("model", stream, asked.model)
        assert [READER.say(message) for message in asked.messages] == [f"user: {QUESTION}"]
        assert len(asked.tools) == 2
        assert read.text == text
        assert [(use.name, parsed(use.arguments)) for use in read.tool_uses] == calls
        assert read.usage.keys() >= {"output_tokens"} or (stream and asked.dialect == "openai_chat")
        assert read.finish_reasons
        assert set(read.ids) >= {use.id for use in read.tool_uses if use.id}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_ollama_completes_a_prompt(stream):
    with Overheard() as server:
        made = ollama.Client(host=server.url).generate("llama-x", QUESTION, stream=stream)
        said = "".join(chunk.response for chunk in made) if stream else made.response
    assert said.endswith(QUESTION)
    [(call, reply)] = server.exchanges
    assert (READER.read_call(call).messages, READER.read_call(call).stream) == ((QUESTION,), stream)
    assert READER.read_reply(call, reply).text == said


# ---- vectors and ranks


def openai_vectors(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        return [one.embedding for one in client.embeddings.create(model="m", input=["a", "b"]).data]


def azure_vectors(url):
    with openai.AzureOpenAI(azure_endpoint=url, api_key="any", api_version="2024-10-21") as client:
        made = client.embeddings.create(model="m", input=["a", "b"], encoding_format="float")
    return [one.embedding for one in made.data]


def mistral_vectors(url):
    with Mistral(server_url=url, api_key="any") as client:
        return [one.embedding for one in client.embeddings.create(model="m", inputs=["a", "b"]).data]


def gemini_vectors(url):
    client = genai.Client(api_key="any", vertexai=False, http_options={"base_url": url})
    made = client.models.embed_content(model="gemini-embedding-001", contents=["a", "b"])
    return [one.values for one in made.embeddings]


def vertex_vectors(url):
    who = {"project": "p", "location": "europe-west4", "credentials": Somebody()}
    client = genai.Client(vertexai=True, http_options={"base_url": url}, **who)
    made = [client.models.embed_content(model="text-embedding-005", contents=text) for text in "ab"]
    return [one.embeddings[0].values for one in made]


def ollama_vectors(url):
    return ollama.Client(host=url).embed("m", ["a", "b"]).embeddings


def cohere_vectors(url):
    client = cohere.ClientV2(api_key="any", base_url=url)
    made = client.embed(model="m", texts=["a", "b"], input_type="search_document", embedding_types=["float"])
    return made.embeddings.float_ if hasattr(made.embeddings, "float_") else made.embeddings.float


def cohere_ranks(url):
    made = cohere.ClientV2(api_key="any", base_url=url).rerank(model="m", query="q", documents=["a", "b"])
    return [one.relevance_score for one in made.results]


VECTORS = [
    *(openai_vectors, azure_vectors, mistral_vectors, gemini_vectors, vertex_vectors, ollama_vectors, cohere_vectors),
    cohere_ranks,
]


@pytest.mark.parametrize("speak", VECTORS, ids=lambda speak: speak.__name__)
def test_vectors_and_ranks_never_come_twice(speak):
    with Overheard() as server:
        first, second = speak(server.url), speak(server.url)
    assert len(first) == len(second) == 2
    assert first != second
    call, reply = server.exchanges[0]
    asked, read = READER.read_call(call), READER.read_reply(call, reply)
    kind = "rerank" if speak is cohere_ranks else "embeddings"
    assert (asked.kind, asked.operation, label(call, READER)) == (kind, kind, f"{kind} {asked.model}")
    said = " ".join(READER.say(message) for message in asked.messages)
    assert "a" in said
    assert asked.dialect != "generic"
    assert "(0." in read.text or "vector" in read.text
