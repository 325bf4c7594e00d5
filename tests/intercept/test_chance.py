"""Seeded random numbers and ids: the same in both modes, whatever is drawn inside a call, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import types
import uuid
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid1, uuid4

import pytest

from pytest_agentreplay.core.backends.backend import PassThrough, Replayed
from pytest_agentreplay.core.model import Exchange, Timing, ToolCall, ToolReply
from pytest_agentreplay.intercept.environment import randomness as chances
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.interceptions import Interception

SEED = 20_251_120


class Scrub:
    """Nothing to hide."""

    def headers(self, headers, url=""):
        return headers

    def call(self, call):
        return call

    def outcome(self, call, outcome):
        return outcome

    def reveal(self, outcome):
        return outcome

    def text(self, text):
        return text


class Gate:
    """Forwards every call, or answers every call."""

    def __init__(self, *, forward: bool) -> None:
        self.forward = forward
        self.asked = 0

    def recognise(self, call):
        return True

    def decide(self, call, moment):
        self.asked += 1
        if self.forward:
            return PassThrough(self.asked)
        recorded = Exchange(call, ToolReply(None), self.asked, self.asked, lane=moment.lane, timing=Timing(0, None, 1))
        return Replayed(recorded, self.asked)

    def settle(self, ticket, outcome, *, at, first, suspended):
        pass


class Steps:
    """Chance without a clock."""

    def __init__(self, chance: RandomSource) -> None:
        self.chance = chance

    def step(self, at, lane, count):
        self.chance.step(lane, count)


@pytest.fixture
def run():
    """Runs an agent, a function of `call`, in a run of its own; recording calls the tool body, replaying does not."""

    def go(agent, *, recording=True, seed=SEED):
        chance = RandomSource(seed)
        interception = Interception(Gate(forward=recording), Scrub(), steps=Steps(chance))

        def call(body=lambda: None):
            intercepted = interception.enter(ToolCall("look_up"))
            if intercepted.forward:
                with intercepted.inside():
                    body()
                intercepted.settle(ToolReply(None))
            else:
                intercepted.finish()

        chance.start()
        interceptions.open_for(interception)
        stamp = lanes.CALL_CONTEXT.set(interception.main())
        try:
            return agent(call)
        finally:
            lanes.CALL_CONTEXT.reset(stamp)
            interception.end()
            interceptions.open_for(None)
            chance.stop()

    return go


def draws() -> list[object]:
    return [random.random(), random.choice("abcdef"), uuid4(), uuid.uuid4(), uuid1().node, uuid1().clock_seq]


def a_greedy_body():
    for _ in range(7):
        draws()
    random.seed(4)


def an_agent(call):
    seen = draws()
    for _ in range(3):
        call(a_greedy_body)
        seen += draws()
    return seen


def test_a_replay_draws_what_the_recording_drew(run):
    recorded = run(an_agent)
    assert run(an_agent, recording=False) == recorded
    assert len(set(recorded[2::6]) | set(recorded[3::6])) == 8  # ids of a run are distinct


def test_another_seed_draws_other_numbers(run):
    assert not set(run(an_agent)) & set(run(an_agent, seed=SEED + 1)) - set("abcdef")


def test_a_draw_more_stays_in_its_turn(run):
    def agent(call, more):
        seen = []
        for number in range(3):
            call()
            if number == 1 and more:
                draws()
            seen.append(draws())
        return seen

    without, with_more = run(lambda call: agent(call, more=False)), run(lambda call: agent(call, more=True))
    assert [a == b for a, b in zip(without, with_more, strict=True)] == [True, False, True]


def test_inside_an_exchange_ids_are_fresh(run):
    inside = []
    for _ in range(2):
        run(lambda call: call(lambda: inside.append(uuid4())))
    assert inside[0] != inside[1]


def test_version_and_variant_are_kept(run):
    def agent(call):
        return uuid4(), uuid1(), uuid1(node=5, clock_seq=6)

    four, one, given = run(agent)
    assert (four.version, one.version, given.version) == (4, 1, 1)
    assert {four.variant, one.variant} == {uuid.RFC_4122}
    assert (given.node, given.clock_seq) == (5, 6)
    assert one.node >> 40 & 1  # multicast: no machine's own


def test_time_ids_name_the_run_and_not_the_machine(run):
    assert run(lambda call: uuid1().node) == run(lambda call: uuid1().node) != uuid.getnode()


def test_known_values(run):
    """A recording made on one machine and Python is replayed on others: these may never change."""

    def agent(call):
        first = random.getrandbits(32), uuid4().hex, uuid1().clock_seq
        call()
        return first, (random.getrandbits(32), uuid4().hex, uuid1().clock_seq)

    assert run(agent, seed=1) == KNOWN


KNOWN = (
    (3633580242, "5c3a409f988c416e8c02c2c04130c3ea", 346),
    (2570529229, "b08d146970f64282982fc628c1b9e83b", 11387),
)


def test_lanes_draw_for_themselves(run):
    """Ids of two tasks are the same in whatever order the tasks take turns."""

    def agent(call, first, second):
        async def task(naps):
            seen = [uuid4()]
            for nap in naps:
                await asyncio.sleep(nap)
                seen.append(uuid4())
            return seen

        async def both():
            return await asyncio.gather(task(first), task(second))

        return asyncio.run(both())

    slow, quick = [0.004, 0.004], [0, 0]
    one = run(lambda call: agent(call, slow, quick))
    other = run(lambda call: agent(call, quick, slow))
    assert one == other
    assert not set(one[0]) & set(one[1])


def test_threads_of_the_run_draw_from_its_seed(run):
    def agent(call):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(uuid4).result()

    assert run(agent) == run(agent)


def test_a_thread_of_nobody_takes_no_lane(run):
    """A pool from before the test that draws ids must not renumber the lanes that the test makes."""
    jobs, done = [], threading.Event()
    wake = threading.Semaphore(0)

    def worker():
        wake.acquire()
        jobs.append(uuid4())
        done.set()

    thread = threading.Thread(target=worker)
    thread.start()

    def agent(call, disturb):
        if disturb:
            wake.release()
            assert done.wait(5)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(uuid4).result()

    quiet = run(lambda call: agent(call, disturb=False))
    assert run(lambda call: agent(call, disturb=True)) == quiet
    thread.join()


def test_a_straggler_of_an_ended_test_draws_at_random(run):
    seen, wake = [], threading.Event()

    def straggler():
        wake.wait(5)
        seen.append(uuid4())

    threads = []

    def first(call):
        threads.append(threading.Thread(target=straggler))
        threads[0].start()

    run(first)

    def second(call):
        before = uuid4()
        wake.set()
        threads[0].join()
        return before, uuid4()

    ids = run(second)
    wake.clear()
    assert run(lambda call: (uuid4(), uuid4())) == ids
    assert seen[0] not in ids


def test_nothing_is_left_behind(run):
    random.seed(99)
    state, codes, stamp = random.getstate(), [f.__code__ for f in (uuid.uuid1, uuid.uuid4)], uuid._last_timestamp
    run(an_agent)
    assert random.getstate() == state
    assert [f.__code__ for f in (uuid.uuid1, uuid.uuid4)] == codes
    assert uuid._last_timestamp == stamp
    assert uuid4() != uuid4()
    assert uuid4.__name__ == "uuid4"
    with pytest.raises(RuntimeError):
        run(lambda call: (_ for _ in ()).throw(RuntimeError()).__next__())
    assert random.getstate() == state
    assert [f.__code__ for f in (uuid.uuid1, uuid.uuid4)] == codes


def test_stop_is_safe_twice_and_before_start():
    state = random.getstate()
    chance = RandomSource(1)
    chance.stop()
    chance.start()
    chance.stop()
    random.random()
    moved = random.getstate()
    chance.stop()
    assert random.getstate() == moved != state


def test_a_run_inside_a_run(run):
    """pytest's own test tools run a session inside a test."""

    def outer(call):
        before = uuid4(), random.random()
        inner = run(lambda call: uuid4(), seed=5)
        fresh = []
        call(lambda: fresh.append(uuid4()))
        return before, inner, len(fresh)

    assert run(outer) == run(outer)


