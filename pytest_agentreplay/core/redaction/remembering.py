"""Remembering: what was found in an earlier text is found again where the text is the same.

An agent sends its whole history again with each turn. Scanned from its beginning each time, a conversation costs the
square of its length; here only what stands between the common head and the common tail is scanned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pytest_agentreplay.core.redaction.spans import Span

SMALL = 4096
KEPT = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """A text, what was found in it, and under which state."""

    text: bytes = field(repr=False)
    spans: list[Span]
    state: Hashable


class Remembering:
    """Return what `find` gives, for texts that grow; remembers the last few large ones. Safe from any thread."""

    def __init__(self, find: Callable[[bytes], list[Span]]) -> None:
        """`find` must tell a span from the `reach` bytes around it alone."""
        self._find = find
        self._last: tuple[Seen, ...] = ()

    def __call__(self, data: bytes, reach: int, state: Hashable) -> list[Span]:
        """The spans in `data`. Findings are used again only under an equal `state`."""
        if len(data) < SMALL:
            return self._find(data)
        best = (0, 0)
        known = Seen(b"", [], state)
        for seen in self._last:
            if seen.state == state and (same := overlap(seen.text, data)) > best:
                best, known = same, seen
        found = self._between(data, known, best, reach) if sum(best) > reach * 4 else self._find(data)
        self._last = (Seen(data, found, state), *self._last[: KEPT - 1])
        return found

    def _between(self, data: bytes, seen: Seen, same: tuple[int, int], reach: int) -> list[Span]:
        head, tail = same
        spans = seen.spans
        left = max(0, head - reach)
        right = len(data) - max(0, tail - reach)
        grown = len(data) - len(seen.text)
        # A border never runs through what was found before.
        left = min((start for start, end, _ in spans if start < left < end), default=left)
        right = max((end + grown for start, end, _ in spans if start + grown < right < end + grown), default=right)
        begin, finish = max(0, left - reach), min(len(data), right + reach)
        window = self._find(data[begin:finish])
        return [
            *(span for span in spans if span[1] <= left),
            *((start + begin, end + begin, text) for start, end, text in window if left <= start + begin < right),
            *((start + grown, end + grown, text) for start, end, text in spans if start + grown >= right),
        ]


def overlap(old: bytes, new: bytes) -> tuple[int, int]:
    """How many bytes the two have in common at the head, and then at the tail without counting any twice."""
    limit = min(len(old), len(new))
    head = common(limit, lambda low, high: old[low:high] == new[low:high])
    end, last = len(old), len(new)
    tail = common(limit - head, lambda low, high: old[end - high : end - low] == new[last - high : last - low])
    return head, tail


def common(limit: int, same: Callable[[int, int], bool]) -> int:
    """The largest n <= `limit` for which everything in [0, n) is the same, by halving."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low
