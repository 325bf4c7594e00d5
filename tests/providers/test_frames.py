"""Messages over lasting connections: where a turn begins, what was said and what went wrong."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.model.exchanges import Body, Frame, FrameCall, FramesReply
from pytest_agentreplay.providers import READER

REALTIME = "wss://api.openai.com/v1/realtime?model=gpt-realtime"
RESPONSES = "wss://api.openai.com/v1/responses"
LIVE = "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


def message(value, url=REALTIME):
    return FrameCall(url, 1, body=Body(json.dumps(value).encode()))


def read(asked, *came):
    return READER.read_reply(asked, FramesReply.from_frames(Frame(json.dumps(value).encode()) for value in came))


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


def test_an_opening_says_where_to_speech_is_its_transcript_and_an_error_event_an_error():
    assert READER.read_call(FrameCall(REALTIME)).name == "OPEN api.openai.com/v1/realtime"
    part = {"type": "output_audio", "transcript": "Hello there."}
    done = {"type": "response.done", "response": {"id": "r1", "output": [{"type": "message", "content": [part]}]}}
    asked = message({"type": "response.create"})
    assert read(asked, done).text == "Hello there."
    spoken = {"serverContent": {"outputTranscription": {"text": "Hello."}}}
    assert read(message({"realtimeInput": {"text": "hi"}}, LIVE), spoken).text == "Hello."
    failed = {"type": "error", "error": {"message": "no such voice", "code": "bad"}}
    assert read(asked, failed).error == "no such voice"
