"""Equal calls side by side: each keeps its answer, by the order in which threads, jobs and tasks were started."""

import asyncio
import functools
import multiprocessing.dummy
import multiprocessing.pool
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import anyio
import anyio.to_thread
import pytest

from tests.ordering.programs import DICE

COUNT, REPLAYS = 5, 8


def roll(question):
    time.sleep(DICE.choice((0, 0.001, 0.003)))
    return DICE.random()


async def aroll(question):
    await asyncio.sleep(DICE.choice((0, 0.001, 0.003)))
    return DICE.random()


def late(number):
    """Call after a pause that is another one in each run, so that any thread may be the first."""
    time.sleep(DICE.choice((0, 0.001, 0.002, 0.004)))
    return roll("?")


def pool_map():
    with ThreadPoolExecutor(COUNT) as pool:
        return list(pool.map(late, range(COUNT)))


def few_workers():
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(late, range(COUNT)))


def threads():
    rolled = [None] * COUNT

    def work(number):
        rolled[number] = late(number)

    started = [threading.Thread(target=work, args=(number,)) for number in range(COUNT)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return rolled


def to_thread():
    async def act():
        return await asyncio.gather(*(asyncio.to_thread(late, number) for number in range(COUNT)))

    return asyncio.run(act())


def anyio_threads(backend="asyncio"):
    async def act():
        rolled = [None] * COUNT

        async def work(number):
            rolled[number] = await anyio.to_thread.run_sync(late, number)

        async with anyio.create_task_group() as group:
            for number in range(COUNT):
                group.start_soon(work, number)
        return rolled

    return anyio.run(act, backend=backend)


def in_copied_context():
    """As LangGraph and langchain-core submit: the function runs in a copy of the context, taken beforehand."""
    with ThreadPoolExecutor(COUNT) as pool:
        first = [pool.submit(copy_context().run, late, number) for number in range(COUNT)]
        second = [pool.submit(functools.partial(copy_context().run, late, number)) for number in range(COUNT)]
        hidden = [pool.submit(functools.partial(within, copy_context())) for _ in range(COUNT)]
        return [job.result() for job in (*first, *second, *hidden)]


def within(context):
    return context.run(late, 0)


def nested_pools():
    def outer(number):
        time.sleep(DICE.choice((0, 0.002)))
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(late, range(2)))

    with ThreadPoolExecutor(3) as pool:
        return [value for values in pool.map(outer, range(3)) for value in values]


def tasks_behind_threads():
    """As with the openai SDK, which asks for the platform in a thread before the first call of a client."""

    async def one_agent(number):
        await asyncio.to_thread(time.sleep, DICE.choice((0, 0.001, 0.003)))
        first = await aroll(f"{number % 2}")
        return first, await aroll("?"), await asyncio.wait_for(aroll("?"), 5)

    async def act():
        return await asyncio.gather(*(one_agent(number) for number in range(COUNT)))

    return [value for values in asyncio.run(act()) for value in values]


def helpers_beside():
    """Threads that make no call, another number of them in each run."""
    for _ in range(DICE.randrange(3)):
        threading.Thread(target=time.sleep, args=(0,)).start()
    return pool_map()


def thread_pool():
    with multiprocessing.pool.ThreadPool(COUNT) as pool:
        return pool.map(late, range(COUNT))


def thread_pool_of_dummies():
    with multiprocessing.dummy.Pool(3) as pool:
        return [*pool.imap(late, range(COUNT)), *pool.starmap(late, [(number,) for number in range(COUNT)], 2)]


STARTERS = {
    "pool": pool_map,
    "few workers": few_workers,
    "threads": threads,
    "asyncio's threads": to_thread,
    "anyio's threads": anyio_threads,
    "anyio's threads on trio": functools.partial(anyio_threads, "trio"),
    "copied contexts": in_copied_context,
    "nested pools": nested_pools,
    "tasks behind threads": tasks_behind_threads,
    "helpers beside": helpers_beside,
    "thread pool": thread_pool,
    "thread pool of dummies": thread_pool_of_dummies,
}


TOOLS = (roll, aroll)


@pytest.mark.parametrize("kind", STARTERS)
def test_each_keeps_its_answer(stage, kind):
    start = STARTERS[kind]
    recorded = stage.record(start).result
    assert len({*recorded}) == len(recorded), "the world gave two the same answer"
    for _ in range(REPLAYS):
        replayed = stage.replay(start)
        assert replayed.finding is None, replayed.finding.headline
        assert replayed.result == recorded
