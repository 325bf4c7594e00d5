"""Identical requests beside each other: each keeps the answer that it got, by the order in which they were made."""

import asyncio
import threading

import httpx2
import pytest

from pytest_agentreplay.demo.server import ModelServer
from tests.ordering.driving import Stage
from tests.ordering.programs import DICE, Memory, look, slow_model

COUNT, REPLAYS = 20, 30


def answers(found):
    """What each of the identical requests got, in the order in which they were made."""
    assert len(set(found)) == COUNT, "the world gave two the same answer"
    return found


async def draw(question):
    await asyncio.sleep(DICE.choice((0, 0.001, 0.002, 0.003)))
    return DICE.random()


def draw_in_thread(question):
    threading.Event().wait(DICE.choice((0, 0.002, 0.004)))
    return DICE.random()


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path, tools=(draw, draw_in_thread, look))


@pytest.mark.parametrize("order", ["auto", "recorded"])
def test_no_two_tasks_swap_their_answers(stage, order):
    async def act():
        return answers(await asyncio.gather(*(draw("?") for _ in range(COUNT))))

    recorded = stage.record(lambda: asyncio.run(act())).result
    for _ in range(REPLAYS):
        replayed = stage.replay(lambda: asyncio.run(act()), order=order)
        assert replayed.finding is None
        assert replayed.result == recorded


def test_not_even_when_answers_are_given_at_once(stage):
    async def act():
        return answers(await asyncio.gather(*(draw("?") for _ in range(COUNT))))

    recorded = stage.record(lambda: asyncio.run(act())).result
    assert [stage.replay(lambda: asyncio.run(act()), order="free").result for _ in range(3)] == [recorded] * 3


def test_no_two_requests_over_http_swap_theirs(stage):
    with ModelServer(slow_model) as server:

        async def act():
            body = {"model": "m-1", "messages": [{"role": "user", "content": "?"}]}
            async with httpx2.AsyncClient(verify=False) as client:
                url = f"{server.url}/v1/chat/completions"
                replies = await asyncio.gather(*(client.post(url, json=body) for _ in range(COUNT)))
            return answers([reply.json()["choices"][0]["message"]["content"] for reply in replies])

        recorded = stage.record(lambda: asyncio.run(act())).result
        hits = server.hits
        for _ in range(REPLAYS):
            replayed = stage.replay(lambda: asyncio.run(act()))
            assert replayed.finding is None
            assert replayed.result == recorded
        assert server.hits == hits == COUNT


def test_each_thread_gets_its_own_again(stage):
    """Threads ask when they please; each is known by the lane that it was started in."""

    def act():
        found = {}

        def one(number):
            found[number] = draw_in_thread("?")

        threads = [threading.Thread(target=one, args=(number,)) for number in range(COUNT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers([found[number] for number in range(COUNT)])

    recorded = stage.record(act).result
    for _ in range(5):
        replayed = stage.replay(act)
        assert replayed.finding is None
        assert replayed.result == recorded


def test_two_identical_agents_at_once(stage):
    async def both():
        memories = Memory(sensitive=True), Memory(sensitive=True)
        await asyncio.gather(*(asking(memory) for memory in memories))
        return [memory.log for memory in memories]

    async def asking(memory):
        for number in range(8):
            await asyncio.gather(*(one(memory, f"{number}.{part}") for part in range(2)))

    async def one(memory, place):
        try:
            memory.saw(place, await look(place, memory.seen))
        except LookupError as error:
            memory.saw(place, error)

    recorded = stage.record(lambda: asyncio.run(both())).result
    assert recorded[0] != recorded[1]
    for _ in range(10):
        replayed = stage.replay(lambda: asyncio.run(both()))
        assert replayed.finding is None
        assert replayed.result == recorded
