"""The virtual clock: loops that poll, back off and time out see in a replay what they saw, and nobody sleeps."""

import asyncio
import hashlib
import random
import time

import pytest

from tests.ordering.driving import Stage
from tests.support.exhaustive import rare
from tests.support.model_script import Raw
from tests.support.small_projects import furnished, passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

WAYS = """
import asyncio, os, time
from concurrent.futures import ThreadPoolExecutor
import anthropic, openai, trio

def slow(what, delay):
    time.sleep(delay)
    return what

async def aslow(what, delay):
    await asyncio.to_thread(time.sleep, delay)
    return what

async def trio_slow(what):
    await trio.sleep(0.01)
    return what

def asked(what):
    return what

async def polls():
    task, looked = asyncio.create_task(aslow("late", 0.3)), 0
    while not task.done():
        await asyncio.sleep(0.04)
        looked += 1
    return asked(f"looked {looked} times")

def waits_on_the_clock():
    until, looked = time.monotonic() + 0.3, 0
    while time.monotonic() < until:
        time.sleep(0.02)
        looked += 1
    return asked("waited")

def several_threads():
    def work(name, wait):
        seen = slow(name, 0.02)
        time.sleep(wait)
        return asked(f"{seen} waited")
    with ThreadPoolExecutor(4) as pool:
        return sorted(pool.map(work, "abcd", (0.1, 0.15, 0.2, 0.25)))

def retries():
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k") as client:
        return client.chat.completions.create(model="gpt-x", messages=[]).choices[0].message.content

async def aretries():
    async with anthropic.AsyncAnthropic(base_url=os.environ["MODEL_URL"], api_key="k") as client:
        return (await client.messages.create(model="claude-x", max_tokens=9, messages=[])).content[0].text

async def at_the_wall():
    import datetime
    first = datetime.datetime.now()
    await asyncio.sleep(0.3)
    return asked(f"{first.isoformat()} {datetime.datetime.now().isoformat()}")
"""

WAYS_TESTS = """
import asyncio, inspect, time
from time import monotonic as real, sleep as slept
import anyio, pytest, trio, ways

NAMES = ["polls", "waits_on_the_clock", "several_threads", "at_the_wall"]

@pytest.mark.parametrize("name", NAMES)
def test_ways(name, agentreplay):
    way = getattr(ways, name)
    said = asyncio.run(way()) if inspect.iscoroutinefunction(way) else way()
    assert said

@pytest.mark.parametrize("way", [ways.retries, lambda: asyncio.run(ways.aretries())], ids=["sync", "async"])
def test_an_sdk_that_tries_again(way, agentreplay):
    began, shown = real(), time.monotonic()
    assert way() == "It is late."
    assert time.monotonic() - shown >= 1.2
    assert (real() - began < 1.2) == (agentreplay.mode == "replay")

@pytest.mark.asyncio
async def test_pytest_asyncio(agentreplay):
    assert await ways.polls()

@pytest.mark.anyio
async def test_anyio(anyio_backend, agentreplay):
    with anyio.move_on_after(0.1):
        await anyio.sleep(5)
    assert await ways.polls()

@pytest.fixture
def anyio_backend():
    return "asyncio"

def test_trio(agentreplay):
    assert trio.run(ways.trio_slow, "it") == "it"

def test_everything_is_as_before():
    loop = asyncio.new_event_loop()
    began = real()
    loop.run_until_complete(asyncio.sleep(0.02))
    assert real() - began >= 0.02
    assert not {"time", "run_forever"} & set(vars(loop))
    assert time.sleep is slept and time.monotonic is real
    loop.close()
"""


@pytest.fixture(scope="module")
def under(shared_project):
    """Makes a project under a clock, beside a model that refuses each call twice, for 0.6 s each time."""

    def script(body, number):
        wait = [("content-type", "application/json"), ("retry-after-ms", "600")]
        return Raw(429, wait, [b"{}"], "Too Many Requests") if number % 3 else "It is late."

    def make(clock, tools, **files):
        listed = "".join(f"    {tool}\n" for tool in tools)
        ini = f"agentreplay_clock = {clock}\nagentreplay_tools =\n{listed}"
        return furnished(shared_project(script), ini, **files)

    return make


async def fetch(what, delay):
    await asyncio.to_thread(time.sleep, delay)
    return f"{what}!"


async def nap(what, delay):
    await asyncio.sleep(delay)
    return f"{what}?"


