"""A run is its own: what belongs to it is decided by the context of each call, never by the process."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import httpx
import pytest
from openai import AsyncOpenAI, OpenAI
from websockets.asyncio.client import connect

from pytest_agentreplay import capture
from tests.capture import tools_of_a_service as shop
from tests.support.capturing import answered, asked, started
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer, Raw
from tests.support.voice import WebSocketServer

ADD = "tests.capture.tools_of_a_service.add"


def reply(body, number):
    said = str(body.get("run")) if isinstance(body, dict) else str(number)
    return Raw(headers=[("Content-Type", "application/json")], chunks=(f'"{said}'.encode(), b'"'))


@pytest.fixture
def server():
    with ModelServer(reply) as server:
        yield server


MANY = pytest.mark.parametrize("runs", [60, *rare(200)])


def check_own(taken, calls, runs):
    """Each run has all of its calls, and each answer is that to its own number."""
    assert len(taken) == runs
    for ended in taken:
        number = ended.input.native["n"]
        assert ended.cold == ""
        assert len(ended.exchanges) == calls, asked(ended)
        answers = [body for body in answered(ended) if isinstance(body, bytes)]
        assert set(answers) == {f'"{number}"'.encode()}, (number, answers)
    assert sorted(ended.input.native["n"] for ended in taken) == [*range(runs)]
    assert len({ended.id for ended in taken}) == runs


@MANY
def test_of_many_runs_in_tasks_each_has_its_own_calls_and_no_other(runs, server):
    async def serve(number, client, session):
        async with capture.run("service", input={"n": number}), few:  # all runs are open, and not as many connections
            await ask(number, client, session)

    async def ask(number, client, session):
        await client.post(server.url, json={"run": number})
        await asyncio.sleep(0)
        shop.add(number, 1)
        async with session.post(server.url, json={"run": number}) as answer:
            await answer.read()
        one, two = (client.post(server.url, json={"run": number}) for _ in range(2))
        await asyncio.gather(one, two)
        async with client.stream("POST", server.url, json={"run": number}) as answer:
            [chunk async for chunk in answer.aiter_raw()]

    async def run():
        async with httpx.AsyncClient(timeout=60) as client, aiohttp.ClientSession() as session:
            await asyncio.gather(*(serve(number, client, session) for number in range(runs)))

    few = asyncio.Semaphore(8)
    with started(ADD) as taken:
        asyncio.run(run())
        assert capture.stats() == {"kept": runs, "captured": runs, "faults": 0, "late_calls": 0}
    check_own(taken, 6, runs)
    assert {asked(ended).count("add") for ended in taken} == {1}


@MANY
def test_of_many_runs_in_threads_each_has_its_own_calls_and_no_other(runs, server):
    def get(number):
        return client.post(server.url, json={"run": number})

    def serve(number):
        with capture.run("service", input={"n": number}):
            get(number)
            thread = threading.Thread(target=get, args=(number,))
            thread.start()
            shop.add(number, 1)
            jobs.submit(get, number).result()
            thread.join()

    with started(ADD) as taken, httpx.Client() as client, ThreadPoolExecutor(4) as jobs, ThreadPoolExecutor(20) as pool:
        list(pool.map(serve, range(runs)))
    check_own(taken, 4, runs)


def test_what_a_run_starts_belongs_to_it(server):
    async def serve(number):
        with capture.run("service", input={"n": number}):
            await asyncio.to_thread(httpx.post, server.url, json={"run": number})
            context = contextvars.copy_context()
            await asyncio.get_running_loop().run_in_executor(None, context.run, post, number)
            task = asyncio.create_task(post_async(number))
            await task

    def post(number):
        httpx.post(server.url, json={"run": number})

    async def post_async(number):
        async with httpx.AsyncClient() as client:
            await client.post(server.url, json={"run": number})

    async def run():
        await asyncio.gather(*(serve(number) for number in range(8)))

    with started() as taken:
        asyncio.run(run())
        httpx.get(server.url)  # of no run
    assert [len(ended.exchanges) for ended in taken] == [3] * 8
    for ended in taken:
        assert set(answered(ended)) == {f'"{ended.input.native["n"]}"'.encode()}


def test_the_real_sdk_sync_and_async_stays_in_its_run():
    asked_for = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with ModelServer() as server, started() as taken:
        client = OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        with capture.run("sync"):
            client.chat.completions.create(**asked_for)
            for _ in client.chat.completions.create(**asked_for, stream=True):
                break  # dropped

        async def serve():
            client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
            async with client, capture.run("async"):
                stream = await client.chat.completions.create(**asked_for, stream=True)
                assert [chunk async for chunk in stream]

        asyncio.run(serve())
    assert [(ended.name, len(ended.exchanges), len(ended.outcomes)) for ended in taken] == [
        ("sync", 2, 2),
        ("async", 1, 1),
    ]
    whole = taken[0].outcomes[1].native
    assert whole.body.data.startswith(b"{")
    assert taken[0].outcomes[taken[0].exchanges[1].start].native.closed  # cut, as far as it was read


def test_a_nested_run_is_a_part_of_the_outer_one(server):
    with started() as taken:
        with capture.run("outer", id="o", input={"n": 1}) as outer:
            with capture.run("inner", input={"n": 2}) as inner:
                httpx.post(server.url, json={"run": 1})
                inner.annotate(user="u")
                inner.output("not that of the outer run")
                inner.failed("the customer said no")
            assert inner.id == outer.id == "o"
            outer.output({"a": 1})
        with capture.run("next"):
            pass
    ended, after = taken
    assert (ended.id, ended.name, ended.input.native, ended.output.native) == ("o", "outer", {"n": 1}, {"a": 1})
    assert (ended.annotations.native, ended.failure.native["message"]) == ({"user": "u"}, "the customer said no")
    assert (after.name, len(after.exchanges), after.failed) == ("next", 0, False)


def test_a_call_after_the_end_of_its_run_passes_and_is_counted(server):
    """As the prototype of a service with a background task, which raised into it."""
    results = []

    async def linger():
        await asyncio.sleep(0.05)
        async with httpx.AsyncClient() as client:
            results.append((await client.post(server.url, json={"run": 1})).content)
        results.append(shop.add(1, 2))

    async def run():
        with capture.run("service"):
            task = asyncio.create_task(linger())
        await task

    with started(ADD) as taken:
        asyncio.run(run())
        assert capture.stats()["late_calls"] == 2
        assert capture.stats()["faults"] == 0
    assert results == [b'"1"', 3]
    assert [ended.exchanges for ended in taken] == [()]


def test_an_answer_that_ends_after_its_run_is_cut_there(server):
    with started() as taken:
        with capture.run("service"):
            stream = httpx.stream("POST", server.url, json={"run": 1})
            chunks = (answer := stream.__enter__()).iter_raw()
            first = next(chunks)
        assert first + b"".join(chunks) == b'"1"'
        stream.__exit__(None, None, None)
        assert answer.is_closed
    (reply,) = taken[0].outcomes.values()
    assert reply.native.body.data in {b'"1', b'"1"'}


def test_a_websocket_belongs_to_the_run_that_opened_it():
    async def talk(server, websocket):
        async for message in websocket:
            await websocket.send(message[::-1])

    async def serve(url, number):
        with capture.run("service", input={"n": number}):
            async with connect(url) as socket:
                await socket.send(f"{number:03}")
                assert await socket.recv() == f"{number:03}"[::-1]

    async def run(url):
        await asyncio.gather(*(serve(url, number) for number in range(40)))

    with WebSocketServer(talk) as voice, started() as taken:
        asyncio.run(run(voice.url))
    for ended in taken:
        sent = [ended.calls[x.start].native.body.data for x in ended.exchanges]
        assert sent == [b"", f"{ended.input.native['n']:03}".encode()]
    assert len(taken) == 40


def test_a_stream_that_the_response_gives_ends_in_the_run(server):
    """A run that is begun in one context and ended in another: a generator that a server closes."""

    async def stream():
        with capture.run("service"):
            async with httpx.AsyncClient() as client, client.stream("POST", server.url, json={"run": 1}) as answer:
                async for chunk in answer.aiter_raw():
                    yield chunk

    async def run():
        generator = stream()
        first = await asyncio.create_task(anext(generator))
        return first + b"".join([chunk async for chunk in generator])

    with started() as taken:
        assert asyncio.run(run()) == b'"1"'
        assert capture.stats()["faults"] == 0
        with capture.run("next"):
            pass
    assert [len(ended.exchanges) for ended in taken] == [1, 0]
