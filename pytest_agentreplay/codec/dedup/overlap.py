"""What two texts have in common, found at the speed of comparing memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

_SMALL = 2048

Text = TypeVar("Text", str, bytes)


def head(a: Text, b: Text) -> int:
    """How many characters (or bytes) `a` and `b` begin with in common."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def tail(a: Text, b: Text, most: int) -> int:
    """How many characters (or bytes) `a` and `b` end with in common, `most` at the most."""
    low, high = 0, min(len(a), len(b), most)
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def parts(old: bytes, new: bytes) -> Iterator[tuple[int, int] | bytes]:
    """What `new` is made of: pairs keep old[i:j], bytes are new. Linear in both.

    Finds what stayed at both ends and, where much lies between, the pieces that stayed: elements of arrays, or lines.
    """
    top = head(old, new)
    end = tail(old, new, min(len(old), len(new)) - top)
    if top:
        yield 0, top
    before, after = old[top : len(old) - end], new[top : len(new) - end]
    if min(len(before), len(after)) < _SMALL:
        if after:
            yield after
    else:
        yield from _pieces(before, after, top)
    if end:
        yield len(old) - end, len(old)


def _pieces(before: bytes, after: bytes, shift: int) -> Iterator[tuple[int, int] | bytes]:
    mark = max((b"},", b"\n"), key=after.count)
    known: dict[bytes, int] = {}
    at = shift
    for piece in before.split(mark):
        known.setdefault(piece, at)
        at += len(piece) + len(mark)
    last = at - len(mark)
    begin = end = 0
    fresh: list[bytes] = []
    pieces = after.split(mark)
    for number, piece in enumerate(pieces):
        whole = piece + mark if number < len(pieces) - 1 else piece
        at = known.get(piece, -1)
        if end > begin and before.startswith(whole, end - shift):
            end += len(whole)
        elif at >= 0 and at + len(whole) <= last:
            if fresh:
                yield b"".join(fresh)
                fresh.clear()
            if end > begin:
                yield begin, end
            begin, end = at, at + len(whole)
        else:
            if end > begin:
                yield begin, end
            begin = end = 0
            fresh.append(whole)
    if fresh:
        yield b"".join(fresh)
    if end > begin:
        yield begin, end