class Program:
    """A random tree of tasks that share a memory: what each asks for depends on all that any of them has seen."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.memory = []
        self.plan = self.tree(3)

    def tree(self, depth):
        kind = self.dice.choice(["all", "race", "in turn", "poll", "limit", "call"]) if depth else "call"
        if kind in {"all", "race", "in turn"}:
            return kind, [self.tree(depth - 1) for _ in range(self.dice.randint(2, 3))]
        return kind, self.dice.choice([fetch, nap]), self.dice.uniform(0.002, 0.03), self.dice.uniform(0.0015, 0.007)

    async def call(self, tool, delay):
        seen = " ".join(self.memory[-4:]) + hashlib.sha256("/".join(self.memory).encode()).hexdigest()
        try:
            self.memory.append((await tool(seen, delay))[-9:])
        except asyncio.CancelledError:
            self.memory.append("cancelled")
            raise

    async def poll(self, given, delay, between):
        task = asyncio.create_task(self.call(given, delay))
        while not task.done():
            await asyncio.sleep(between)
            self.memory.append("tick")
        await self.call(fetch, 0.002)

    async def limit(self, given, delay, _):
        try:
            await asyncio.wait_for(self.call(given, delay), 0.012)
        except TimeoutError:
            self.memory.append("too late")

    async def race(self, tasks):
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self, node):
        match node:
            case "call", given, delay, _:
                await self.call(given, delay)
            case "poll" | "limit" as kind, *given:
                await getattr(self, kind)(*given)
            case "all", parts:
                await asyncio.gather(*map(self.run, parts))
            case "race", parts:
                await self.race([asyncio.create_task(self.run(one)) for one in parts])
            case _, parts:
                for one in parts:
                    await self.run(one)

    async def beat(self):
        while True:
            await asyncio.sleep(0.004)
            self.memory.append("beat")

    async def seen(self):
        beating = asyncio.create_task(self.beat())
        await self.run(self.plan)
        beating.cancel()
        await self.call(nap, 0.001)
        return self.memory


@pytest.mark.parametrize("seed", [*range(8), *rare(*range(8, 40))])
def test_a_random_program_with_polling_timers_comes_back(tmp_path, seed):
    stage = Stage(tmp_path, tools=(fetch, nap))

    def act():
        return asyncio.run(Program(seed).seen())

    recorded, replayed = stage.record(act, clock="virtual"), stage.replay(act, clock="virtual")
    assert replayed.finding is None
    assert replayed.result == recorded.result


def test_ways_to_wait_replay_leave_all_as_it_was_and_only_trio_is_said_to_be_stepped(under):
    tools = [f"ways.{name}" for name in ("slow", "aslow", "trio_slow", "asked")]
    project = under("virtual", tools, ways=WAYS, test_ways=WAYS_TESTS)
    project.plugins += ("pytest_asyncio.plugin", "anyio")
    done = passed(recorded(project, "-W", "ignore").offline("-W", "ignore"))
    assert "10 passed" in done.stdout
    told = [line for line in done.stdout.splitlines() if line.startswith("clock")]
    assert told == ["clock     stepped, not virtual, in test_ways.py::test_trio: trio keeps a time of its own"]


NEAR = """
import asyncio, time

def slow(what, delay):
    time.sleep(delay)
    return what

async def aslow(what, delay):
    await asyncio.to_thread(time.sleep, delay)
    return what

async def looks_often():
    task = asyncio.create_task(aslow("late", 0.1))
    while not task.done():
        await asyncio.sleep(0.002)
    return await task

async def looks_for(what):
    task = asyncio.create_task(aslow("first", 0.05))
    found = []
    async def finds():
        await asyncio.sleep(0.02)
        if what == "it":
            found.append(await aslow("it", 0.01))
    finding = asyncio.create_task(finds())
    while not found:
        await asyncio.sleep(0.01)
    return await task
"""

NEAR_TESTS = """
import asyncio, os, ways
from time import monotonic as real

def test_near(agentreplay):
    assert asyncio.run(ways.looks_often())

def test_polls(agentreplay):
    assert asyncio.run(ways.looks_for(os.environ.get("WHAT", "it")))

def test_thread(agentreplay):
    began = real()
    assert ways.slow("a", 0.2) + ways.slow("b", 0.2) == "ab"
    assert real() - began >= float(os.environ.get("AT_LEAST", 0.4))

def test_tasks(agentreplay):
    async def main():
        return await asyncio.gather(ways.aslow("a", 0.2), ways.aslow("b", 0.4))
    began = real()
    assert asyncio.run(main()) == ["a", "b"]
    assert real() - began >= float(os.environ.get("AT_LEAST", 0.4))
"""


@pytest.fixture(scope="module")
def near(under):
    """Recorded while real time passed."""
    return recorded(under("stepped", ["ways.slow", "ways.aslow"], ways=NEAR, test_calls=NEAR_TESTS))


def test_answers_take_as_long_as_they_took_where_that_is_wanted(near):
    waits = ("-k", "thread or tasks")
    done = near.offline()
    assert " 2 failed" in done.stdout, "without the setting nobody waits"
    assert "clock-tight" not in done.stdout
    passed(near.offline(*waits, "-o", "agentreplay_clock=paced", AT_LEAST="0.39"))


def test_an_answer_close_to_a_timer_is_told_where_the_recording_ran_in_real_time(near):
    virtual = ("-k", "near or polls", "-o", "agentreplay_clock=virtual")
    done = near.offline(*virtual)
    assert "clock-tight test_calls.py::test_near: 1 answer came within 5 ms of a timer when recorded" in done.stdout
    recorded(near, *virtual)
    assert "clock-tight" not in passed(near.offline(*virtual)).stdout
    lost = near.offline(*virtual, WHAT="something else")
    assert "[AR-ORDER]" in lost.stdout, "a poll for a call that never comes does not spin for ever"
    assert "aslow" in lost.stdout.partition("[AR-ORDER]")[2].partition("\n")[0]
