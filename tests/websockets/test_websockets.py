"""The library `websockets`, with asyncio and with threads: recorded over loopback, replayed with the server gone."""

from __future__ import annotations

import pytest

from tests.support.small_projects import passed
from tests.support.voice import WebSocketServer, forbids, heard_in, record_voice, talk_by_words

pytestmark = pytest.mark.env("clients", "lastyear")

AGENT = """
import asyncio, json, os
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.protocol import State
from websockets.sync.client import ClientConnection as SyncConnection, connect as sync_connect

PROMPT = "Be brief."
KEY = {"Authorization": "Bearer " + os.environ["MODEL_API_KEY"]}

def url(path):
    return os.environ["VOICE_URL"] + path

def said(word, **more):
    return json.dumps({"say": word, "prompt": PROMPT, **more})

def closing(error):
    return type(error).__name__, error.rcvd and (error.rcvd.code, error.rcvd.reason), str(error)

async def talk():
    async with connect(url("/talk"), additional_headers=KEY, subprotocols=["voice.v1"]) as ws:
        assert isinstance(ws, ClientConnection)
        assert ws.state is State.OPEN and ws.subprotocol == "voice.v1" and ws.response.status_code == 101
        heard = [await ws.recv()]
        await ws.send(said("one"))
        heard += [await ws.recv(), await ws.recv()]
        await ws.send(said("bytes").encode())
        heard += [await ws.recv(), await ws.recv(decode=True), await ws.recv(decode=False)]
        await ws.send([said("in"), " ", "pieces"])
        heard.append(await ws.recv())
        await (await ws.ping())
        await ws.pong()
        await ws.send(said("bye"))
        heard += [message async for message in ws]
        await ws.wait_closed()
        heard += [ws.close_code, ws.close_reason, ws.state.name]
        try:
            await ws.recv()
        except ConnectionClosedOK as error:
            heard.append(closing(error))
        try:
            await ws.send("too late")
        except ConnectionClosedOK as error:
            heard.append(closing(error))
        return heard

def talk_sync():
    with sync_connect(url("/talk"), additional_headers=KEY, subprotocols=["voice.v1"]) as ws:
        assert isinstance(ws, SyncConnection)
        assert ws.subprotocol == "voice.v1" and ws.response.status_code == 101
        heard = [ws.recv()]
        ws.send(said("one"))
        heard += [ws.recv(), ws.recv(timeout=5)]
        ws.send(said("bytes").encode())
        heard += [ws.recv(), ws.recv(decode=True), ws.recv(None, False)]
        ws.send([said("in"), " ", "pieces"])
        heard.append("".join(ws.recv_streaming()))
        try:
            ws.recv(timeout=0.05)
        except TimeoutError as error:
            heard.append(type(error).__name__)
        ws.ping().wait(5)
        ws.send(said("bye"))
        heard += list(ws)
        return [*heard, ws.close_code, ws.close_reason]

async def broken(how):
    heard = []
    async with connect(url("/talk"), additional_headers=KEY) as ws:
        heard.append(await ws.recv())
        await ws.send(said(how))
        try:
            async for message in ws:
                heard.append(message)
        except ConnectionClosedError as error:
            heard += [*closing(error)[:2], ws.close_code, ws.close_reason]
    return heard

async def refused(path):
    try:
        await connect(url(path), additional_headers=KEY)
    except InvalidStatus as error:
        return error.response.status_code, bytes(error.response.body), str(error)

def refused_sync(path):
    try:
        sync_connect(url(path))
    except InvalidStatus as error:
        return error.response.status_code, bytes(error.response.body), str(error)

async def unreachable():
    try:
        await connect("ws://127.0.0.1:9/talk")
    except OSError as error:
        return type(error).__name__

async def reader_and_writers():
    heard = []
    async with connect(url("/talk"), additional_headers=KEY) as ws:
        async def read():
            async for message in ws:
                heard.append(json.loads(message).get("heard"))
                if len([word for word in heard if word]) == 4:
                    return
        reading = asyncio.create_task(read())
        order = ["a", "b"] if os.environ.get("SWAPPED") else ["b", "a"]
        async def write(word):
            await asyncio.sleep(order.index(word) * 0.05)
            await ws.send(said(word))
        await asyncio.gather(write("a"), write("b"))
        await reading
        waiting = asyncio.create_task(ws.recv())
        await asyncio.sleep(0.05)
        await ws.close()
        try:
            await waiting
        except ConnectionClosed as error:
            heard.append(type(error).__name__)
    return heard
"""

