"""What is particular in the words of Gemini, Bedrock, Ollama, Cohere, Mistral, vectors and MCP."""

from __future__ import annotations

import base64
import hashlib
import json
import struct

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.core.kit import kit_of
from pytest_agentreplay.core.matching import ClientIds, Matching
from pytest_agentreplay.core.model import Exchange, Header, Run
from pytest_agentreplay.core.reading import ToolUse
from pytest_agentreplay.core.turns import label, turns
from pytest_agentreplay.demo.replies import bedrock, spoken
from pytest_agentreplay.demo.script import Ask, Say
from pytest_agentreplay.dialects import READER, RULES, genai, mcp
from tests.support.exchanges import FRAMES_TYPE, JSON_TYPE, NDJSON_TYPE, SSE_TYPE, call, reply, sse

GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent"
VERTEX = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers/google/models"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.anthropic.claude-5%3A0"
OLLAMA = "http://127.0.0.1:11434/api"
COHERE = "https://api.cohere.com/v2"
OPENAI = "https://api.openai.com/v1"

USER = {"role": "user", "parts": [{"text": "hi"}]}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(30)).decode()


def read(url, body, answered, headers=JSON_TYPE, status=200):
    return READER.read_reply(call(body, url), reply(answered, headers, status))


def run_of(*calls):
    return Run(Header("t"), tuple(Exchange(one, reply({}), at * 2, at * 2 + 1) for at, one in enumerate(calls)))


# ---- who, and where


@pytest.mark.parametrize(
    ("url", "body", "expected"),
    [
        (GEMINI, {"contents": []}, ("gemini", "gcp.gemini", "", "gemini-3")),
        (f"{VERTEX}/gemini-3:streamGenerateContent", {"contents": []}, ("gemini", "gcp.vertex_ai", "europe-west4", "gemini-3")),
        ("http://127.0.0.1/v1/projects/p/locations/us-east1/endpoints/7:generateContent", {"contents": []}, ("gemini", "gcp.vertex_ai", "us-east1", "7")),
        (f"{BEDROCK}/converse", {"messages": []}, ("bedrock", "aws.bedrock", "eu-west-1", "eu.anthropic.claude-5:0")),
        (f"{BEDROCK}/converse-stream", {}, ("bedrock", "aws.bedrock", "eu-west-1", "eu.anthropic.claude-5:0")),
        (f"{BEDROCK}/invoke", {"messages": [], "max_tokens": 1}, ("anthropic", "aws.bedrock", "eu-west-1", "eu.anthropic.claude-5:0")),
        (f"{VERTEX}/claude-5:rawPredict", {"messages": [], "max_tokens": 1}, ("anthropic", "gcp.vertex_ai", "europe-west4", "claude-5")),
        ("https://bedrock-runtime-fips.us-gov-west-1.api.aws/model/m/converse", {"messages": []}, ("bedrock", "aws.bedrock", "us-gov-west-1", "m")),
        (f"{OLLAMA}/chat", {"model": "qwen", "messages": []}, ("ollama_chat", "ollama", "", "qwen")),
        ("https://ollama.com/api/generate", {"model": "qwen", "prompt": "x"}, ("ollama_generate", "ollama", "", "qwen")),
        (f"{OLLAMA}/generate", {"model": "qwen"}, ("generic", "", "", "")),
        (f"{COHERE}/chat", {"model": "command", "messages": []}, ("cohere", "cohere", "", "command")),
        ("https://api.mistral.ai/v1/agents/completions", {"agent_id": "ag-1", "messages": []}, ("openai_chat", "mistral_ai", "", "ag-1")),
        ("https://eu.api.openai.com/v1/chat/completions", {"model": "m", "messages": []}, ("openai_chat", "openai", "eu", "m")),
        ("https://router.huggingface.co/v1/chat/completions", {"model": "m", "messages": []}, ("openai_chat", "huggingface", "", "m")),
        ("https://x.services.ai.azure.com/models/chat/completions", {"model": "m", "messages": []}, ("openai_chat", "azure.ai.inference", "", "m")),
        (f"{OPENAI}/embeddings", {"model": "e", "input": "x"}, ("openai_embeddings", "openai", "", "e")),
        ("https://api.voyageai.com/v1/embeddings", {"model": "e", "input": ["x"]}, ("openai_embeddings", "voyage_ai", "", "e")),
        ("https://x.openai.azure.com/openai/deployments/d/embeddings?api-version=1", {"input": "x"}, ("openai_embeddings", "azure.ai.openai", "", "d")),
        (GEMINI.replace("generate", "embed"), {"content": USER}, ("gemini_embeddings", "gcp.gemini", "", "gemini-3")),
        (GEMINI.replace("generateContent", "batchEmbedContents"), {"requests": [{"content": USER}]}, ("gemini_embeddings", "gcp.gemini", "", "gemini-3")),
        (f"{VERTEX}/text-embedding-5:predict", {"instances": [{"content": "x"}]}, ("vertex_embeddings", "gcp.vertex_ai", "europe-west4", "text-embedding-5")),
        (f"{VERTEX}/imagen-4:predict", {"instances": [{"prompt": "a cat"}]}, ("generic", "", "", "")),
        (f"{OLLAMA}/embeddings", {"model": "e", "prompt": "x"}, ("ollama_embeddings", "ollama", "", "e")),
        (f"{COHERE}/embed", {"model": "e", "texts": ["x"]}, ("cohere_embeddings", "cohere", "", "e")),
        (f"{COHERE}/rerank", {"model": "r", "query": "q", "documents": ["a"]}, ("rerank", "cohere", "", "r")),
        ("https://api.jina.ai/v1/rerank", {"model": "r", "query": "q", "documents": [{"text": "a"}]}, ("rerank", "jina_ai", "", "r")),
        ("https://x.test/rerank", {"documents": ["a"]}, ("generic", "", "", "")),
    ],
)  # fmt: skip
def test_dialect_provider_region_and_model(url, body, expected):
    reading = READER.read_call(call(body, url))
    assert (reading.dialect, reading.provider, reading.region, reading.model) == expected


