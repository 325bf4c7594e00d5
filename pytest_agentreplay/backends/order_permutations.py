"""In which other orders the answers of a run could have come: what is tried to find a race in an agent.

An answer that was there before a call was made may have led to that call, so it stays before the call's answer. All
other pairs were waited for at once, and either may come first. What keeps these rules is a legal order (a linear
extension of the interval order of the run).

The nearest to the recorded order come first, because two answers that change places show most races.
"""

from __future__ import annotations

import hashlib
from itertools import combinations, count, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.release_order import ReleaseSchedule

Order: TypeAlias = tuple[int, ...]
"""Exchanges by their `start`, in the order in which their answers come."""

LIMIT = 120
"""How many orders are tried unless more are asked for: all orders of five overlapping calls."""


class ReleasedAnswer(NamedTuple):
    """The call was made at reading `start` of the counter, and its answer was there, or had begun, at `there`."""

    start: int
    there: int


class OrderTrial(NamedTuple):
    """One order to replay a test in, the `number`-th of `total`; number 0 is the recorded one.

    `again` is what to type to replay in this order alone. `ended` is how the test ended in the recorded order today, as
    a header keeps it; None where nobody has seen it, and the recording says it.
    """

    number: int
    total: int
    completion: Order
    again: str = ""
    ended: JsonObject | None = None


def answers(schedule: ReleaseSchedule) -> tuple[ReleasedAnswer, ...]:
    """The answers of a run, in the order in which they came. A stream counts from where something else went on."""
    there: dict[int, int] = {}
    for event in schedule.events:
        there.setdefault(event.start, event.reading)
    return tuple(ReleasedAnswer(start, reading) for start, reading in there.items())


def orders(recorded: Sequence[ReleasedAnswer], *, limit: int = LIMIT, seed: int = 0) -> list[Order]:
    """Return the legal orders but the recorded one, the nearest first: all if there are at most `limit`.

    Else `limit` of them: those in which two neighbours change places, then others, drawn by `seed`.
    """
    nearest = list(_list_nearest(recorded, limit + 2))[1:]
    if len(nearest) <= limit:
        return nearest
    came = tuple(answer.start for answer in recorded)
    neighbours = sum(first.there > then.start for first, then in pairwise(recorded))
    chosen = dict.fromkeys(nearest[: min(neighbours, limit)])
    draw = draw_numbers(seed)
    for _ in range(limit):
        if len(chosen) < limit and (drawn := _draw_order(recorded, draw)) != came:
            chosen[drawn] = None
    # Where there are few more than `limit`, the same ones are drawn again and again.
    return [*dict.fromkeys([*chosen, *nearest])][:limit]


def list_swapped(recorded: Order, other: Order) -> list[tuple[int, int]]:
    """Return the pairs that come the other way round in `other`, each as it comes there, recorded neighbours first."""
    was = {start: place for place, start in enumerate(recorded)}
    pairs = [(first, then) for first, then in combinations(other, 2) if was[first] > was[then]]
    return sorted(pairs, key=lambda pair: was[pair[0]] - was[pair[1]])


def list_root_swaps(recorded: Sequence[ReleasedAnswer], other: Order) -> Iterator[tuple[int, int]]:
    """Yield the pairs that come the other way round and do not follow from another one, the nearest first.

    One follows where an answer had to wait for the call that an answer of the other pair led to.
    """
    there = dict(recorded)
    pairs = list_swapped(tuple(there), other)
    swaps = set(pairs)
    for first, then in pairs:
        if not any(
            (there[middle] < then and (first, middle) in swaps) or (there[first] < middle and (middle, then) in swaps)
            for middle in there
        ):
            yield first, then


def _list_nearest(recorded: Sequence[ReleasedAnswer], most: int) -> Iterator[Order]:
    """Yield the legal orders by their distance in swaps of two neighbours, the recorded one first; at most `most`.

    Any legal order is reached through legal ones, in as many swaps as it has pairs that come the other way round.
    """
    there = dict(recorded)
    seen = {tuple(there): None}
    waiting = list(seen)
    for order in waiting:
        yield order
        for place, (first, then) in enumerate(pairwise(order)):
            if len(seen) == most:
                break
            if there[first] > then:
                other = (*order[:place], then, first, *order[place + 2 :])
                if other not in seen:
                    seen[other] = None
                    waiting.append(other)


def _draw_order(recorded: Sequence[ReleasedAnswer], draw: Callable[[int], int]) -> Order:
    """Return a legal order: again and again one of those that may come next. Constant work per answer."""
    calls = sorted(recorded, reverse=True)
    came: dict[int, None] = {}
    ready: list[int] = []
    for answer in recorded:
        # As long as this answer is to come, whatever was called before it was there may come too.
        while answer.start not in came:
            while calls and calls[-1].start < answer.there:
                ready.append(calls.pop().start)
            chosen = draw(len(ready))
            ready[chosen], ready[-1] = ready[-1], ready[chosen]
            came[ready.pop()] = None
    return tuple(came)


def draw_numbers(seed: int) -> Callable[[int], int]:
    """Return a function that draws whole numbers below what is asked for, the same on every machine and version."""
    words = _words(seed)
    return lambda below: next(words) % below


def _words(seed: int) -> Iterator[int]:
    for number in count():
        digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
        yield from (int.from_bytes(digest[at : at + 4]) for at in range(0, len(digest), 4))
