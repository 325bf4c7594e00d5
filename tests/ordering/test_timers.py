"""Timers of the program: one that falls due while the loop is at work is not early."""

import asyncio
import contextlib
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_agentreplay.plugin import proofs
from pytest_agentreplay.report.notices import TIMED, judge_proof
from pytest_agentreplay.report.summary import Proof

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


@pytest.mark.parametrize("busy", [0, 0.005])
def test_retries_side_by_side_on_a_busy_machine(stage, busy):
    stage.record(retrying(0))
    for _ in range(2):
        assert stage.replay(retrying(busy)).finding is None


async def look_up(place):
    await asyncio.sleep(0.2 if place == "far" else 0.005)
    return place


TOOLS = (flaky, look_up)


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


@pytest.mark.parametrize("slower", [1, 8])
def test_work_before_a_timer_may_take_any_time(stage, slower):
    """The program is not idle while it works: how fast this machine is decides nothing."""
    stage.record(pausing(0.05, sleep))
    assert stage.replay(pausing(0.05 * slower, sleep), order="recorded").finding is None


def line_of(text):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


@pytest.mark.parametrize(
    ("pause", "line", "begins"),
    [
        (long_sleep, "await asyncio.sleep(30)", "a timer of 30 s set at "),
        (long_timeout, "await asyncio.get_running_loop().create_future()", ""),
    ],
    ids=["sleep", "timeout"],
)
def test_the_report_of_a_stall_names_the_timer_that_was_pending(stage, pause, line, begins):
    """A timeout is named by the line that it stands around."""
    stage.record(pausing(0, sleep))
    finding = stage.replay(pausing(0, pause), order="recorded").finding
    assert finding.code == "AR-ORDER"
    (told,) = [line.text for line in finding.lines if "still pending" in line.text]
    assert told.startswith(begins)
    assert f"test_timers.py:{line_of(line)}" in told


async def batched(place):
    """Asks for each by itself, and for all that came within a time together."""
    waiting = asyncio.Queue()

    async def batch():
        items = [await waiting.get()]
        with contextlib.suppress(TimeoutError):
            while len(items) < 5:
                items.append(await asyncio.wait_for(waiting.get(), 0.01))
        await look_up(len(items))

    async def one(number):
        await waiting.put(await look_up(f"{place}{number}"))

    await asyncio.gather(batch(), one(1), one(2), look_up("far"))


async def beside(place):
    await asyncio.gather(look_up(f"{place}1"), look_up(f"{place}2"))


@pytest.mark.parametrize(("program", "timed"), [(batched, True), (beside, False)])
def test_a_replay_whose_answers_wait_for_a_timer_says_so(stage, program, timed):
    stage.record(lambda: asyncio.run(program("a")))
    replayed = stage.replay(lambda: asyncio.run(program("a")))
    assert replayed.finding is None
    assert judge_proof("passed", replayed.run_session.summarize(), "", None).why == (TIMED if timed else "")


@pytest.mark.parametrize(
    ("replays", "count", "said"),
    [
        ([True] * 5, 5, TIMED),
        ([True, True, False], 3, f"replay 3 of 5 failed, for {TIMED}: [AR-ARGS] another batch"),
    ],
)
def test_what_waits_for_timers_is_proved_more_than_once(monkeypatch, replays, count, said):
    results = [Proof(good, TIMED if good else "[AR-ARGS] another batch") for good in replays]
    made, rows = iter(results), []
    monkeypatch.setattr(proofs, "replay_recording", lambda *_: (next(made), None))
    monkeypatch.setattr(proofs, "get_nodeid", lambda item: item.name)
    prover = object.__new__(proofs.ProofPlanRunner)
    prover.reads = {}
    prover.tests = {"test": {"outcome": "passed", "broken": []}}
    prover.write = lambda **row: rows.append(row)
    prover.pytest_runtest_protocol(SimpleNamespace(name="test", iter_markers=list), None)
    assert (rows[-1]["proof"]["why"], len([*made]), len(results)) == (said, 0, count)