# ---- Gemini


def test_a_gemini_call():
    system = {"systemInstruction": {"parts": [{"text": "be kind"}]}, "generationConfig": {"temperature": 0.2}}
    body = {"contents": [USER], "tools": [{"functionDeclarations": [{"name": "look"}, {"name": "book"}]}]} | system
    reading = READER.read_call(call(body, GEMINI))
    assert (reading.operation, reading.stream) == ("generate_content", False)
    assert (reading.system, reading.system_at) == (("be kind",), "$.systemInstruction")
    assert (reading.messages, reading.messages_at) == ((USER,), "$.contents")
    assert reading.tools == ({"name": "look"}, {"name": "book"})
    assert reading.tools_at == "$.tools[0].functionDeclarations"
    assert reading.parameters == {"generationConfig": {"temperature": 0.2}}
    tools = [{"function_declarations": [{"name": "look"}]}, {"google_search": {}}]
    by_hand = {"contents": [], "system_instruction": "be kind", "tools": tools}
    reading = READER.read_call(call(by_hand, GEMINI.replace(":generate", ":streamGenerate")))
    assert (reading.system, reading.system_at, reading.stream) == (("be kind",), "$.system_instruction", True)
    assert (reading.tools, reading.tools_at) == (tuple(tools), "$.tools")


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


@pytest.mark.parametrize("framed", [(sse(*CHUNKS), SSE_TYPE), (json.dumps(CHUNKS).encode(), JSON_TYPE)])
def test_a_gemini_stream(framed):
    found = read(GEMINI.replace(":generate", ":streamGenerate"), {"contents": []}, *framed)
    assert (found.text, found.tool_uses) == ("Let me see", (ToolUse("f-1", "look", {}),))
    assert (found.finish_reasons, found.model, found.ids) == (("STOP",), "gemini-3-001", ("r-1", "f-1"))
    usage = {"input_tokens": 9, "output_tokens": 5, "cache_read.input_tokens": 4, "reasoning.output_tokens": 2}
    assert found.usage == usage


