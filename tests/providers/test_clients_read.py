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

from pytest_agentreplay.compare.matching import ClientIds, Matching
from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply
from pytest_agentreplay.model.turns import label
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.providers.lenient import parse_text
from pytest_agentreplay.providers.shown_messages import show_message
from tests.support.model_server import Ask, ModelServer, Say

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
NAMES = ("refund", "lookup_order")
FUNCTIONS = [{"type": "function", "function": {"name": n, "description": "d", "parameters": SCHEMA}} for n in NAMES]
PLAIN = [{"name": name, "description": "d", "input_schema": SCHEMA} for name in NAMES]
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


# ---- the clients


class Somebody(Credentials):
    """Google credentials that need nobody to ask for a token."""

    def refresh(self, request):
        self.token = "any"


AWS = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "eu-west-1"}
AMAZON = {"aws_access_key": "any", "aws_secret_key": "any", "aws_region": "eu-west-1"}
GOOGLE = {"access_token": "any", "project_id": "p", "region": "europe-west1"}
WHERE = {"vertexai": True, "project": "p", "location": "europe-west4", "credentials": Somebody()}
ONCE = Config(retries={"max_attempts": 1})
CLIENTS = {
    "openai": lambda url: openai.OpenAI(base_url=f"{url}/v1", api_key="any"),
    "azure": lambda url: openai.AzureOpenAI(azure_endpoint=url, api_key="any", api_version="2024-10-21"),
    "groq": lambda url: groq.Groq(base_url=url, api_key="any"),
    "mistral": lambda url: Mistral(server_url=url, api_key="any"),
    "gemini": lambda url: genai.Client(api_key="any", vertexai=False, http_options={"base_url": url}),
    "vertex": lambda url: genai.Client(http_options={"base_url": url}, **WHERE),
    "bedrock": lambda url: boto3.client("bedrock-runtime", endpoint_url=url, config=ONCE, **AWS),
    "claude on amazon": lambda url: anthropic.AnthropicBedrock(base_url=url, **AMAZON),
    "claude on vertex": lambda url: anthropic.AnthropicVertex(base_url=f"{url}/v1", **GOOGLE),
    "cohere": lambda url: cohere.ClientV2(api_key="any", base_url=url),
}


# ---- what they say of a reply, as (text, [(tool, arguments)])


def given_tools(tools, declared=FUNCTIONS):
    return {"tools": declared} if tools else {}


def joined(pieces):
    """What the pieces of a stream say together: each is a text, or of a tool call the place, name and arguments."""
    text, calls = "", {}
    for piece in pieces:
        if isinstance(piece, tuple):
            place, name, arguments = piece
            known = calls.get(place, ("", ""))
            calls[place] = known[0] + (name or ""), known[1] + (arguments or "")
        else:
            text += piece or ""
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def chat_pieces(chunks):
    for delta in (choice.delta for chunk in chunks for choice in chunk.choices):
        yield delta.content
        yield from ((call.index, call.function.name, call.function.arguments) for call in delta.tool_calls or ())


def chat_said(reply, stream):
    if stream:
        return joined(chat_pieces(reply))
    message = reply.choices[0].message
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]
    return message.content or "", calls


def chat(name):
    def speak(url, stream, tools):
        asked = {"model": "m", "messages": USER} | given_tools(tools)
        with CLIENTS[name](url) as client:
            return chat_said(client.chat.completions.create(**asked, **({"stream": True} if stream else {})), stream)

    return speak


def hugging_face(url, stream, tools):
    client = huggingface_hub.InferenceClient(base_url=f"{url}/v1", api_key="any")
    return chat_said(client.chat_completion(USER, model="m", stream=stream, **given_tools(tools)), stream)


def mistral(url, stream, tools):
    asked = {"model": "mistral-x", "messages": USER} | given_tools(tools)
    with CLIENTS["mistral"](url) as client:
        if stream:
            return chat_said((event.data for event in client.chat.stream(**asked)), stream)
        return chat_said(client.chat.complete(**asked), stream)


