"""The virtual clock: loops that poll, back off and time out see in a replay what they saw, and nobody sleeps."""

import json

import pytest

from pytest_agentreplay.demo.script import Raw
from tests.support.small_projects import edited, furnished, passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

RANDOM = '''
"""Random trees of tasks that share a memory: what each asks for depends on all that any of them has seen."""

import asyncio, hashlib, random, time

async def fetch(what, delay):
    await asyncio.to_thread(time.sleep, delay)
    return f"{what}!"

async def nap(what, delay):
    await asyncio.sleep(delay)
    return f"{what}?"

class Program:
    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.memory = []
        self.plan = self.tree(3)

    def tree(self, depth):
        kinds = ["all", "race", "in turn", "poll", "limit", "call"]
        kind = self.dice.choice(kinds) if depth else "call"
        if kind in {"all", "race", "in turn"}:
            return kind, [self.tree(depth - 1) for _ in range(self.dice.randint(2, 3))]
        return kind, self.dice.choice([fetch, nap]), self.dice.uniform(0.002, 0.03), self.dice.uniform(0.0015, 0.007)

    def seen(self):
        return " ".join(self.memory[-4:]) + hashlib.sha256("/".join(self.memory).encode()).hexdigest()

    async def call(self, tool, delay):
        try:
            self.memory.append((await tool(self.seen(), delay))[-9:])
        except asyncio.CancelledError:
            self.memory.append("cancelled")
            raise

    async def run(self, node):
        kind, given, *times = node
        if kind == "call":
            await self.call(given, times[0])
        elif kind == "limit":
            try:
                await asyncio.wait_for(self.call(given, times[0]), 0.012)
            except TimeoutError:
                self.memory.append("too late")
        elif kind == "poll":
            task = asyncio.create_task(self.call(given, times[0]))
            while not task.done():
                await asyncio.sleep(times[1])
                self.memory.append("tick")
            await self.call(fetch, 0.002)
        elif kind == "all":
            await asyncio.gather(*(self.run(one) for one in given))
        elif kind == "race":
            tasks = [asyncio.create_task(self.run(one)) for one in given]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        else:
            for one in given:
                await self.run(one)

    async def beat(self):
        while True:
            await asyncio.sleep(0.004)
            self.memory.append("beat")

async def answer(seed):
    program = Program(seed)
    beating = asyncio.create_task(program.beat())
    await program.run(program.plan)
    beating.cancel()
    await program.call(nap, 0.001)
    return program.seen()
'''

OVER_HTTP = """
import os
import httpx2

async def fetch(what, delay):
    async with httpx2.AsyncClient() as client:
        asked = {"what": what, "delay": delay}
        return (await client.post(os.environ["MODEL_URL"] + "/fetch", json=asked)).json()["what"] + "!"
"""


def script(body, number):
    """What was asked, after a while."""
    said = json.dumps(body).encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(said)))]
    return Raw(headers=headers, chunks=(said,), delay=body["delay"])


RANDOM_TESTS = """
import asyncio, os, pathlib, pytest, agent

KEPT = pathlib.Path(__file__).with_name("kept")

@pytest.mark.parametrize("seed", range(int(os.environ["SEEDS"])))
def test_random(seed, agentreplay):
    seen = asyncio.run(agent.answer(seed))
    kept = KEPT / str(seed)
    if not kept.exists():
        kept.write_text(seen)
    assert kept.read_text() == seen
"""

WAYS = """
import asyncio, pathlib, threading, time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__)

def slow(what, delay):
    time.sleep(delay)
    return what

async def aslow(what, delay):
    await asyncio.to_thread(time.sleep, delay)
    return what

def asked(what):
    return what

async def polls():
    task, looked = asyncio.create_task(aslow("late", 0.3)), 0
    while not task.done():
        await asyncio.sleep(0.04)
        looked += 1
    return asked(f"looked {looked} times")

async def sleeps():
    for _ in range(200):
        await asyncio.sleep(0.005)
    return asked("slept")

async def gives_up():
    try:
        await asyncio.wait_for(aslow("never", 0.6), 0.2)
    except TimeoutError:
        return asked("gave up")

async def blocks():
    other = asyncio.create_task(asyncio.sleep(0.05))
    time.sleep(0.1)
    said = asked("blocked")
    await other
    return said

def backs_off():
    for wait in (0.05, 0.1, 0.2):
        asked(f"wait {wait}")
        time.sleep(wait)
    return asked("done")

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

def two_loops():
    async def polls_somehow():
        task = asyncio.create_task(aslow("late", 0.3))
        while not task.done():
            await asyncio.sleep(0.04)
        return asked("looked")
    with ThreadPoolExecutor(1) as pool:  # at once they would be as two machines are
        return [*pool.map(asyncio.run, (polls_somehow(), gives_up()))]

async def at_the_wall():
    import datetime
    first = datetime.datetime.now()
    await asyncio.sleep(1.5)
    return asked(f"{first.isoformat()} {datetime.datetime.now().isoformat()}")

"""