def test_gemini_blocks_and_fails():
    blocked = read(GEMINI, {"contents": []}, {"promptFeedback": {"blockReason": "SAFETY"}})
    assert blocked.finish_reasons == ("SAFETY",)
    busy = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    assert read(GEMINI, {"contents": []}, busy, status=429).error == "429 RESOURCE_EXHAUSTED: slow down"


# ---- Bedrock


def test_a_converse_call():
    system = [{"text": "be kind"}, {"cachePoint": {"type": "default"}}]
    choice = {"toolChoice": {"auto": {}}}
    body = {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "system": system}
    body |= {"inferenceConfig": {"maxTokens": 9}, "toolConfig": {"tools": [{"toolSpec": {"name": "look"}}], **choice}}
    reading = READER.read_call(call(body, f"{BEDROCK}/converse"))
    assert (reading.system, reading.system_at) == (tuple(system), "$.system")
    assert (reading.tools, reading.tools_at) == (({"toolSpec": {"name": "look"}},), "$.toolConfig.tools")
    assert reading.parameters == {"inferenceConfig": {"maxTokens": 9}, "toolConfig": choice}
    bare = READER.read_call(call({"promptVariables": {}}, f"{BEDROCK}/converse-stream"))
    assert (bare.messages_at, bare.system_at, bare.tools_at, bare.stream) == ("", "", "", True)


def frames(*events):
    return b"".join(bedrock.frame(kind, payload) for kind, payload in events)


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


def test_a_converse_stream():
    found = read(f"{BEDROCK}/converse-stream", {"messages": []}, CONVERSED, FRAMES_TYPE)
    assert (found.text, found.tool_uses, found.ids) == ("Let me see", (ToolUse("t-1", "look", {"q": 1}),), ("t-1",))
    assert found.finish_reasons == ("tool_use",)
    assert found.usage == {"input_tokens": 9, "output_tokens": 2, "cache_read.input_tokens": 4}


def test_a_converse_stream_that_broke_off_is_read_as_far_as_it_came():
    for end in range(len(CONVERSED)):
        found = read(f"{BEDROCK}/converse-stream", {"messages": []}, CONVERSED[:end], FRAMES_TYPE)
        assert "Let me see".startswith(found.text)


def test_frames_of_every_kind_of_header_and_of_none():
    def one(headers, payload=b'{"stopReason":"end_turn"}'):
        size = 16 + len(headers) + len(payload)
        return struct.pack(">III", size, len(headers), 0) + headers + payload + b"\0\0\0\0"

    name = b"\x0b:event-type\x07\x00\x0bmessageStop"
    flag, number, data = b"\x01a\x00", b"\x01b\x05" + bytes(8), b"\x01c\x06\x00\x02xy"
    url = f"{BEDROCK}/converse-stream"
    found = read(url, {}, one(flag + number + data + name), FRAMES_TYPE)
    assert found.finish_reasons == ("end_turn",)
    for broken in (b"", b"\x01", b"\x01a\x63", b"\x01a\x07\x00"):
        assert read(url, {}, one(broken), FRAMES_TYPE).finish_reasons == ()
    for size in (0, 5, 2**31):
        assert read(url, {}, struct.pack(">III", size, 0, 0) + bytes(20), FRAMES_TYPE).text == ""


def test_an_exception_in_a_stream_is_its_error():
    throttled = frames(("throttlingException", {"message": "slow down"}))
    assert read(f"{BEDROCK}/converse-stream", {}, throttled, FRAMES_TYPE).error == "throttlingException: slow down"
    asked = {"messages": [], "max_tokens": 1}
    url = f"{BEDROCK}/invoke-with-response-stream"
    assert READER.read_call(call(asked, url)).stream
    assert read(url, asked, throttled + frames(("chunk", {"bytes": "%"})), FRAMES_TYPE).error
    assert read(f"{BEDROCK}/converse", {}, {"message": "no such model"}, status=400).error == "400 no such model"


