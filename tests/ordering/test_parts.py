"""Answers that come in parts, and failures: each comes back at its own moment among what the other tasks do."""

import asyncio


async def tokens(pauses):
    for pause in pauses:
        if pause is not None:
            await asyncio.sleep(pause)
        yield pause


async def fetch(pause):
    await asyncio.sleep(pause)
    if pause:
        raise LookupError(pause)


TOOLS = (tokens, fetch)


def same(stage, program):
    recorded = stage.record(lambda: asyncio.run(program()))
    replayed = stage.replay(lambda: asyncio.run(program()), order="recorded")
    assert replayed.finding is None, replayed.finding
    assert replayed.result == recorded.result
    return recorded.result


def test_items_that_came_at_once_come_at_once(stage):
    async def program():
        log = []

        async def read():
            async for item in tokens([None, None, 0.001, None]):
                said = f"read {item}"
                log.append(said)

        async def beside():
            log.append("beside")
            await fetch(0)
            log.append("fetched")

        await asyncio.gather(read(), beside())
        return log

    assert same(stage, program)[:3] == ["read None", "read None", "beside"]


def test_between_two_items_the_other_tasks_go_on_though_they_call_nothing(stage):
    async def program():
        log, queue = [], asyncio.Queue()

        async def produce():
            async for number in tokens([0.001, 0.002, 0.003]):
                log.append(f"made {number}")
                queue.put_nowait(number)

        async def consume():
            for _ in range(3):
                number = await queue.get()
                log.append(f"took {number}")

        await asyncio.gather(produce(), consume())
        return log

    assert same(stage, program) == [f"{did} 0.00{n}" for n in (1, 2, 3) for did in ("made", "took")]


def test_two_failures_in_one_round_of_the_loop_come_one_after_the_other(stage):
    async def program():
        log = []

        async def one(name):
            try:
                await fetch(0.001)
            except LookupError:
                log.append(f"{name} failed")
            await asyncio.sleep(0)
            log.append(f"{name} went on")

        await asyncio.gather(one("a"), one("b"))
        return log

    assert same(stage, program) == ["a failed", "a went on", "b failed", "b went on"]