def google(name):
    def speak(url, stream, tools):
        declared = [{"name": name, "parameters_json_schema": SCHEMA} for name in NAMES]
        asked = {"model": "gemini-x", "contents": QUESTION}
        asked["config"] = given_tools(tools, [{"function_declarations": declared}])
        client = CLIENTS[name](url)  # held: one that is collected is closed
        models = client.models
        many = models.generate_content_stream(**asked) if stream else [models.generate_content(**asked)]
        parts = [part for chunk in many for part in chunk.candidates[0].content.parts or ()]
        calls = [(part.function_call.name, part.function_call.args or {}) for part in parts if part.function_call]
        return "".join(part.text or "" for part in parts), calls

    return speak


def converse(url, stream, tools):
    """Whole replies; tests/plugin/clients has an agent that streams."""
    specs = [{"toolSpec": {"name": name, "inputSchema": {"json": SCHEMA}}} for name in NAMES]
    asked = {"modelId": "eu.anthropic.claude-x-v1:0", "messages": [{"role": "user", "content": [{"text": QUESTION}]}]}
    asked |= {"toolConfig": {"tools": specs}} if tools else {}
    content = CLIENTS["bedrock"](url).converse(**asked)["output"]["message"]["content"]
    uses = [(block["toolUse"]["name"], block["toolUse"]["input"]) for block in content if "toolUse" in block]
    return "".join(block.get("text", "") for block in content), uses


def claude(name):
    """Clients at other places than Anthropic's; tests/demo has its own, whole and streamed."""

    def speak(url, stream, tools):
        asked = {"model": "claude-x", "max_tokens": 9, "messages": USER} | given_tools(tools, PLAIN)
        with CLIENTS[name](url) as client:
            reply = client.messages.create(**asked)
        uses = [(block.name, block.input) for block in reply.content if block.type == "tool_use"]
        return "".join(block.text for block in reply.content if block.type == "text"), uses

    return speak


def ollama_chat(url, stream, tools):
    many = ollama.Client(host=url).chat("llama-x", USER, stream=stream, tools=FUNCTIONS if tools else None)
    messages = [chunk.message for chunk in (many if stream else [many])]
    calls = [(c.function.name, dict(c.function.arguments)) for m in messages for c in m.tool_calls or ()]
    return "".join(m.content or "" for m in messages), calls


def cohere_pieces(events):
    for number, event in enumerate(events):
        message = getattr(getattr(event, "delta", None), "message", None)
        match event.type:
            case "tool-plan-delta":
                yield message.tool_plan
            case "content-delta":
                yield message.content.text
            case "tool-call-start":
                begun = number
                yield begun, message.tool_calls.function.name, ""
            case "tool-call-delta":
                yield begun, "", message.tool_calls.function.arguments


def cohere_chat(url, stream, tools):
    """Streams; tests/plugin/clients has an agent of whole replies."""
    asked = {"model": "command-x", "messages": USER} | given_tools(tools)
    return joined(cohere_pieces(CLIENTS["cohere"](url).chat_stream(**asked)))


SPEAKERS = {
    "openai": (chat("openai"), "openai_chat", "openai", "", "m"),
    "azure": (chat("azure"), "openai_chat", "openai", "", "m"),
    "groq": (chat("groq"), "openai_chat", "openai", "", "m"),
    "hugging face": (hugging_face, "openai_chat", "openai", "", "m"),
    "mistral": (mistral, "openai_chat", "openai", "", "mistral-x"),
    "gemini": (google("gemini"), "gemini", "gcp.gemini", "", "gemini-x"),
    "vertex": (google("vertex"), "gemini", "gcp.vertex_ai", "europe-west4", "gemini-x"),
    "ollama": (ollama_chat, "ollama_chat", "ollama", "", "llama-x"),
    "cohere": (cohere_chat, "cohere", "cohere", "", "command-x"),
    "converse": (converse, "bedrock", "aws.bedrock", "", "eu.anthropic.claude-x-v1:0"),
    "claude on amazon": (claude("claude on amazon"), "anthropic", "aws.bedrock", "", "claude-x"),
    "claude on vertex": (claude("claude on vertex"), "anthropic", "gcp.vertex_ai", "europe-west1", "claude-x"),
}
ONE_FORM = {"cohere": True, "converse": False, "claude on amazon": False, "claude on vertex": False}
FORMS = [(name, stream) for name in SPEAKERS for stream in (False, True) if stream is ONE_FORM.get(name, stream)]


