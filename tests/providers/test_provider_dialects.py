"""What is particular in the words of Gemini, Bedrock, Ollama, Cohere, Mistral and vectors."""

from __future__ import annotations

import json
import struct

import pytest

from pytest_agentreplay.compare.kit_fields import make_kit
from pytest_agentreplay.model.exchanges import Exchange, Header, Run
from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.model.turns import label, turns
from pytest_agentreplay.providers import READER, encode
from pytest_agentreplay.providers.lenient import parse_text
from pytest_agentreplay.providers.streams import write_frame
from pytest_agentreplay.snapshots import codec
from tests.support.exchanges import FRAMES_TYPE, JSON_TYPE, NDJSON_TYPE, SSE_TYPE, call, reply, sse
from tests.support.model_script import Ask, Say, write_answer
from tests.traces.neutral import asks, gives, text

GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent"
VERTEX = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers/google/models"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.anthropic.claude-5%3A0"
OLLAMA = "http://127.0.0.1:11434/api"
COHERE = "https://api.cohere.com/v2"
OPENAI = "https://api.openai.com/v1"

USER = {"role": "user", "parts": [{"text": "hi"}]}


def read(url, body, answered, headers=JSON_TYPE, status=200):
    return READER.read_reply(call(body, url), reply(answered, headers, status))


def run_of(*calls):
    return Run(Header("t"), tuple(Exchange(one, reply({}), at * 2, at * 2 + 1) for at, one in enumerate(calls)))


# ---- who, and where


