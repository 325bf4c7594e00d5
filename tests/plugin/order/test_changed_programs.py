"""Programs of tasks, threads and children that are not what they were when recorded: each ends, and both sides are named.

What overlapped is waited for as long as it may still come; what was given up is never given out as a value; look-ups may
change places under `order="loose"`; and where no order is kept, a wait ends when nothing can come any more.
"""

import os
import re
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import asyncio, os, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import httpx2, openai, trio

NOW = os.environ.get("PROGRAM") == "changed"
TAKES = {"a": 0.4, "b": 0.05, "c": 0.2, "long": 1.5, "endless": 60, "also endless": 60}
URL = os.environ["MODEL_URL"] + "/v1"

async def ask(name):
    if name in TAKES:
        await asyncio.sleep(TAKES[name])
    return name.upper()

async def ask_trio(name):
    await trio.sleep(60)

def work(name):
    time.sleep(min(TAKES[name], 2))
    return name.upper()

async def look(name):
    await asyncio.sleep(TAKES[name])
    return name.upper()

async def look_slowly(name):
    # Runs for real where tools are verified, longer than a stall takes there.
    await asyncio.sleep(1.5 if NOW else 0.005)
    return name.upper()

def search(query):
    return [query.upper()]

async def post(client, name, **more):
    body = {"model": "m-1", "messages": [{"role": "user", "content": name}], **more}
    return await client.post(URL + "/chat/completions", json=body)

async def in_turn(*names):
    return [await ask(name) for name in names]

async def at_once(*names):
    return await asyncio.gather(*map(ask, names))

# Tasks

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

async def extra_beside():
    await at_once(*("abc" if NOW else "ab"))

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

async def model_openai():
    async with openai.AsyncOpenAI(base_url=URL, api_key="k") as client:
        places = asyncio.Semaphore(1 if NOW else 3)
        async def one(name):
            async with places:
                messages = [{"role": "user", "content": name}]
                return await client.chat.completions.create(model="m-1", messages=messages)
        await asyncio.gather(*map(one, "abc"))

# Threads, jobs and child processes

async def beside(first, other="a"):
    # Nobody sees what `first` does; what follows it comes while another call waits.
    async def after():
        await first
        if not NOW:
            await ask("c")
    await asyncio.gather(after(), ask(other))

def pool():
    with ThreadPoolExecutor(1 if NOW else 3) as workers:
        list(workers.map(work, "abc"))

async def pool_of_the_loop():
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1 if NOW else 3) as workers:
        await asyncio.gather(*(loop.run_in_executor(workers, work, name) for name in "abc"))

def threads():
    begun = [threading.Thread(target=work, args=[name]) for name in "abc"]
    for thread in begun:
        thread.start()
        if NOW:
            thread.join()
    for thread in begun:
        thread.join()

async def work_in_an_executor():
    with ThreadPoolExecutor(1) as workers:
        await beside(asyncio.get_running_loop().run_in_executor(workers, time.sleep, 0.05))

async def slow_child():
    # No thread waits for it, and it takes longer than the silence after which the order counts as lost.
    async def run():
        loop = asyncio.get_running_loop()
        program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.8)"], stdout=subprocess.PIPE)
        closed = loop.create_future()
        loop.add_reader(program.stdout, closed.set_result, None)
        await closed
        loop.remove_reader(program.stdout)
        program.communicate()
    await beside(run(), "long")

async def talking_child():
    async def run():
        pipe = asyncio.subprocess.PIPE
        program = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(input())", stdin=pipe, stdout=pipe)
        await program.communicate(b"hello")
    await beside(run(), "long")

# Given up, or never ended

async def given(up):
    # What is changed waits on where it had given up.
    try:
        await (up if NOW else asyncio.wait_for(up, 0.1))
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

async def timed_out_beside():
    # The calls that it waits beside have their answers before the timer, and after it.
    assert await asyncio.gather(given(ask("endless")), ask("b"), ask("c")) == ["late", "B", "C"]

