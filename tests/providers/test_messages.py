"""Messages of every dialect: for people, as those of the OTel GenAI conventions, and the tools that a history tells of."""

import base64
import hashlib

import pytest

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.lenient import parse_text
from pytest_agentreplay.providers.messages import (
    chat_message,
    is_message,
    join_neighbours,
    normalize_message,
    normalize_reply,
    normalize_tools,
    read_ai_sdk_calls,
)
from pytest_agentreplay.providers.shown_messages import show_message
from tests.support.exchanges import call, chat_use
from tests.traces.neutral import text

ARGUMENTS = {"q": 1}
CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": ARGUMENTS}
RESULT = {"type": "tool_call_response", "id": "c1", "response": {"n": 2}}
FAILED, FOUND = {**RESULT, "is_error": True}, {**RESULT, "response": "found"}
THOUGHT = {"type": "reasoning", "content": "hm"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://a/b.png"}}
ITEM = {"call_id": "c1", "name": "look", "arguments": '{"q":1}'}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": ARGUMENTS}
GAVE = {"type": "tool_result", "tool_use_id": "c1"}
GEMINI = {"id": "c1", "name": "look"}
THINKING = {"type": "thinking", "thinking": "hm"}
THINKS = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(30)).decode()
SHOWN = f"<image/png 38 B sha256:{hashlib.sha256(base64.b64decode(PNG)).hexdigest()[:8]}>"


def words(*said):
    return [part for one in said for part in text("", one)["parts"]]


def block(said, kind="text"):
    return {"type": kind, "text": said}


def user(*content):
    return {"role": "user", "content": [*content]}


def assistant(*content, **more):
    return {"role": "assistant", "content": [*content], **more}


def model(*parts):
    return {"role": "model", "parts": [*parts]}


def image(url):
    return user({"type": "image_url", "image_url": {"url": url}})


