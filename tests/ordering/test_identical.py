"""Identical requests beside each other: each keeps the answer that it got, by the order in which they were made."""

import asyncio

import httpx2
import pytest

from tests.ordering.programs import DICE, slow_model
from tests.support.model_server import ModelServer

COUNT, REPLAYS = 20, 10


def answers(found):
    """What each of the identical requests got, in the order in which they were made."""
    assert len(set(found)) == COUNT, "the world gave two the same answer"
    return found


async def draw(question):
    await asyncio.sleep(DICE.choice((0, 0.001, 0.002, 0.003)))
    return DICE.random()


TOOLS = (draw,)


@pytest.mark.parametrize(("order", "replays"), [("auto", REPLAYS), ("recorded", REPLAYS), ("free", 3)])
def test_no_two_tasks_swap_their_answers(stage, order, replays):
    async def act():
        return answers(await asyncio.gather(*(draw("?") for _ in range(COUNT))))

    recorded = stage.record(lambda: asyncio.run(act())).result
    for _ in range(replays):
        replayed = stage.replay(lambda: asyncio.run(act()), order=order)
        assert replayed.finding is None
        assert replayed.result == recorded


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