def test_a_stand_in_for_uuid4_is_left_alone(run, monkeypatch):
    number = uuid.UUID(int=7)
    monkeypatch.setattr(uuid, "uuid4", lambda: number)
    assert run(lambda call: uuid.uuid4()) == number


def test_ids_of_newer_pythons(monkeypatch):
    """uuid7 of Python 3.14: sorts by time, then by order of drawing; seeded; as it was after the run."""

    def uuid7():
        return uuid.UUID(int=0)

    if not hasattr(uuid, "uuid7"):
        monkeypatch.setattr(uuid, "uuid7", uuid7, raising=False)
        monkeypatch.setitem(chances.ORIGINALS, "uuid7", types.FunctionType(uuid7.__code__, globals()))
    monkeypatch.setattr(chances.time, "time_ns", lambda: 1_763_653_219_123_456_000)

    def ids():
        chance = RandomSource(3)
        chance.start()
        try:
            return [uuid.uuid7() for _ in range(50)]
        finally:
            chance.stop()

    monkeypatch.setattr(uuid.uuid7, "__code__", (lambda: uuid.UUID(int=0)).__code__)
    made = ids()
    assert made == ids() == sorted(made)
    assert len(set(made)) == 50
    assert {i.version for i in made} == {7}
    assert {i.variant for i in made} == {uuid.RFC_4122}
    assert {i.int >> 80 for i in made} == {1_763_653_219_123}


def test_streams_do_not_hang_on_the_hash_seed():
    source = """
import random, uuid
from pytest_agentreplay.intercept.environment.randomness import RandomSource
chance = RandomSource(11)
chance.start()
chance.step("main.2", 4)
print(random.random(), uuid.uuid4())
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", source],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
