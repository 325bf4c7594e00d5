"""The legal orders of a run's answers: all of them, held against brute force, and the nearest first."""

from itertools import pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.order_permutations import LIMIT, ReleasedAnswer, answers, list_swapped, orders
from pytest_agentreplay.model.exchanges import Exchange, HttpReply, Timing, ToolCall, ToolReply
from pytest_agentreplay.model.release_order import END, ReleaseSchedule


@st.composite
def recordings(draw, most=6):
    """Answers of a run: calls and answers in some order, each answer behind its call, on one counter."""
    calls = draw(st.integers(1, most))
    happened = draw(st.permutations([call for call in range(calls) for _ in "ab"]))
    readings = {call: [] for call in range(calls)}
    for reading, call in enumerate(happened, 1):
        readings[call].append(reading)
    return sorted((ReleasedAnswer(*pair) for pair in readings.values()), key=lambda answer: answer.there)


def starts(recorded):
    return tuple(answer.start for answer in recorded)


def legal(recorded, order):
    """Whether each answer that was there before a call was made comes before that call's answer."""
    place = {start: at for at, start in enumerate(order)}
    return all(place[a.start] < place[b.start] for a in recorded for b in recorded if a.there < b.start)


def all_legal(recorded):
    return {order for order in permutations(starts(recorded)) if legal(recorded, order)} - {starts(recorded)}


@given(recordings(most=5))
def test_all_legal_orders_are_found_and_no_other(recorded):
    found = orders(recorded)
    assert set(found) == all_legal(recorded)
    assert len(found) == len(set(found))


@given(recordings(most=6), st.integers(1, 40), st.integers(0, 3))
def test_a_limit_is_filled_with_legal_orders_neighbours_that_change_places_first(recorded, limit, seed):
    came, found, there = starts(recorded), orders(recorded, limit=limit, seed=seed), all_legal(recorded)
    assert len(found) == len(set(found)) == min(limit, len(there))
    assert set(found) <= there
    assert found == orders(recorded, limit=limit, seed=seed)
    distances = [len(list_swapped(came, order)) for order in found]
    pairs = sum(a.there > b.start for a, b in pairwise(recorded))
    assert distances.count(1) == min(pairs, limit)
    assert distances[: min(pairs, limit)] == [1] * min(pairs, limit)
    assert len(there) > limit or distances == sorted(distances)
    for order in found[:20]:
        assert list_swapped(came, order)
        for first, then in list_swapped(came, order):
            assert order.index(first) < order.index(then), "named as they come"
            assert came.index(first) > came.index(then)


def overlapping(count):
    return [ReleasedAnswer(call, 10_000 + call) for call in range(count)]


def test_few_overlapping_calls_are_tried_in_every_order_and_many_are_no_work():
    assert len(orders(overlapping(5))) == 119
    assert len(orders(overlapping(6))) == LIMIT
    found = orders(overlapping(600))
    assert len(set(found)) == LIMIT
    assert all(len(list_swapped(starts(overlapping(600)), order)) == 1 for order in found[:3])
    assert orders([ReleasedAnswer(1, 2), ReleasedAnswer(3, 4), ReleasedAnswer(5, 6)]) == orders([]) == []


def test_another_seed_draws_other_orders_behind_the_same_neighbours():
    one, two = (orders(overlapping(9), seed=seed) for seed in (0, 1))
    assert one[:8] == two[:8]
    assert one != two


# What of a run takes part.


def call(start, finish, *, parts=(), outcome=None, **more):
    outcome = ToolReply(start) if outcome is None else outcome
    timing = Timing(start * 10, end=(finish or start) * 10)
    return Exchange(ToolCall(f"t{start}"), outcome, start, finish, parts=parts, timing=timing, **more)


def test_what_of_a_run_takes_part():
    stream = call(1, 6, parts=((2, 1),), outcome=HttpReply(200, cuts=(1, 1)))
    counted = ReleasedAnswer(1, 2), ReleasedAnswer(3, 4), ReleasedAnswer(5, 7)
    assert answers(ReleaseSchedule([stream, call(3, 4), call(5, 7)])) == counted, "from where something else went on"
    assert orders(answers(ReleaseSchedule([stream, call(3, 4)]))) == []
    inside, never = call(2, 3, parent=1), Exchange(ToolCall("gone"), None, 5, None)
    assert answers(ReleaseSchedule([call(1, 4), inside, never])) == (ReleasedAnswer(1, 4),)


# The events in another order.


@given(recordings(most=5))
def test_in_another_order_only_what_can_have_been_asked_is_waited_for(recorded):
    exchanges = [call(*answer) for answer in recorded]
    needed = {b.start: {a.start for a in recorded if a.there < b.start} for b in recorded}
    for order in orders(recorded):
        schedule = ReleaseSchedule(exchanges, completion=order)
        assert tuple(event.start for event in schedule.events) == order
        assert [event.chunks for event in schedule.events] == [END] * len(order)
        assert [event.at for event in schedule.events] == sorted(answer.there * 10 for answer in recorded)
        for place, event in enumerate(schedule.events):
            asked = {start for start in order if start < event.reading}
            assert asked == {start for start in order if needed[start] <= set(order[:place])}
