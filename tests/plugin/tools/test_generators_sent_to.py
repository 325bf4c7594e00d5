"""What an agent sends and throws into a generator tool is recorded and compared, and where it stops."""

from dataclasses import replace

import pytest

from pytest_agentreplay import codec
from tests.support.small_projects import furnished, passed, recorded, summary

AGENT = """
import asyncio, os, pathlib

NOW = os.environ.get("NOW", "")
LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def note(got):
    with LEDGER.open("a") as ledger:
        ledger.write(f"{got}\\n")

def till(start):
    total, got = start, None
    while True:
        try:
            got = yield total
        except ValueError as error:
            got = -1
        note(got)
        total += got or 0

async def atill(start):
    total = start
    while True:
        try:
            got = yield total
        except ValueError as error:
            got = -1
        note(got)
        total += got or 0

def few():
    yield from (1, 2, 3)

async def afew():
    for number in (1, 2, 3, 4, 5):
        yield number

async def astuck():
    yield 1
    await asyncio.Event().wait()
"""

TESTS = """
import asyncio
import agent, pytest

NOW = agent.NOW

def test_send(agentreplay):
    till = agent.till(100)
    assert next(till) == 100
    till.send(999 if NOW == "value" else 1)
    till.send(5)
    if NOW == "close":
        till.send(5)
    till.close()

def test_next(agentreplay):
    till = agent.till(100)
    next(till)
    till.send(7 if NOW == "value" else None)
    if NOW != "close":
        next(till)
    till.close()

def test_throw(agentreplay):
    till = agent.till(100)
    next(till)
    if NOW == "value":
        till.send(-1)
    else:
        till.throw(ValueError("another" if NOW == "message" else "none left"))

def test_secret(agentreplay):
    till = agent.till(100)
    next(till)
    try:
        till.throw(ValueError("sk-live-0123456789abcdef is refused"))
    except BaseException:
        pytest.fail("a secret is compared as a placeholder")

@pytest.mark.parametrize("how", ["asend", "athrow"])
def test_async(agentreplay, how):
    async def use():
        till = agent.atill(100)
        await anext(till)
        if how == "asend":
            await till.asend({"amount": 1}["amount"] if NOW != "value" else 999)
        else:
            await till.athrow(ValueError("other" if NOW == "value" else "none left"))
        await till.aclose()
    asyncio.run(use())

def test_all(agentreplay):
    for item in agent.few():
        if NOW == "close" and item == 2:
            break

EARLY = {"close": 2, "ask": 4}.get(NOW, 3)

def test_early(agentreplay):
    few = agent.few()
    [next(few, None) for _ in range(EARLY - 1)]
    few.close()

@pytest.mark.parametrize("how", ["aclose", "break", "left"])
def test_early_async(agentreplay, how):
    async def use():
        few = agent.afew()
        for _ in range(EARLY - 1):
            await anext(few)
        async for _ in few:
            if how == "left":
                return few  # for the loop to close
            break
        if how == "aclose":
            await few.aclose()
    asyncio.run(use())

def test_given_up(agentreplay):
    "Nobody can tell who asks for an item that never comes from who does not ask: either way it is the first that came."
    async def use():
        stuck = agent.astuck()
        await anext(stuck)
        if NOW == "close":
            return await stuck.aclose()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stuck), 0.05)
    asyncio.run(use())

def test_all_async(agentreplay):
    async def use():
        return [item async for item in agent.afew() if NOW != "close" or item < 3]
    async def stop():
        async for item in agent.afew():
            if item == 2:
                return
    asyncio.run(stop() if NOW == "close" else use())
"""

INI = """agentreplay_tools =
    agent.till
    agent.atill
    agent.few
    agent.afew
    agent.astuck
"""

EARLY_ASYNC = [f"early_async[{how}]" for how in ("aclose", "break", "left")]


@pytest.fixture(scope="module")
def tills(shared_project):
    return recorded(furnished(shared_project(), INI, agent=AGENT, test_till=TESTS))


def codes(done):
    """The tests that a replay has failed, each with its code."""
    return {name: said.partition("]")[0].lstrip("[") for name, said in summary(done).items()}


ARGS, EXTRA = "AR-ARGS", "AR-EXTRA"
TOLD = {
    "": {},
    "value": dict.fromkeys(("send", "next", "throw", "async[asend]", "async[athrow]"), ARGS),
    "message": {"throw": ARGS},
    "close": dict.fromkeys(("send", "next", "all", "early", *EARLY_ASYNC, "all_async"), ARGS),
    "ask": dict.fromkeys(("early", *EARLY_ASYNC), EXTRA),
}
"""What each change of the agent is told by; none replays."""


@pytest.mark.parametrize("now", TOLD)
def test_other_values_are_a_divergence(tills, now):
    done = tills.offline(NOW=now, COLUMNS="200")
    assert codes(done) == TOLD[now]
    closed = done.stdout.count("tool afew: closed after item 2; in the recording after 3 items")
    asked = done.stdout.count("tool afew: item 4 was asked for; in the recording nobody went beyond 3")
    assert (closed >= len(EARLY_ASYNC), asked >= len(EARLY_ASYNC)) == (now == "close", now == "ask")


def test_where_a_consumer_stops_is_recorded(tills):
    replies = [x.outcome for s in tills.snapshots for x in s.run.exchanges]
    assert [reply.items for reply in replies if reply.closed].count((1, 2, 3)) == len(EARLY_ASYNC)


def test_what_is_kept_holds_no_secret_and_older_recordings_replay(tills):
    kept = [x.outcome.sent for s in tills.snapshots for x in s.run.exchanges]
    assert ({"after": 1, "value": 1}, {"after": 2, "value": 5}) in kept
    assert "sk-live" not in str(kept)
    for file, snapshot in zip(tills.files, tills.snapshots, strict=True):
        older = [replace(x, outcome=replace(x.outcome, sent=None)) for x in snapshot.run.exchanges]
        file.write_text(codec.dumps(replace(snapshot.run, exchanges=tuple(older))), encoding="utf-8")
    passed(tills.offline())
    assert codes(tills.offline(NOW="value")) == {}
