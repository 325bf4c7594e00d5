"""Joining: what is found in the joined text of a channel, as spans of the body that carries the pieces.

What stands instead goes into the first piece that held a part; the other parts become empty. Records, their order and
their ids stay.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.core.redaction.channels import channels, inner_stream
from pytest_agentreplay.core.redaction.encodings import as_bytes
from pytest_agentreplay.core.redaction.vendors import SHORTEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.core.redaction.channels import Channel, ChannelPiece, Records
    from pytest_agentreplay.core.redaction.spans import Part, Span

    Finder = Callable[[bytes], list[Span]]

DEEPEST = 2
"""Streams in the text of streams that are looked into: a tool that yields the lines of a model's stream is one."""


class Joined(NamedTuple):
    """What runs over the border of a piece, and what stands within one but is told by what stands in others."""

    interception: list[Span]
    inside: list[Span]


def find_joined(data: bytes, records: Records, find: Finder, part: Part, depth: int = 0) -> Joined:
    """What `find` finds in the joined text of each channel, as spans of `data`; `part` as in `spans.divided`."""
    interception: list[Span] = []
    inside: list[Span] = []
    for channel in channels(data, records):
        starts = [0]
        for piece in channel:
            starts.append(starts[-1] + len(piece.text))
        text = b"".join(piece.text for piece in channel)
        hits = find(text)
        if depth < DEEPEST and (again := inner_stream(text)) is not None:
            view, within = again
            inner = find_joined(view.text, within, find, part, depth + 1)
            hits = [*hits, *((*view.back(start, end), new) for start, end, new in (*inner.interception, *inner.inside))]
        for hit in hits:
            spans = list(carried(channel, starts, hit, part))
            (interception if len(spans) > 1 or crosses(channel, starts, hit) else inside).extend(spans)
    return Joined(merged(interception), merged(inside))


def crosses(channel: Channel, starts: list[int], hit: Span) -> bool:
    """Whether a hit stands in more than one piece, or in a list of bytes, which no other search reads."""
    first = bisect_right(starts, hit[0]) - 1
    return hit[1] > starts[first + 1] or channel[first].numbers is not None


def carried(channel: Channel, starts: list[int], hit: Span, part: Part) -> Iterator[Span]:
    """A hit in the joined text as spans of the pieces."""
    begin, finish, instead = hit
    for nth in range(bisect_right(starts, begin) - 1, len(channel)):
        low, high = max(begin, starts[nth]), min(finish, starts[nth + 1])
        if low >= finish:
            break
        if low < high:
            whole = (low, high) == (begin, finish)
            new = None if whole else part(hit[2], low - begin, high - begin if high < finish else None)
            yield placed(channel[nth], low - starts[nth], high - starts[nth], instead if new is None else new)
            instead = b""


def placed(piece: ChannelPiece, low: int, high: int, instead: bytes) -> Span:
    """Bytes of the text of a piece as a span of the body."""
    numbers = piece.numbers
    if numbers is None:
        return piece.start + low, piece.start + high, instead
    if instead:
        return numbers[low][0], numbers[high - 1][1], ", ".join(map(str, instead)).encode()
    # With the numbers goes the comma that parts them from those that stay.
    start = numbers[low - 1][1] if low else numbers[low][0]
    end = numbers[high][0] if not low and high < len(numbers) else numbers[high - 1][1]
    return start, end, b""


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in order; of those that overlap one, as wide as all of them, with what the first says stands there."""
    found: list[Span] = []
    for start, end, text in sorted(spans, key=lambda span: (span[0], -span[1])):
        if found and (start < found[-1][1] or (start, end) == found[-1][:2]):
            before = found[-1]
            found[-1] = before[0], max(before[1], end), before[2] or text
        else:
            found.append((start, end, text))
    return found


def borders(texts: Iterable[str]) -> Iterator[bytes]:
    """The words that run over the borders between texts, where they are long enough to be a key."""
    word: list[str] = []
    size = 0
    for text in texts:
        head = text.find(" ")
        if head < 0:
            word.append(text)
            size += len(text)
            continue
        if size + head >= SHORTEST and len(word) + (head > 0) > 1:
            yield as_bytes("".join(word) + text[:head])
        word = [text[text.rfind(" ") + 1 :]]
        size = len(word[0])
    if size >= SHORTEST and len(word) > 1:
        yield as_bytes("".join(word))