CHAT, TALK, LIMITED = {"messages": []}, {"model": "m", "messages": []}, {"messages": [], "max_tokens": 1}
EMBED, DOCUMENTS = {"model": "e", "input": "x"}, {"model": "r", "query": "q", "documents": ["a"]}
WHO = [
    (f"{OPENAI}/chat/completions", TALK, "openai_chat openai - m"),
    ("https://eu.api.openai.com/v1/chat/completions", TALK, "openai_chat openai eu m"),
    ("https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", CHAT, "openai_chat azure.ai.openai - d"),
    ("https://x.services.ai.azure.com/models/chat/completions", TALK, "openai_chat azure.ai.inference - m"),
    ("https://api.groq.com/openai/v1/chat/completions", TALK, "openai_chat groq - m"),
    ("https://router.huggingface.co/v1/chat/completions", TALK, "openai_chat huggingface - m"),
    ("https://api.mistral.ai/v1/agents/completions", CHAT | {"agent_id": "ag-1"}, "openai_chat mistral_ai - ag-1"),
    ("http://127.0.0.1:3/proxy/chat/completions/", TALK, "openai_chat openai - m"),
    (f"{OPENAI}/chat/completions", {"prompt": "x"}, "generic - - -"),
    (f"{OPENAI}/chat/completions", [TALK], "generic - - -"),
    (f"{OPENAI}/completions", TALK, "generic - - -"),
    (f"{OPENAI}/responses", {"model": "m", "input": []}, "openai_responses openai - m"),
    (f"{OPENAI}/responses", {"prompt": {"id": "p"}}, "openai_responses openai - -"),
    (f"{OPENAI}/responses/compact", {"model": "m", "input": []}, "generic - - -"),
    ("https://forms.example/responses", {"answers": [1]}, "generic - - -"),
    ("https://gateway.corp/anthropic/v1/messages", LIMITED, "anthropic anthropic - -"),
    ("https://api.deepseek.com/anthropic/v1/messages", LIMITED, "anthropic deepseek - -"),
    (f"{BEDROCK}/invoke", LIMITED, "anthropic aws.bedrock eu-west-1 eu.anthropic.claude-5:0"),
    (f"{BEDROCK}/invoke-with-response-stream", LIMITED, "anthropic aws.bedrock eu-west-1 eu.anthropic.claude-5:0"),
    (f"{VERTEX}/claude-5:rawPredict", LIMITED, "anthropic gcp.vertex_ai europe-west4 claude-5"),
    (f"{VERTEX}/claude-5:streamRawPredict", LIMITED, "anthropic gcp.vertex_ai europe-west4 claude-5"),
    (f"{OPENAI}/threads/t/messages", {"role": "user", "content": "x"}, "generic - - -"),
    ("https://api.anthropic.com/v1/messages/count_tokens", LIMITED, "generic - - -"),
    ("https://api.anthropic.com/v1/messages", CHAT, "generic - - -"),
    (GEMINI, {"contents": []}, "gemini gcp.gemini - gemini-3"),
    (f"{VERTEX}/gemini-3:streamGenerateContent", {"contents": []}, "gemini gcp.vertex_ai europe-west4 gemini-3"),
    ("http://127.0.0.1/v1/projects/p/locations/us-east1/endpoints/7:generateContent", {"contents": []}, "gemini gcp.vertex_ai us-east1 7"),
    (f"{BEDROCK}/converse", CHAT, "bedrock aws.bedrock eu-west-1 eu.anthropic.claude-5:0"),
    (f"{BEDROCK}/converse-stream", {}, "bedrock aws.bedrock eu-west-1 eu.anthropic.claude-5:0"),
    ("https://bedrock-runtime-fips.us-gov-west-1.api.aws/model/m/converse", CHAT, "bedrock aws.bedrock us-gov-west-1 m"),
    (f"{OLLAMA}/chat", TALK, "ollama_chat ollama - m"),
    ("https://ollama.com/api/generate", {"model": "qwen", "prompt": "x"}, "ollama_generate ollama - qwen"),
    (f"{OLLAMA}/generate", {"model": "qwen"}, "generic - - -"),
    (f"{COHERE}/chat", TALK, "cohere cohere - m"),
    (f"{OPENAI}/embeddings", EMBED, "openai_embeddings openai - e"),
    ("https://api.voyageai.com/v1/embeddings", EMBED | {"input": ["x"]}, "openai_embeddings voyage_ai - e"),
    ("https://x.openai.azure.com/openai/deployments/d/embeddings?api-version=1", {"input": "x"}, "openai_embeddings azure.ai.openai - d"),
    (GEMINI.replace("generate", "embed"), {"content": USER}, "gemini_embeddings gcp.gemini - gemini-3"),
    (GEMINI.replace("generateContent", "batchEmbedContents"), {"requests": [{"content": USER}]}, "gemini_embeddings gcp.gemini - gemini-3"),
    (f"{VERTEX}/text-embedding-5:predict", {"instances": [{"content": "x"}]}, "vertex_embeddings gcp.vertex_ai europe-west4 text-embedding-5"),
    (f"{VERTEX}/imagen-4:predict", {"instances": [{"prompt": "a cat"}]}, "generic - - -"),
    (f"{OLLAMA}/embeddings", {"model": "e", "prompt": "x"}, "ollama_embeddings ollama - e"),
    (f"{COHERE}/embed", {"model": "e", "texts": ["x"]}, "cohere_embeddings cohere - e"),
    (f"{COHERE}/rerank", DOCUMENTS, "rerank cohere - r"),
    ("https://api.jina.ai/v1/rerank", DOCUMENTS | {"documents": [{"text": "a"}]}, "rerank jina_ai - r"),
    ("https://x.test/rerank", {"documents": ["a"]}, "generic - - -"),
]  # fmt: skip
"""Where a call goes and what it holds; dialect, provider, region and model that are read of it."""


def test_dialect_provider_region_and_model():
    wrong = []
    for url, body, expected in WHO:
        reading = READER.read_call(call(body, url))
        told = (reading.dialect, *(("", "") if reading.dialect == "generic" else (reading.provider, reading.region)))
        found = " ".join(one or "-" for one in (*told, reading.model))
        wrong += [(url, found)] if found != expected else []
        wrong += [(url, reading.kind)] if (reading.kind == "http") is not (reading.dialect == "generic") else []
        got = READER.read_call(call(body, url, method="GET"))
        wrong += [(url, "only a POST is a model call")] if got.kind != "http" else []
    assert not wrong, wrong


# ---- Gemini


