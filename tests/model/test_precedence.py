"""What must precede a recorded call: strict in a lane, after its beginner in a begun lane, and free between lanes."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.backend import Moment, Replayed
from pytest_agentreplay.model.exchanges import Exchange, Failure, ToolCall, ToolReply
from pytest_agentreplay.model.recorded_order import late_lanes
from pytest_agentreplay.model.release_order import Label, Precedence, Started, lanes_above
from tests.support import backends

DONE = ToolReply()


def call(lane, start, finish, outcome=DONE):
    return Exchange(ToolCall("t", {}), outcome, start, finish, lane=lane)


def test_inside_a_lane_the_order_is_strict():
    first, second = call("main", 1, 2), call("main", 3, 4)
    order = Precedence([first, second])
    assert order.is_early(second)
    order.answer(first)
    assert not order.is_early(second)


def test_agents_and_jobs_side_by_side_are_free_of_each_other():
    a1, b1, a2 = call("main.1", 1, 4), call("main.2", 2, 3), call("main.1", 5, 6)
    order = Precedence([a1, b1, a2])
    order.answer(a1)
    assert not order.is_early(a2), "main.2 had answered before a2 began, by chance"
    jobs = [call(f"main.{n}", 2 * n, 2 * n + 1) for n in range(1, 5)]
    assert not any(Precedence(jobs).is_early(job) for job in jobs)


def test_a_begun_lane_comes_after_what_its_beginner_had_by_then():
    plan, inner, meanwhile, later = call("main", 1, 2), call("main.1.1", 3, 6), call("main", 4, 5), call("main.1", 7, 8)
    order = Precedence([plan, inner, meanwhile, later])
    assert order.is_early(inner)
    assert order.is_early(later)
    assert order.binding(later) == [plan], "what its beginner did meanwhile does not bind"
    order.answer(plan)
    assert not order.is_early(inner)
    assert order.is_early(meanwhile) is False
    assert not order.is_early(later)


def test_calls_that_were_given_up_bind_nobody():
    gone = call("main", 1, 2, Failure("asyncio.exceptions.CancelledError"))
    never = call("main", 3, None, None)
    assert not Precedence([gone, never, last := call("main", 4, 5)]).is_early(last)
    assert ([*lanes_above("main.2.11")], [*lanes_above("main")]) == (["main.2", "main"], [])


def test_what_its_beginner_was_answered_beside_a_job_does_not_bind_the_job():
    plan, beside, job = call("main", 1, 2), call("main", 3, 4), call("main.1", 5, 6)
    assert late_lanes([plan, beside, job], {"main.1": 2}) == {"main.1": 2}
    assert late_lanes([plan, beside, job], {"main.1": 4, "main.7": 1}) == {}, "the first call says as much"
    order = Precedence([plan, beside, job], {"main.1": 2})
    assert order.binding(job) == [plan]
    order.answer(plan)
    assert not order.is_early(job)


@pytest.mark.parametrize("begun", [None, [], "x", {"main.1": "2"}, {"main.1": 10**9}, {"main.9": 0}])
def test_of_what_a_file_says_about_lanes_only_numbers_count(begun):
    plan, job = call("main", 1, 2), call("main.1", 5, 6)
    assert Precedence([plan, job], begun).binding(job) == [plan]


LANES = ["main", "main.1", "main.2", "main.1.1", "main.10"]


@st.composite
def runs(draw):
    """Calls with distinct starts and finishes on one counter, in any lanes, some never ended."""
    count = draw(st.integers(1, 8))
    moments = draw(st.permutations(range(1, 2 * count + 1)))
    calls = []
    for n in range(count):
        start, finish = sorted(moments[2 * n : 2 * n + 2])
        calls.append(call(draw(st.sampled_from(LANES)), start, draw(st.sampled_from([finish, finish, None]))))
    return sorted(calls, key=lambda x: x.start)


@given(runs(), st.randoms(use_true_random=False))
def test_the_quick_answer_is_the_plain_one_and_what_binds_a_call_had_ended_before_it(calls, chance):
    order, answered = Precedence(calls), []
    for x in chance.sample(calls, len(calls)):
        assert order.is_early(x) == any(y not in answered for y in order.binding(x))
        for y in order.binding(x):
            assert y.finish < x.start
            assert y.lane == x.lane or y.lane in lanes_above(x.lane)
        order.answer(x)
        answered.append(x)


# Lanes of threads and jobs are found again by what was started, in which order, and not by who calls first.

RECORDED = {"main.2": ["shop.fetch", 1], "main.3": ["shop.fetch", 2], "main.2.1": ["shop.parse", 1]}


def labelled(started, *names, above="main"):
    """The recorded lanes of functions that are started in this order, asked for from the last one to the first."""
    starts = Counter()
    labels = []
    for name in names:
        starts[name] += 1
        labels.append(Label(name, starts[name]))
    return [started.lane(above, label, starts) for label in reversed(labels)][::-1]


def test_a_lane_is_found_by_what_was_started():
    assert labelled(Started(RECORDED), "shop.fetch", "shop.fetch") == ["main.2", "main.3"]
    beside = ("log.flush", "shop.fetch", "log.flush", "shop.fetch")
    assert labelled(Started(RECORDED), *beside) == [None, "main.2", None, "main.3"], "others move no number"
    assert labelled(Started(RECORDED), *["shop.fetch"] * 3)[2] is None, "one more than recorded"
    started = Started(RECORDED)
    assert labelled(started, "shop.fetch_all", "shop.fetch_all") == ["main.2", "main.3"], "renamed"
    assert labelled(started, "shop.parse", above="main.2") == ["main.2.1"]
    for recorded in ({}, [], "main.1", {"main.1": "shop.fetch"}, {"main.1": [1, "shop.fetch"]}):
        assert labelled(Started(recorded), "shop.fetch") == [None], "not of the form"


def test_a_recording_keeps_the_labels_of_the_lanes_that_it_has():
    started = Started()
    for nth in (1, 2):
        started.note(f"main.{nth}", Label("shop.fetch", nth))
    assert started.list_labels({"main", "main.2"}) == {"main.2": ["shop.fetch", 2]}


def test_what_a_child_did_for_a_recorded_request_is_served_binds_nobody_and_is_not_missed():
    calls = [("main", "ask"), ("main.p1", "look up"), ("main.p1", "own"), ("main.p2", "other"), ("main.p2", "later")]
    run = backends.recorded([(lane, ToolCall(name, {})) for lane, name in calls])
    starts = {x.call.name: x.start for x in run.exchanges}
    served = {str(starts["look up"]): starts["ask"], "no start": 1}
    kit = {"served": served, "lanes": {"main.p1": 0, "main.p2": 0}}
    run = replace(run, header=replace(run.header, kit=kit))
    backend = backends.replayer(run)
    for name, lane in (("own", "main.p1"), ("other", "main.p2"), ("look up", "main.p1"), ("ask", "main")):
        assert isinstance(backend.decide(ToolCall(name, {}), Moment(lane, 0)), Replayed), name
    assert "later" in backend.finish().summary
    backend = backends.replayer(run)
    for name, lane in (("ask", "main"), ("own", "main.p1"), ("other", "main.p2"), ("later", "main.p2")):
        backend.decide(ToolCall(name, {}), Moment(lane, 0))
    assert backend.finish() is None
    assert len(backend.list_replayed()) == 5, "it belongs to the request"
