"""Replays that keep no order (`order="free"`, `--replay-tools=verify`) end where nothing can come any more."""

import pytest

AGENT = """
import asyncio, os, threading

NOW = os.environ.get("PROGRAM") == "changed"

async def ask(name):
    await asyncio.sleep(30 if name == "never" else 0.005)
    return name.upper()

async def look(name):
    # Runs for real where tools are verified, longer than a stall takes there.
    await asyncio.sleep(1.5 if NOW else 0.005)
    return name.upper()

async def given_up():
    # Recorded as cancelled; now nobody cancels it.
    await ask("first")
    call = asyncio.create_task(ask("never"))
    if not NOW:
        await asyncio.sleep(0.05)
        call.cancel()
    await asyncio.wait({call})

async def not_made():
    ready = asyncio.Event()
    async def producer():
        await ask("a")
        if not NOW:
            await ask("b")
            ready.set()
    async def consumer():
        await ready.wait()  # what no call brings any more
        await ask("c")
    await asyncio.gather(producer(), consumer())

async def slow():
    await asyncio.gather(look("x"), look("y"))
    await ask("z")
"""

INI = "    agent.look = read\n"

TOLD = {
    "given_up": "[AR-EXTRA] call 2/2: tool ask is waited for; it was given up when recorded",
    "not_made": "[AR-MISSING] call 2/3: the test ended, tool ask was not called, and 1 more",
    "slow": "",
}


@pytest.fixture(scope="module")
def unordered(programs):
    return programs(AGENT, INI)


@pytest.mark.parametrize(
    "words", [("-o", "agentreplay_order=free"), ("--replay-tools=verify",)], ids=["free", "verify"]
)
def test_a_wait_that_never_ends_is_reported(unordered, words):
    assert unordered.replayed(*words) == {name: [""] for name in TOLD}
    told = unordered.replayed(*words, changed=True)
    assert {name: said for name, (said,) in told.items()} == TOLD
    assert "nothing that still runs can end that: the test was ended" in unordered.said