CHUNKS = [
    {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}], "role": "model"}}], "responseId": "r-1"},
    {"candidates": [{"content": {"parts": [{"text": "Let me "}]}, "index": 0}]},
    {"candidates": [{"content": {"parts": [{"text": "see"}, {"functionCall": {"id": "f-1", "name": "look", "args": {}}}]}}]},
    {
        "candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}],
        "modelVersion": "gemini-3-001",
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4},
    },
]  # fmt: skip


def test_a_gemini_stream():
    for framed in ((sse(*CHUNKS), SSE_TYPE), (json.dumps(CHUNKS).encode(), JSON_TYPE)):
        found = read(GEMINI.replace(":generate", ":streamGenerate"), {"contents": []}, *framed)
        assert (found.text, found.tool_uses) == ("Let me see", (ToolUse("f-1", "look", {}),))
        assert (found.finish_reasons, found.model, found.ids) == (("STOP",), "gemini-3-001", ("r-1", "f-1"))
        usage = {"input_tokens": 9, "output_tokens": 5, "cache_read.input_tokens": 4, "reasoning.output_tokens": 2}
        assert found.usage == usage


def test_what_google_blocks_and_what_fails_is_told():
    blocked = read(GEMINI, {"contents": []}, {"promptFeedback": {"blockReason": "SAFETY"}})
    assert blocked.finish_reasons == ("SAFETY",)
    busy = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    throttled = frames(("throttlingException", {"message": "slow down"}))
    converse, invoke = f"{BEDROCK}/converse-stream", f"{BEDROCK}/invoke-with-response-stream"
    assert read(GEMINI, {"contents": []}, busy, status=429).error == "429 RESOURCE_EXHAUSTED: slow down"
    assert read(converse, {}, throttled, FRAMES_TYPE).error == "throttlingException: slow down"
    assert READER.read_call(call(LIMITED, invoke)).stream
    assert read(invoke, LIMITED, throttled + frames(("chunk", {"bytes": "%"})), FRAMES_TYPE).error
    assert read(f"{BEDROCK}/converse", {}, {"message": "no such model"}, status=400).error == "400 no such model"
    assert read(f"{OLLAMA}/chat", TALK, {"error": "no such model"}, status=404).error == "404 no such model"


# ---- Bedrock


def frames(*events):
    return b"".join(write_frame(kind, payload) for kind, payload in events)


def delta(index, **held):
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": held}


CONVERSED = frames(
    ("messageStart", {"role": "assistant"}),
    *(delta(0, reasoningContent={"text": "hm"}), delta(0, reasoningContent={"redacted": 7})),
    *(delta(1, text="Let me "), delta(1, text="see")),
    ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t-1", "name": "look"}}}),
    *(delta(2, toolUse={"input": '{"q"'}), delta(2, toolUse={"input": ":1}"})),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": {"inputTokens": 5, "cacheReadInputTokens": 4, "outputTokens": 2}}),
)


def test_a_converse_stream_is_read_as_far_as_it_came():
    found = read(f"{BEDROCK}/converse-stream", CHAT, CONVERSED, FRAMES_TYPE)
    assert (found.text, found.tool_uses, found.ids) == ("Let me see", (ToolUse("t-1", "look", {"q": 1}),), ("t-1",))
    assert found.finish_reasons == ("tool_use",)
    assert found.usage == {"input_tokens": 9, "output_tokens": 2, "cache_read.input_tokens": 4}
    for end in range(len(CONVERSED)):
        found = read(f"{BEDROCK}/converse-stream", CHAT, CONVERSED[:end], FRAMES_TYPE)
        assert "Let me see".startswith(found.text)


