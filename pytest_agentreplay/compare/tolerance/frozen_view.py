"""Frozen values as paths lead through them: classes are their fields, tuples and sets are lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.model.exchanges import Json


def view(data: Json) -> Json:
    """Return frozen `data` as its paths lead through it."""
    wrapped, inner, _ = unwrapped(data)
    if wrapped:
        return view(inner)
    if isinstance(data, dict) and not is_leaf(data):
        return {key: view(value) for key, value in data.items()}
    return [view(item) for item in data] if isinstance(data, list) else data


def unwrapped(data: Json) -> tuple[str, Json, Callable[[Json], Json]]:
    """Return what a value is wrapped in, as a text, what is inside, and what wraps something else likewise."""
    if isinstance(data, dict) and len(data) == 1:
        ((tag, payload),) = data.items()
        match tag, payload:
            case ("$tuple" | "$set" | "$frozenset" | "$awaited", _) | ("$object", dict()):
                return tag, payload, lambda inner: {tag: inner}
            case "$deque", [list(items), size]:
                return f"{tag} {size}", items, lambda inner: {tag: [inner, size]}
            case "$object" | "$enum" | "$codec" | "$arm", [*names, inner] if len(names) == 1 + (tag == "$arm"):
                return " ".join(map(str, (tag, *names))), inner, lambda inner: {tag: [*names, inner]}
    return "", data, lambda inner: inner


def is_leaf(data: dict[str, Json]) -> bool:
    """Return whether a tagged value is one as a whole: a date, some bytes, a Decimal."""
    return len(data) == 1 and next(iter(data)).startswith("$") and not next(iter(data)).startswith("$$")
