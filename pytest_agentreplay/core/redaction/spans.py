"""Spans: which bytes of a text stand to be replaced by what, shared by places, known values and streams.

A list of spans is sorted and never overlaps; it can be put in (`splice`), and carries chunk cuts along (`recut`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Part: TypeAlias = Callable[[bytes, int, int | None], bytes | None]

Span: TypeAlias = tuple[int, int, bytes]
"""(start, end, what stands there instead)."""


def splice(data: bytes, spans: Sequence[Span]) -> bytes:
    """`data` with every span replaced."""
    parts: list[bytes] = []
    at = 0
    for start, end, text in spans:
        parts += (data[at:start], text)
        at = end
    parts.append(data[at:])
    return b"".join(parts)


def recut(cuts: tuple[int, ...], spans: Sequence[Span]) -> tuple[int, ...]:
    """The chunk sizes `cuts` after `splice`: a replacement goes whole to the chunk in which its span began.

    The number of chunks stays; one that lay wholly inside a span becomes 0 bytes long.
    """
    moved: list[int] = []
    before = at = shift = 0
    nth = 0
    for size in cuts:
        at += size
        while nth < len(spans) and spans[nth][0] < at:
            start, end, text = spans[nth]
            shift += len(text) - (end - start)
            nth += 1
        # A cut inside the last span that began before it moves to that span's new end.
        reached = max(at, spans[nth - 1][1]) if nth else at
        moved.append(reached + shift - before)
        before = reached + shift
    return tuple(moved)


def divided(spans: Sequence[Span], cuts: tuple[int, ...], part: Part) -> list[Span]:
    """Return the spans; one that a chunk's end cuts is one span per chunk, where `part` has a text for its parts."""
    ends = list(accumulate(cuts))
    found: list[Span] = []
    for start, end, text in spans:
        within = ends[bisect_right(ends, start) : bisect_left(ends, end)]
        borders = [start, *dict.fromkeys(within), end]
        parts = [
            (low, high, part(text, low - start, high - start if high < end else None))
            for low, high in pairwise(borders)
        ]
        if not within or any(new is None for *_, new in parts):
            found.append((start, end, text))
        else:
            found += [(low, high, new or b"") for low, high, new in parts]
    return found


def disjoint(first: Sequence[Span], *others: Iterable[Span]) -> list[Span]:
    """All spans in order; one that overlaps a span of an earlier group, or an earlier one of its own, is left out."""
    taken = list(first)
    starts = [span[0] for span in taken]
    for group in others:
        for span in group:
            at = bisect_right(starts, span[0])
            if (at and taken[at - 1][1] > span[0]) or (at < len(taken) and starts[at] < span[1]):
                continue
            taken.insert(at, span)
            starts.insert(at, span[0])
    return taken
