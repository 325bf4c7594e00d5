"""Lasting connections in a file: readable, and byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Body, Closed, Failure, Frame, FrameCall, FramesReply, HttpReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import journal
from tests.support.stored_runs import comes_back, run_of

URL = "wss://voice.example.com/v1/talk?model=m"


def kept(run):
    """The text of a run that comes back from a file, and from a journal."""
    writer = journal.JournalWriter()
    data = b"".join([writer.begin(run.header), *map(writer.exchange, run.exchanges)])
    assert journal.read_journal(data) == (run, 0)
    return comes_back(run)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
deltas = st.fixed_dictionaries({"type": st.just("delta"), "delta": st.text(max_size=9)})


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


data = st.binary(max_size=40) | (json_values | deltas).map(lambda v: json.dumps(v).encode()) | json_values.map(compact)
replies = st.builds(
    FramesReply.from_frames,
    st.lists(st.builds(Frame, data, st.booleans(), st.booleans()), max_size=12),
    headers=st.sampled_from([(), (("sec-websocket-protocol", "realtime"),)]),
    closed=st.none() | st.builds(Closed, st.none() | st.integers(0, 4999), st.text(max_size=20), st.booleans()),
    failure=st.none() | st.just(Failure("builtins.ConnectionResetError", "gone")),
    waited=st.booleans(),
)
numbers, urls = st.none() | st.integers(1, 9), st.sampled_from([URL, "stdio:python server.py --x"])
kinds = {"binary": st.booleans(), "boundary": st.sampled_from(["websocket", "mcp", "process"])}
calls = st.builds(FrameCall, urls, numbers, body=data.map(Body), **kinds)


@given(st.lists(st.tuples(calls, replies), max_size=6))
def test_every_connection_comes_back(exchanges):
    kept(run_of(*exchanges))


def test_a_stream_of_deltas_is_short_and_readable():
    words = ["Your", "order", "has", "shipped", "and", "arrives", "on", "Monday"]
    events = [{"type": "response.output_text.delta", "event_id": f"e{n}", "delta": w} for n, w in enumerate(words)]
    opened = (
        FrameCall(URL, headers=(("openai-beta", "realtime=v1"),)),
        FramesReply.from_frames([Frame(b'{"type": "s.created"}')]),
    )
    reply = FramesReply.from_frames(Frame(json.dumps(e).encode()) for e in [{"type": "response.created"}, *events])
    text = kept(run_of(opened, (FrameCall(URL, 1, body=Body(b'{"type": "response.create"}')), reply)))
    assert '"connection": 1' in text
    assert '      ["e0", "Your"],\n      ["e1", "order"],' in text
    assert '"cuts"' not in text


def test_a_refused_handshake_is_a_response():
    kept(run_of((FrameCall(URL), HttpReply(401, "Unauthorized", body=Body(b"no key"), cuts=(6,)))))


def test_an_edited_frame_is_read_as_it_stands_and_sealed_again():
    run = run_of(
        (FrameCall(URL, 1, body=Body(b'{"q":1}')), FramesReply.from_frames([Frame(b'{"a":1}'), Frame(b"x\ny")]))
    )
    edited = codec.dumps(run).replace('{\\"a\\":1}', '{\\"a\\":22}').replace('"q": 1', '"q": 333')
    assert edited != codec.dumps(run)
    snapshot = codec.loads(edited, file="f")
    assert not snapshot.sealed
    assert snapshot.run.exchanges[0].call.body.data == b'{"q":333}'
    again = codec.loads(codec.reseal(edited, "why not", file="f"), file="f")
    assert again.sealed
    assert again.run == snapshot.run


EDITS = [
    ('"frame": {', '"frame": 3, "x": {'),
    ('"closed": {"code": 1000}', '"closed": {"code": "x"}'),
    ('"closed": {"code": 1000}', '"closed": {"code": 1000, "by": "nobody"}'),
    ('"frames": {', '"result": {"value": 1}, "frames": {'),
    ('"frame": {', '"tool": {"name": "t"}, "frame": {'),
]


def test_what_makes_no_sense_is_refused():
    text = codec.dumps(run_of((FrameCall(URL), FramesReply(closed=Closed(1000)))))
    for old, new in EDITS:
        assert old in text
        with pytest.raises(SnapshotUnreadable):
            codec.loads(text.replace(old, new), file="f")