MESSAGES = [
    # Chat and Responses
    ("hi", "user: hi", "user", words("hi")),
    ({"role": "user", "content": "hi"}, "user: hi", "user", words("hi")),
    (user(block("hi")), "user: hi", "user", words("hi")),
    ({"role": "developer", "content": "be kind"}, None, "system", words("be kind")),
    (assistant(tool_calls=[chat_use("c1", "look", '{"q":1}')]), 'assistant calls look({"q":1})', "assistant", [CALL]),
    ({"role": "tool", "tool_call_id": "c1", "content": "found"}, "tool result c1: found", "tool", [FOUND]),
    ({"role": "tool", "tool_call_id": "c1", "content": [block("found")]}, "tool result c1: found", "tool", [FOUND]),
    ({"role": "tool", "tool_call_id": "c1", "content": '{"n": 2}'}, None, "tool", [RESULT]),
    ({"type": "function_call", **ITEM}, 'assistant calls look({"q":1})', "assistant", [CALL]),
    ({"type": "function_call_output", "call_id": "c1", "output": "found"}, "tool result c1: found", "tool", [FOUND]),
    ({"type": "function_call_output", "call_id": "c1", "output": '{"n":2}'}, None, "tool", [RESULT]),
    ({"type": "message", **assistant(block("a", "output_text"))}, "assistant: a", "assistant", words("a")),
    ({"type": "reasoning", "id": "rs_1", "summary": [block("hm", "summary_text")]}, None, "assistant", [THOUGHT]),
    ({"role": "assistant", "content": None, "refusal": "no"}, "assistant refuses: no", None, None),
    ({"type": "item_reference", "id": "m"}, 'item_reference: {"id":"m","type":"item_reference"}', None, None),
    # Messages of Anthropic
    (assistant(block("a"), USE), 'assistant: a\nassistant calls look({"q":1})', "assistant", [*words("a"), CALL]),
    (assistant(THINKING | {"signature": "s"}, block("a"), USE), None, "assistant", [THOUGHT, *words("a"), CALL]),
    (assistant(THINKING, "bare"), "assistant: (thinks: hm) bare", None, None),
    (user(GAVE | {"content": {"n": 2}}, block("go")), 'user: go\ntool result c1: {"n":2}', None, None),
    (user(GAVE | {"content": [block('{"n": 2}')]}, block("go")), None, "tool", [*words("go"), RESULT]),
    (user(GAVE | {"content": '{"n": 2}', "is_error": True}), None, "tool", [FAILED]),
    # Gemini
    (model({"text": "hm", "thought": True}, {"text": "a"}), "assistant: (thinks: hm) a", None, None),
    ({"parts": [{"text": "hi"}]}, "user: hi", "user", words("hi")),
    (model({"functionCall": {**GEMINI, "args": {"q": 1}}}), 'assistant calls look({"q":1})', "assistant", [CALL]),
    ({"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}]}, 'tool result look: {"a":1}', None, None),
    ({"role": "user", "parts": [{"function_response": {**GEMINI, "response": {}}}]}, "tool result c1: {}", None, None),
    ({"role": "user", "parts": [{"functionResponse": {**GEMINI, "response": {"n": 2}}}]}, None, "tool", [RESULT]),
    ({"parts": [{"functionResponse": {**GEMINI, "response": {"result": '{"n": 2}'}}}]}, None, "tool", [RESULT]),
    ({"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}, {"text": "?"}]}, f"user: {SHOWN} ?", None, None),
    ({"role": "user", "parts": [{"fileData": {"fileUri": "gs://b/x.pdf"}}]}, "user: [file gs://b/x.pdf]", None, None),
    # Converse
    (assistant({"text": "a"}, {"toolUse": {"toolUseId": "c1", "name": "look", "input": ARGUMENTS}}), 'assistant: a\nassistant calls look({"q":1})', "assistant", [*words("a"), CALL]),
    (user({"toolResult": {"toolUseId": "c1", "content": [{"text": "found"}, {"json": {"a": 1}}]}}), 'tool result c1: found {"a":1}', None, None),
    (user({"toolResult": {"toolUseId": "c1", "content": [{"json": {"n": 2}}], "status": "error"}}), None, "tool", [FAILED]),
    (assistant({"reasoningContent": {"reasoningText": {"text": "hm"}}}), "assistant: (thinks: hm)", None, None),
    (user({"image": {"format": "png", "source": {"bytes": PNG}}}), f"user: {SHOWN}", None, None),
    (user({"cachePoint": {"type": "default"}}, {"text": "x"}), "user: x", None, None),
    # Cohere, Ollama, Mistral, and the conventions' own
    ({"role": "assistant", "tool_plan": "I look", "tool_calls": [chat_use("c", "look", "{}")]}, "assistant: I look\nassistant calls look({})", None, None),
    ({"role": "tool", "tool_name": "look", "content": "found"}, "tool result look: found", None, None),
    ({"role": "tool", "content": "found"}, "tool: found", None, None),
    ({"role": "user", "content": "what?", "images": [PNG]}, f"user: what? {SHOWN}", None, None),
    (assistant(THINKS), "assistant: (thinks: hm)", None, None),
    ({"role": "user", "parts": words("hi")}, None, "user", words("hi")),
    # LangChain's roles, and its tool calls, which have their fields flat
    ({"role": "human", "content": "hi"}, "human: hi", "user", words("hi")),
    ({"role": "ai", "content": "a"}, "ai: a", "assistant", words("a")),
    (assistant(tool_calls=[{"id": "c1", "name": "look", "args": ARGUMENTS}]), 'assistant calls look({"q":1})', "assistant", [CALL]),
    # Pictures, sounds and files; and what is no message
    (image("https://a/b.png"), None, "user", [{"type": "generic", "block": PICTURE}]),
    (image("data:image/png;base64,AAAA"), "user: <image/png 3 B sha256:709e80c8>", None, None),
    (user({"type": "input_image", "image_url": "https://a/x.png"}), "user: [input_image https://a/x.png]", None, None),
    (user({"type": "image", "source": {"media_type": "image/png", "data": "A" * 8000}}), "user: <image/png 6.0 kB sha256:a6bedce1>", None, None),
    (user({"type": "input_audio", "input_audio": {"format": "wav", "data": "UklGRg=="}}), "user: <audio/wav 4 B sha256:a40ff3d5>", None, None),
    (user({"type": "document", "source": {"data": "no base64!"}}), "user: [document]", None, None),
    (user({"type": "file", "file": {"file_id": "f"}}, {}), "user: [file] [block]", None, None),
    ([1], "[1]", None, None),
    (None, "null", "user", []),
]  # fmt: skip
"""A message, how it is told to people, and its role and parts in the conventions."""


def test_a_message_of_any_api_is_told_to_people_and_in_the_conventions():
    wrong = []
    for message, said, role, parts in MESSAGES:
        wrong += [(message, show_message(message))] if said not in {None, show_message(message)} else []
        found = normalize_message(message)
        wrong += [(message, found)] if role is not None and found != {"role": role, "parts": parts} else []
    assert not wrong, wrong


LOOK, OBJECT = {"name": "look", "description": "Look"}, {"type": "object"}
TOOL = {"type": "function", **LOOK, "parameters": OBJECT}
TOOLS = {
    "chat": {"type": "function", "function": {**LOOK, "parameters": OBJECT}},
    "responses": TOOL,
    "messages": {**LOOK, "input_schema": OBJECT},
    "gemini": {"functionDeclarations": [{**LOOK, "parameters": OBJECT}]},
    "google-genai": {"functionDeclarations": [{**LOOK, "parameters_json_schema": OBJECT}]},
    "converse": {"toolSpec": {**LOOK, "inputSchema": {"json": OBJECT}}},
}


@pytest.mark.parametrize("api", TOOLS)
def test_a_tool_of_any_api_is_one_of_the_conventions(api):
    assert normalize_tools([TOOLS[api]]) == (TOOL,)


def test_a_reply_is_a_message_neighbours_of_one_role_are_one_and_what_is_no_json_stays():
    told = normalize_reply(ReplyReading("I look.", (ToolUse("c1", "look", '{"q": 1}'),), ("tool_calls",)))
    assert told == {"role": "assistant", "parts": [*words("I look."), CALL], "finish_reason": "tool_calls"}
    assert normalize_reply(ReplyReading()) == {"role": "assistant", "parts": [], "finish_reason": ""}
    assert [parse_text(one) for one in ('{"q": ', 7)] == ['{"q": ', 7]
    one, other = text("user", "a"), text("user", "b")
    empty = {"role": "assistant", "parts": []}
    assert join_neighbours([one, empty, other]) == ({"role": "user", "parts": words("a", "b")},)


GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent"
ASKED = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": 1}}}]}
TOLD = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}]}
CONVERSED = assistant({"toolUse": {"toolUseId": "t", "name": "look", "input": {}}})
HISTORIES = {
    "chat": (
        {"model": "m", "messages": [assistant(tool_calls=[chat_use("c1", "look", "{}")]), MESSAGES[5][0]]},
        *("https://api.openai.com/v1/chat/completions", ToolUse("c1", "look", "{}"), {"c1": "found"}),
    ),
    "gemini": ({"contents": [ASKED, TOLD]}, GOOGLE, ToolUse("", "look", {"q": 1}), {"look": {"a": 1}}),
    "converse": (
        {"messages": [CONVERSED, user({"toolResult": {"toolUseId": "t", "content": [{"text": "a"}]}})]},
        *("https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse", ToolUse("t", "look", {})),
        {"t": [{"text": "a"}]},
    ),
}


@pytest.mark.parametrize("api", HISTORIES)
def test_the_tools_of_a_history_are_read_with_their_results(api):
    body, url, use, results = HISTORIES[api]
    reading = READER.read_call(call(body, url))
    assert (READER.tool_uses(reading), READER.tool_results(reading)) == ((use,), results)


LOOK = {"name": "look", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}
OF_LANGCHAIN = [
    ({"type": "human", "content": "hi"}, {"role": "user", "content": "hi"}),
    (["human", "hi"], {"role": "user", "content": "hi"}),
    ({"type": "human", "data": {"content": "hi"}}, {"role": "user", "content": "hi"}),
    ({"lc": 1, "id": ["langchain", "HumanMessage"], "kwargs": {"content": "hi"}}, {"role": "user", "content": "hi"}),
    ({"type": "tool", "content": "7", "tool_call_id": "c1"}, {"role": "tool", "tool_call_id": "c1", "content": "7"}),
    (
        {"type": "ai", "content": [block("a"), USE], "tool_calls": [LOOK]},
        {"role": "assistant", "content": [block("a")], "tool_calls": [CHAT_CALL]},
    ),
    (assistant(tool_calls=[LOOK]), assistant(tool_calls=[CHAT_CALL])),
    ({"role": "user", "content": "hi"}, {"role": "user", "content": "hi"}),
    ({"type": "human"}, {"type": "human"}),
]


@pytest.mark.parametrize(("message", "expected"), OF_LANGCHAIN)
def test_a_message_of_langchain_is_one_of_a_chat_api(message, expected):
    assert chat_message(message) == expected
    assert is_message(message) == (message != {"type": "human"})


def test_a_message_of_the_ai_sdk_is_split_by_its_results():
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": ARGUMENTS}
    result = {"type": "tool-result", "toolCallId": "c1", "output": {"type": "json", "value": {"n": 2}}}
    assert normalize_message(assistant(call, result)) == {"role": "assistant", "parts": [CALL, RESULT]}
    assert normalize_message(user(result)) == {"role": "tool", "parts": [RESULT]}
    before_version_5 = {"type": "tool-result", "toolCallId": "c1", "result": {"n": 2}}
    assert normalize_message(user(before_version_5)) == {"role": "tool", "parts": [RESULT]}
    bare = {name: value for name, value in call.items() if name != "type"}
    assert read_ai_sdk_calls([bare]) == [call]
    assert read_ai_sdk_calls("text") == []