def test_headers_of_a_frame_are_texts_and_what_is_broken_is_passed_over():
    def one(headers, payload=b'{"stopReason":"end_turn"}'):
        size = 16 + len(headers) + len(payload)
        return struct.pack(">III", size, len(headers), 0) + headers + payload + b"\0\0\0\0"

    name = b"\x0b:event-type\x07\x00\x0bmessageStop"
    kind = b"\x0d:message-type\x07\x00\x05event"
    url = f"{BEDROCK}/converse-stream"
    found = read(url, {}, one(kind + name), FRAMES_TYPE)
    assert found.finish_reasons == ("end_turn",)
    for broken in (b"", b"\x01", b"\x01a\x63", b"\x01a\x07\x00"):
        assert read(url, {}, one(broken), FRAMES_TYPE).finish_reasons == ()
    for size in (0, 5, 2**31):
        assert read(url, {}, struct.pack(">III", size, 0, 0) + bytes(20), FRAMES_TYPE).text == ""


# ---- Ollama, Cohere, Mistral


def test_ollama():
    body = {"model": "m", "messages": [{"role": "system", "content": "be kind"}]}
    use = {"function": {"name": "look", "arguments": {"q": 1}}}
    end = {"done": True, "done_reason": "stop", "eval_count": 2, "model": "m"}
    lines = [
        {"message": {"role": "assistant", "content": "Let ", "thinking": "hm"}},
        {"message": {"content": "me", "tool_calls": [use]}},
        {"message": {"tool_calls": [use], "odd": 1}, **end},
    ]
    found = read(f"{OLLAMA}/chat", body, b"\n".join(json.dumps(line).encode() for line in lines), NDJSON_TYPE)
    assert (found.text, found.tool_uses) == ("Let me", (ToolUse("", "look", {"q": 1}),) * 2)
    assert (found.finish_reasons, found.usage, found.model) == (("stop",), {"output_tokens": 2}, "m")


