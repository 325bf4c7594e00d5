"""WebSockets of aiohttp: recorded over loopback, replayed with the server gone; the handshake is no HTTP exchange."""

from __future__ import annotations

import pytest

from tests.support.small_projects import passed
from tests.support.voice import forbids, heard_in, record_voice, talk_by_words

pytestmark = pytest.mark.env("clients", "lastyear")

AGENT = """
import asyncio, json, os
import aiohttp

PROMPT = "Be brief."

def url(path):
    return os.environ["VOICE_URL"] + path

async def talk():
    heard = []
    headers = {"Authorization": "Bearer " + os.environ["MODEL_API_KEY"]}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.ws_connect(url("/talk"), params={"v": "1"}, protocols=["voice.v1"], heartbeat=30) as ws:
            assert isinstance(ws, aiohttp.ClientWebSocketResponse) and ws.protocol == "voice.v1"
            heard.append(await ws.receive_json())
            await ws.send_json({"say": "one", "prompt": PROMPT})
            heard += [await ws.receive_json(), await ws.receive_json()]
            await ws.send_bytes(json.dumps({"say": "bytes", "prompt": PROMPT}).encode())
            heard += [await ws.receive_bytes(), await ws.receive_bytes(), await ws.receive_json()]
            await ws.ping()
            try:
                await ws.receive(timeout=0.05)
            except asyncio.TimeoutError as error:
                heard.append(type(error).__name__)
            await ws.send_json({"say": "bye", "prompt": PROMPT})
            async for message in ws:
                heard.append([message.type.name, message.data])
            heard += [ws.closed, ws.close_code]
    return heard

async def left():
    async with aiohttp.ClientSession() as session:
        ws = await session.ws_connect(url("/talk"))
        heard = [await ws.receive_json()]
        waiting = asyncio.create_task(ws.receive())
        await asyncio.sleep(0.05)
        heard.append(await ws.close(code=4000, message=b"enough"))
        heard += [(await waiting).type.name, ws.closed]
        return heard

async def refused():
    async with aiohttp.ClientSession() as session:
        try:
            await session.ws_connect(url("/forbidden"))
        except aiohttp.WSServerHandshakeError as error:
            return error.status, error.message, str(error.request_info.real_url.path)
"""

TEST = """
import asyncio
import agent, pytest
from heard import keep

@pytest.mark.parametrize("name", ["talk", "left", "refused"])
def test_aiohttp(agentreplay, name):
    keep(name, asyncio.run(getattr(agent, name)()))
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    return record_voice(shared_project(), talk_by_words, forbids, agent=AGENT, test_voice=TEST)


def test_what_was_heard_is_heard_again(recorded):
    project, heard = recorded
    passed(project.offline())
    assert heard_in(project) == heard
    assert heard["talk"][-2:] == [True, 1000]
    assert heard["refused"][:1] == [403]


def test_the_handshake_is_part_of_the_connection(recorded):
    project, _ = recorded
    calls = [[x.call.method for x in s.run.exchanges] for s in project.snapshots]
    assert sorted(calls) == [["OPEN"], ["OPEN"], ["OPEN", "SEND", "SEND", "SEND"]]


def test_a_changed_word_is_told_at_its_message(recorded):
    project, _ = recorded
    said, done = project.diverged()
    assert list(said) == ["test_aiohttp[talk]"]
    assert "$.prompt" in done.stdout
