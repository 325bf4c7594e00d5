"""Messages of every dialect as those of the OTel GenAI conventions."""

import pytest

from pytest_agentreplay.core.reading import ReplyReading, ToolUse
from pytest_agentreplay.dialects import genai

CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"q": 1}}
RESULT = {"type": "tool_call_response", "id": "c1", "response": {"n": 2}}


def text(words):
    return {"type": "text", "content": words}


MESSAGES = {
    "chat, a text": ({"role": "user", "content": "hi"}, "user", [text("hi")]),
    "chat, parts": ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, "user", [text("hi")]),
    "chat, developer": ({"role": "developer", "content": "be kind"}, "system", [text("be kind")]),
    "chat, a call": (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{ "q": 1}'}}],
        },
        "assistant",
        [CALL],
    ),
    "chat, a result": ({"role": "tool", "tool_call_id": "c1", "content": '{"n": 2}'}, "tool", [RESULT]),
    "chat, a result in a text": (
        {"role": "tool", "tool_call_id": "c1", "content": "none found"},
        "tool",
        [{**RESULT, "response": "none found"}],
    ),
    "responses, a text": ("hi", "user", [text("hi")]),
    "responses, a call": (
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q":1}'},
        "assistant",
        [CALL],
    ),
    "responses, a result": ({"type": "function_call_output", "call_id": "c1", "output": '{"n":2}'}, "tool", [RESULT]),
    "responses, thoughts": (
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        "assistant",
        [{"type": "reasoning", "content": "hm"}],
    ),
    "messages, blocks": (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}},
            ],
        },
        "assistant",
        [{"type": "reasoning", "content": "hm"}, text("I look."), CALL],
    ),
    "messages, a failed result": (
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"n": 2}', "is_error": True}],
        },
        "tool",
        [{**RESULT, "is_error": True}],
    ),
    "messages, a result and a text": (
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": '{"n": 2}'}]},
                {"type": "text", "text": "go on"},
            ],
        },
        "tool",
        [text("go on"), RESULT],
    ),
    "gemini, a call": (
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "look", "args": {"q": 1}}}]},
        "assistant",
        [CALL],
    ),
    "gemini, a result": (
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"n": 2}}}]},
        "tool",
        [RESULT],
    ),
    "gemini, a result that is no object": (
        {"parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"result": '{"n": 2}'}}}]},
        "tool",
        [RESULT],
    ),
    "converse, a call": (
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "look", "input": {"q": 1}}}]},
        "assistant",
        [CALL],
    ),
    "converse, a failed result": (
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"json": {"n": 2}}], "status": "error"}}],
        },
        "tool",
        [{**RESULT, "is_error": True}],
    ),
    "the conventions' own": ({"role": "user", "parts": [text("hi")]}, "user", [text("hi")]),
    "a picture": (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]},
        "user",
        [{"type": "generic", "block": {"type": "image_url", "image_url": {"url": "https://a/b.png"}}}],
    ),
    "nothing": (None, "user", []),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message(name):
    given, role, parts = MESSAGES[name]
    assert genai.message(given) == {"role": role, "parts": parts}


TOOL = {"type": "function", "name": "look", "description": "Look", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    "given",
    [
        {"type": "function", "function": {"name": "look", "description": "Look", "parameters": {"type": "object"}}},
        {"type": "function", "name": "look", "description": "Look", "parameters": {"type": "object"}},
        {"name": "look", "description": "Look", "input_schema": {"type": "object"}},
        {"functionDeclarations": [{"name": "look", "description": "Look", "parameters": {"type": "object"}}]},
        {"toolSpec": {"name": "look", "description": "Look", "inputSchema": {"json": {"type": "object"}}}},
    ],
    ids=["chat", "responses", "messages", "gemini", "converse"],
)
def test_a_tool(given):
    assert genai.tools([given]) == (TOOL,)


def test_neighbours_of_one_role_are_one_message():
    one, other = ({"role": "user", "parts": [text(words)]} for words in ("a", "b"))
    empty = {"role": "assistant", "parts": []}
    assert genai.joined([one, empty, other]) == ({"role": "user", "parts": [text("a"), text("b")]},)


def test_a_reply():
    reading = ReplyReading("I look.", (ToolUse("c1", "look", '{"q": 1}'),), ("tool_calls",))
    assert genai.reply(reading) == {
        "role": "assistant",
        "parts": [text("I look."), CALL],
        "finish_reason": "tool_calls",
    }
    assert genai.reply(ReplyReading()) == {"role": "assistant", "parts": [], "finish_reason": ""}


def test_what_is_no_json_stays():
    assert genai.parsed('{"q": ') == '{"q": '
    assert genai.parsed(7) == 7
