"""Timers of the program: one that falls due while the loop is at work is not early."""

import asyncio
import time

import pytest

from tests.ordering.driving import Stage

TRIED = {}


async def flaky(number):
    TRIED[number] = TRIED.get(number, 0) + 1
    await asyncio.sleep(0.002)
    if TRIED[number] % 3:
        raise ConnectionError(number)
    return number


def stand_still(seconds):
    time.sleep(seconds)


def retrying(busy):
    """Retries beside each other; `busy` is for how long the loop stands still at each answer, as on a loaded machine."""

    async def one(number):
        for attempt in range(1, 5):
            try:
                await flaky(number)
                break
            except ConnectionError:
                stand_still(busy)
                await asyncio.sleep(0.005 * attempt + number * 0.0005)

    async def act():
        TRIED.clear()
        return await asyncio.gather(*(one(number) for number in range(8)))

    return lambda: asyncio.run(act())


@pytest.mark.parametrize("busy", [0, 0.002, 0.005])
def test_retries_side_by_side_on_a_busy_machine(tmp_path, busy):
    stage = Stage(tmp_path, tools=(flaky,))
    stage.record(retrying(0))
    for _ in range(3):
        assert stage.replay(retrying(busy)).finding is None
