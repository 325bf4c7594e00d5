"""How deep and how full a JSON text is, counted on its bytes before anything is built of them.

A few bytes of a hostile file can ask for a thousand times their size once they are parsed, or for a deeper stack than
there is. Brackets and commas outside of strings say so at once, a piece of the text at a time.
"""

from __future__ import annotations

from itertools import accumulate

DEEPEST = 64
"""Levels of nesting in a file. What a run holds beyond its share of them is stored as text."""

FULLEST = 3_200_000
"""Brackets and commas in a file: about 256 MB when they are lists, objects and values."""

DEEP = "nested too deep"

_PIECE = 1 << 20
_MARKS = b'"[]{},'
_OTHER = bytes(set(range(256)) - set(_MARKS))
_STEPS = bytes({"[": 1, "{": 1, "]": 255, "}": 255}.get(chr(code), 0) for code in range(256))


def exceeded(data: bytes, *, deepest: int = DEEPEST, fullest: int = FULLEST) -> str:
    """Why `data` is too much to be parsed, "" when it is not."""
    depth = marks = at = 0
    inside = False
    held = b""
    while at < len(data):
        piece = held + data[at : at + _PIECE]
        at += _PIECE
        odd = (len(piece) - len(piece.rstrip(b"\\"))) % 2 and at < len(data)  # an escape is not cut in two
        whole, held = (piece[:-1], piece[-1:]) if odd else (piece, b"")
        # A quote that is escaped ends no string; a backslash that is escaped escapes no quote.
        parts = whole.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHER).split(b'"')
        found = b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
        steps = memoryview(found.translate(_STEPS)).cast("b")
        if max(accumulate(steps, initial=depth)) > deepest:
            return DEEP
        depth += sum(steps)
        marks += len(found)
        if marks > fullest:
            return f"more than {fullest:,} brackets and commas"
    return ""
