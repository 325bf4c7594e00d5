"""Who runs in which lane: a thread's own course is one, each job, thread and task that it starts has one of its own."""

import asyncio
import queue
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
import trio

from pytest_agentreplay.intercept.session import interceptions, lanes
from tests.support.tapes import Tape, running


@pytest.fixture
def in_a_test():
    with running(Tape()):
        yield


def here():
    """The path of the lane that the caller runs in."""
    return interceptions.find_interception().call_context().path


async def task():
    return here()


@pytest.mark.usefixtures("in_a_test")
def test_what_a_thread_runs_one_after_the_other_is_its_own_course():
    assert [asyncio.run(task()), here(), trio.run(task), anyio.run(task)] == ["main"] * 4
    with asyncio.Runner() as runner:
        assert [runner.run(task()), runner.run(task())] == ["main", "main"]
    assert here() == "main"
    found = []
    thread = threading.Thread(target=lambda: found.extend([here(), asyncio.run(task()), asyncio.run(task())]))
    thread.start()
    thread.join()
    assert found == ["main.1"] * 3


@pytest.mark.usefixtures("in_a_test")
def test_each_task_has_a_lane_below_the_one_that_began_it():
    async def outer():
        return here(), await asyncio.create_task(task())

    async def root():
        found = await asyncio.gather(task(), task())
        return [*found, await asyncio.create_task(task()), await task(), *await asyncio.gather(outer(), outer())]

    tasks = ["main.1", "main.2", "main.3", "main"]
    assert asyncio.run(root()) == [*tasks, ("main.4", "main.4.1"), ("main.5", "main.5.1")]


@pytest.mark.usefixtures("in_a_test")
def test_each_trio_task_has_a_lane():
    found = []

    async def note():
        found.append(here())

    async def root():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(note)
            nursery.start_soon(note)
        found.append(here())

    trio.run(root)
    assert sorted(found) == ["main", "main.1", "main.2"]


@pytest.mark.usefixtures("in_a_test")
def test_each_job_has_a_lane_whoever_works_on_it():
    with ThreadPoolExecutor(1) as pool:
        assert sorted(pool.map(lambda _: here(), range(3))) == ["main.1", "main.2", "main.3"]
    assert here() == "main"


def test_a_worker_older_than_its_tests_works_for_each_of_them():
    jobs, answers = queue.Queue(), queue.Queue()

    def work():
        while (job := jobs.get()) is not None:
            answers.put(job())

    worker = threading.Thread(target=work)
    worker.start()
    for _ in range(2):
        with running(Tape()) as backend:
            jobs.put(lambda: (interceptions.find_interception(), here(), here()))
            assert answers.get(timeout=5) == (backend.interception, "main.1", "main.1")
    jobs.put(None)
    worker.join()


def test_trio_that_another_thread_is_importing_is_not_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "trio", types.ModuleType("trio"))
    assert lanes.find_runner() == threading.get_ident()
    assert not lanes.is_in_loop()
