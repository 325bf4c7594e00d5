"""Streams: a value that the model's tokens cut in pieces is found where the pieces are joined.

Server-sent events and JSON lines carry text in fragments, one per line. The fragments of one channel (field name and
index numbers) are joined as they stand, still escaped, and scanned; what stands instead goes into the first fragment
that held a piece, the other pieces become empty. Events, their order and their ids stay.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.redaction.spans import Span

FRAGMENT = re.compile(
    rb'"(content|text|delta|partial_json|arguments|thinking|reasoning|reasoning_content|refusal|response|input)"'
    rb'[ \t]*:[ \t]*"((?:[^"\\]|\\.)*)"'
)
INDEX = re.compile(rb'"((?:output_|content_|summary_)?index)"[ \t]*:[ \t]*([0-9]+)')
STREAM_TYPES = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/stream+json")


def is_stream(content_type: str) -> bool:
    """Whether bodies of this content type carry text in fragments."""
    return content_type.partition(";")[0].strip().lower() in STREAM_TYPES


def find_joined(data: bytes, find: Callable[[bytes], list[Span]]) -> list[Span]:
    """What `find` finds in joined channels across fragment borders, as spans of `data`; whole hits are left out."""
    channels: dict[tuple[bytes, ...], list[tuple[int, int]]] = {}
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        hits = FRAGMENT.finditer(data, at, end)
        index: tuple[bytes, ...] | None = None
        for hit in hits:
            if index is None:
                index = tuple(b"".join(pair) for pair in INDEX.findall(data, at, end))
            channels.setdefault((hit[1], *index), []).append(hit.span(2))
        at = end + 1
    spans: list[Span] = []
    for pieces in channels.values():
        if len(pieces) > 1:
            spans += crossing(data, pieces, find)
    return sorted(spans)


def crossing(data: bytes, pieces: list[tuple[int, int]], find: Callable[[bytes], list[Span]]) -> list[Span]:
    """The spans of one channel that run over the end of a piece."""
    starts = [0]
    for start, end in pieces:
        starts.append(starts[-1] + end - start)
    spans: list[Span] = []
    for begin, finish, text in find(b"".join(data[start:end] for start, end in pieces)):
        first = bisect_right(starts, begin) - 1
        if finish <= starts[first + 1]:
            continue
        instead = text
        for nth in range(first, len(pieces)):
            low, high = max(begin, starts[nth]), min(finish, starts[nth + 1])
            if low >= finish:
                break
            if low < high:
                offset = pieces[nth][0] - starts[nth]
                spans.append((low + offset, high + offset, instead))
                instead = b""
    return spans
