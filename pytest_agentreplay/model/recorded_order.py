"""What a recording keeps of the order of its calls: the readings of its counter, and the lanes that count.

While a run is recorded each chunk of an answer takes a reading. It is worth keeping only where something else of the
run, in another exchange, came next: two streams that interleave, a tool that was called while an answer still flowed.
Without the others a run without concurrency is numbered by its calls.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

from pytest_agentreplay.model.exchanges import FrameCall
from pytest_agentreplay.model.release_order import Precedence, lanes_above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Exchange, JsonObject


def renumber(exchanges: Iterable[Exchange]) -> tuple[tuple[Exchange, ...], Callable[[int], int]]:
    """Return the exchanges numbered without gaps, and what a reading of the old counter is now."""
    exchanges = tuple(exchanges)
    told_apart = _find_interrupted(exchanges)
    readings = sorted(
        {reading for x in exchanges for reading in (x.start, x.finish) if reading is not None} | told_apart
    )

    def find_new(reading: int) -> int:
        return bisect_right(readings, reading)

    return tuple(_renumber_exchange(x, find_new, told_apart) for x in exchanges), find_new


def _find_interrupted(exchanges: tuple[Exchange, ...]) -> set[int]:
    """Return the readings of parts after which something else happened, before more of the same answer came."""
    happened: list[tuple[int, int, bool]] = []
    for x in exchanges:
        # What happens inside another exchange does not happen in a replay.
        if x.parent is None:
            happened += [(reading, x.start, False) for reading in (x.start, x.finish) if reading is not None]
            happened += [(reading, x.start, True) for reading, _ in x.parts]
    happened.sort()
    return {event[0] for event, following in pairwise(happened) if event[2] and following[1] != event[1]}


def _renumber_exchange(x: Exchange, find_new: Callable[[int], int], told_apart: set[int]) -> Exchange:
    call = x.call
    if isinstance(call, FrameCall) and call.connection is not None:
        call = replace(call, connection=find_new(call.connection))
    return replace(
        x,
        call=call,
        start=find_new(x.start),
        finish=None if x.finish is None else find_new(x.finish),
        parent=None if x.parent is None else find_new(x.parent),
        parts=tuple((find_new(reading), chunks) for reading, chunks in x.parts if reading in told_apart),
    )


def late_lanes(exchanges: Iterable[Exchange], begun: Mapping[str, int]) -> dict[str, int]:
    """Of the lanes that began at `begun`, those whose beginner had more answered until their first call.

    That happened beside them, not before them. A reading of `begun` is one of the counter of starts and finishes.
    """
    order = Precedence(exchanges)
    return {lane: reading for lane, reading in begun.items() if order.ran_beside(lane, reading)}


def order_between_lanes(
    exchanges: Iterable[Exchange], after: Mapping[int, tuple[int, ...]], now: Callable[[int], int]
) -> JsonObject:
    """Return, by the `start` of a call, the calls of other lanes that it was made after by the program's own doing.

    `after` is what `Courses` has kept, in readings of which `now` returns those of the exchanges. What a lane's own
    order says, or that of the lanes above it, is left out.
    """
    top = {x.start: x for x in exchanges if x.parent is None}
    kept: JsonObject = {}
    for start, before in after.items():
        if (x := top.get(now(start))) is not None:
            earlier = [top[now(other)] for other in before if now(other) in top]
            if others := [y.start for y in earlier if y.lane not in {x.lane, *lanes_above(x.lane)}]:
                kept[str(x.start)] = [*others]
    return kept


def separate_lanes(exchanges: Iterable[Exchange], lanes: Iterable[str]) -> tuple[Exchange, ...]:
    """The exchanges, those of each of `lanes` in lanes of their own where any two of them ran side by side.

    For whoever is seen by its calls alone (another process): one that asks one thing after the other has an order, one
    that asks several at once has strands that nobody can tell apart.
    """
    separated = list(exchanges)
    for lane in lanes:
        ended = [x for x in separated if x.lane == lane and x.finish is not None and not x.abandoned]
        if any(y.start < (x.finish or 0) for x, y in pairwise(sorted(ended, key=lambda x: x.start))):
            numbers = count(1)
            separated = [replace(x, lane=f"{lane}.{next(numbers)}") if x.lane == lane else x for x in separated]
    return tuple(separated)
