"""Amazon's binary streams, read by Amazon's own client after they were redacted."""

from __future__ import annotations

import base64
import json

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.event_frames import read_frames
from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply
from pytest_agentreplay.providers.streams import write_frame
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.rewriting import EVENT_FRAMES

pytestmark = pytest.mark.env("clients", "lastyear")

KEY = "7Kdx9Qm2" + "Lp4TzWv8"
POST = HttpCall("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream")


def converse(*texts):
    return [
        write_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}, "p": "abc"})
        for text in texts
    ]


def wrapped(*texts):
    events = ({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}} for t in texts)
    return [write_frame("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode()}) for event in events]


def stored(parts, cuts=None):
    redaction = Redaction(Places({}))
    redaction.learn("key", KEY)
    body = b"".join(parts)
    reply = HttpReply(
        200, headers=(("content-type", EVENT_FRAMES),), body=Body(body), cuts=cuts or tuple(map(len, parts))
    )
    return redaction.redact_outcome(POST, reply)


def read(data):
    """What Amazon's client reads; it raises for a checksum that does not fit."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    for event in buffer:
        payload = json.loads(event.payload)
        payload = json.loads(base64.b64decode(payload["bytes"])) if "bytes" in payload else payload
        yield payload["delta"]["text"]


@pytest.mark.parametrize("kind", [converse, wrapped])
def test_a_value_cut_over_frames_goes_and_the_stream_stays_readable(kind):
    parts = kind("I use ", KEY[:5], KEY[5:11], KEY[11:], " today, and ", KEY)
    kept = stored(parts)
    texts = list(read(kept.body.data))
    assert texts == ["I use ", "[[redacted:key:1]]", "", "", " today, and ", "[[redacted:key:1]]"]
    assert len(kept.cuts) == len(parts)
    assert sum(kept.cuts) == len(kept.body.data)


def test_a_stream_without_secrets_is_the_same_to_the_byte():
    parts = converse("nothing", "here")
    assert stored(parts).body.data == b"".join(parts)


def test_what_was_cut_off_is_looked_at_as_it_stands():
    parts = [*converse("whole"), write_frame("contentBlockDelta", {"delta": {"text": f"a {KEY} b"}})[:-9]]
    kept = stored(parts).body.data
    assert KEY.encode() not in kept
    assert list(read(kept[: len(parts[0])])) == ["whole"]


@given(st.binary(max_size=60), st.integers(0, 80), st.integers(0, 255))
def test_damaged_streams_are_no_frames_and_no_error(noise, at, byte):
    data = bytearray(b"".join(converse("one", "two")) + noise)
    data[at] = byte
    assert read_frames(bytes(data)) is not None
    assert KEY.encode() not in stored([bytes(data) + KEY.encode()]).body.data
