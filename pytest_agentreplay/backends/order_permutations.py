"""What permutations show: other orders of a run's answers, and fields that decide on a reply.

In which other orders could the answers of a run have come? They are tried to find a race in an agent.

An answer that was there before a call was made may have led to that call, so it stays before the call's answer. All
other pairs were waited for at once, and either may come first. What keeps these rules is a legal order (a linear
extension of the interval order of the run).

The nearest to the recorded order come first, because two answers that change places show most races.

Does a field that is not compared decide on the reply? Equal calls with other replies are told apart by its values: a
permutation test on the purity of the replies within each value. Replies are shuffled among equal calls alone, so that
all groups of equal calls of a project count together, and Bonferroni's correction is over the fields.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations, count, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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


SHUFFLES = 500
ENOUGH = 8
"""Equal calls with other replies from which on a separation is evidence."""
ALPHA = 0.05
ABSENT_VALUE = "(absent)"

Stratum: TypeAlias = tuple[list[str], list[str]]
"""Equal calls: the values of a field, and what was replied to each."""


@dataclass(frozen=True, slots=True)
class ReplySample:
    """One recorded exchange: the key of its call, what identifies its reply, and the ignored values by path."""

    key: str
    reply: str
    ignored: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Separator:
    """An ignored field whose values differ among equal calls with other replies.

    `purity` is the share of replies that are the most frequent one of their value, `p_value` how often chance does as
    well, `limit` what it must be below to be "flagged". "suspect" is a separation without exception in too few calls.
    """

    path: str
    verdict: Literal["flagged", "suspect", "noise"]
    collisions: int
    purity: float
    p_value: float
    limit: float
    values: dict[str, int]


def find_separators(samples: Iterable[ReplySample]) -> list[Separator]:
    """Return every ignored field that was tested, those that decide on replies first."""
    groups: dict[str, list[ReplySample]] = defaultdict(list)
    for sample in samples:
        groups[sample.key].append(sample)
    strata: dict[str, list[Stratum]] = defaultdict(list)
    for group in groups.values():
        if len({sample.reply for sample in group}) == 1:
            continue
        for path in sorted({path for sample in group for path in sample.ignored}):
            values = [sample.ignored.get(path, ABSENT_VALUE) for sample in group]
            # Values that are all different, such as ids of a trace, separate any replies: they say nothing.
            if 1 < len(set(values)) < len(values):
                strata[path].append((values, [sample.reply for sample in group]))
    tested = [judge_field(path, parts, ALPHA / len(strata)) for path, parts in strata.items()]
    return sorted(tested, key=lambda field: (("flagged", "suspect", "noise").index(field.verdict), field.path))


def judge_field(path: str, strata: list[Stratum], limit: float) -> Separator:
    """Return whether the values of a field separate the replies, by chance or not."""
    observed, draw = count_pure(strata), draw_numbers(0)
    as_good = sum(
        count_pure([(values, shuffle(replies, draw)) for values, replies in strata]) >= observed
        for _ in range(SHUFFLES)
    )
    collisions, p_value = sum(len(values) for values, _ in strata), (1 + as_good) / (1 + SHUFFLES)
    verdict: Literal["flagged", "suspect", "noise"] = "noise"
    if collisions >= ENOUGH:
        verdict = "flagged" if p_value < limit else "noise"
    elif observed == collisions:
        verdict = "suspect"
    counts = Counter(value for values, _ in strata for value in values)
    return Separator(path, verdict, collisions, observed / collisions, p_value, limit, dict(counts.most_common()))


def count_pure(strata: list[Stratum]) -> int:
    """Return how many replies are the most frequent one of their value."""
    pure = 0
    for values, replies in strata:
        by_value: dict[str, Counter[str]] = defaultdict(Counter)
        for value, reply in zip(values, replies, strict=True):
            by_value[value][reply] += 1
        pure += sum(max(counts.values()) for counts in by_value.values())
    return pure


def shuffle(replies: list[str], draw: Callable[[int], int]) -> list[str]:
    """Return the replies in an order that `draw` chooses."""
    shuffled = replies.copy()
    for last in range(len(shuffled) - 1, 0, -1):
        chosen = draw(last + 1)
        shuffled[last], shuffled[chosen] = shuffled[chosen], shuffled[last]
    return shuffled
