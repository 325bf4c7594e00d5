"""Programs of tasks that are not what they were when recorded: each ends with a report that names both sides."""

import re
import time

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import asyncio, os
import httpx2, openai

NOW = os.environ.get("PROGRAM") == "changed"
TAKES = {"a": 0.4, "b": 0.05, "c": 0.2}
URL = os.environ["MODEL_URL"] + "/v1"

async def ask(name):
    if name in TAKES:
        await asyncio.sleep(TAKES[name])
    return name.upper()

async def in_turn(*names):
    return [await ask(name) for name in names]

async def at_once(*names):
    return await asyncio.gather(*map(ask, names))

async def sequence():
    await (in_turn if NOW else at_once)("a", "b", "c")

async def limit():
    places = asyncio.Semaphore(1 if NOW else 3)
    async def one(name):
        async with places:
            return await ask(name)
    await asyncio.gather(*map(one, "abc"))

async def dropped():
    await at_once(*("ac" if NOW else "abc"))

async def dropped_last():
    await at_once(*("bc" if NOW else "abc"))

async def together():
    await (at_once if NOW else in_turn)("a", "b")

async def swapped():
    await in_turn(*("acb" if NOW else "abc"))

async def extra():
    await in_turn(*("abcd" if NOW else "abc"))

async def extra_beside():
    await at_once(*("abcd" if NOW else "abc"))

async def timeout():
    try:
        await asyncio.wait_for((in_turn if NOW else at_once)("a", "b", "c"), 2)
    except TimeoutError:
        raise RuntimeError("the timer of two seconds was let run")

async def inline():
    # A tool that never suspends: its calls come one after the other, whoever makes them.
    await at_once("a", *(f"inline {n}" for n in range(300)), *(["inline 300"] if NOW else []))

async def lock():
    held = asyncio.Semaphore(9) if NOW else asyncio.Lock()
    async def one(name):
        async with held:
            return await ask(name)
    await asyncio.gather(one("a"), one("b"))

async def queue():
    items = asyncio.Queue()
    async def produce():
        await items.put(await ask("a"))
    async def consume():
        if not NOW:
            await items.get()
        await ask("b")
    await asyncio.gather(produce(), consume())

async def event():
    ready = asyncio.Event()
    async def first():
        await ask("a")
        ready.set()
    async def second():
        if not NOW:
            await ready.wait()
        await ask("b")
    await asyncio.gather(first(), second())

async def winner():
    over = asyncio.Event()
    async def slow():
        await ask("a")
        over.set()
    async def fast():
        if NOW:
            await over.wait()
        await ask("b")
    tasks = [asyncio.create_task(slow(), name="a"), asyncio.create_task(fast(), name="b")]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await ask("then " + done.pop().get_name())
    await asyncio.wait(left)

async def loser():
    tasks = [asyncio.create_task(ask(name), name=name) for name in "ab"]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await ask("then " + (left if NOW else done).pop().get_name())
    await asyncio.wait(tasks)

async def model_httpx2():
    async with httpx2.AsyncClient() as client:
        async def one(name):
            body = {"model": "m-1", "messages": [{"role": "user", "content": name}]}
            return (await client.post(URL + "/chat/completions", json=body)).json()
        if NOW:
            [await one(name) for name in "abc"]
        else:
            await asyncio.gather(*map(one, "abc"))

async def model_openai():
    async with openai.AsyncOpenAI(base_url=URL, api_key="k") as client:
        places = asyncio.Semaphore(1 if NOW else 3)
        async def one(name):
            async with places:
                messages = [{"role": "user", "content": name}]
                return await client.chat.completions.create(model="m-1", messages=messages)
        await asyncio.gather(*map(one, "abc"))
"""

A, B, C = (f'tool ask {{"name":"{name}"}}' for name in "abc")
NOT_CALLED = f"{B} is not called, but was answered before {A}"
TOO_EARLY = f"{B} came before {A}, which is recorded first"
NO_MODEL = "model m-1, last message: b is not called, but was answered before model m-1, last message: a"

TOLD = {
    "sequence": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "limit": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "dropped": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "dropped_last": "[AR-MISSING] call 1/3: the test ended, tool ask was not called",
    "together": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "swapped": f"[AR-ORDER] call 3/3: {C} came before {B}, which is recorded first",
    "extra": "[AR-EXTRA] after call 3/3: one call more than recorded, tool ask",
    "extra_beside": "[AR-EXTRA] after call 3/3: one call more than recorded, tool ask",
    "timeout": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "inline": "[AR-EXTRA] after call 301/301: one call more than recorded, tool ask",
    "lock": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "queue": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "event": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "winner": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "loser": "[AR-ARGS] call 3/3: tool ask: $.name changed, b -> a",
    "model_httpx2": f"[AR-ORDER] turn 1/1 of its lane: {NO_MODEL}",
    "model_openai": f"[AR-ORDER] turn 1/1 of its lane: {NO_MODEL}",
}


def script(body, number):
    name = body["messages"][-1]["content"]
    time.sleep({"a": 1, "b": 0.01, "c": 0.5}[name])
    return name.upper()


@pytest.fixture(scope="module")
def hazards(programs):
    return programs(AGENT, script=script)


def of_its_lane(line):
    return re.sub(r"of lane main\.\d \(call \d of \d\)", "of its lane", line)


def test_what_has_not_changed_replays(hazards):
    assert hazards.replayed(times=3) == {name: [""] * 3 for name in TOLD}


def test_each_change_is_told(hazards):
    # Which of two clients connects first, and so which lane is the first, is chance.
    said = {name: [of_its_lane(line) for line in lines] for name, lines in hazards.replayed(changed=True).items()}
    assert said == {name: [line] for name, line in TOLD.items()}
    assert "the timer of two seconds" not in hazards.said
