"""The stepped wall clock: the same instants in both modes, whoever asks, and an end for loops that wait on it."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
import uuid

import pytest
import time_machine

from pytest_agentreplay.intercept.environment import clock as clocks
from pytest_agentreplay.intercept.environment.clock import Clock, ClockAndSeeds
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.intercept.environment.shifted_clock import find_shift
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.exchanges import Exchange, Timing, ToolCall
from tests.support.tapes import Tape, running

pytestmark = pytest.mark.env("main", "lowest")

WALL = 1_763_653_219_123_456_000  # 2025-11-20T15:40:19.123456 UTC


@pytest.fixture
def clock():
    """A stepped clock that has not started."""
    clock = Clock("stepped", WALL)
    yield clock
    clock.stop()
    assert not time_machine.escape_hatch.is_travelling()


@pytest.fixture
def stepped(clock):
    clock.start()
    return clock


def readings():
    """The wall time in every way that an agent asks for it."""
    return [
        time.time(),
        time.time_ns(),
        time.clock_gettime(time.CLOCK_REALTIME) if hasattr(time, "clock_gettime") else None,
        dt.datetime.now(),
        dt.datetime.now(dt.UTC),
        dt.datetime.now().astimezone(),
        dt.date.today(),
        time.gmtime(),
        time.localtime(),
        time.strftime("%Y-%m-%d %H:%M:%S"),
        time.ctime(),
        time.ctime(None),
        time.asctime(),
        dt.datetime.today(),
        uuid.uuid1(node=1, clock_seq=2),
        uuid.uuid1(node=1, clock_seq=2),
    ]


def an_agent(steps):
    clock = ClockAndSeeds(Clock("stepped", WALL), RandomSource(1))
    clock.start()
    try:
        seen = readings()
        for count, at in enumerate(steps, 1):
            clock.step(at, "main", count)
            seen += readings()
        return seen
    finally:
        clock.stop()


def test_two_runs_see_the_very_same_times():
    steps = [17, 1_234_567, 1_234_568, 900_000_000_001, 86_400_000_000_000]
    assert an_agent(steps) == an_agent(steps)


def test_time_stands_at_the_last_settled_crossing(stepped):
    assert time.time_ns() == WALL
    assert dt.datetime.now(dt.UTC).isoformat() == "2025-11-20T15:40:19.123456+00:00"
    monotonic, counter = time.monotonic(), time.perf_counter()
    time.sleep(0.002)
    assert time.monotonic() > monotonic, "these clocks run on"
    assert time.perf_counter() > counter
    seen = []
    thread = threading.Thread(target=lambda: seen.append(time.time_ns()))
    thread.start()
    thread.join()
    assert seen == [time.time_ns()] == [WALL]
    stepped.step(2_500_000_000)
    assert time.time_ns() == WALL + 2_500_000_000
    assert dt.datetime.now(dt.UTC).isoformat() == "2025-11-20T15:40:21.623456+00:00"
    stepped.step(86_400_000_000_000)
    assert dt.date.today() - dt.date(2025, 11, 20) == dt.timedelta(days=1)
    assert stepped.stepping
    assert not stepped.ran_on


@pytest.mark.parametrize("nanoseconds", [1, 499, 500, 999])
def test_every_way_to_ask_gives_one_instant(stepped, nanoseconds):
    stepped.step(1_000 * 777 + nanoseconds)
    assert time.time_ns() == WALL + 777_000
    assert dt.datetime.now(dt.UTC).microsecond == 123_456 + 777
    assert dt.datetime.fromtimestamp(time.time(), dt.UTC) == dt.datetime.now(dt.UTC)
    assert len({uuid.uuid1() for _ in range(20)}) == 20


def test_a_loop_that_waits_on_wall_time_ends(stepped, monkeypatch):
    monkeypatch.setattr(clocks, "PATIENCE", 5_000_000)
    stepped.step(0)
    deadline = time.time() + 0.02
    while time.time() < deadline:
        time.sleep(0.001)
    assert stepped.ran_on
    stepped.step(30_000_000)
    monkeypatch.setattr(clocks, "PATIENCE", 10**12)
    assert time.time_ns() == WALL + 30_000_000


def test_the_clock_runs_on_without_a_jump(stepped, monkeypatch):
    assert time.time_ns() == WALL
    monkeypatch.setattr(clocks, "PATIENCE", 2_000_000)
    begun = time.monotonic_ns()
    seen = [time.time_ns() for _ in range(20_000)]
    assert seen == sorted(seen)
    assert seen[-1] - WALL < time.monotonic_ns() - begun + 10**9


def test_the_shipped_patience_lasts_a_second_without_a_crossing(stepped):
    begun = time.monotonic()
    deadline = time.time() + 0.05
    while time.time() < deadline:
        time.sleep(0.01)
    assert stepped.ran_on
    assert 0.5 < time.monotonic() - begun < 10


def test_waiting_inside_an_exchange_is_no_waiting_of_the_agent(stepped, monkeypatch):
    monkeypatch.setattr(clocks, "PATIENCE", -1)
    with lanes.enter_exchange(lanes.CallContext(None), 1, "tool"):
        assert time.time_ns() > WALL
    assert not stepped.ran_on


def test_no_thread_is_started(monkeypatch, clock):
    """A second thread makes every fork of the agent a DeprecationWarning, from Python 3.12 on."""
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread"))
    clock.start()
    clock.step(1)


def test_stop_gives_time_back_and_is_safe_twice_and_before_start(clock):
    now, instant = time.time, time.time()
    clock.stop()
    clock.start()
    clock.stop()
    clock.stop()
    assert time.time is now
    assert time.time() >= instant


def test_a_real_clock_is_left_alone():
    clock = Clock("real", WALL)
    clock.start()
    clock.step(5)
    assert time.time_ns() > WALL
    assert not clock.stepping
    assert not time_machine.escape_hatch.is_travelling()
    clock.stop()


def test_who_travelled_before_is_left_alone(clock):
    with time_machine.travel(1_000_000_000, tick=False):
        clock.start()
        clock.step(7)
        assert not clock.stepping
        assert time.time() == 1_000_000_000
        clock.stop()
        assert time.time() == 1_000_000_000


class FakeDatetime(dt.datetime):
    """What freezegun puts in the place of the class."""


@pytest.mark.parametrize(
    ("module", "name", "stand_in"), [(time, "time", lambda: 5.0), (dt, "datetime", FakeDatetime)], ids=["time", "class"]
)
def test_a_stand_in_of_the_tests_own_is_left_alone(monkeypatch, clock, module, name, stand_in):
    """time-machine would write into a function as if it were one of C, and end the process."""
    monkeypatch.setattr(module, name, stand_in)
    clock.start()
    assert not clock.stepping
    assert getattr(module, name) is stand_in


def test_who_travels_inside_wins_until_they_come_back(stepped):
    with time_machine.travel(1_000_000_000, tick=False):
        stepped.step(5_000)
        assert time.time() == 1_000_000_000
    assert time.time_ns() == WALL + 5_000


def test_who_does_not_come_back_in_time_comes_back_later(stepped):
    theirs = time_machine.travel(1_000_000_000, tick=False)
    theirs.start()
    stepped.stop()
    assert time.time() == 1_000_000_000
    theirs.stop()
    assert time.time_ns() > WALL


def test_both_start_or_neither(monkeypatch):
    steps = ClockAndSeeds(Clock("stepped", WALL), RandomSource(1))
    monkeypatch.setattr(random, "getstate", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        steps.start()
    assert not time_machine.escape_hatch.is_travelling()


def test_one_step_moves_both():
    steps = ClockAndSeeds(Clock("stepped", WALL), RandomSource(1))
    state = random.getstate()
    steps.start()
    try:
        with running(Tape()):
            steps.step(1_000, "main", 1)
            first = time.time_ns(), random.random(), uuid.uuid4()
            random.random()
            steps.step(1_000, "main", 1)
            assert (time.time_ns(), random.random(), uuid.uuid4()) == first
            assert first[0] == WALL + 1_000
    finally:
        steps.stop()
    assert random.getstate() == state


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be changed")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"])
def test_the_clock_of_a_proof_shows_another_day_month_weekday_and_half_of_the_day(zone, monkeypatch):
    """Whenever it is asked for: at each hour of a year, here and in UTC."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for hours in range(0, 365 * 24, 7):
            now = dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.UTC) + dt.timedelta(hours=hours)
            then = now + find_shift(now)
            for old, new in ((now, then), (now.astimezone(), then.astimezone())):
                assert all(old.strftime(part) != new.strftime(part) for part in ("%d", "%B", "%A", "%H"))
            assert (now.astimezone().hour < 12) != (then.astimezone().hour < 12)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_of_a_captured_run_it_shows_when_the_next_call_of_the_lane_began():
    made = (("main", 3), ("main.1", 10), ("main.2", 12), ("main.1", 20), ("main", 40))
    exchanges = [Exchange(ToolCall("t"), None, at, None, lane, timing=Timing(at * 10**9)) for lane, at in made]
    steps = ClockAndSeeds(Clock("stepped", 0), RandomSource(1))
    steps.follow([*exchanges, Exchange(ToolCall("t"), None, 1, None, parent=3)])
    steps.start()
    try:
        shown = [time.time()]
        for lane, done in (("main", 5), ("main.1", 13), ("main.2", 14), ("main.1", 25), ("main", 50), ("other", 60)):
            steps.step(done * 10**9, lane, 1)
            shown.append(time.time())
    finally:
        steps.stop()
    assert shown == [3, 10, 20, 40, 40, 50, 60]
