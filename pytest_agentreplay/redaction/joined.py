"""Joined text: what is found in the pieces of a channel together, as spans of the body that carries them.

The replacement goes into the first piece that held a part; the other parts become empty. Records, their order and their
ids stay.

Of pieces that are parts of one text everything is looked for. Where each may be whole, only what is sure: whatever else
the end of one text and the beginning of the next show together, nobody wrote. A key of no fixed length that stands in
one of them is not sure to go on in the next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.redaction.channels import channels, inner_stream
from pytest_agentreplay.redaction.spans import divide_span, merge_disjoint, merge_overlapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.redaction.channels import Channel, ChannelPiece, Records
    from pytest_agentreplay.redaction.spans import Part, Span

    FindSpans = Callable[[bytes], list[Span]]

DEEPEST = 2
"""Streams in the text of streams that are looked into: a tool that yields the lines of a model's stream is one."""


class JoinedSpans(NamedTuple):
    """What runs over the border of a piece, and what stands within one but is found by what stands in others."""

    across: list[Span]
    inside: list[Span]


class JoinedFinders(NamedTuple):
    """What is looked for in joined text.

    Attributes:
        all: Finds what there is in parts of one text; None where nothing is parts of one.
        exact: Finds known values, which have a fixed length.
        sure: Finds these, and keys that nothing else looks like, of any length.
        part: See `spans.divide_span`.
    """

    all: FindSpans | None
    exact: FindSpans
    sure: FindSpans
    part: Part


def find_joined(data: bytes, records: Records, finders: JoinedFinders, depth: int = 0) -> JoinedSpans:
    """Return what stands in the joined text of each channel, as spans of `data`."""
    across: list[Span] = []
    inside: list[Span] = []
    for channel, is_one_text in channels(data, records):
        starts = [0, *accumulate(len(piece.text) for piece in channel)]
        text = b"".join(piece.text for piece in channel)
        if finders.all is not None and is_one_text:
            hits = finders.all(text)
        else:
            hits = find_sure(channel, starts, text, finders)
        if finders.all is not None and depth < DEEPEST and (stream := inner_stream(text)) is not None:
            view, within = stream
            inner = find_joined(view.text, within, finders, depth + 1)
            hits += [(*view.map_back(start, end), new) for start, end, new in (*inner.across, *inner.inside)]
        for hit in hits:
            spans = list(carry_hit(channel, starts, hit, finders.part))
            (across if len(spans) > 1 or crosses_border(channel, starts, hit) else inside).extend(spans)
    return JoinedSpans(merge_overlapping(across), merge_overlapping(inside))


def find_sure(channel: Channel, starts: list[int], text: bytes, finders: JoinedFinders) -> list[Span]:
    """Return what is sure to cross a border of texts that may each be whole."""
    look = finders.exact if finders.all is None else finders.sure
    hits = [hit for hit in look(text) if crosses_border(channel, starts, hit)]
    if not hits or finders.all is None:
        return hits
    # A key that ends a piece would swallow the first word of the next text.
    ended = [hit for hit in hits if not runs_on(channel, starts, hit, finders.sure)]
    return [hit for hit in merge_disjoint(finders.exact(text), ended) if crosses_border(channel, starts, hit)]


def runs_on(channel: Channel, starts: list[int], hit: Span, sure: FindSpans) -> bool:
    """Return whether a hit crosses the border of a piece that alone holds a key there."""
    first, after = bisect_right(starts, hit[0]) - 1, bisect_left(starts, hit[1])
    return after - first > 1 and any(
        hit[0] < starts[nth] + end and starts[nth] + start < hit[1]
        for nth in range(first, after)
        for start, end, _ in sure(channel[nth].text)
    )


def crosses_border(channel: Channel, starts: list[int], hit: Span) -> bool:
    """Return whether a hit stands in more than one piece, or in a list of bytes, which no other search reads."""
    first = bisect_right(starts, hit[0]) - 1
    return hit[1] > starts[first + 1] or channel[first].numbers is not None


def carry_hit(channel: Channel, starts: list[int], hit: Span, part: Part) -> Iterator[Span]:
    """Yield a hit in the joined text as spans of the pieces."""
    for low, high, text in divide_span(hit, starts[1:], part):
        nth = bisect_right(starts, low) - 1
        yield place_span(channel[nth], low - starts[nth], high - starts[nth], text)


def place_span(piece: ChannelPiece, low: int, high: int, instead: bytes) -> Span:
    """Return bytes of the text of a piece as a span of the body."""
    # A list of bytes has bytes of the replacement in the stead of its own.
    numbers = piece.numbers
    if numbers is None:
        return piece.start + low, piece.start + high, instead
    if instead:
        return numbers[low][0], numbers[high - 1][1], ", ".join(map(str, instead)).encode()
    # With the numbers goes the comma that parts them from those that stay.
    start = numbers[low - 1][1] if low else numbers[low][0]
    end = numbers[high][0] if not low and high < len(numbers) else numbers[high - 1][1]
    return start, end, b""
