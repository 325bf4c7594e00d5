"""Ways to run functions of no arguments in threads: one after the other, and at once. Each gives their results."""

import asyncio
import functools
import multiprocessing.dummy
import multiprocessing.pool
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import anyio
import anyio.to_thread


def plainly(functions):
    return [function() for function in functions]


def plainly_in_a_loop(functions):
    async def act():
        return plainly(functions)

    return asyncio.run(act())


def in_jobs(functions):
    with ThreadPoolExecutor(2) as executor:
        return [executor.submit(function).result() for function in functions]


def in_threads(functions):
    return [threads([function])[0] for function in functions]


def to_threads(functions, run=asyncio.run):
    async def act():
        return [await asyncio.to_thread(function) for function in functions]

    return run(act())


def to_anyio_threads(functions):
    async def act():
        return [await anyio.to_thread.run_sync(function) for function in functions]

    return anyio.run(act)


IN_THREADS_IN_TURN = (in_jobs, in_threads, to_threads, to_anyio_threads)
IN_TURN = (plainly, plainly_in_a_loop, *IN_THREADS_IN_TURN)


def pool(functions, workers=16):
    with ThreadPoolExecutor(workers) as executor:
        return [job.result() for job in [executor.submit(function) for function in functions]]


def threads(functions):
    results = [None] * len(functions)

    def work(number):
        results[number] = functions[number]()

    started = [threading.Thread(target=work, args=(number,)) for number in range(len(functions))]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return results


def beside_a_thread(functions):
    """All but the first in threads, the first in the caller's own."""
    results = []
    thread = threading.Thread(target=lambda: results.extend(threads(functions[1:])))
    thread.start()
    first = functions[0]()
    thread.join()
    return [first, *results]


def gathered_threads(functions, run=asyncio.run):
    async def act():
        return await asyncio.gather(*(asyncio.to_thread(function) for function in functions))

    return run(act())


def anyio_threads(functions, backend="asyncio"):
    async def act():
        results = [None] * len(functions)

        async def work(number):
            results[number] = await anyio.to_thread.run_sync(functions[number])

        async with anyio.create_task_group() as group:
            for number in range(len(functions)):
                group.start_soon(work, number)
        return results

    return anyio.run(act, backend=backend)


def copied_contexts(functions):
    """As LangGraph and langchain-core submit: the function runs in a copy of the context, taken beforehand."""
    with ThreadPoolExecutor(16) as executor:
        first = [executor.submit(copy_context().run, function) for function in functions]
        second = [executor.submit(functools.partial(copy_context().run, function)) for function in functions]
        hidden = [executor.submit(functools.partial(within, copy_context(), function)) for function in functions]
        return [job.result() for job in (*first, *second, *hidden)]


def within(context, function):
    return context.run(function)


def thread_pool(functions):
    with multiprocessing.pool.ThreadPool(8) as made:
        return made.map(lambda function: function(), functions)


def thread_pool_of_dummies(functions):
    with multiprocessing.dummy.Pool(3) as made:
        call = [(function,) for function in functions]
        return [*made.imap(lambda one: one(), functions), *made.starmap(lambda one: one(), call, 2)]