WAYS_TESTS = """
import asyncio, inspect, sys, time
from time import monotonic as real, sleep as slept
import anyio, pytest, ways

NAMES = ["polls", "sleeps", "gives_up", "blocks", "backs_off", "waits_on_the_clock", "several_threads", "two_loops",
         "at_the_wall"]

@pytest.mark.parametrize("name", NAMES)
def test_ways(name, agentreplay):
    way = getattr(ways, name)
    said = asyncio.run(way()) if inspect.iscoroutinefunction(way) else way()
    assert said

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
    """Makes a project under a clock."""

    def make(clock, tools, **files):
        listed = "".join(f"    {tool}\n" for tool in tools)
        ini = f"agentreplay_clock = {clock}\nagentreplay_tools =\n{listed}"
        return furnished(shared_project(script), ini, **files)

    return make


BY_TOOLS = ["agent.fetch", "agent.nap"], RANDOM
BY_HTTP = ["agent.nap"], RANDOM.replace("class Program", OVER_HTTP + "class Program", 1)


@pytest.mark.parametrize("seeds", [8, pytest.param(40, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("tools", "agent"), [BY_TOOLS, BY_HTTP], ids=["tools", "http"])
def test_random_programs_with_polling_timers_come_back_all_of_them(under, tools, agent, seeds):
    project = under("virtual", tools, agent=agent, test_random=RANDOM_TESTS)
    (project.root / "kept").mkdir()
    recorded(project, "-W", "ignore", SEEDS=str(seeds))
    done = passed(project.offline("-W", "ignore", "--tb=short", SEEDS=str(seeds)))
    assert f" {seeds} passed" in done.stdout
    assert agent is not RANDOM or "clock-tight" not in done.stdout


def test_ways_to_wait_replay_and_leave_all_as_it_was(under):
    project = under("virtual", ["ways.slow", "ways.aslow", "ways.asked"], ways=WAYS, test_ways=WAYS_TESTS)
    project.plugins += ("pytest_asyncio.plugin", "anyio")
    recorded(project, "-W", "ignore")
    for _ in range(2):
        done = passed(project.offline("-W", "ignore"))
        assert "12 passed" in done.stdout
        assert "clock " not in done.stdout.partition("passed")[0].partition("replayed")[2]


NEAR = """
import asyncio, time

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

def test_near(agentreplay):
    assert asyncio.run(ways.looks_often())

def test_polls(agentreplay):
    assert asyncio.run(ways.looks_for(os.environ.get("WHAT", "it")))
"""


def test_an_answer_close_to_a_timer_is_told_where_the_recording_ran_in_real_time(under):
    project = recorded(under("stepped", ["ways.aslow"], ways=NEAR, test_near=NEAR_TESTS), "-k", "near")
    assert "clock-tight" not in project.offline("-k", "near").stdout
    project.edit("pytest.ini", "= stepped", "= virtual")
    done = passed(project.offline("-k", "near"))
    assert "clock-tight test_near.py::test_near: 1 answer came within 5 ms of a timer when recorded" in done.stdout
    recorded(project, "-k", "near")
    assert "clock-tight" not in project.offline("-k", "near").stdout


def test_a_poll_for_a_call_that_never_comes_is_told_and_does_not_spin_for_ever(under):
    project = recorded(under("virtual", ["ways.aslow"], ways=NEAR, test_near=NEAR_TESTS), "-k", "polls")
    passed(project.offline("-k", "polls"))
    done = project.offline("-k", "polls", WHAT="something else")
    assert "[AR-ORDER]" in done.stdout, done.stdout
    assert "aslow" in done.stdout.partition("[AR-ORDER]")[2].partition("\n")[0]


TRIO = """
import trio, ways

def test_trio(agentreplay):
    async def main():
        await trio.sleep(0.01)
        return await ways.fetch("it")
    assert trio.run(main) == "it"

def test_calm(agentreplay):
    assert ways.asked("it") == "it"
"""

TRIO_WAYS = """
import trio

async def fetch(what):
    await trio.sleep(0.01)
    return what

def asked(what):
    return what
"""


def test_a_loop_that_keeps_a_time_of_its_own_is_said_to_be_stepped(under):
    project = recorded(under("virtual", ["ways.fetch", "ways.asked"], ways=TRIO_WAYS, test_trio=TRIO))
    told = [line for line in passed(project.offline()).stdout.splitlines() if line.startswith("clock ")]
    assert told == ["clock     stepped, not virtual, in test_trio.py::test_trio: trio keeps a time of its own"]


WAITS = """
import time
from time import monotonic as real

def fetch(what, delay):
    time.sleep(delay)
    return what

async def afetch(what, delay):
    import asyncio
    await asyncio.sleep(delay)
    return what
"""

WAITS_TESTS = """
import asyncio, os, ways

def test_thread(agentreplay):
    began = ways.real()
    assert ways.fetch("a", 0.2) + ways.fetch("b", 0.2) == "ab"
    assert ways.real() - began >= float(os.environ.get("AT_LEAST", 0.4))

def test_tasks(agentreplay):
    async def main():
        return await asyncio.gather(ways.afetch("a", 0.2), ways.afetch("b", 0.4))
    began = ways.real()
    assert asyncio.run(main()) == ["a", "b"]
    assert ways.real() - began >= float(os.environ.get("AT_LEAST", 0.4))
"""


@pytest.mark.parametrize("clock", ["stepped", "real"])
def test_answers_take_as_long_as_they_took_where_that_is_wanted(under, clock):
    project = recorded(under(clock, ["ways.fetch", "ways.afetch"], ways=WAITS, test_waits=WAITS_TESTS))
    assert " 2 failed" in project.offline().stdout, "without the setting nobody waits"
    with edited(project, "pytest.ini", "agentreplay_tools", "agentreplay_waits = true\nagentreplay_tools"):
        passed(project.offline(AT_LEAST="0.39"))
