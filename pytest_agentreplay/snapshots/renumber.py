"""The counter of a run without the readings that say nothing: so a run without concurrency is numbered by its calls.

While a run is recorded each chunk of an answer takes a reading. It is worth keeping only where something else of the
run, in another exchange, came next: two streams that interleave, a tool that was called while an answer still flowed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_agentreplay.model.exchanges import FrameCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Exchange


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
