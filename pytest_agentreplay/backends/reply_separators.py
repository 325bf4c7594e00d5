"""Whether a field that is not compared decides on the reply: equal calls with other replies, told apart by its values.

The test is a permutation test on the purity of the replies within each value. Replies are shuffled among equal calls
alone, so that all groups of equal calls of a project count together, and Bonferroni's correction is over the fields.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_agentreplay.backends.order_permutations import draw_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
