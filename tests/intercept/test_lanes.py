"""Who runs in which lane: a thread's own course is one, each job, thread and task that it starts has one of its own."""

import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
import trio

from pytest_agentreplay.intercept.session import interceptions, lanes


@pytest.fixture
def here():
    """The path of the lane that the caller runs in, under the stamp of a test."""
    interception = interceptions.Interception(None, None)
    interceptions.open_for(interception)
    token = lanes.CALL_CONTEXT.set(interception.main())
    yield lambda: interceptions.current().call_context().path
    lanes.CALL_CONTEXT.reset(token)
    interceptions.open_for(None)


def test_what_a_thread_runs_one_after_the_other_is_its_own_course(here):
    async def root():
        return here()

    assert asyncio.run(root()) == "main"
    assert here() == "main"
    assert trio.run(root) == "main"
    assert anyio.run(root) == "main"
    with asyncio.Runner() as runner:
        assert [runner.run(root()), runner.run(root())] == ["main", "main"]
    assert here() == "main"


def test_each_task_has_a_lane(here):
    async def task():
        return here(), here()

    async def root():
        found = await asyncio.gather(task(), task())
        return [*found, await asyncio.create_task(task()), await task()]

    assert [pair[0] for pair in asyncio.run(root())] == ["main.1", "main.2", "main.3", "main"]


def test_a_task_of_a_task_has_a_lane_below(here):
    async def inner():
        return here()

    async def outer():
        return here(), await asyncio.create_task(inner())

    async def root():
        return await asyncio.gather(outer(), outer())

    assert asyncio.run(root()) == [("main.1", "main.1.1"), ("main.2", "main.2.1")]


def test_each_trio_task_has_a_lane(here):
    found = []

    async def task():
        found.append(here())

    async def root():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task)
            nursery.start_soon(task)
        found.append(here())

    trio.run(root)
    assert sorted(found) == ["main", "main.1", "main.2"]


def test_each_job_has_a_lane_whoever_works_on_it(here):
    with ThreadPoolExecutor(1) as pool:
        assert sorted(pool.map(lambda _: here(), range(3))) == ["main.1", "main.2", "main.3"]
    assert here() == "main"


def test_a_loop_in_a_thread_is_that_threads_course(here):
    found = []

    async def root():
        found.append(here())

    def work():
        found.append(here())
        asyncio.run(root())
        asyncio.run(root())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["main.1"] * 3


def test_a_worker_older_than_its_tests_works_for_each_of_them():
    jobs, answers = queue.Queue(), queue.Queue()

    def work():
        while (job := jobs.get()) is not None:
            answers.put(job())

    worker = threading.Thread(target=work)
    worker.start()

    def look():
        return (
            interceptions.current(),
            interceptions.current().call_context().path,
            interceptions.current().call_context().path,
        )

    try:
        for _ in range(2):
            interception = interceptions.Interception(None, None)
            interceptions.open_for(interception)
            jobs.put(look)
            assert answers.get(timeout=5) == (interception, "main.1", "main.1")
            interception.end()
    finally:
        interceptions.open_for(None)
        jobs.put(None)
        worker.join()
