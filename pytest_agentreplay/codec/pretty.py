"""JSON as people read it in a diff: what fits into `WIDTH` columns stands on one line, else one item a line.

A container with one item hugs it (`{"m7": {` ... `}}`), which spares a level of indent for every mark and id. The two
outermost levels never hug: a second exchange must not move the first one to the right.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring as quoted
from typing import Any

WIDTH = 110

_SHORT = 40
_LOOSE = 2

_A_LINE_EACH = frozenset({"$text", "lines", "headers"})
"""Lists whose items stay on lines of their own, so that one changed line is one line of the diff."""


def pretty(value: Any) -> str:
    """`value` as compact-pretty JSON with a newline at its end. Keys keep their order, texts stay readable Unicode."""
    return _form(value, 0, 0, fill=False) + "\n"


def members(value: dict[str, Any]) -> str:
    """An object of two and more members as it begins in a file: each on a line of its own, and not yet closed."""
    parts = [
        f"\n {name}: {_form(item, 1, len(name) + 2, fill=key not in _A_LINE_EACH)}"
        for key, item in value.items()
        if (name := quoted(key))
    ]
    return "{" + ",".join(parts)


def _form(value: Any, depth: int, lead: int, *, fill: bool) -> str:
    """The text of `value` whose first line begins in column `depth + lead`."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        inner = depth if len(value) == 1 and depth >= _LOOSE else depth + 1
        hug = lead + 1 if inner == depth else 0
        parts = [
            f"{name}: {_form(item, inner, hug + len(name) + 2, fill=key not in _A_LINE_EACH)}"
            for key, item in value.items()
            if (name := quoted(key))
        ]
        return _enclose("{}", parts, depth, lead)
    if isinstance(value, list):
        inner = depth if len(value) == 1 and depth >= _LOOSE else depth + 1
        parts = [_form(item, inner, lead + 1 if inner == depth else 0, fill=fill) for item in value]
        if fill and len(parts) > 1 and not any(isinstance(item, dict) for item in value):
            parts = _filled(parts, depth)
        return _enclose("[]", parts, depth, lead)
    return _constant(value)


def _constant(value: Any) -> str:
    """The text of a number, a truth value or null; that of a whole number needs no encoder."""
    return repr(value) if type(value) is int else json.dumps(value, allow_nan=False)


def _enclose(brackets: str, parts: list[str], depth: int, lead: int) -> str:
    room = WIDTH - depth - lead
    if len(parts) == 1 and depth >= _LOOSE:
        return brackets[0] + parts[0] + brackets[1]
    if sum(map(len, parts)) + 2 * len(parts) <= room and not any("\n" in part for part in parts):
        return brackets[0] + ", ".join(parts) + brackets[1]
    pad = "\n" + " " * (depth + 1)
    return f"{brackets[0]}{pad}{f',{pad}'.join(parts)}\n{' ' * depth}{brackets[1]}"


def _filled(parts: list[str], depth: int) -> list[str]:
    """Short items packed into full lines (sizes, tokens of a stream); as they are when one of them is long."""
    if any(len(part) > _SHORT or "\n" in part for part in parts):
        return parts
    rows: list[str] = []
    row = parts[0]
    for part in parts[1:]:
        if depth + 4 + len(row) + len(part) > WIDTH:
            rows.append(row)
            row = part
        else:
            row = f"{row}, {part}"
    return [*rows, row]
