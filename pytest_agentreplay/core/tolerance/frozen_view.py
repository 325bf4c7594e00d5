"""Frozen values as paths lead through them: classes are their fields, tuples and sets are lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json


def view(data: Json) -> Json:
    """Return frozen `data` as its paths lead through it."""
    wrapped, inner = unwrapped(data)
    if wrapped:
        return view(inner)
    if isinstance(data, dict) and not is_leaf(data):
        return {key: view(value) for key, value in data.items()}
    return [view(item) for item in data] if isinstance(data, list) else data


def unwrapped(data: Json) -> tuple[str, Json]:
    """Return what a value is wrapped in, as a text, and what is inside."""
    if not isinstance(data, dict) or len(data) != 1:
        return "", data
    ((tag, payload),) = data.items()
    match tag, payload:
        case "$tuple" | "$set" | "$frozenset" | "$awaited", _:
            return tag, payload
        case "$deque", [list(items), size]:
            return f"{tag} {size}", items
        case "$object" | "$enum" | "$codec", [str(name), inner]:
            return f"{tag} {name}", inner
        case "$object", dict():
            return tag, payload
        case "$arm", [index, spelled, inner]:
            return f"{tag} {index} {spelled}", inner
        case _:
            return "", data


def is_leaf(data: dict[str, Json]) -> bool:
    """Return whether a tagged value is one as a whole: a date, some bytes, a Decimal."""
    return len(data) == 1 and next(iter(data)).startswith("$") and not next(iter(data)).startswith("$$")


def rewrapped(data: Json, inner: Json) -> Json:
    """Return `data` with something else inside."""
    if not isinstance(data, dict) or unwrapped(data)[0] == "":
        return inner
    ((tag, payload),) = data.items()
    match tag:
        case "$deque":
            return {tag: [inner, payload[1]]}  # type: ignore[index]
        case "$object" | "$enum" | "$codec" | "$arm" if isinstance(payload, list):
            return {tag: [*payload[:-1], inner]}
        case _:
            return {tag: inner}