def test_cohere_counts_and_plans():
    usage = {"billed_units": {"input_tokens": 3.0, "output_tokens": 1.5}, "cached_tokens": 1}
    message = {"tool_plan": "I look", "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}]}
    found = read(f"{COHERE}/chat", {"messages": []}, {"id": "i", "message": message, "usage": usage})
    assert (found.text, found.ids) == ("I look", ("i", "c"))
    assert found.usage == {"input_tokens": 3, "cache_read.input_tokens": 1}


def test_the_parts_that_a_thinking_mistral_streams():
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    for contents in ([thought, [{"type": "text", "text": "Let "}], "me"], ["Let ", [{"type": "text", "text": "me"}]]):
        stream = sse(*({"choices": [{"index": 0, "delta": {"content": content}}]} for content in contents))
        assert read("https://api.mistral.ai/v1/chat/completions", {"messages": []}, stream, SSE_TYPE).text == "Let me"


STREAMS = {
    "gemini": ("/v1/models/g:streamGenerateContent", {"contents": []}),
    "bedrock": ("/model/m/converse-stream", {"messages": []}),
    "claude": ("/model/m/invoke-with-response-stream", {"messages": [], "max_tokens": 1}),
    "ollama": ("/api/chat", {"model": "m", "messages": []}),
    "cohere": ("/v2/chat", {"model": "m", "messages": [], "stream": True}),
    "chat": ("/v1/chat/completions", {"model": "m", "messages": [], "stream": True}),
    "responses": ("/v1/responses", {"model": "m", "input": "hi", "stream": True}),
    "messages": ("/v1/messages", {"model": "m", "messages": [], "max_tokens": 1, "stream": True}),
}


@pytest.mark.parametrize(
    "says", [Say("Let me see, é"), Say("I look.", (Ask("look", {"q": 1}), Ask("now")))], ids=["text", "calls"]
)
@pytest.mark.parametrize(("path", "body"), STREAMS.values(), ids=STREAMS)
def test_a_stream_reads_as_what_was_said(path, body, says):
    kind, chunks = write_answer(path, body, says)
    found = read(f"http://127.0.0.1{path}", body, b"".join(chunks), (("content-type", kind),))
    assert found.text == says.text
    uses = [(use.name, parse_text(use.arguments)) for use in found.tool_uses]
    assert uses == [(ask.name, ask.arguments) for ask in says.asks]
    assert found.finish_reasons


# ---- vectors and ranks: look-ups, no turns


VECTORS = [
    (f"{OPENAI}/embeddings", EMBED, {"data": [{"embedding": [1, 2]}], "usage": {"prompt_tokens": 3}}, "1 vector of 2 numbers", 3),
    (f"{OPENAI}/embeddings", EMBED, {"data": [{"embedding": "AAAA"}] * 2, "usage": {"total_tokens": 3}}, "2 vectors", 3),
    (GEMINI.replace("generate", "embed"), {"content": USER}, {"embedding": {"values": [1]}}, "1 vector of 1 numbers", None),
    (f"{VERTEX}/e:predict", {"instances": [{"content": "x"}]}, {"predictions": [{"embeddings": {"values": [1]}}]}, "1 vector of 1 numbers", None),
    (f"{COHERE}/embed", {"texts": ["x"]}, {"embeddings": {"float": [[1]]}, "meta": {"billed_units": {"input_tokens": 4}}}, "1 vector of 1 numbers", 4),
    (f"{OLLAMA}/embed", EMBED, {"embeddings": [[1]], "prompt_eval_count": 5}, "1 vector of 1 numbers", 5),
    (f"{OLLAMA}/embed", EMBED, {}, "", None),
    (f"{COHERE}/rerank", DOCUMENTS, {"results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.1}]}, "1 (0.5), 0 (0.1)", None),
    ("https://api.voyageai.com/v1/rerank", DOCUMENTS, {"data": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 9}}, "0 (0.5)", 9),
]  # fmt: skip


def test_vectors_and_ranks():
    found = [read(url, body, answered) for url, body, answered, *_ in VECTORS]
    told = [(one.text, one.usage.get("input_tokens")) for one in found]
    assert told == [(said, tokens) for *_, said, tokens in VECTORS]


def test_no_turn_begins_with_an_embedding_or_ranks():
    embedding, ranks = call(EMBED, f"{OPENAI}/embeddings"), call(DOCUMENTS, f"{COHERE}/rerank")
    asked = [embedding, ranks, call(TALK, f"{OPENAI}/chat/completions"), embedding, call({"contents": [USER]}, GEMINI)]
    assert [(turn.number, len(turn.exchanges)) for turn in turns(run_of(*asked), READER)] == [(0, 2), (1, 2), (2, 1)]
    labels = ["embeddings e", "rerank r", "model m", "embeddings e", "model gemini-3"]
    assert [label(one, READER) for one in asked] == labels


def test_what_the_kit_says_of_grouped_parameters_and_look_ups():
    asked = [
        call({"model": "e", "input": "q"}, f"{OPENAI}/embeddings"),
        call({"contents": [USER], "generationConfig": {"seed": 7, "topK": None}, "labels": {"a": 1}}, GEMINI),
        call({"model": "m", "messages": [], "options": {"temperature": 0.5}, "think": False}, f"{OLLAMA}/chat"),
        call({"messages": [], "inferenceConfig": []}, f"{BEDROCK}/converse"),
    ]
    assert [READER.read_call(one).knobs for one in asked[1:]] == [
        {"generationConfig.seed": 7},
        {"options.temperature": 0.5, "think": False},
        {},
    ]
    told = {field.name: field.value for field in make_kit(run_of(*asked), READER).fields}
    assert (told["sampling seed"], told["retrievals"]) == ("7", "1 call")


# ---- a conversation costs what it adds


@pytest.mark.parametrize("dialect", ["gemini", "bedrock"])
def test_fifty_turns_cost_what_they_add(dialect):
    def size(count):
        said, calls = [text("system", "s" * 400), text("user", "Read the book.")], []
        for number in range(count):
            calls.append(encode.request(dialect, model="m", messages=said))
            use = (f"t-{number:04}", "look", {"page": number})
            said += [asks(use, words=f"Page {number} " * 20), gives((use[0], f"page {number} " + "words " * 60))]
        run = run_of(*calls)
        stored = codec.dumps(run)
        assert codec.loads(stored.encode(), file="t").run.exchanges == run.exchanges
        return len(stored)

    fifty = size(50)
    assert fifty < 5.2 * size(10)
    assert fifty < 50 * 2_500
