"""Threads, jobs and child processes beside tasks: they are waited for as long as they may still bring a call."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.env("main")

AGENT = """
import asyncio, os, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

NOW = os.environ.get("PROGRAM") == "changed"
TAKES = {"a": 1.5, "b": 0.5, "c": 0.01, "long": 4}

async def ask(name):
    await asyncio.sleep(TAKES[name])
    return name.upper()

def work(name):
    time.sleep(TAKES[name])
    return name.upper()

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

async def pool_in_a_loop():
    with ThreadPoolExecutor(1 if NOW else 3) as workers:
        list(workers.map(work, "abc"))

async def pool_of_the_loop():
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1 if NOW else 3) as workers:
        await asyncio.gather(*(loop.run_in_executor(workers, work, name) for name in "abc"))

async def to_thread():
    if NOW:
        [await asyncio.to_thread(work, name) for name in "abc"]
    else:
        await asyncio.gather(*(asyncio.to_thread(work, name) for name in "abc"))

def threads():
    begun = [threading.Thread(target=work, args=[name]) for name in "abc"]
    for thread in begun:
        thread.start()
        if NOW:
            thread.join()
    for thread in begun:
        thread.join()

async def work_in_a_thread():
    await beside(asyncio.to_thread(time.sleep, 0.05))

async def work_in_an_executor():
    with ThreadPoolExecutor(1) as workers:
        await beside(asyncio.get_running_loop().run_in_executor(workers, time.sleep, 0.05))

async def child():
    async def run():
        program = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(0.05)")
        await program.wait()
    await beside(run())

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
    await beside(run())
"""

INI = """    agent.work
agentreplay_allow_subprocess = python
"""

A, B, C = (f'{{"name":"{name}"}}' for name in "abc")
LIMITED = f"[AR-ORDER] call ?/3: tool work {C} is not called, but was answered before tool work {A}"
DROPPED = f"[AR-ORDER] call ?/2: tool ask {C} is not called, but was answered before tool ask {A}"
TOLD = {
    "pool": LIMITED,
    "pool_in_a_loop": LIMITED,
    "pool_of_the_loop": LIMITED,
    "to_thread": LIMITED,
    "threads": LIMITED,
    "work_in_a_thread": DROPPED,
    "work_in_an_executor": DROPPED,
    "child": DROPPED,
    "slow_child": DROPPED.replace(A, '{"name":"long"}'),
    "talking_child": DROPPED,
}


@pytest.fixture(scope="module")
def executors(programs):
    return programs(AGENT, INI)


def test_none_is_taken_for_gone_in_twenty_replays(executors):
    assert executors.replayed(times=20) == {name: [""] * 20 for name in TOLD}


def test_none_is_taken_for_gone_on_a_busy_machine(executors):
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        assert executors.replayed(times=3) == {name: [""] * 3 for name in TOLD}
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_each_change_is_told(executors):
    told = executors.replayed_in_threads(changed=True, times=2)
    assert told == {name: [said] * 2 for name, said in TOLD.items()}