@pytest.mark.parametrize(("name", "stream"), FORMS)
def test_what_a_client_was_told_is_read_and_asked_twice_it_is_the_same_call(name, stream):
    speak, *read_as = SPEAKERS[name]
    with ModelServer() as server:
        (said, none), (other, _) = (speak(server.url, stream, tools=False) for _ in range(2))
        assert (said != other, said.endswith(QUESTION), none) == (True, True, [])
        assert speak(server.url, stream, tools=True) == ("", [("lookup_order", {"order": "A-1001"})])
    with Overheard([BOTH, BOTH]) as server:
        (text, calls), _ = (speak(server.url, stream, tools=True) for _ in range(2))
    assert (text, calls) == (BOTH.text, [(ask.name, ask.arguments) for ask in BOTH.asks])
    (call, reply), (again, _) = server.exchanges
    assert MATCHING.key(call, ClientIds()) == MATCHING.key(again, ClientIds())
    asked, read = READER.read_call(call), READER.read_reply(call, reply)
    assert [asked.dialect, asked.provider, asked.region, asked.model] == read_as
    assert (asked.kind, asked.stream, asked.name, len(asked.tools)) == ("model", stream, asked.model, 2)
    assert [show_message(message) for message in asked.messages] == [f"user: {QUESTION}"]
    assert (read.text, [(use.name, parse_text(use.arguments)) for use in read.tool_uses]) == (text, calls)
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
    with CLIENTS["openai"](url) as client:
        return [one.embedding for one in client.embeddings.create(model="m", input=["a", "b"]).data]


def gemini_vectors(url):
    client = CLIENTS["gemini"](url)
    made = client.models.embed_content(model="gemini-embedding-001", contents=["a", "b"])
    return [one.values for one in made.embeddings]


def vertex_vectors(url):
    client = CLIENTS["vertex"](url)
    made = [client.models.embed_content(model="text-embedding-005", contents=text) for text in "ab"]
    return [one.embeddings[0].values for one in made]


def cohere_vectors(url):
    asked = {"texts": ["a", "b"], "input_type": "search_document", "embedding_types": ["float"]}
    found = CLIENTS["cohere"](url).embed(model="m", **asked).embeddings
    return found.float_ if hasattr(found, "float_") else found.float


def cohere_ranks(url):
    made = CLIENTS["cohere"](url).rerank(model="m", query="q", documents=["a", "b"])
    return [one.relevance_score for one in made.results]


VECTORS = {
    "openai": openai_vectors,
    "gemini": gemini_vectors,
    "vertex": vertex_vectors,
    "ollama": lambda url: ollama.Client(host=url).embed("m", ["a", "b"]).embeddings,
    "cohere": cohere_vectors,
    "cohere's ranks": cohere_ranks,
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_and_ranks_never_come_twice(name):
    speak, kind = VECTORS[name], "rerank" if name == "cohere's ranks" else "embeddings"
    with Overheard() as server:
        first, second = speak(server.url), speak(server.url)
    assert len(first) == len(second) == 2
    assert first != second
    call, reply = server.exchanges[0]
    asked, read = READER.read_call(call), READER.read_reply(call, reply)
    assert (asked.kind, asked.operation, label(call, READER)) == (kind, kind, f"{kind} {asked.model}")
    assert "a" in " ".join(show_message(message) for message in asked.messages)
    assert asked.dialect != "generic"
    assert "(0." in read.text or "vector" in read.text