# ---- Ollama, Cohere, Mistral


def test_ollama():
    body = {"model": "m", "messages": [{"role": "system", "content": "be kind"}]}
    knobs = {"options": {"seed": 1}, "stream": False}
    reading = READER.read_call(call(body | knobs, f"{OLLAMA}/chat"))
    assert (reading.system, reading.stream, reading.parameters) == (("be kind",), False, knobs)
    prompt = READER.read_call(call({"model": "m", "prompt": "x", "system": "be kind"}, f"{OLLAMA}/generate"))
    assert (prompt.system, prompt.system_at, prompt.messages_at) == (("be kind",), "$.system", "$.prompt")
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
    assert read(f"{OLLAMA}/chat", body, {"error": "no such model"}, status=404).error == "404 no such model"


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
}


@pytest.mark.parametrize(
    "says", [Say("Let me see, é"), Say("I look.", (Ask("look", {"q": 1}), Ask("now")))], ids=["text", "calls"]
)
@pytest.mark.parametrize(("path", "body"), STREAMS.values(), ids=STREAMS)
def test_a_stream_reads_as_what_was_said(path, body, says):
    api, known = spoken(path, body)
    stream = b"".join(api.stream(known, says))
    found = read(f"http://127.0.0.1{path}", body, stream, (("content-type", api.type),))
    assert found.text == says.text
    uses = [(use.name, genai.parsed(use.arguments)) for use in found.tool_uses]
    assert uses == [(ask.name, ask.arguments) for ask in says.asks]
    assert found.finish_reasons


# ---- vectors and ranks: look-ups, no turns


