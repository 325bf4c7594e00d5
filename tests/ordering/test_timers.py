"""Timers of the program: one that falls due while the loop is at work is not early."""

import asyncio
import time
from pathlib import Path

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


async def look_up(place):
    await asyncio.sleep(0.2 if place == "far" else 0.005)
    return place


def pausing(working, pause):
    """A task that works `working` seconds between two calls and sleeps 0.02 s, beside a call that takes longer."""

    async def near():
        await look_up("here")
        stand_still(working)
        await pause()
        await look_up("there")

    async def act():
        await asyncio.gather(look_up("far"), near())

    return lambda: asyncio.run(act())


async def sleep():
    await asyncio.sleep(0.02)


async def long_sleep():
    await asyncio.sleep(30)


async def long_timeout():
    async with asyncio.timeout(30):
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("slower", [1, 4, 16])
def test_work_before_a_timer_may_take_any_time(tmp_path, slower):
    """The program is not idle while it works: how fast this machine is decides nothing."""
    stage = Stage(tmp_path, tools=(look_up,))
    stage.record(pausing(0.05, sleep))
    assert stage.replay(pausing(0.05 * slower, sleep), order="recorded").finding is None


def line_of(text):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_the_report_of_a_stall_names_the_timer_that_was_pending(tmp_path):
    stage = Stage(tmp_path, tools=(look_up,))
    stage.record(pausing(0, sleep))
    finding = stage.replay(pausing(0, long_sleep), order="recorded").finding
    assert finding.code == "AR-ORDER"
    at = f"test_timers.py:{line_of('await asyncio.sleep(30)')}"
    (told,) = [line.text for line in finding.lines if "still pending" in line.text]
    assert told.startswith("a timer of 30 s set at ")
    assert f"{at} was still pending" in told


def test_a_timeout_that_was_pending_is_named_by_the_line_that_it_stands_around(tmp_path):
    stage = Stage(tmp_path, tools=(look_up,))
    stage.record(pausing(0, sleep))
    finding = stage.replay(pausing(0, long_timeout), order="recorded").finding
    assert finding.code == "AR-ORDER"
    at = f"test_timers.py:{line_of('await asyncio.get_running_loop().create_future()')}"
    (told,) = [line.text for line in finding.lines if "still pending" in line.text]
    assert f"{at}, due in " in told
