"""The ids that a service draws: noted for each run, by lane and call site, and never others than without a capture."""

from __future__ import annotations

import asyncio
import random
import threading
import uuid
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from pytest_agentreplay import capture
from pytest_agentreplay.intercept.environment import randomness
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.exchanges import RawCall, ToolCall, ToolReply
from pytest_agentreplay.runs.capture import fail_open, patches
from pytest_agentreplay.snapshots.kit import list_draws

HERE = __name__


@dataclass
class Request:
    """Draws in code that `dataclass` makes."""

    id: uuid.UUID = field(default_factory=uuid4)


def draw():
    return [uuid4().hex, uuid.uuid4().hex]


@pytest.fixture
def started(tmp_path):
    capture.start(str(tmp_path))
    yield
    capture.stop()


def draws_of(function):
    """What `function` returns in a run, and what was noted of it."""
    with capture.run("r"):
        return function(), lanes.CALL_CONTEXT.get().interception.draws


@pytest.mark.usefixtures("started")
def test_they_are_noted_by_lane_and_call_site():
    def agent():
        async def part():
            await asyncio.sleep(0)
            return draw()

        async def parts():
            return await asyncio.gather(part(), part())

        before, request, timed = draw(), Request(), uuid.uuid1()
        in_thread = []
        thread = threading.Thread(target=lambda: in_thread.extend(draw()))
        thread.start()
        thread.join()
        return before, request.id.hex, timed.hex, in_thread, asyncio.run(parts())

    (before, request, timed, in_thread, (one, other)), draws = draws_of(agent)
    site = f"{HERE}.draw"
    assert draws["main"][site] == before
    assert [request] in draws["main"].values()
    assert draws["main"][f"{HERE}.{agent.__qualname__} uuid1"] == [timed]
    below = [lane for lane in draws if lane != "main"]
    assert len(below) == 3
    assert sorted(draws[lane][site] for lane in below) == sorted([in_thread, one, other])


@pytest.mark.usefixtures("started")
def test_a_service_gets_its_own_ids():
    state = random.getstate()
    drawn, _ = draws_of(lambda: [uuid4() for _ in range(50)])
    assert len({*drawn}) == 50
    assert {each.version for each in drawn} == {4}
    assert random.getstate() == state


def test_outside_a_run_none_is_noted_and_stop_leaves_the_functions_as_they_were(tmp_path):
    codes = {name: getattr(uuid, name).__code__ for name in randomness.ORIGINALS}
    capture.start(str(tmp_path))
    assert uuid4.__code__ is not codes["uuid4"]
    assert len({*draw()}) == 2
    for stop in (capture.stop, patches.stop_noting_ids):
        stop()
        assert {name: getattr(uuid, name).__code__ for name in randomness.ORIGINALS} == codes


@pytest.mark.usefixtures("started")
def test_what_is_drawn_inside_an_exchange_is_not_noted():
    def agent():
        pending = lanes.CALL_CONTEXT.get().interception.enter(RawCall(ToolCall("look_up")))
        with pending.inside():
            draw()
        pending.settle(ToolReply(None))
        return draw()

    drawn, draws = draws_of(agent)
    assert draws == {"main": {f"{HERE}.draw": drawn}}


@pytest.mark.usefixtures("started")
def test_of_many_the_first_are_noted_and_the_others_counted():
    drawn, draws = draws_of(lambda: [uuid4().hex for _ in range(10_000)])
    ((ids,),) = (sites.values() for lane, sites in draws.items() if lane == "main")
    assert ids == drawn[: patches.MOST_IDS]
    assert draws[patches.DROPPED] == 10_000 - patches.MOST_IDS


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("fault", ["find_call_site", "find_drawing_lane"])
def test_a_fault_is_counted_and_the_service_has_its_id(fault, monkeypatch):
    def fail(*_):
        raise RuntimeError("planted")

    monkeypatch.setattr(randomness, fault, fail)
    drawn, draws = draws_of(draw)
    assert len({*drawn}) == 2
    assert not any(draws.values())
    assert fail_open.read_counts()["faults"] == 2


@pytest.mark.usefixtures("started")
def test_a_seeded_run_in_a_process_that_captures_draws_from_its_seed():
    seeded = []
    for stop in (capture.stop, bool):
        source = RandomSource(7)
        source.start()
        seeded.append(uuid4())
        stop()
        assert uuid4() != seeded[0], "the run goes on to draw from its seed"
        source.stop()
        assert uuid4() not in seeded
    assert seeded[0] == seeded[1]


def test_they_are_served_by_call_site_whatever_else_is_drawn():
    recorded = [uuid.UUID(int=number, version=4).hex for number in range(4)]

    def other_site():
        return uuid4().hex

    source = RandomSource(7)
    source.serve_ids(list_draws({"uuids": {"elsewhere": {f"{HERE}.draw": recorded, "a.b": "no list"}, "dropped": 3}}))
    source.start()
    try:
        extra = other_site()
        served = [*draw(), *draw()]
        seeded = [*draw(), other_site()]
    finally:
        source.stop()
    assert served == recorded
    assert not {extra, *seeded} & {*recorded}
    assert len({extra, *seeded}) == 4


def test_what_is_no_id_in_a_file_is_not_served():
    source = RandomSource(7)
    drawn = ["../x", 7, "G" * 32, uuid.UUID(int=9).hex]
    source.serve_ids(list_draws({"uuids": {"elsewhere": {f"{HERE}.draw": drawn}}}))
    source.start()
    drawn = draw()
    source.stop()
    assert drawn[0] == uuid.UUID(int=9).hex
