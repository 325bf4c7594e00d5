"""Seeded random numbers and ids: the same in both modes, whatever is drawn inside a call, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
import threading
import types
import uuid
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid1, uuid4

import pytest

from pytest_agentreplay.intercept.environment import randomness as chances
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.model.exchanges import Exchange, RawCall, Timing, ToolCall, ToolReply
from tests.support.tapes import Player, Tape, running

SEED = 20_251_120
CALL = ToolCall("look_up")
ANSWERED = [Exchange(CALL, ToolReply(None), number, number, timing=Timing(0, None, 1)) for number in range(3)]
KNOWN = (
    (3633580242, "5c3a409f988c416e8c02c2c04130c3ea", 346),
    (2570529229, "b08d146970f64282982fc628c1b9e83b", 11387),
)


class Steps:
    """Chance without a clock."""

    def __init__(self, chance):
        self.chance = chance

    def step(self, at, lane, count):
        self.chance.step(lane, count)


def run(agent, *, backend=None, seed=SEED):
    """Run an agent, a function of `call`, in a run of its own; recording calls the tool's body, replaying does not."""
    chance = RandomSource(seed)
    chance.start()
    try:
        with running(backend or Tape(), steps=Steps(chance)) as opened:

            def call(body=lambda: None):
                intercepted = opened.interception.enter(RawCall(CALL))
                if intercepted.forward:
                    with intercepted.inside():
                        body()
                    intercepted.settle(ToolReply(None))
                else:
                    intercepted.finish()

            return agent(call)
    finally:
        chance.stop()


def draws():
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


def in_a_pool(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(uuid4).result()


def test_a_replay_draws_what_the_recording_drew_and_another_seed_something_else():
    recorded = run(an_agent)
    assert run(an_agent, backend=Player(ANSWERED)) == recorded
    assert len(set(recorded[2::6]) | set(recorded[3::6])) == 8  # ids of a run are distinct
    assert not set(recorded) & set(run(an_agent, seed=SEED + 1)) - set("abcdef")


def test_a_draw_more_stays_in_its_turn():
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


def test_ids_are_as_the_standard_says_and_name_the_run_and_not_the_machine():
    def agent(call):
        return uuid4(), uuid1(), uuid1(node=5, clock_seq=6)

    four, one, given = run(agent)
    assert (four.version, one.version, given.version) == (4, 1, 1)
    assert {four.variant, one.variant} == {uuid.RFC_4122}
    assert (given.node, given.clock_seq) == (5, 6)
    assert one.node >> 40 & 1  # multicast: no machine's own
    assert one.node == run(lambda call: uuid1().node) != uuid.getnode()


def test_known_values():
    """A recording made on one machine, hash seed and Python is replayed on others: these may never change."""

    def agent(call):
        first = random.getrandbits(32), uuid4().hex, uuid1().clock_seq
        call()
        return first, (random.getrandbits(32), uuid4().hex, uuid1().clock_seq)

    assert run(agent, seed=1) == KNOWN


def test_lanes_draw_for_themselves():
    """Ids of two tasks are the same in whatever order the tasks take turns."""

    def agent(first, second):
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
    one = run(lambda call: agent(slow, quick))
    assert one == run(lambda call: agent(quick, slow))
    assert not set(one[0]) & set(one[1])


def test_a_thread_of_nobody_takes_no_lane_and_those_of_the_run_draw_from_its_seed():
    """A pool from before the test that draws ids must not renumber the lanes that the test makes."""
    done, wake = threading.Event(), threading.Event()

    def worker():
        wake.wait(5)
        uuid4()
        done.set()

    thread = threading.Thread(target=worker)
    thread.start()

    def disturbed(call):
        wake.set()
        assert done.wait(5)
        return in_a_pool(call)

    assert run(in_a_pool) == run(in_a_pool) == run(disturbed)
    thread.join()


def test_a_straggler_of_an_ended_test_draws_at_random():
    seen, wake = [], threading.Event()
    straggler = threading.Thread(target=lambda: wake.wait(5) and seen.append(uuid4()))
    run(lambda call: straggler.start())

    def second(call):
        before = uuid4()
        wake.set()
        straggler.join()
        return before, uuid4()

    ids = run(second)
    assert run(lambda call: (uuid4(), uuid4())) == ids
    assert seen[0] not in ids


def test_nothing_is_left_behind():
    random.seed(99)
    state, codes, stamp = random.getstate(), [f.__code__ for f in (uuid.uuid1, uuid.uuid4)], uuid._last_timestamp
    run(an_agent)
    assert uuid._last_timestamp == stamp
    assert uuid4() != uuid4()
    assert uuid4.__name__ == "uuid4"
    with pytest.raises(ZeroDivisionError):
        run(lambda call: 1 / 0)
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


def test_a_run_inside_a_run():
    """pytest's own test tools run a session inside a test."""

    def outer(call):
        before = uuid4(), random.random()
        inner = run(lambda call: uuid4(), seed=5)
        call(lambda: fresh.append(uuid4()))
        return before, inner

    fresh = []
    assert run(outer) == run(outer)
    assert fresh[0] != fresh[1], "inside a call, ids are as random as ever"


def test_a_stand_in_for_uuid4_is_left_alone(monkeypatch):
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
    assert {(i.version, i.variant, i.int >> 80) for i in made} == {(7, uuid.RFC_4122, 1_763_653_219_123)}
