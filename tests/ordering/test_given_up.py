"""A call that was given up when recorded is made again: one that changes something must be, others are reported."""

import asyncio
import threading

import pytest

from pytest_agentreplay.intercept.ordering.holding import Holding
from pytest_agentreplay.intercept.session.interceptions import Interception
from pytest_agentreplay.intercept.session.pending_call import AnswerOrder
from tests.support.tapes import Plain, Tape, body


async def pay(amount):
    await asyncio.sleep(0.01 if amount < 100 else 60)
    return amount


async def look_up(name):
    await asyncio.sleep(60)


def block(number):
    threading.Event().wait(0.5)


async def by_timeout(call):
    try:
        await asyncio.wait_for(call, 0.05)
    except TimeoutError:
        return "gave up"


async def by_cancelling(call):
    task = asyncio.create_task(call)
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait({task})


async def by_the_loops_end(call):
    asyncio.get_running_loop().unfinished = asyncio.create_task(call)
    await asyncio.sleep(0.02)


async def by_a_race(call):
    other = asyncio.create_task(pay(2))
    await asyncio.wait({asyncio.create_task(call), other}, return_when=asyncio.FIRST_COMPLETED)


GIVEN_UP = [by_timeout, by_cancelling, by_the_loops_end, by_a_race]


TOOLS = (pay, look_up, block)


def agent(give_up, call):
    async def act():
        await pay(1)
        if call is not None:
            await give_up(call())
        elif give_up is by_a_race:
            await pay(2)

    return lambda: asyncio.run(act())


@pytest.mark.parametrize("give_up", GIVEN_UP)
def test_a_write_that_is_not_begun_any_more_is_missing(stage, give_up):
    stage.record(agent(give_up, lambda: pay(999)))
    assert stage.replay(agent(give_up, lambda: pay(999))).finding is None
    finding = stage.replay(agent(give_up, None)).finding
    assert finding.code == "AR-MISSING"
    assert "tool pay was not called" in finding.headline


def test_a_look_up_that_is_not_begun_any_more_is_reported(stage):
    stage.record(agent(by_timeout, lambda: look_up("Ada")), tools=(("look_up", "read"),))
    replayed = stage.replay(agent(by_timeout, lambda: look_up("Ada")), tools=(("look_up", "read"),))
    assert replayed.finding is None
    assert replayed.run_session.replay.vanished == ()
    replayed = stage.replay(agent(by_timeout, None), tools=(("look_up", "read"),))
    assert replayed.finding is None
    assert replayed.run_session.replay.vanished == ("tool look_up",)


def test_a_thread_that_the_end_of_the_test_cut_off(stage):
    def act(*, begins=True):
        if begins:
            threading.Thread(target=block, args=(1,), daemon=True).start()
            threading.Event().wait(0.1)

    stage.record(act)
    assert stage.replay(act).finding is None
    assert stage.replay(lambda: act(begins=False)).finding.code == "AR-MISSING"


@pytest.mark.parametrize("held", [False, True])
def test_without_a_recorded_order_and_in_a_fork_it_waits_to_be_given_up_again(held):
    async def act(order):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(order.abandon(None), 0.05)

    with body(Interception(Tape(), Plain())) as interception:
        asyncio.run(act(Holding(Tape(), interception) if held else AnswerOrder()))
