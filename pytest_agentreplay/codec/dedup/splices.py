"""A text told by what it keeps of an earlier one: `[[0, 120], "new text", [130, 900]]`, in characters."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec.dedup.edits import kept_and_new
from pytest_agentreplay.codec.dedup.overlap import head, tail
from pytest_agentreplay.codec.values import Malformed, protect_text, reveal_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.codec.dedup.blobs import BlobReader, BlobWriter

WORTH = 200
"""Characters below which a text is kept whole."""

_WORD = re.compile(r"[^\s,;&<>]*[\s,;&<>]+|[^\s,;&<>]+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MANY = 2000
_CRUMB = 24


def spliced(old: str, new: str, blobs: BlobWriter) -> list[Any] | None:
    """The parts that make `new` of `old`; None when that is hardly shorter than `new`."""
    if min(len(old), len(new)) < WORTH:
        return None
    parts = [
        [part[0], part[1]] if isinstance(part, tuple) else protect_text(part, blobs)
        for part in _joined(_parts(old, new))
    ]
    return parts if len(json.dumps(parts)) * 10 < len(new) * 7 else None


def _parts(old: str, new: str) -> Iterator[tuple[int, int] | str]:
    top = head(old, new)
    end = tail(old, new, min(len(old), len(new)) - top)
    yield 0, top
    before, after = old[top : len(old) - end], new[top : len(new) - end]
    for unit in (_WORD, _LINE):
        ours, theirs = unit.findall(before), unit.findall(after)
        if max(len(ours), len(theirs)) <= _MANY:
            at = [top]
            for word in ours:
                at.append(at[-1] + len(word))
            for keep, i, j in kept_and_new(ours, theirs):
                if keep and at[j] - at[i] >= _CRUMB:
                    yield at[i], at[j]
                else:
                    yield "".join((ours if keep else theirs)[i:j])
            break
    else:
        yield after
    yield len(old) - end, len(old)


def _joined(parts: Iterator[tuple[int, int] | str]) -> list[tuple[int, int] | str]:
    """Neighbouring texts as one, empty parts left out."""
    found: list[tuple[int, int] | str] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, str):
            if isinstance(last, str):
                found[-1] = last + part
            elif part:
                found.append(part)
        elif part[0] < part[1]:
            found.append(part)
    return found


def unspliced(old: str, parts: Any, blobs: BlobReader) -> str:
    """The text that `parts` make of `old`. Raises Malformed."""
    if not isinstance(parts, list):
        msg = "the parts of a splice are no list"
        raise Malformed(msg)
    found: list[str] = []
    for part in parts:
        match part:
            case [int(begin), int(end)] if 0 <= begin <= end <= len(old):
                blobs.spend(end - begin)
                found.append(old[begin:end])
            case str() | dict():
                found.append(reveal_text(part, blobs))
            case _:
                msg = f"a splice keeps {part!r:.40} of a text of {len(old)} characters"
                raise Malformed(msg)
    return "".join(found)