@pytest.mark.parametrize(
    ("url", "body", "answered", "text", "tokens"),
    [
        (f"{OPENAI}/embeddings", {"input": "x"}, {"data": [{"embedding": [1, 2]}], "usage": {"prompt_tokens": 3}}, "1 vector of 2 numbers", 3),
        (f"{OPENAI}/embeddings", {"input": "x"}, {"data": [{"embedding": "AAAA"}] * 2, "usage": {"total_tokens": 3}}, "2 vectors", 3),
        (GEMINI.replace("generate", "embed"), {"content": USER}, {"embedding": {"values": [1]}}, "1 vector of 1 numbers", None),
        (f"{VERTEX}/e:predict", {"instances": [{"content": "x"}]}, {"predictions": [{"embeddings": {"values": [1]}}]}, "1 vector of 1 numbers", None),
        (f"{COHERE}/embed", {"texts": ["x"]}, {"embeddings": {"float": [[1]]}, "meta": {"billed_units": {"input_tokens": 4}}}, "1 vector of 1 numbers", 4),
        (f"{OLLAMA}/embed", {"input": "x"}, {"embeddings": [[1]], "prompt_eval_count": 5}, "1 vector of 1 numbers", 5),
        (f"{OLLAMA}/embed", {"input": "x"}, {}, "", None),
        (f"{COHERE}/rerank", {"query": "q", "documents": ["a", "b"]}, {"results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.1}]}, "1 (0.5), 0 (0.1)", None),
        ("https://api.voyageai.com/v1/rerank", {"query": "q", "documents": ["a"]}, {"data": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 9}}, "0 (0.5)", 9),
    ],
)  # fmt: skip
def test_vectors_and_ranks(url, body, answered, text, tokens):
    found = read(url, body, answered)
    assert (found.text, found.usage.get("input_tokens")) == (text, tokens)


def test_no_turn_begins_with_an_embedding_or_ranks():
    asked = [
        call({"model": "e", "input": "q"}, f"{OPENAI}/embeddings"),
        call({"model": "r", "query": "q", "documents": ["a"]}, f"{COHERE}/rerank"),
        call({"model": "m", "messages": []}, f"{OPENAI}/chat/completions"),
        call({"model": "e", "input": "more"}, f"{OPENAI}/embeddings"),
        call({"contents": [USER]}, GEMINI),
    ]
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
    told = {field.name: field.value for field in kit_of(run_of(*asked), READER).fields}
    assert (told["sampling seed"], told["retrievals"]) == ("7", "1 call")


# ---- messages for people


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "a"}]}, "assistant: (thinks: hm) a"),
        ({"parts": [{"text": "hi"}]}, "user: hi"),
        ({"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": 1}}}]}, 'assistant calls look({"q":1})'),
        ({"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}]}, 'tool result look: {"a":1}'),
        ({"role": "user", "parts": [{"function_response": {"id": "f", "name": "look", "response": {}}}]}, "tool result f: {}"),
        ({"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}, {"text": "?"}]}, "user: <image/png 38 B sha256:MARK> ?"),
        ({"role": "user", "parts": [{"fileData": {"fileUri": "gs://b/x.pdf"}}]}, "user: [file gs://b/x.pdf]"),
        ({"role": "assistant", "content": [{"text": "a"}, {"toolUse": {"toolUseId": "t", "name": "look", "input": {}}}]}, "assistant: a\nassistant calls look({})"),
        ({"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "found"}, {"json": {"a": 1}}]}}]}, 'tool result t: found {"a":1}'),
        ({"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "hm"}}}]}, "assistant: (thinks: hm)"),
        ({"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": PNG}}}]}, "user: <image/png 38 B sha256:MARK>"),
        ({"role": "assistant", "tool_plan": "I look", "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}]}, "assistant: I look\nassistant calls look({})"),
        ({"role": "tool", "tool_name": "look", "content": "found"}, "tool result look: found"),
        ({"role": "tool", "content": "found"}, "tool: found"),
        ({"role": "user", "content": "what?", "images": [PNG]}, "user: what? <image/png 38 B sha256:MARK>"),
        ({"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": "wav", "data": "UklGRg=="}}]}, "user: <audio/wav 4 B sha256:a40ff3d5>"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, "assistant: (thinks: hm)"),
        ({"role": "user", "content": [{"cachePoint": {"type": "default"}}, {"text": "x"}]}, "user: x"),
    ],
)  # fmt: skip
def test_say(message, said):
    assert READER.say(message) == said.replace("MARK", hashlib.sha256(base64.b64decode(PNG)).hexdigest()[:8])


def test_tools_in_the_history_of_gemini_and_bedrock():
    def history(url, **body):
        reading = READER.read_call(call(body, url))
        return READER.tool_uses(reading), READER.tool_results(reading)

    asked = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": 1}}}]}
    gave = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}]}
    assert history(GEMINI, contents=[asked, gave]) == ((ToolUse("", "look", {"q": 1}),), {"look": {"a": 1}})
    asked = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "look", "input": {}}}]}
    gave = {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "a"}]}}]}
    found = history(f"{BEDROCK}/converse", messages=[asked, gave])
    assert found == ((ToolUse("t", "look", {}),), {"t": [{"text": "a"}]})


# ---- a conversation costs what it adds


def gemini_turn(number):
    said = {"text": f"Page {number} " + "of a book " * 20}
    told = {"functionResponse": {"name": "look", "response": {"text": f"page {number} says " + "words " * 60}}}
    asks = {"functionCall": {"name": "look", "args": {"page": number}}}
    return {"role": "model", "parts": [asks, said]}, {"role": "user", "parts": [told]}


def bedrock_turn(number):
    use = {"toolUse": {"toolUseId": f"t-{number:04}", "name": "look", "input": {"page": number}}}
    told = {"toolResult": {"toolUseId": f"t-{number:04}", "content": [{"text": f"page {number} " + "words " * 60}]}}
    said = {"text": f"Page {number} " * 20}
    return {"role": "assistant", "content": [use, said]}, {"role": "user", "content": [told]}


