"""What must have been answered before a recorded call may come: the order of a run as a replay has to keep it.

Inside a lane the order is strict. A lane that another one began comes after whatever that one had been answered by
then. Between lanes nothing else binds but what the recording says of it (`after`: whoever started the lane had waited
for that call). That one call was over when another began may else be chance (a pool of few workers, two agents side by
side), and a replay, which waits for no network, throws those dice anew.

A call is answered when it was asked for, and handed over when its caller goes on. The first is enough inside a lane:
nobody asks twice at once there, and which thread of a pool takes what is chance. The second is needed where the
caller's lane began below the recorded one, so that the program now does in several strands what it did in one, and for
`after`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.core.model import Exchange


class Precedence:
    """Keeps track of what was answered; constant work per call. Calls that their caller gave up bind nobody."""

    def __init__(self, exchanges: Iterable[Exchange], begun: object = None, after: object = None) -> None:
        """Take the top-level exchanges of a run, what `late_lanes` gave, and the calls that each one was made after.

        The last two come from a file: of them nothing is believed but numbers of calls that can have been so.
        """
        self._exchanges = tuple(exchanges)
        self._open: dict[str, dict[int, Exchange]] = {}
        by_start = {x.start: x for x in self._exchanges if not x.abandoned and x.made is not None}
        self._after: dict[int, tuple[Exchange, ...]] = {}
        for start, others in after.items() if isinstance(after, dict) else ():
            known = (
                [by_start[y] for y in others if isinstance(y, int) and y in by_start]
                if isinstance(others, list)
                else []
            )
            if start.isdecimal():
                self._after[int(start)] = tuple(y for y in known if (y.made or 0) < int(start))
        ended: dict[str, list[Exchange]] = {}
        self._began: dict[str, int] = {}
        for x in self._exchanges:
            for lane in (x.lane, *above(x.lane)):
                self._began[lane] = min(self._began.get(lane, x.start), x.start)
            if x.made is not None and not x.abandoned:
                ended.setdefault(x.lane, []).append(x)
        for lane, reading in begun.items() if isinstance(begun, dict) else ():
            if lane in self._began and isinstance(reading, int):
                self._began[lane] = min(self._began[lane], reading + 1)
        self._lanes = {lane: _Lane(theirs) for lane, theirs in ended.items()}
        self._from_above = {
            lane: tuple((up, self._began[branch]) for branch, up in pairwise((lane, *above(lane))))
            for lane in self._began
        }

    def answer(self, x: Exchange) -> None:
        """`x` is answered now."""
        if x.lane in self._lanes:
            self._lanes[x.lane].answer(x)

    def ask(self, x: Exchange) -> None:
        """Note that `x` was asked for: until `hand` its caller waits."""
        if x.made is not None and not x.abandoned:
            self._open.setdefault(x.lane, {})[x.start] = x

    def hand(self, x: Exchange) -> None:
        """Note that the caller of `x` goes on."""
        self._open.get(x.lane, {}).pop(x.start, None)

    def handed(self, x: Exchange) -> bool:
        """Return whether `x` was answered, and its caller has gone on."""
        return self.answered(x) and x.start not in self._open.get(x.lane, {})

    def answered(self, x: Exchange) -> bool:
        """Whether `x` was answered."""
        return x.lane in self._lanes and self._lanes[x.lane].answered(x)

    def early(self, x: Exchange, lane: str = "") -> bool:
        """Whether a call that must come before `x`, which is made in `lane` now, was not answered yet."""
        after = self._after.get(x.start)
        if after and not all(map(self.handed, after)):
            return True
        if (
            lane != x.lane
            and x.lane in above(lane)
            and any((y.made or 0) < x.start for y in self._open.get(x.lane, {}).values())
        ):
            return True
        own = self._lanes.get(x.lane)
        if own is not None and not own.answered_until(x.start):
            return True
        for bound, moment in self._from_above[x.lane]:
            ended = self._lanes.get(bound)
            if ended is not None and not ended.answered_until(moment):
                return True
        return False

    def beside(self, lane: str, reading: int) -> bool:
        """Whether the lane above `lane` had more answered after `reading` and before the first call of `lane`."""
        beginner = next((self._lanes[one] for one in above(lane)[:1] if one in self._lanes), None)
        return lane in self._began and beginner is not None and beginner.between(reading + 1, self._began[lane])

    def binding(self, x: Exchange) -> list[Exchange]:
        """All calls that must come before `x`, answered or not."""
        bounds = dict(self._bounds(x))
        after = self._after.get(x.start, ())
        return [
            y
            for y in self._exchanges
            if y in after or (y.made is not None and not y.abandoned and y.made < bounds.get(y.lane, 0))
        ]

    def _bounds(self, x: Exchange) -> tuple[tuple[str, int], ...]:
        """Lane by lane, the moment before which its ended calls must have been answered when `x` comes."""
        return ((x.lane, x.start), *self._from_above[x.lane])


def late_lanes(exchanges: Iterable[Exchange], begun: Mapping[str, int]) -> dict[str, int]:
    """Of the lanes that began at `begun`, those whose beginner had more answered until their first call.

    That happened beside them, not before them. A reading of `begun` is one of the counter of starts and finishes.
    """
    order = Precedence(exchanges)
    return {lane: reading for lane, reading in begun.items() if order.beside(lane, reading)}


def untangled(exchanges: Iterable[Exchange], lanes: Iterable[str]) -> tuple[Exchange, ...]:
    """The exchanges, those of each of `lanes` in lanes of their own where any two of them ran side by side.

    For whoever is seen by its calls alone (another process): one that asks one thing after the other has an order, one
    that asks several at once has strands that nobody can tell apart.
    """
    found = list(exchanges)
    for lane in lanes:
        ended = [x for x in found if x.lane == lane and x.finish is not None and not x.abandoned]
        if any(y.start < (x.finish or 0) for x, y in pairwise(sorted(ended, key=lambda x: x.start))):
            numbers = count(1)
            found = [replace(x, lane=f"{lane}.{next(numbers)}") if x.lane == lane else x for x in found]
    return tuple(found)


def above(lane: str) -> tuple[str, ...]:
    """The lanes that led to this one, the nearest first: "main.2.1" -> "main.2", "main"."""
    parts = lane.split(".")
    return tuple(".".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1))


class _Lane:
    """The ended calls of one lane, and how many of them were answered without a gap."""

    __slots__ = ("_done", "_finishes", "_front", "_rank")

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        ended = sorted((x.made or 0, x.start) for x in exchanges)
        self._finishes = [finish for finish, _ in ended]
        self._rank = {start: rank for rank, (_, start) in enumerate(ended)}
        self._done = [False] * len(ended)
        self._front = 0

    def answer(self, x: Exchange) -> None:
        rank = self._rank.get(x.start)
        if rank is not None:
            self._done[rank] = True
            while self._front < len(self._done) and self._done[self._front]:
                self._front += 1

    def answered(self, x: Exchange) -> bool:
        rank = self._rank.get(x.start)
        return rank is not None and self._done[rank]

    def answered_until(self, moment: int) -> bool:
        return self._front >= bisect_left(self._finishes, moment)

    def between(self, earlier: int, later: int) -> bool:
        return bisect_left(self._finishes, earlier) < bisect_left(self._finishes, later)
