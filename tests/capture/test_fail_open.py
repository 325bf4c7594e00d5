"""The service never notices: a fault in any function of ours leaves its results as they are without a capture."""

import asyncio
import gc
import http.client
import re
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import httpx
import pytest
import requests
from openai import AsyncOpenAI, OpenAI
from websockets.asyncio.client import connect
from websockets.sync.client import connect as connect_sync

from pytest_agentreplay import capture
from pytest_agentreplay.intercept.http.bodies import BodyCapture, Tee
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.exchanges import HttpCall, HttpReply, RawCall
from pytest_agentreplay.runs.capture.interception import RequestBodies
from tests.capture import tools_of_a_service as shop
from tests.support.capturing import started
from tests.support.model_server import ModelServer, Raw
from tests.support.planting import HITS, list_run, planted
from tests.support.voice import WebSocketServer

TOOLS = [f"tests.capture.tools_of_a_service.{name}" for name in ("add", "wait", "count", "stream", "fail", "Desk.ask")]

# The guard itself, what a library or the service calls on objects of ours and has nothing but the guard in it, and the
# model server.
BARE = {
    "fail_open": None,
    "real_calls": None,
    "server": None,
    "script": None,
    "replies": None,
    "replacing": None,
    "randomness": ("_uuid4", "draw_id"),
    "patching": ("wrap_code.<locals>.call",),
    "__init__": ("run",),
    "runs": ("CapturedRun.__init__", "CapturedRun.__enter__", "CapturedRun.__exit__"),
    "files": ("fill_buffer", "RecordingFile.readable", "RecordingFile.fileno"),
    "aiohttp": ("_Heard.__getattr__", "_Said.__getattr__"),
}


def reply(body, number):
    path = body if isinstance(body, str) else ""
    del path, number
    return Raw(chunks=(b"one", b"two", b"three"))


async def talk(server, websocket):
    async for message in websocket:
        await websocket.send(message[::-1])