def timed_out_on_trio():
    async def main():
        with trio.move_on_after(0.05):
            await ask_trio("endless")
    trio.run(ask_trio, "endless") if NOW else trio.run(main)

async def half_a_stream():
    async with httpx2.AsyncClient(timeout=30) as client:
        body = {"model": "m-1", "messages": [{"role": "user", "content": "half"}], "stream": True}
        async with client.stream("POST", URL + "/chat/completions", json=body) as reply:
            chunks = reply.aiter_bytes()
            await ask(await anext(chunks) and "b")
            async def drained():
                async for _ in chunks:
                    pass
            assert await given(drained()) == "late"

def in_a_thread():
    thread = threading.Thread(target=work, args=["endless"], daemon=True)
    thread.start()
    time.sleep(0.05)
    if NOW:
        thread.join()

# Calls that change places

async def each(call):
    for name in "ba" if NOW else "ab":
        await call(name)

def read_tools():
    return each(look)

def retrievals():
    for query in "ba" if NOW else "ab":
        search(query)

async def gets():
    async with httpx2.AsyncClient() as client:
        await each(lambda name: client.get(f"{URL}/{name}"))

def write_tools():
    return each(ask)

async def models():
    async with httpx2.AsyncClient() as client:
        await each(lambda name: post(client, name))

# Waits that no call can end

async def cancelled():
    await ask("b")
    call = asyncio.create_task(ask("endless"))
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
    await asyncio.gather(look_slowly("x"), look_slowly("y"))
    await ask("b")
"""

INI = """    agent.ask_trio
    agent.work
    agent.look = read
    agent.look_slowly = read