@pytest.mark.parametrize(
    ("url", "name", "first", "turn"),
    [
        (GEMINI, "contents", {"role": "user", "parts": [{"text": "Read the book."}]}, gemini_turn),
        (f"{BEDROCK}/converse", "messages", {"role": "user", "content": [{"text": "Read the book."}]}, bedrock_turn),
    ],
    ids=["gemini", "bedrock"],
)
def test_fifty_turns_cost_what_they_add(url, name, first, turn):
    def size(count):
        said, calls = [first], []
        for number in range(count):
            calls.append(call({name: said, "system": "s" * 400}, url))
            said = [*said, *turn(number)]
        run = run_of(*calls)
        text = codec.dumps(run)
        assert codec.loads(text.encode(), file="t").run.exchanges == run.exchanges
        return len(text)

    fifty = size(50)
    assert fifty < 5.2 * size(10)
    assert fifty < 50 * 2_500


# ---- MCP


def rpc(method, **params):
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


MCP = "https://m.test/mcp"


def test_an_mcp_tool_call_is_a_tool_call():
    sent = call(rpc("tools/call", name="look", arguments={"q": 1}, _meta={"progressToken": 3}), MCP)
    reading = READER.read_call(sent)
    assert (reading.kind, reading.name, reading.parameters, reading.dialect) == ("tool", "look", {"q": 1}, "mcp")
    assert label(sent, READER) == "tool look"
    assert "$.id" in reading.client_ids
    result = {"content": [{"type": "text", "text": "found"}], "structuredContent": {"n": 1}, "isError": False}
    plain = {"jsonrpc": "2.0", "id": 7, "result": result}
    streamed = reply(sse({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}, plain), SSE_TYPE)
    found = [READER.read_reply(sent, one) for one in (reply(plain), streamed, reply([plain]))]
    for one in (*found, mcp.read_answer(plain)):
        assert (one.text, one.result, one.error) == ("found", {"n": 1}, "")


def test_an_mcp_tool_that_failed_and_a_call_that_failed():
    def error(*answered):
        return READER.read_reply(call(rpc("tools/call", name="look"), MCP), reply(*answered)).error

    told = {"content": [{"type": "text", "text": "no such order"}], "isError": True}
    assert error({"id": 7, "result": told}) == "no such order"
    assert mcp.read_answer({"result": {"isError": True}}).error == "the tool failed"
    assert error({"id": 7, "error": {"code": -32602, "message": "unknown tool"}}) == "-32602: unknown tool"
    assert error(b"<html>", (), 502) == "502 <html>"
    assert error({"detail": "x"}, JSON_TYPE, 401).startswith("401 ")


def test_other_messages_of_mcp_are_told_by_their_method():
    listing = call(rpc("tools/list"), MCP)
    assert (READER.read_call(listing).kind, label(listing, READER)) == ("mcp", "mcp tools/list")
    assert READER.read_reply(listing, reply({"id": 7, "result": {"tools": []}})).text == '{"tools":[]}'
    batch = call([rpc("tools/call", name="a"), rpc("ping")], MCP)
    assert READER.read_call(batch).name == "tools/call, ping"
    assert READER.read_call(batch).client_ids[0] == "$[*].id"
    assert READER.read_call(call(rpc("eth_call"), "https://chain.test/")).kind == "http"
    assert READER.read_call(call({"jsonrpc": "2.0", "id": 1, "result": {}}, MCP)).kind == "http"
    assert mcp.answer([{"method": "x"}, None, 5]) == {}


def test_the_ids_of_mcp_do_not_tell_calls_apart():
    matching = Matching(READER, RULES)
    asked = [rpc("tools/call", name="look", arguments={"q": 1}) | {"id": number} for number in (1, 2)]
    assert len({matching.key(call(one, MCP), ClientIds()) for one in asked}) == 1
