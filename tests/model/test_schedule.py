"""The order of a run as a replay keeps it: tried on random runs, each replayed by every order of asking that is legal."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Failure,
    FrameCall,
    HttpReply,
    Timing,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.model.release_order import BEGUN, COLLISION, END, ReleaseEvent, ReleaseSchedule

CANCELLED = Failure("asyncio.exceptions.CancelledError")
DICE = st.integers(0, 2**32).map(random.Random)


@st.composite
def runs(draw):
    """Exchanges as a recorder numbers them: starts, parts and finishes are readings of one counter."""
    dice = draw(DICE)
    under_way, done = [], []
    for reading in range(1, draw(st.integers(2, 41))):
        going = dice.choice(under_way) if under_way and dice.random() < 0.6 else None
        if going is None:
            under_way.append({"start": reading, "parts": []})
        elif dice.random() < 0.5:
            going["parts"].append((reading, len(going["parts"])))
        else:
            under_way.remove(going)
            done.append(going | {"finish": reading, "outcome": outcome(dice, going["parts"])})
    done += [going | {"finish": None, "outcome": None} for going in under_way]
    return [made(one) for one in sorted(done, key=lambda one: one["start"])]


def outcome(dice, parts):
    if not parts:
        return dice.choice([ToolReply(1), Failure("builtins.ValueError"), CANCELLED])
    items = tuple(range(parts[-1][1]))
    return ToolReply(items=items, closed=dice.random() < 0.3)


def made(one):
    return Exchange(
        ToolCall("look"), one["outcome"], one["start"], one["finish"], suspended=True, parts=tuple(one["parts"])
    )


def replayed(schedule, dice):
    """Hand everything over as a server does, asking in any order that the recorded readings allow."""
    came, asked = [], set()
    while True:
        event = schedule.next_event()
        while (missing := schedule.to_be_asked(event.reading if event else END)) is not None:
            assert missing.start not in asked
            asked.add(missing.start)
            schedule.ask(missing.start)
            if dice.random() < 0.2:
                break
        if event is None:
            if missing is None:
                return came
            continue
        if missing is not None:
            continue
        assert schedule.is_asked(event.start)
        schedule.mark_released(event)
        came.append(event)


@given(runs(), DICE)
def test_answers_come_in_the_recorded_order_each_once(exchanges, dice):
    schedule = ReleaseSchedule(exchanges)
    came = replayed(schedule, dice)
    assert came == sorted(came)
    assert came == telling(schedule.events)
    for x in exchanges:
        whole = not x.abandoned and not getattr(x.outcome, "closed", False)
        ends = [event for event in came if event.start == x.start and event.chunks == END]
        assert [event.reading for event in ends] == [x.finish] * whole


def telling(events):
    """Without those that bring nothing: a reader who stopped after a part that he had."""
    far, found = {}, []
    for event in events:
        if event.chunks > far.get(event.start, -1):
            far[event.start] = event.chunks
            found.append(event)
    return found


@given(runs(), DICE)
def test_what_came_out_of_turn_or_was_given_up_is_passed_over(exchanges, dice):
    schedule, left = ReleaseSchedule(exchanges), []
    for x in exchanges:
        match dice.randrange(4):
            case 0:
                schedule.drop(x.start)
            case 1:
                schedule.mark_released(ReleaseEvent(x.finish or x.start, x.start, END, 0))
            case _:
                left.append(x.start)
    schedule.drop(10_000)
    assert not schedule.holds(10_000)
    came = replayed(schedule, dice)
    assert {event.start for event in came} <= set(left)
    assert came == telling([event for event in schedule.events if event.start in left])


@given(runs())
def test_a_call_is_early_until_all_has_come_that_came_before_it(exchanges):
    schedule, came = ReleaseSchedule(exchanges), 0
    for x in exchanges:
        before = [event for event in telling(schedule.events) if came < event.reading < x.start]
        while (event := schedule.find_early(x.start)) is not None:
            assert event == before.pop(0)
            schedule.mark_released(event)
            came = event.reading
        assert not before


@given(runs(), DICE)
def test_another_order_of_ends_is_kept_as_well(exchanges, dice):
    ends = [x.start for x in exchanges if not x.abandoned]
    wanted = dice.sample(ends, len(ends))
    schedule = ReleaseSchedule(exchanges, completion=wanted)
    events = [event for event in schedule.events if event.start in ends]
    assert [event.start for event in events] == wanted
    assert {event.chunks for event in schedule.events} <= {END}
    last = {event.start: event.reading for event in ReleaseSchedule(exchanges).events}
    unsaid = ReleaseSchedule(exchanges, completion=()).events
    assert [event.start for event in unsaid] == sorted(last, key=last.__getitem__)


class Counting(dict):
    """Counts how often it is asked."""

    asked = 0

    def get(self, *given):
        self.asked += 1
        return super().get(*given)


def fan(calls):
    """Calls that are all under way at once, answered in a random order, each with a part before its end."""
    dice = random.Random(calls)
    orders = [dice.sample(range(calls), calls) for _ in range(2)]
    parts = {start: calls + 1 + at for at, start in enumerate(orders[0])}
    ends = {start: 2 * calls + 1 + at for at, start in enumerate(orders[1])}
    return [
        Exchange(ToolCall("look"), ToolReply(items=(1,)), start + 1, ends[start], parts=((parts[start], 1),))
        for start in range(calls)
    ]


@pytest.mark.parametrize("calls", [100, pytest.param(5000, marks=pytest.mark.exhaustive)])
def test_the_work_of_a_call_does_not_grow_with_their_number(calls):
    schedule = ReleaseSchedule(fan(calls))
    schedule._released = Counting()
    came = replayed(schedule, random.Random(1))
    assert len(came) == 2 * calls
    assert schedule._released.asked <= 10 * calls


def tool(start, finish, outcome=None, **more):
    return Exchange(ToolCall("look"), outcome or ToolReply(1), start, finish, **more)


HOW_FAR = [
    (ToolReply(1), END), (ToolReply(items=(1, 2)), END), (ToolReply(items=(1, 2), closed=True), 2),
    (ToolReply(None, closed=True), 0), (ToolReply(items=(1,), failure=Failure("builtins.ValueError")), END),
    (ToolReply(items=(1,), failure=CANCELLED), 1), (HttpReply(200, body=Body(b"ab"), cuts=(1, 1)), END),
    (HttpReply(200, body=Body(b"ab"), cuts=(1, 1), closed=True), 2),
    (HttpReply(200, body=Body(b"a"), cuts=(1,), failure=CANCELLED), 1),
    (HttpReply(200, body=Body(b"a"), cuts=(1,), failure=Failure("httpx.ReadError")), END),
    (Failure("builtins.ValueError"), END),
]  # fmt: skip


def test_how_far_an_answer_came():
    for reply, chunks in HOW_FAR:
        assert [event.chunks for event in ReleaseSchedule([tool(1, 2, reply)]).events] == [chunks], reply
    assert END > 10**15 > BEGUN, "an end is later than any chunk"


def test_when_a_part_came_lies_between_the_first_and_the_end():
    timing = Timing(100, 200, 600)
    reply = HttpReply(200, body=Body(b"abcd"), cuts=(1, 1, 1, 1))
    x = tool(1, 6, reply, timing=timing, parts=((2, BEGUN), (3, 1), (4, 2), (5, 4)))
    assert [event.at for event in ReleaseSchedule([x]).events] == [200, 300, 400, 600, 600]
    assert [event.at for event in ReleaseSchedule([tool(1, 2, timing=Timing(7))]).events] == [7]
    assert [event.at for event in ReleaseSchedule([tool(1, 2, timing=Timing(7, None, 9))]).events] == [9]


def test_what_stands_outside_of_the_order():
    frame = Exchange(FrameCall("ws://a", connection=1), None, 4, 5)
    child = tool(6, 7, lane="main.1")
    grandchild = tool(8, 9, lane="main.1.2")
    sibling = tool(10, 11, lane="main.10")
    schedule = ReleaseSchedule([tool(1, 12), tool(2, 3, parent=1), frame, child, grandchild, sibling], ["main.1"])
    assert [*schedule.exchanges] == [1, 10]
    assert [schedule.holds(start) for start in (1, 2, 4, 6, 8, 10)] == [True, False, False, False, False, True]
    schedule.expect_no_more(1)
    assert schedule.to_be_asked(END).start == 10


ONE_BY_ONE = [[], [tool(1, 2), tool(3, 4)], [tool(1, 4), tool(2, 3, parent=1)]]
CONCURRENT = [
    [tool(1, 4), tool(2, 3)], [tool(1, 3), tool(2, 4)], [tool(1, None), tool(2, 3)],
    [tool(1, 2), tool(3, 4, lane="main.1")],
]  # fmt: skip


def test_a_run_is_concurrent_where_calls_overlap_or_lanes_differ():
    assert [run for run in [*ONE_BY_ONE, *CONCURRENT] if ReleaseSchedule(run).matters] == CONCURRENT


APART = [
    {"timing": Timing(0, None, COLLISION + 10)}, {"timing": Timing(0)}, {"lane": "main.1"}, {"suspended": True},
    {"start": 4, "finish": 5},
]  # fmt: skip


def test_answers_to_two_threads_collide_within_a_millisecond():
    one = tool(1, 3, lane="main.1", timing=Timing(0, None, 10))
    two = {"start": 2, "finish": 4, "lane": "main.2", "timing": Timing(0, None, COLLISION)}
    assert ReleaseSchedule([one, tool(**two)]).collisions == 1
    assert [other for other in APART if ReleaseSchedule([one, tool(**two | other)]).collisions] == []
