"""Spans: which bytes of a text are replaced by what.

A list of spans is in order and never overlaps. `splice` puts it into the text, `recut` moves the ends of the chunks
along, and `divide_span` cuts a span where a chunk ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Part: TypeAlias = Callable[[bytes, int, int | None], bytes | None]

Span: TypeAlias = tuple[int, int, bytes]
"""(start, end, what stands there instead)."""


def splice(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return `data` with every span replaced."""
    parts: list[bytes] = []
    at = 0
    for start, end, text in spans:
        parts += (data[at:start], text)
        at = end
    return b"".join((*parts, data[at:]))


def recut(cuts: tuple[int, ...], spans: Sequence[Span]) -> tuple[int, ...]:
    """Return the chunk sizes `cuts` after `splice`: a replacement goes whole to the chunk in which its span began.

    The number of chunks stays; one that lay wholly inside a span becomes 0 bytes long.
    """
    ends = [0]
    grown = nth = 0
    for end in accumulate(cuts):
        while nth < len(spans) and spans[nth][0] < end:
            start, stop, text = spans[nth]
            grown += len(text) - (stop - start)
            nth += 1
        # A cut inside the last span that began before it moves to that span's new end.
        ends.append(grown + (max(end, spans[nth - 1][1]) if nth else end))
    return tuple(end - before for before, end in pairwise(ends))


def divide_span(span: Span, ends: Sequence[int], part: Part) -> Iterator[Span]:
    """Yield a span as one for each chunk or piece of a text that it stands in, in order.

    Args:
        span: The span.
        ends: Where the chunks end, in order.
        part: Returns what replaces a part of what a text replaces: `(text, start, end)`, in bytes of the latter, no end
            for the last part; None where the text has no parts, and goes whole to the first chunk.
    """
    start, end, text = span
    borders = [start, *dict.fromkeys(ends[bisect_right(ends, start) : bisect_left(ends, end)]), end]
    for low, high in pairwise(borders):
        is_whole = (low, high) == (start, end)
        new = None if is_whole else part(text, low - start, high - start if high < end else None)
        yield low, high, new if new is not None else text if low == start else b""


def merge_disjoint(first: Iterable[Span], *others: Iterable[Span]) -> list[Span]:
    """Return all spans in order, without those that overlap one of an earlier group, or an earlier one of their own."""
    spans = list(first)
    starts = [span[0] for span in spans]
    for group in others:
        for span in group:
            at = bisect_right(starts, span[0])
            if (at and spans[at - 1][1] > span[0]) or (at < len(spans) and starts[at] < span[1]):
                continue
            spans.insert(at, span)
            starts.insert(at, span[0])
    return spans


def merge_overlapping(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order; those that overlap are one, as wide as all of them, with the text of the first."""
    merged: list[Span] = []
    for start, end, text in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and (start < merged[-1][1] or (start, end) == merged[-1][:2]):
            first = merged[-1]
            merged[-1] = first[0], max(first[1], end), first[2] or text
        else:
            merged.append((start, end, text))
    return merged