agentreplay_retrievals = agent.search
agentreplay_allow_subprocess = python
"""

A, B, C, LONG = (f'tool ask {{"name":"{name}"}}' for name in ("a", "b", "c", "long"))
NOT_CALLED = f"{B} is not called, but was answered before {A}"
TOO_EARLY = f"{B} came before {A}, which is recorded first"
LIMITED = f"[AR-ORDER] call ?/3: {NOT_CALLED.replace('tool ask', 'tool work')}"
NO_MODEL = "model m-1, last message: b is not called, but was answered before model m-1, last message: a"
GIVEN_UP = "is waited for; it was given up when recorded"
PLACES = {
    "read_tools": f"[AR-ORDER] call 2/2: {TOO_EARLY.replace('tool ask', 'tool look')}",
    "retrievals": f"[AR-ORDER] call 2/2: {TOO_EARLY.replace('tool ask', 'retrieval search').replace('name', 'query')}",
    "gets": "[AR-ORDER] call 2/2: ",
    "write_tools": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "models": "[AR-ORDER] turn 2/2: ",
}
LOOSE = {"read_tools", "retrievals", "gets", "sequence"}
"""What may change places where the order is loose: look-ups, and what was under way at once."""
TOLD = PLACES | {
    "sequence": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "limit": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "dropped": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "dropped_last": "[AR-MISSING] call 1/3: the test ended, tool ask was not called",
    "together": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "extra_beside": "[AR-EXTRA] after call 2/2: one call more than recorded, tool ask",
    "timeout": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "inline": "[AR-EXTRA] after call 301/301: one call more than recorded, tool ask",
    "lock": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "winner": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "model_openai": f"[AR-ORDER] turn 1/1 of its lane: {NO_MODEL}",
    "pool": LIMITED,
    "pool_of_the_loop": LIMITED,
    "threads": LIMITED,
    "work_in_an_executor": f"[AR-ORDER] call ?/2: {C} is not called, but was answered before {A}",
    "slow_child": f"[AR-ORDER] call ?/2: {C} is not called, but was answered before {LONG}",
    "talking_child": f"[AR-ORDER] call ?/2: {C} is not called, but was answered before {LONG}",
    "parent_cancelled": f"[AR-EXTRA] call 1/4: tool ask {GIVEN_UP}",
    "timed_out_beside": f"[AR-EXTRA] call 3/3: tool ask {GIVEN_UP}",
    "timed_out_on_trio": f"[AR-EXTRA] call 1/1: tool ask_trio {GIVEN_UP}",
    "half_a_stream": f"[AR-EXTRA] turn 1/1: model m-1 {GIVEN_UP}",
    "in_a_thread": "[AR-EXTRA] call 1/1: tool work is waited for; it had no answer when the recorded run ended",
    "cancelled": f"[AR-EXTRA] call 2/2: tool ask {GIVEN_UP}",
    "not_made": "[AR-MISSING] call 2/3: the test ended, tool ask was not called, and 1 more",
    "slow": "",
}
UNORDERED = {name: TOLD[name] for name in ("cancelled", "not_made", "slow")}


def script(body, number):
    name = body["messages"][-1]["content"] if body else ""
    time.sleep({"a": 0.5, "b": 0.01, "c": 0.2}.get(name, 0.3))
    return name.upper()


@pytest.fixture(scope="module")
def changed(programs):
    return programs(AGENT, INI, script, pace=0.3)


def told(programs, *words, **more):
    """What each program is told; which lane, and which call of several threads, is the first is chance: it is "?"."""
    found = {}
    for name, (said,) in programs.replayed(*words, changed=True, **more).items():
        line = re.sub(r"of lane main\.\d \(call \d of \d\)", "of its lane", said)
        found[name] = re.sub(r"call \d/", "call ?/", line) if "call ?/" in TOLD[name] else line
    return found


def only(names):
    return "-k", " or ".join(f"[{name}]" for name in names)


def test_what_has_not_changed_replays(changed):
    assert changed.replayed(times=3) == {name: [""] * 3 for name in TOLD}


@pytest.mark.exhaustive
def test_nothing_is_taken_for_gone_on_a_busy_machine(changed):
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        assert changed.replayed(times=20) == {name: [""] * 20 for name in TOLD}
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_each_change_is_told(changed):
    found = told(changed, *only(TOLD.keys() - {"not_made"}))
    shown = {name: line[: len(TOLD[name])] if name in PLACES else line for name, line in found.items()}
    assert shown == {name: TOLD[name] for name in TOLD if name != "not_made"}
    assert "the timer of two seconds" not in changed.said


def test_look_ups_may_change_places_under_a_loose_order_and_no_other_call(changed):
    found = told(changed, "-o", "agentreplay_order=loose", *only({*PLACES, *LOOSE}))
    missing = "[AR-MISSING] turn 1/2: model m-1, last message: a was not called before model m-1, last message: b"
    assert found == dict.fromkeys(LOOSE, "") | {"write_tools": TOLD["write_tools"], "models": missing}


@pytest.mark.parametrize(
    "words", [("-o", "agentreplay_order=free"), ("--replay-tools=verify",)], ids=["free", "verify"]
)
def test_a_wait_that_never_ends_is_reported_where_no_order_is_kept(changed, words):
    assert changed.replayed(*words, *only(UNORDERED)) == {name: [""] for name in UNORDERED}
    assert told(changed, *words, *only(UNORDERED)) == UNORDERED
    assert "nothing that still runs can end that: the test was ended" in changed.said


def test_what_was_given_up_is_kept_as_that(changed):
    given_up = {
        name: sorted(str(x.call.arguments["name"]) for x in changed.exchanges(name) if x.abandoned)
        for name in ("parent_cancelled", "timed_out_beside", "timed_out_on_trio")
    }
    assert given_up == {name: ["endless"] for name in given_up} | {"parent_cancelled": ["also endless", "endless"]}
    (half, *_) = changed.exchanges("half_a_stream")
    assert half.outcome.failure.cancelled
    assert half.outcome.cuts
    (inflight,) = changed.exchanges("in_a_thread")
    assert (inflight.outcome, inflight.finish) == (None, None)
