"""Messages over lasting connections: what the dialects read of them, whatever they hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.model import Body, Frame, FrameCall, FramesReply
from pytest_agentreplay.dialects import READER

REALTIME = "wss://api.openai.com/v1/realtime?model=gpt-realtime"
RESPONSES = "wss://api.openai.com/v1/responses"
LIVE = "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


def message(value, url=REALTIME, connection=1):
    return FrameCall(url, connection, body=Body(json.dumps(value).encode()))


def reply(*values):
    return FramesReply.of(Frame(json.dumps(value).encode()) for value in values)


NAMES = [
    *("type", "event_id", "session", "item", "response", "instructions", "tools", "input", "output", "content", "text"),
    *("transcript", "delta", "error", "message", "setup", "clientContent", "client_content", "turns", "turnComplete"),
    *("toolResponse", "functionResponses", "realtimeInput", "serverContent", "modelTurn", "parts", "toolCall", "id"),
    *("functionCalls", "usageMetadata", "systemInstruction", "name", "arguments", "call_id", "status"),
]
WORDS = ["response.create", "session.update", "conversation.item.create", "response.done", "error", "x"]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40)
@given(JUNK, st.lists(JUNK, max_size=4), st.sampled_from([REALTIME, RESPONSES, LIVE, "stdio:python server.py"]))
def test_nothing_that_a_frame_holds_stops_a_reading(said, came, url):
    call = message(said, url)
    assert READER.read_call(call).name
    READER.read_reply(call, reply(*came))


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


@pytest.mark.parametrize(
    ("value", "url", "kind", "name"),
    [
        ({"type": "response.create"}, REALTIME, "model", "gpt-realtime"),
        ({"type": "response.create", "model": "gpt-5", "input": "hi"}, RESPONSES, "model", "gpt-5"),
        ({"type": "session.update", "session": {}}, REALTIME, "http", "SEND api.openai.com/v1/realtime session.update"),
        ({"client_content": {"turns": [], "turn_complete": True}}, LIVE, "model", "gemini live"),
        ({"clientContent": {"turns": [], "turnComplete": False}}, LIVE, "http", None),
        ({"toolResponse": {"functionResponses": [{"id": "f1"}]}}, LIVE, "model", "gemini live"),
        ({"realtimeInput": {"text": "hi"}}, LIVE, "model", "gemini live"),
        ({"realtimeInput": {"audio": {"data": "AAAA"}}}, LIVE, "http", None),
        ({"type": "note"}, "wss://other.example.com/x", "http", "SEND other.example.com/x note"),
        (CALL, "stdio:python server.py", "http", "SEND python server.py tools/call"),
    ],
)
def test_a_turn_begins_where_the_model_is_asked(value, url, kind, name):
    reading = READER.read_call(message(value, url))
    assert reading.kind == kind
    assert name is None or reading.name == name


def test_an_opening_says_where_to():
    assert READER.read_call(FrameCall(REALTIME)).name == "OPEN api.openai.com/v1/realtime"


def test_speech_is_told_by_its_transcript():
    part = {"type": "output_audio", "transcript": "Hello there."}
    done = {"type": "response.done", "response": {"id": "r1", "output": [{"type": "message", "content": [part]}]}}
    assert READER.read_reply(message({"type": "response.create"}), reply(done)).text == "Hello there."
    spoken = {"serverContent": {"outputTranscription": {"text": "Hello."}}}
    asked = message({"realtimeInput": {"text": "hi"}}, LIVE)
    assert READER.read_reply(asked, reply(spoken)).text == "Hello."


def test_an_error_event_is_an_error():
    failed = {"type": "error", "error": {"message": "no such voice", "code": "bad"}}
    assert READER.read_reply(message({"type": "response.create"}), reply(failed)).error == "no such voice"