def caught(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def use_httpx(url, ws):
    with httpx.Client() as client:
        yield client.get(url).content
        yield client.post(url, json={"a": 1}).status_code
        with client.stream("GET", url) as answer:
            yield list(answer.iter_raw())
        with client.stream("GET", url) as answer:
            yield next(answer.iter_raw())
        yield caught(lambda: client.post(url, content=broken()))
        yield caught(lambda: client.get("http://127.0.0.1:9"))


def broken():
    yield b"first"
    raise LookupError("no second part")


def use_httpx_async(url, ws):
    async def run():
        async with httpx.AsyncClient() as client:
            made = [(await client.get(url)).content]
            async with client.stream("POST", url, json={"a": 1}) as answer:
                made.append([chunk async for chunk in answer.aiter_raw()])
            async with client.stream("GET", url) as answer:
                async for chunk in answer.aiter_raw():
                    made.append(chunk)
                    break
            made += [answer.content for answer in await asyncio.gather(*(client.get(url) for _ in range(3)))]
            return made

    yield asyncio.run(run())


def use_openai(url, ws):
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    yield caught(lambda: OpenAI(base_url=url, api_key="k", max_retries=0).chat.completions.create(**asked))

    async def run():
        async with AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            return await client.chat.completions.create(**asked)

    yield caught(lambda: asyncio.run(run()))


def use_aiohttp(url, ws):
    async def run():
        async with aiohttp.ClientSession() as client:
            made = []
            for _ in range(2):  # over one connection
                async with client.get(url) as answer:
                    made.append(await answer.read())
            async with client.post(url, data=chunks()) as answer:
                made.append(b"".join([chunk async for chunk, _ in answer.content.iter_chunks()]))
            return made

    yield asyncio.run(run())


async def chunks():
    yield b"first"
    yield b"second"


def use_requests(url, ws):
    with requests.Session() as session:
        yield session.get(url).content
        yield session.post(url, data=iter([b"a", b"b"])).status_code
        yield list(session.get(url, stream=True).iter_content(3))


def use_http_client(url, ws):
    with urllib.request.urlopen(urllib.request.Request(url, data=b"abc")) as answer:
        yield answer.read()
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", "6")
    connection.endheaders()
    connection.send(b"abc")
    connection.send(b"def")
    yield connection.getresponse().read()
    connection.close()


def use_tools(url, ws):
    yield shop.add(1, b=2)
    yield asyncio.run(shop.wait(3))
    yield list(shop.count(3))
    counting = shop.count(3)
    yield next(counting), counting.send("x")
    counting.close()
    yield asyncio.run(shop.collect())
    yield caught(shop.fail, "no")
    yield shop.Desk().ask("what")


def use_websockets(url, ws):
    async def run():
        async with connect(ws) as socket:
            await socket.send("abc")
            await socket.send(b"def")
            return [await socket.recv(), await socket.recv()]

    yield asyncio.run(run())
    with connect_sync(ws) as socket:
        socket.send("abc")
        yield socket.recv()

    async def run_aiohttp():
        async with aiohttp.ClientSession() as client, client.ws_connect(ws) as socket:
            await socket.send_str("abc")
            return (await socket.receive()).data

    yield asyncio.run(run_aiohttp())


def use_threads(url, ws):
    def get():
        return httpx.get(url).content

    made = []
    thread = threading.Thread(target=lambda: made.append(get()))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        made += [pool.submit(get).result(), *pool.map(len, ["ab", "c"])]

    async def run():
        return await asyncio.to_thread(get)

    yield [*made, asyncio.run(run())]


pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # of the server, by broken()

USES = [
    use_httpx,
    use_httpx_async,
    use_openai,
    use_aiohttp,
    use_requests,
    use_http_client,
    use_tools,
    use_websockets,
    use_threads,
]


@pytest.fixture(scope="module")
def world():
    with ModelServer(reply) as server, WebSocketServer(talk) as voice:
        yield server.url, voice.url


def captured(use, world):
    with capture.run("service"):
        return list(use(*world))


def list_planted(use, world):
    """The functions of ours that a captured run has called, but for those that hold nothing but the guard."""
    captured(use, world)  # what is imported and compiled once is out of the way
    codes = list_run(lambda: captured(use, world))
    return sorted((code for code in codes if not is_bare(code)), key=lambda code: (code.co_filename, code.co_qualname))


def is_bare(code):
    names = BARE.get(code.co_filename.rpartition("/")[2].removesuffix(".py"), ())
    return names is None or code.co_qualname in names or code.co_name in {"<genexpr>", "<dictcomp>", "<setcomp>"}


def is_reading(code):
    """Whether a function looks at values of the service, whose own faults there are no faults of a capture."""
    return any(room in code.co_filename for room in ("/values/", "/tools/argument"))


def test_a_planted_fault_changes_nothing():
    """In a process of its own: the parser of CPython 3.11 may end a process that compiles hundreds of modules anew."""
    names = "in_some_of_our or in_any_of_them"
    files = [__file__, str(Path(__file__).with_name("test_surface_faults.py"))]
    words = [*files, "--exhaustive", "-q", "-k", names, "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.exhaustive
@pytest.mark.parametrize("use", USES)
def test_a_fault_in_some_of_our_functions_changes_nothing(use, world):
    bare = list(use(*world))
    with started(*TOOLS):
        codes = list_planted(use, world)
        assert codes
        check(use, world, bare, codes[:: max(1, len(codes) // 6)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("use", USES)
def test_a_fault_in_any_of_our_functions_changes_nothing(use, world):
    bare = list(use(*world))
    with started(*TOOLS):
        check(use, world, bare, list_planted(use, world))


def check(use, world, bare, codes):
    noticed = []
    for code in codes:
        before, hits = capture.stats()["faults"], len(HITS)
        with planted(code):
            try:
                made = captured(use, world)
            except BaseException as error:
                made = [repr(error)]
        where = f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} {code.co_qualname}"
        if made != bare:
            noticed.append((where, made))
        elif len(HITS) > hits and capture.stats()["faults"] == before and not is_reading(code):
            noticed.append((where, "no fault was counted"))
    assert not noticed, "\n".join(f"{where}: {made}" for where, made in noticed)


def test_a_fault_is_reported_by_its_place_and_never_by_its_text(world, caplog, monkeypatch):
    def fail(*_):
        raise TypeError("cannot keep 'sk-secret'")

    monkeypatch.setattr(RequestBodies, "add", fail)
    with started() as taken, capture.run("service"):
        httpx.post(world[0], json={"a": 1})
    place = r"a fault of the capture: TypeError in capture/interception\.py, line \d+"
    assert re.fullmatch(place, taken[0].cold)
    assert re.search(place, caplog.text)
    assert "secret" not in caplog.text


def test_a_stream_that_is_dropped_where_no_event_loop_runs_any_more_is_silent():
    class Source:
        async def __aiter__(self):
            try:
                yield b"one"
            except GeneratorExit:
                await asyncio.sleep(0)  # as httpcore does at the end of a connection
                raise

    unraised, before = [], sys.unraisablehook
    with started(), capture.run("service"):
        interception = lanes.CALL_CONTEXT.get().interception
        intercepted = interception.enter(RawCall(HttpCall("GET", "http://x/")))
        tee = Tee(source := Source(), BodyCapture(intercepted, HttpReply(200)))
        stream = Tee._iterate_async.__wrapped__(tee, source.__aiter__)
        sys.unraisablehook = unraised.append
        try:
            with pytest.raises(StopIteration):
                stream.__anext__().send(None)
            del stream
            gc.collect()
        finally:
            sys.unraisablehook = before
    assert [each for each in unraised if "_iterate_async" in repr(each.object)] == []


def test_a_capture_that_stops_in_the_middle_of_a_run_is_not_noticed(world):
    with started() as taken, capture.run("service"):
        stream = httpx.stream("GET", world[0])
        answer = stream.__enter__()
        capture.stop()
        assert b"".join(answer.iter_raw()) == b"onetwothree"
        stream.__exit__(None, None, None)
    assert taken == []
    time.sleep(0)
