"""A test whose agent waits for what a refused call was to bring comes to its end, and tells the divergence."""

import re
import sys

import pytest

from pytest_agentreplay.intercept.ordering import overtime
from tests.support.small_projects import furnished, recorded, sections

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import asyncio, os, queue, threading, time
import anyio, httpx2, trio

PROMPT = "Be brief."
URL = os.environ["MODEL_URL"]

def body():
    return {"model": "m-1", "messages": [{"role": "system", "content": PROMPT}, {"role": "user", "content": "Where?"}]}

def ask():
    return httpx2.post(URL + "/v1/chat/completions", json=body()).json()["choices"][0]["message"]["content"]

async def aask():
    async with httpx2.AsyncClient() as client:
        reply = await client.post(URL + "/v1/chat/completions", json=body())
    return reply.json()["choices"][0]["message"]["content"]

async def stream():
    events = asyncio.Queue()
    async def produce():
        await events.put(await aask())
    producer = asyncio.create_task(produce())
    return await events.get()  # asyncio

async def trio_stream():
    # What a framework does that keeps its workers alive: the refusal is kept aside.
    send, receive = trio.open_memory_channel(0)
    async def produce():
        try:
            await send.send(await aask())
        except BaseException:
            pass
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        return await receive.receive()  # trio

async def holds_the_loop():
    done = threading.Event()
    def work():
        ask()
        done.set()
    threading.Thread(target=work, daemon=True).start()
    done.wait()  # holds the loop

async def stubborn():
    events = asyncio.Queue()
    producer = asyncio.create_task(aask())
    producer.add_done_callback(lambda done: done.cancelled() or done.exception() or events.put_nowait(done.result()))
    while True:
        try:
            return await asyncio.wait_for(events.get(), 0.1)  # stubborn
        except BaseException:
            pass

def beside(put):
    def work():
        put(ask())
    threading.Thread(target=work, daemon=True).start()

def event():
    said = []
    done = threading.Event()
    beside(lambda text: (said.append(text), done.set()))
    done.wait()  # event
    return said[0]

def spins():
    answers = queue.Queue()
    beside(answers.put)
    while True:
        try:
            time.sleep(0.05)
            return answers.get(block=False)
        except BaseException:
            pass  # spins
"""

TESTS = """
import asyncio, threading
import anyio, pytest, trio
import agent

@pytest.fixture
def anyio_backend():
    return "trio"

@pytest.mark.anyio
async def test_trio(agentreplay):
    assert await agent.trio_stream()

def test_asyncio_run(agentreplay):
    assert asyncio.run(agent.stream())

@pytest.mark.asyncio
async def test_holds_the_loop(agentreplay):
    await agent.holds_the_loop()

@pytest.mark.asyncio
async def test_stubborn(agentreplay):
    assert await agent.stubborn()

def test_event(agentreplay):
    assert agent.event()

def test_spins(agentreplay):
    assert agent.spins()

def test_after(agentreplay):
    done = threading.Event()
    threading.Timer(0.05, done.set).start()
    done.wait()

@pytest.mark.asyncio
async def test_after_in_a_loop(agentreplay):
    await asyncio.sleep(0.05)
"""

WAITS = {
    "trio": "trio",
    "asyncio_run": "asyncio",
    "holds_the_loop": "holds the loop",
    "event": "event",
}
"""Where each of the tests waits, by the comment at that line of the agent's."""

HURRIED = """
from pytest_agentreplay.intercept.ordering import overtime

overtime.QUIET, overtime.LONGEST, overtime.AGAIN = 0.2, 0.5, 0.2
"""
"""What is waited for is given up sooner."""

SPIN = {"stubborn", "spins"}
"""They catch whatever they are ended with, and are never long at one line."""


def parted(project, *words, **files):
    """The project, recorded, and its prompt edited since."""
    project.server._replies = lambda body, number: "It is late."
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin")
    furnished(project, "asyncio_default_fixture_loop_scope = function\n", agent=AGENT, test_shop=TESTS, **files)
    recorded(project, *words)
    project.edit("agent.py", "Be brief.", "Be short.")
    return project


def told(done):
    """The line at which each failed test is said to have waited, "" where none is."""
    found = sections(done)
    assert all("[AR-PROMPT] turn 1/1" in report for report in found.values()), done.stdout
    where = {name: re.search(r" still waiting (agent\.py:\d+) in ", report) for name, report in found.items()}
    return {name: line[1] if line else "" for name, line in where.items()}


def test_each_ends_and_tells_where_it_waited(project):
    assert overtime.LONGEST + overtime.AGAIN < 15, "what a wait costs that nobody hurries"
    done = parted(project, conftest=HURRIED).offline("-vv", COLUMNS="160")
    assert not done.stderr, done.stderr
    marked = {line.partition("  # ")[2]: number for number, line in enumerate(AGENT.splitlines(), 1) if "  # " in line}
    waited = told(done)
    assert waited.keys() == WAITS.keys() | SPIN
    assert {name: waited[name] for name in WAITS} == {name: f"agent.py:{marked[mark]}" for name, mark in WAITS.items()}
    assert all(waited[name] for name in SPIN)
    assert "6 failed, 2 passed" in done.stdout


CTRL_C = """
import os, signal, threading
import agent

def test_event(agentreplay):
    threading.Timer(0.4, os.kill, [os.getpid(), signal.SIGINT]).start()
    agent.event()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a wait for a lock hears of no Ctrl-C there")
def test_ctrl_c_stays_one(project):
    parted(project, "-k", "event").write(test_shop=CTRL_C)
    project.forks = False
    done = project.offline()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "KeyboardInterrupt" in done.stdout
    assert "still waiting" not in done.stdout


PROMPT = """
import io, pdb, time
import agent

class Thinks(io.StringIO):
    def readline(self, *size):
        time.sleep(1.5)
        return "c\\n"

def test_event(agentreplay):
    agent.beside(print)
    pdb.Pdb(stdin=Thinks(), stdout=io.StringIO(), nosigint=True).set_trace()
    print("thought it over")
"""


def test_nobody_is_hurried_at_the_prompt_of_a_debugger(project):
    parted(project, "-k", "event", conftest=HURRIED).write(test_shop=PROMPT)
    done = project.offline("-s")
    assert "thought it over" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    assert "still waiting" not in done.stdout
