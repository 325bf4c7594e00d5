"""Connections without a library: what is recorded of them, who waits in a replay, and who is told instead."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest

from pytest_agentreplay.backends.backend import RecordBackend
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.streams import frames
from pytest_agentreplay.intercept.streams.frames import FrameRecording, FrameReplaying
from pytest_agentreplay.model.exchanges import Closed, Frame, FrameCall, Header, RawCall, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from tests.support.tapes import body

OPENING = FrameCall("wss://voice.example.com/talk")


def entered(backend):
    return body(interceptions.Interception(backend, Redaction(Places({}))))


def recorded(act):
    """The run of `act(line, crossing)`, which plays the agent and the world."""
    backend = RecordBackend()
    with entered(backend) as interception:
        act(FrameRecording(interception, interception.enter(RawCall(OPENING)), OPENING), interception)
    return Run(Header("t::t"), backend.list_exchanges())


@contextmanager
def replayed(run):
    backend = ReplayBackend(run, Matching(READER, RULES), READER)
    with entered(backend) as interception:
        yield FrameReplaying(interception, interception.enter(RawCall(OPENING)), OPENING), backend


def ask(line, word):
    line.send(json.dumps({"say": word}).encode())


def talk(line, _interception):
    line.came(b"hello")
    ask(line, "one")
    line.came(b"1a")
    line.came(b"1b")
    ask(line, "two")
    line.came(b"2a", binary=True)


def test_frames_come_after_their_messages_and_the_rest_is_told():
    with replayed(recorded(talk)) as (line, backend):
        assert line.receive_now() == Frame(b"hello")
        ask(line, "one")
        ask(line, "two")
        assert [line.receive_now() for _ in range(3)] == [Frame(b"1a"), Frame(b"1b"), Frame(b"2a", binary=True)]
        with pytest.raises(ReplayDiverged, match=r"none came in the recording: voice.example.com/talk"):
            line.receive_now()
        assert backend.divergence.kind.code == "AR-EXTRA"


def test_a_message_that_was_left_out_is_named_and_not_the_opening():
    with replayed(recorded(talk)) as (line, backend):
        with pytest.raises(ReplayDiverged):
            ask(line, "two")
        assert backend.divergence.recorded.call.body.data == b'{"say": "one"}'


def test_the_tests_own_thread_does_not_wait_for_what_only_it_could_send():
    with replayed(recorded(talk)) as (line, backend):
        line.receive_now()
        assert line.receive_now(timeout=0.02) is None, "its patience ends as the library says"
        assert backend.divergence is None
        with pytest.raises(ReplayDiverged, match=r"AR-MISSING.*SEND voice.example.com/talk was not called"):
            line.receive_now()
        assert backend.divergence is not None


def test_a_thread_waits_until_another_one_sends():
    with replayed(recorded(talk)) as (line, backend):
        heard = []
        reader = threading.Thread(target=lambda: heard.extend(line.receive_now() for _ in range(4)))
        reader.start()
        ask(line, "one")
        ask(line, "two")
        reader.join(10)
        assert [frame.data for frame in heard] == [b"hello", b"1a", b"1b", b"2a"]
        assert backend.divergence is None


def test_a_task_waits_until_another_one_sends():
    async def collect(line):
        return [(await line.receive()).data for _ in range(4)]

    async def act(line):
        reader = asyncio.create_task(collect(line))
        for word in ("one", "two"):
            await asyncio.sleep(0.01)
            ask(line, word)
        return await reader

    with replayed(recorded(talk)) as (line, backend):
        assert asyncio.run(act(line)) == [b"hello", b"1a", b"1b", b"2a"]
        assert backend.divergence is None


def test_a_task_that_nothing_can_wake_is_told_and_does_not_hang(monkeypatch):
    monkeypatch.setattr(frames, "STALL", 0.3)
    monkeypatch.setattr(frames, "STALL_BESIDE", 0.3)

    async def act(line):
        await line.receive()
        await line.receive()

    with replayed(recorded(talk)) as (line, backend):
        with pytest.raises(ReplayDiverged, match=r"AR-MISSING.*SEND voice.example.com/talk was not called"):
            asyncio.run(act(line))
        assert backend.divergence is not None


def test_who_still_waited_when_the_recording_ended_waits_again():
    def waiting(line, _interception):
        line.came(b"hello")
        line.waits()

    async def act(line):
        await line.receive()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(line.receive(), 0.05)

    run = recorded(waiting)
    assert run.exchanges[0].outcome.waited
    with replayed(run) as (line, backend):
        asyncio.run(act(line))
        assert backend.divergence is None


def test_a_reader_is_woken_by_the_agents_own_close():
    def closed_by_the_agent(line, _interception):
        line.came(b"hello")
        line.waits()
        line.closes(1000, "enough")
        line.waits_no_more()
        line.note_closed(Closed(1006))

    async def act(line):
        await line.receive()
        reader = asyncio.create_task(line.receive())
        await asyncio.sleep(0.01)
        line.close()
        return await reader

    run = recorded(closed_by_the_agent)
    ended = Closed(1000, "enough", by_agent=True)
    assert run.exchanges[0].outcome.closed == ended
    with replayed(run) as (line, backend):
        assert asyncio.run(act(line)) == ended
        assert backend.divergence is None


@pytest.mark.parametrize("end", [Closed(1011, "overloaded"), Closed(1006)])
def test_the_end_comes_after_the_last_frame(end):
    def act(line, _interception):
        line.came(b"hello")
        line.note_closed(end)
        line.came(b"too late")

    with replayed(recorded(act)) as (line, _backend):
        assert not line.ended
        assert [line.receive_now(), line.receive_now(), line.receive_now()] == [Frame(b"hello"), end, end]
        assert line.ended


def test_what_broke_off_breaks_off():
    with replayed(recorded(lambda line, _: line.broke(ConnectionResetError("gone")))) as (line, _backend):
        assert line.receive_now().type == "builtins.ConnectionResetError"


def test_a_message_that_could_not_be_sent_cannot_be_sent_again():
    def act(line, _interception):
        ask(line, "one")
        line.unsent(ConnectionResetError("gone"), Closed(1006))
        ask(line, "two")
        line.unsent(OSError("no route"))

    with replayed(recorded(act)) as (line, _backend):
        assert line.send(b'{"say": "one"}') == Closed(1006)
        assert line.send(b'{"say": "two"}').message == "no route"


def test_a_message_inside_a_frozen_tool_is_not_waited_for():
    def act(line, interception):
        ask(line, "one")
        line.came(b"1a")
        tool = interception.enter(RawCall(ToolCall("lookup")))
        with tool.inside():
            ask(line, "inner")
            line.came(b"inner a")
        line.came(b"outer a")
        tool.settle(ToolReply("found"))
        ask(line, "two")
        line.came(b"2a")

    run = recorded(act)
    assert [x.parent for x in run.exchanges] == [None, None, None, 4, None]
    with replayed(run) as (line, backend):
        ask(line, "one")
        assert line.receive_now() == Frame(b"1a")
        assert line.receive_now() == Frame(b"outer a")
        line.interception.enter(RawCall(ToolCall("lookup"))).finish()
        ask(line, "two")
        assert line.receive_now() == Frame(b"2a")
        assert backend.finish() is None
