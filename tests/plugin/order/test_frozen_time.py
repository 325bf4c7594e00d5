"""Tests that freeze time, or replace functions of `time`: they record and replay as any other test does."""

import pytest

from tests.support.small_projects import furnished, passed, recorded

pytestmark = pytest.mark.env("main")  # freezegun

AGENT = """
import asyncio, os, threading, time
from concurrent.futures import ThreadPoolExecutor
import anyio, httpx2

def look_up(name):
    threading.Event().wait(0.01)
    return name.upper()

async def alook_up(name):
    await asyncio.to_thread(threading.Event().wait, 0.01)
    return name.upper()

def ask(text):
    url = os.environ["MODEL_URL"] + "/v1/chat/completions"
    return httpx2.post(url, json={"model": "m", "messages": [{"role": "user", "content": text}]}).json()["id"]

async def aask(client, text):
    url = os.environ["MODEL_URL"] + "/v1/chat/completions"
    reply = await client.post(url, json={"model": "m", "messages": [{"role": "user", "content": text}]})
    return reply.json()["id"]

def in_turn():
    ask("one")
    look_up("ada")
    ask("two")

def in_threads():
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(look_up, "abc")) == ["A", "B", "C"]
        list(pool.map(ask, "abc"))

def in_tasks():
    async def act():
        async with httpx2.AsyncClient() as client:
            assert await asyncio.gather(*map(alook_up, "abc")) == ["A", "B", "C"]
            await asyncio.gather(*(aask(client, text) for text in "abc"))
    asyncio.run(act())

def in_a_group():
    async def act():
        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(alook_up, name)
    anyio.run(act)

def everything():
    in_turn()
    in_threads()
    in_tasks()
    in_a_group()
    threading.Thread(target=look_up, args=("late",)).start()
"""

TESTS = """
import time
from unittest import mock
import freezegun, pytest, time_machine
import agent

THEN = "2020-02-03 04:05:06"
STILL = {name: lambda: 7.0 for name in ("time", "monotonic", "perf_counter")}

FREEZES = {
    "freezegun": lambda: freezegun.freeze_time(THEN),
    "freezegun_ticks": lambda: freezegun.freeze_time(THEN, tick=True),
    "time_machine": lambda: time_machine.travel(THEN, tick=False),
    "time_machine_ticks": lambda: time_machine.travel(THEN, tick=True),
    "clocks": lambda: mock.patch.multiple(time, monotonic_ns=lambda: 7, **STILL),
    "sleep": lambda: mock.patch("time.sleep", side_effect=AssertionError("who sleeps?")),
}

@pytest.fixture(params=FREEZES)
def freeze(request):
    return FREEZES[request.param]

@pytest.fixture(params=["freezegun_ticks", "time_machine_ticks"])
def frozen(request):
    with FREEZES[request.param]():
        yield

def test_frozen_by_a_fixture(frozen, agentreplay):
    agent.everything()

def test_frozen_in_its_body(agentreplay, freeze):
    agent.ask("before")
    with freeze():
        agent.everything()
    agent.ask("after")
"""

INI = """agentreplay_tools =
    agent.look_up = read
    agent.alook_up = read
"""


def test_a_test_that_freezes_time_records_and_replays(shared_project):
    project = furnished(shared_project(lambda body, number: "well"), INI, agent=AGENT, test_shop=TESTS)
    assert "8 passed" in recorded(project).recording.stdout
    assert "8 passed" in passed(project.offline()).stdout
