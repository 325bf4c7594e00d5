"""Messages of every dialect as those of the OTel GenAI conventions."""

import pytest

from pytest_agentreplay.core.reading import ReplyReading, ToolUse
from pytest_agentreplay.dialects import genai
from tests.support.exchanges import chat_use

CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"q": 1}}
RESULT = {"type": "tool_call_response", "id": "c1", "response": {"n": 2}}


def text(words):
    return {"type": "text", "content": words}


FAILED = {**RESULT, "is_error": True}
THOUGHT = {"type": "reasoning", "content": "hm"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://a/b.png"}}
ITEM = {"call_id": "c1", "name": "look", "arguments": '{"q":1}'}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}}
GAVE = {"type": "tool_result", "tool_use_id": "c1"}
WORDS = {"type": "text", "text": '{"n": 2}'}
GEMINI = {"id": "c1", "name": "look"}
CONVERSE = {"toolUseId": "c1", "content": [{"json": {"n": 2}}], "status": "error"}


def user(*content):
    return {"role": "user", "content": [*content]}


def assistant(*content, **more):
    return {"role": "assistant", "content": [*content], **more}


MESSAGES = {
    "chat, a text": ({"role": "user", "content": "hi"}, "user", [text("hi")]),
    "chat, parts": (user({"type": "text", "text": "hi"}), "user", [text("hi")]),
    "chat, developer": ({"role": "developer", "content": "be kind"}, "system", [text("be kind")]),
    "chat, a call": (assistant(tool_calls=[chat_use("c1", "look", '{ "q": 1}')]), "assistant", [CALL]),
    "chat, a result": ({"role": "tool", "tool_call_id": "c1", "content": '{"n": 2}'}, "tool", [RESULT]),
    "chat, a result in a text": (
        {"role": "tool", "tool_call_id": "c1", "content": "none found"},
        *("tool", [{**RESULT, "response": "none found"}]),
    ),
    "responses, a text": ("hi", "user", [text("hi")]),
    "responses, a call": ({"type": "function_call", **ITEM}, "assistant", [CALL]),
    "responses, a result": ({"type": "function_call_output", "call_id": "c1", "output": '{"n":2}'}, "tool", [RESULT]),
    "responses, thoughts": (
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        *("assistant", [THOUGHT]),
    ),
    "messages, blocks": (
        assistant({"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "I look."}, USE),
        *("assistant", [THOUGHT, text("I look."), CALL]),
    ),
    "messages, a failed result": (user(GAVE | {"content": '{"n": 2}', "is_error": True}), "tool", [FAILED]),
    "messages, a result and a text": (
        user(GAVE | {"content": [WORDS]}, {"type": "text", "text": "go on"}),
        *("tool", [text("go on"), RESULT]),
    ),
    "gemini, a call": (
        {"role": "model", "parts": [{"functionCall": {**GEMINI, "args": {"q": 1}}}]},
        *("assistant", [CALL]),
    ),
    "gemini, a result": (
        {"role": "user", "parts": [{"functionResponse": {**GEMINI, "response": {"n": 2}}}]},
        *("tool", [RESULT]),
    ),
    "gemini, a result that is no object": (
        {"parts": [{"functionResponse": {**GEMINI, "response": {"result": '{"n": 2}'}}}]},
        *("tool", [RESULT]),
    ),
    "converse, a call": (
        assistant({"toolUse": {"toolUseId": "c1", "name": "look", "input": {"q": 1}}}),
        *("assistant", [CALL]),
    ),
    "converse, a failed result": (user({"toolResult": CONVERSE}), "tool", [FAILED]),
    "the conventions' own": ({"role": "user", "parts": [text("hi")]}, "user", [text("hi")]),
    "a picture": (user(PICTURE), "user", [{"type": "generic", "block": PICTURE}]),
    "nothing": (None, "user", []),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message(name):
    given, role, parts = MESSAGES[name]
    assert genai.message(given) == {"role": role, "parts": parts}


LOOK, OBJECT = {"name": "look", "description": "Look"}, {"type": "object"}
TOOL = {"type": "function", **LOOK, "parameters": OBJECT}
TOOLS = {
    "chat": {"type": "function", "function": {**LOOK, "parameters": OBJECT}},
    "responses": TOOL,
    "messages": {**LOOK, "input_schema": OBJECT},
    "gemini": {"functionDeclarations": [{**LOOK, "parameters": OBJECT}]},
    "converse": {"toolSpec": {**LOOK, "inputSchema": {"json": OBJECT}}},
}


@pytest.mark.parametrize("api", TOOLS)
def test_a_tool(api):
    assert genai.tools([TOOLS[api]]) == (TOOL,)


def test_neighbours_of_one_role_are_one_message():
    one, other = ({"role": "user", "parts": [text(words)]} for words in ("a", "b"))
    empty = {"role": "assistant", "parts": []}
    assert genai.joined([one, empty, other]) == ({"role": "user", "parts": [text("a"), text("b")]},)


def test_a_reply():
    told = genai.reply(ReplyReading("I look.", (ToolUse("c1", "look", '{"q": 1}'),), ("tool_calls",)))
    assert told == {"role": "assistant", "parts": [text("I look."), CALL], "finish_reason": "tool_calls"}
    assert genai.reply(ReplyReading()) == {"role": "assistant", "parts": [], "finish_reason": ""}


def test_what_is_no_json_stays():
    assert genai.parsed('{"q": ') == '{"q": '
    assert genai.parsed(7) == 7
