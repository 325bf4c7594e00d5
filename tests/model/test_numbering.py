"""The counter without the readings that say nothing: what happened before what stays as it was recorded."""

import random
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import Exchange, FrameCall, ToolCall, ToolReply
from pytest_agentreplay.model.recorded_order import renumber
from pytest_agentreplay.model.release_order import ReleaseSchedule


@st.composite
def runs(draw):
    """Exchanges with parts, some of them inside others, some over a lasting connection."""
    dice = random.Random(draw(st.integers(0, 2**32)))
    reading, under_way, done, opened = 0, [], [], None
    for _ in range(draw(st.integers(1, 60))):
        reading += dice.choice((1, 1, 1, 2))
        going = dice.choice(under_way) if under_way and dice.random() < 0.7 else None
        if going is None:
            parent = dice.choice(under_way)["start"] if under_way and dice.random() < 0.2 else None
            call = FrameCall("ws://a", connection=opened) if dice.random() < 0.1 else ToolCall("look")
            opened = reading if isinstance(call, FrameCall) and opened is None else opened
            under_way.append({"call": call, "start": reading, "finish": None, "parent": parent, "parts": ()})
        elif dice.random() < 0.7:
            going["parts"] = (*going["parts"], (reading, len(going["parts"])))
        else:
            going["finish"] = reading
            under_way.remove(going)
            done.append(going)
    for later, going in enumerate(under_way, 1):
        # What has begun to come is settled as far as it came, at the latest when the run ends.
        going["finish"] = reading + later if going["parts"] or dice.random() < 0.5 else None
    found = sorted([*done, *under_way], key=lambda one: one["start"])
    return [Exchange(outcome=None if one["finish"] is None else ToolReply(1), **one) for one in found]


def readings(x):
    return [x.start, *(reading for reading, _ in x.parts), *([] if x.finish is None else [x.finish])]


@given(runs())
def test_what_is_kept_stands_in_the_same_order_without_gaps(exchanges):
    thin, now = renumber(exchanges)
    kept = sorted(reading for x in thin for reading in readings(x))
    assert kept == list(range(1, len(kept) + 1))
    for old, new in zip(exchanges, thin, strict=True):
        assert (now(old.start), old.finish and now(old.finish)) == (new.start, new.finish)
        assert set(new.parts) <= {(now(reading), chunks) for reading, chunks in old.parts}
        assert new.parent == (None if old.parent is None else now(old.parent))
        if isinstance(old.call, FrameCall) and old.call.connection is not None:
            assert new.call.connection == now(old.call.connection)
        same = replace(new, call=old.call, start=old.start, finish=old.finish, parent=old.parent, parts=old.parts)
        assert same == old
    again, further = renumber(thin)
    assert again == thin, "a second time changes nothing"
    assert [further(x.start) for x in thin] == [x.start for x in thin]


@given(runs())
def test_a_part_is_left_out_only_where_nothing_else_happened_before_more_of_the_answer_came(exchanges):
    thin, now = renumber(exchanges)
    happened = sorted((reading, x.start) for x in exchanges if x.parent is None for reading in readings(x))
    followed = {here: whose for (here, _), (_, whose) in pairwise(happened)}
    for old, new in zip(exchanges, thin, strict=True):
        left = [reading for reading, _ in old.parts if (now(reading), _) not in new.parts]
        if old.parent is None:
            assert all(followed.get(reading, old.start) == old.start for reading in left)
            assert all(followed[reading] != old.start for reading, _ in old.parts if reading not in left)
        else:
            assert not new.parts


@given(runs())
def test_the_events_that_others_stand_between_are_the_same(exchanges):
    def told(exchanges, name):
        """Who got how much, in order: several parts in a row of one answer count as the last of them."""
        schedule, found = ReleaseSchedule(exchanges), []
        calls = [x for x in exchanges if schedule.holds(x.start)]
        steps = sorted(
            [(event.reading, event.start, event.chunks) for event in schedule.events]
            + [(x.start, x.start, "asked") for x in calls]
        )
        for (_, start, what), following in pairwise([*steps, (0, 0, 0)]):
            if what == "asked" or following[1] != start or following[2] == "asked":
                found.append((name(start), what))
        return found

    # Frames stand outside of the order, yet what happens to them keeps a part of another answer.
    exchanges = [x for x in exchanges if not isinstance(x.call, FrameCall)]
    thin, now = renumber(exchanges)
    assert told(thin, lambda start: start) == told(exchanges, now)
