"""Equal calls side by side: each keeps its answer, by the order in which threads, jobs and tasks were started."""

import asyncio
import functools
import threading
import time

import pytest

from tests.ordering import shapes
from tests.ordering.programs import DICE

COUNT, REPLAYS = 5, 8


def roll(question):
    time.sleep(DICE.choice((0, 0.001, 0.003)))
    return DICE.random()


async def aroll(question):
    await asyncio.sleep(DICE.choice((0, 0.001, 0.003)))
    return DICE.random()


TOOLS = (roll, aroll)


def late():
    """Call after a pause that is another one in each run, so that any thread may be the first."""
    time.sleep(DICE.choice((0, 0.001, 0.002, 0.004)))
    return roll("?")


def nested_pools(functions):
    def outer():
        time.sleep(DICE.choice((0, 0.002)))
        return shapes.pool(functions[:2])

    return [value for values in shapes.pool([outer] * 3) for value in values]


def helpers_beside(functions):
    """Threads that make no call, another number of them in each run."""
    for _ in range(DICE.randrange(3)):
        threading.Thread(target=time.sleep, args=(0,)).start()
    return shapes.pool(functions)


def tasks_behind_threads(_functions):
    """As with the openai SDK, which asks for the platform in a thread before the first call of a client."""

    async def one_agent(number):
        await asyncio.to_thread(time.sleep, DICE.choice((0, 0.001, 0.003)))
        first = await aroll(f"{number % 2}")
        return first, await aroll("?"), await asyncio.wait_for(aroll("?"), 5)

    async def act():
        return await asyncio.gather(*(one_agent(number) for number in range(COUNT)))

    return [value for values in asyncio.run(act()) for value in values]


STARTERS = {
    "pool": shapes.pool,
    "few workers": functools.partial(shapes.pool, workers=2),
    "threads": shapes.threads,
    "asyncio's threads": shapes.gathered_threads,
    "anyio's threads": shapes.anyio_threads,
    "anyio's threads on trio": functools.partial(shapes.anyio_threads, backend="trio"),
    "copied contexts": shapes.copied_contexts,
    "nested pools": nested_pools,
    "tasks behind threads": tasks_behind_threads,
    "helpers beside": helpers_beside,
    "thread pool": shapes.thread_pool,
    "thread pool of dummies": shapes.thread_pool_of_dummies,
}


@pytest.mark.parametrize("kind", STARTERS)
def test_each_keeps_its_answer(stage, kind):
    def start():
        return STARTERS[kind]([late] * COUNT)

    recorded = stage.record(start).result
    assert len({*recorded}) == len(recorded), "the world gave two the same answer"
    for _ in range(REPLAYS):
        replayed = stage.replay(start)
        assert replayed.finding is None, replayed.finding.headline
        assert replayed.result == recorded
