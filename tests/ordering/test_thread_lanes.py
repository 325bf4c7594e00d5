"""Equal calls side by side: each keeps its answer, by the order in which threads, jobs and tasks were started."""

import asyncio
import functools
import queue
import threading
import time

import pytest

from pytest_agentreplay.snapshots.store.reading import load
from tests.ordering import shapes
from tests.ordering.programs import DICE

COUNT, REPLAYS = 5, 5


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


def run_beside(targets, put):
    """Start threads, which wait for what `put` then gives them: which of them takes what is chance."""
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    put()
    for thread in threads:
        thread.join()


def queue_workers(functions, kind=queue.Queue):
    """Three threads that take functions out of a queue, each whenever it is free."""
    waiting, results = kind(), [None] * len(functions)

    def work():
        time.sleep(DICE.choice((0, 0.002)))
        while (number := waiting.get()) < COUNT:
            results[number] = functions[number]()
            waiting.task_done()

    def put():
        for number in range(COUNT):
            waiting.put(number)
        waiting.join()
        for _ in range(3):
            waiting.put(COUNT)

    run_beside([work] * 3, put)
    return results


def queues_in_turn(functions):
    """As `queue_workers`, and what a thread has done goes on to another queue with threads of its own."""
    first, second, results = queue.Queue(), queue.Queue(), [None] * len(functions)

    def begin():
        time.sleep(DICE.choice((0, 0.002)))
        while (number := first.get()) is not None:
            second.put((number, functions[number]()))
        second.put(None)

    def end():
        while (item := second.get()) is not None:
            results[item[0]] = item[1], functions[item[0]]()

    def put():
        for number in (*range(COUNT), None, None):
            first.put(number)

    run_beside([begin, begin, end, end], put)
    return results


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
    "queue workers": queue_workers,
    "workers of a stack": functools.partial(queue_workers, kind=queue.LifoQueue),
    "queues in turn": queues_in_turn,
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


def test_a_test_that_is_recorded_again_keeps_the_names_of_its_lanes(stage):
    """Whichever thread calls first: else the diff would be of all that both of them say."""

    def record_lanes(*order):
        turns = {"ada": threading.Event(), "bob": threading.Event()}

        def ada():
            turns["ada"].wait()
            roll("ada")

        def bob():
            turns["bob"].wait()
            roll("bob")

        def start():
            threads = {"ada": threading.Thread(target=ada), "bob": threading.Thread(target=bob)}
            for thread in threads.values():
                thread.start()
            for name in order:
                turns[name].set()
                threads[name].join()

        run_session = stage.record(start).run_session
        snapshot = load(run_session.place.snapshot)
        return {x.lane: x.call.arguments["question"] for x in snapshot.run.exchanges}

    assert record_lanes("ada", "bob") == record_lanes("bob", "ada") == {"main.1": "ada", "main.2": "bob"}
