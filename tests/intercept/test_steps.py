"""A real SDK, recorded and replayed under the stepped clock and the seeds, sends the very same bytes."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
import time
import uuid
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from pytest_agentreplay.core.backends.backend import RecordBackend, Replayed
from pytest_agentreplay.demo.server import ModelServer
from pytest_agentreplay.intercept.environment.clock import Clock, ClockAndSeeds
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.intercept.network.guard import Guard
from tests.support.tapes import running

pytestmark = pytest.mark.env("main", "lowest")


class ByLane:
    """Answers each lane in its recorded order, whatever is asked, and keeps what was asked."""

    def __init__(self, recorded):
        self.lock = threading.Lock()
        self.asked = defaultdict(list)
        self.queues = defaultdict(deque)
        for exchange in recorded:
            self.queues[exchange.lane].append(exchange)

    def recognise(self, call):
        return True

    def decide(self, call, moment):
        with self.lock:
            self.asked[moment.lane].append(call.body.data)
            return Replayed(self.queues[moment.lane].popleft(), 1)


def run(agent, backend, mode, wall, url):
    clock = Clock("stepped", wall)
    steps = ClockAndSeeds(clock, RandomSource(7))
    watch = Guard(mode)
    steps.start()
    try:
        with running(backend, steps=steps):
            watch.start(backend.interception)
            agent(url)
    finally:
        watch.stop()
        steps.stop()
    assert (watch.ledger, backend.interception.late, clock.ran_on) == ([], [], False)


def prompt(*, times=True):
    now = f"{dt.datetime.now().isoformat()} {time.time_ns()} {dt.date.today()} {uuid.uuid1()}" if times else ""
    return [{"role": "user", "content": f"{now} {uuid.uuid4()} {uuid.uuid4().hex}"}]


def in_sequence(url):
    with openai.OpenAI(base_url=url, api_key="x") as client:
        for number in range(4):
            options = {"seed": random.getrandbits(31), "user": f"{random.random()}", "stream": number % 2 == 1}
            answer = client.chat.completions.create(model="m", messages=prompt(), **options)
            if options["stream"]:
                for _ in answer:
                    pass


def in_threads(url):
    def work(_):
        with openai.OpenAI(base_url=url, api_key="x") as client:
            for _ in range(2):
                client.chat.completions.create(model="m", messages=prompt(times=False))

    with ThreadPoolExecutor(1) as pool:
        list(pool.map(work, range(2)))


def in_tasks(url):
    async def work(client):
        for _ in range(3):
            await client.chat.completions.create(model="m", messages=prompt(times=False))

    async def agent():
        async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:
            await asyncio.gather(*(work(client) for _ in range(3)))

    asyncio.run(agent())


@pytest.mark.parametrize("agent", [in_sequence, in_threads, in_tasks])
def test_a_replay_sends_the_same_bytes(agent):
    wall = time.time_ns()
    recorder = RecordBackend()
    with ModelServer() as server:
        run(agent, recorder, "listen", wall, server.url)
    sent = defaultdict(list)
    for exchange in recorder.exchanges():
        sent[exchange.lane].append(exchange.call.body.data)
    assert len({body for bodies in sent.values() for body in bodies}) == len(recorder.exchanges())
    player = ByLane(recorder.exchanges())
    run(agent, player, "deny", wall, "http://127.0.0.1:9/v1")
    assert player.asked == sent