TEST = """
import asyncio
import agent, pytest
from heard import keep

def test_asyncio(agentreplay):
    keep("asyncio", asyncio.run(agent.talk()))

def test_sync(agentreplay):
    keep("sync", agent.talk_sync())

@pytest.mark.parametrize("how", ["overloaded", "drop"])
def test_broken(agentreplay, how):
    keep(how, asyncio.run(agent.broken(how)))

def test_refused(agentreplay):
    keep("refused", [asyncio.run(agent.refused("/forbidden")), agent.refused_sync("/forbidden")])

def test_unreachable(agentreplay):
    keep("unreachable", asyncio.run(agent.unreachable()))

def test_two_writers(agentreplay):
    keep("writers", asyncio.run(agent.reader_and_writers()))
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    return record_voice(shared_project(), talk_by_words, forbids, agent=AGENT, test_voice=TEST)


def test_what_was_heard_is_heard_again_without_a_server(recorded):
    project, heard = recorded
    passed(project.offline())
    assert heard_in(project) == heard
    assert heard["drop"][-2:] == [1006, ""]


def test_messages_and_frames_stand_in_the_snapshot_in_order(recorded):
    project, _ = recorded
    run = next(s.run for s in project.snapshots if s.run.header.test.endswith("test_asyncio"))
    calls = [x.call for x in run.exchanges]
    assert [call.method for call in calls] == ["OPEN", "SEND", "SEND", "SEND", "SEND", "SEND"]
    assert [call.binary for call in calls] == [False, False, True, False, False, False]
    assert [[frame.binary for frame in x.outcome.frames()] for x in run.exchanges[:5]] == [
        [False],
        [False, False],
        [True, True, False],
        [False],
        [False],
    ]
    assert run.exchanges[4].outcome.closed.code == 1000
    text = "".join(file.read_text(encoding="utf-8") for file in project.files)
    assert "sk-live-0123456789abcdef" not in text


def test_a_changed_word_is_a_divergence_at_its_message(recorded):
    project, _ = recorded
    told, done = project.diverged()
    for test in ("test_asyncio", "test_sync", "test_broken[drop]"):
        assert "AR-REQUEST" in told[test]
        assert "SEND 127" in told[test]
    assert "$.prompt" in done.stdout, done.stdout
    assert not {"test_refused", "test_unreachable"} & set(told)


def test_writers_that_were_side_by_side_may_come_in_another_order(recorded):
    project, _ = recorded
    passed(project.replay("-k", "two_writers", SWAPPED="1"))


STRAY = """
import os
from websockets.sync.client import connect

ws = connect(os.environ["VOICE_URL"] + "/talk")

def test_stray(agentreplay):
    ws.send('{"say": "one"}')
    assert ws.recv()

def test_end():
    ws.close()
"""


def test_a_connection_that_is_older_than_its_test_is_not_kept_and_not_used(recorded):
    project, _ = recorded
    project.write(test_stray=STRAY)
    with WebSocketServer(talk_by_words, forbids) as voice:
        done = project.record("test_stray.py", VOICE_URL=voice.url)
        assert "was opened before the test began" in done.stdout, done.stdout
        before = voice.count()
        done = project.replay("test_stray.py", VOICE_URL=voice.url)
        assert done.returncode == 1, done.stdout
        assert voice.count() - before == 2, "the one message of the server was its greeting"
    (project.root / "test_stray.py").unlink()


ENDS = """
import asyncio, os
import aiohttp
from websockets.asyncio.client import connect
from websockets.sync.client import connect as sync_connect

URL = os.environ["VOICE_URL"] + "/talk"
OFFERED = os.environ.get("OFFERED", "voice.v1").split()
CODE, REASON = int(os.environ.get("CODE", "4000")), os.environ.get("REASON", "enough")

async def use_asyncio(code):
    async with connect(URL, subprotocols=OFFERED or None) as ws:
        await ws.recv()
        if code:
            await ws.close(code, REASON)
        if os.environ.get("RAISES"):
            raise ValueError

def use_threads(code):
    with sync_connect(URL, subprotocols=OFFERED or None) as ws:
        ws.recv()
        if code:
            ws.close(code, REASON)
        if os.environ.get("RAISES"):
            raise ValueError

async def use_aiohttp(code):
    async with aiohttp.ClientSession() as session, session.ws_connect(URL, protocols=OFFERED) as ws:
        await ws.receive()
        if code:
            await ws.close(code=code, message=REASON.encode())
        if os.environ.get("RAISES"):
            raise ValueError
"""

ENDS_TEST = """
import asyncio, contextlib
import ends, pytest
from heard import keep

@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("client", [ends.use_asyncio, ends.use_threads, ends.use_aiohttp], ids=lambda use: use.__name__)
def test_end(agentreplay, client, chosen):
    code = ends.CODE if chosen else 0
    with contextlib.suppress(ValueError):
        asyncio.run(client(code)) if asyncio.iscoroutinefunction(client) else client(code)
    keep("end", code)
"""


@pytest.fixture(scope="module")
def ended(shared_project):
    return record_voice(shared_project(), talk_by_words, forbids, ends=ENDS, test_ends=ENDS_TEST)[0]


@pytest.mark.parametrize(
    ("environ", "diverged", "difference"),
    [
        ({"CODE": "4001"}, 3, "closed with 4001 enough; it was closed with 4000 enough"),
        ({"REASON": "done"}, 3, "closed with 4000 done; it was closed with 4000 enough"),
        ({"CODE": "0"}, 3, "closed with 1000; it was closed with 4000 enough"),
        ({"OFFERED": "voice.v2"}, 6, "voice.v1"),
        ({"OFFERED": "voice.v1 voice.v2"}, 6, "voice.v1, voice.v2"),
        ({"OFFERED": ""}, 6, "voice.v1"),
        ({"RAISES": "1"}, 0, ""),
    ],
)
def test_another_subprotocol_or_close_code_is_a_divergence(ended, environ, diverged, difference):
    done = ended.replay(**environ)
    assert done.stdout.count("[AR-REQUEST]") >= diverged if diverged else done.returncode == 0, done.stdout
    assert f"{diverged} failed" in done.stdout or not diverged, done.stdout
    assert difference in done.stdout, done.stdout
