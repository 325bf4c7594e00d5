"""How much of two texts is the same at their ends, found at the speed of comparing memory."""

from __future__ import annotations

from typing import TypeVar

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
