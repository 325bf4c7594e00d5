"""Calls that were given up or never ended: kept as such, never given out as values, and waited for only while it helps."""

import time

import pytest

AGENT = """
import asyncio, os, threading, time
import httpx2, trio

NOW = os.environ.get("PROGRAM") == "changed"
TAKES = {"a": 0.06, "b": 0.01, "c": 0.09}
URL = os.environ["MODEL_URL"] + "/v1"

async def ask(name):
    await asyncio.sleep(TAKES.get(name, 60))
    return name.upper()

async def ask_trio(name):
    await trio.sleep(TAKES.get(name, 60))
    return name.upper()

def work(name):
    time.sleep(2)
    return name.upper()

async def post(client, name, **more):
    body = {"model": "m-1", "messages": [{"role": "user", "content": name}], **more}
    return await client.post(URL + "/chat/completions", json=body)

async def given(up, seconds=None):
    # What is changed waits on where it had given up.
    try:
        await (up if NOW else asyncio.wait_for(up, 0.05))
    except TimeoutError:
        return "late"

async def parent_cancelled():
    # Its children go on without it; one of them is cancelled later.
    children = []
    async def parent():
        children.extend(asyncio.create_task(ask(name)) for name in ("endless", "a", "b"))
        await ask("also endless")
    task = asyncio.create_task(parent())
    await asyncio.sleep(0.03)
    if not NOW:
        task.cancel()
    await asyncio.wait([task])
    children[0].cancel()
    done, _ = await asyncio.wait(children)
    assert sorted(one.result() for one in done if not one.cancelled()) == ["A", "B"]

async def never_awaited():
    child = asyncio.create_task(ask("endless"))
    await ask("b")
    if NOW:
        await child

async def timed_out():
    assert await given(ask("endless")) == "late"
    await ask("b")

async def timed_out_beside():
    # The call that it waits beside has its answer before the timer, and after it.
    assert await asyncio.gather(given(ask("endless")), ask("b"), ask("c")) == ["late", "B", "C"]

def timed_out_on_trio():
    async def main():
        with trio.move_on_after(60 if NOW else 0.05):
            await ask_trio("endless")
    async def endless():
        await ask_trio("endless")
    trio.run(endless if NOW else main)

async def model():
    async with httpx2.AsyncClient(timeout=30) as client:
        assert await given(post(client, "endless")) == "late"

async def half_a_stream():
    body = {"model": "m-1", "messages": [{"role": "user", "content": "half"}], "stream": True}
    async with httpx2.AsyncClient(timeout=30) as client:
        async with client.stream("POST", URL + "/chat/completions", json=body) as reply:
            chunks = reply.aiter_bytes()
            await ask(await anext(chunks) and "b")
            assert await given(drained(chunks)) == "late"

async def drained(chunks):
    async for _ in chunks:
        pass

def in_a_thread():
    thread = threading.Thread(target=work, args=["endless"], daemon=True)
    thread.start()
    time.sleep(0.05)
    if NOW:
        thread.join()
"""

INI = """    agent.ask_trio
    agent.work
"""

GIVEN_UP = "is waited for; it was given up when recorded"
TOLD = {
    "parent_cancelled": f"[AR-EXTRA] call 1/4: tool ask {GIVEN_UP}",
    "never_awaited": f"[AR-EXTRA] call 2/2: tool ask {GIVEN_UP}",
    "timed_out": f"[AR-EXTRA] call 1/2: tool ask {GIVEN_UP}",
    "timed_out_beside": f"[AR-EXTRA] call 3/3: tool ask {GIVEN_UP}",
    "timed_out_on_trio": f"[AR-EXTRA] call 1/1: tool ask_trio {GIVEN_UP}",
    "model": f"[AR-EXTRA] turn 1/1: model m-1 {GIVEN_UP}",
    "half_a_stream": f"[AR-EXTRA] turn 1/1: model m-1 {GIVEN_UP}",
    "in_a_thread": "[AR-EXTRA] call 1/1: tool work is waited for; it had no answer when the recorded run ended",
}


def script(body, number):
    time.sleep(0.3)
    return "late"


@pytest.fixture(scope="module")
def outcomes(programs):
    return programs(AGENT, INI, script, pace=0.3)


def test_what_has_not_changed_replays(outcomes):
    assert outcomes.replayed(times=3) == {name: [""] * 3 for name in TOLD}


def test_who_waits_for_what_never_came_is_told(outcomes):
    assert outcomes.replayed(changed=True) == {name: [said] for name, said in TOLD.items()}


def test_they_are_kept_as_what_they_were(outcomes):
    given_up = {
        name: sorted(str(x.call.arguments["name"]) for x in outcomes.exchanges(name) if x.abandoned)
        for name in ("parent_cancelled", "never_awaited", "timed_out", "timed_out_beside", "timed_out_on_trio")
    }
    assert given_up == {name: ["endless"] for name in given_up} | {"parent_cancelled": ["also endless", "endless"]}
    (half, *_) = outcomes.exchanges("half_a_stream")
    assert half.outcome.failure.cancelled
    assert half.outcome.cuts
    (inflight,) = outcomes.exchanges("in_a_thread")
    assert (inflight.outcome, inflight.finish) == (None, None)
