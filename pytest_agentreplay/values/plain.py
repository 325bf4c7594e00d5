"""Frozen values as plain ones, to read and to assert on: no class is looked up, a dataclass is a dict of its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.values import tags

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json


def plain(data: Json) -> object:
    """The value behind frozen `data`. Standard-library values come back exactly; what does not fit stays as it is."""
    match data:
        case list():
            return [plain(item) for item in data]
        case dict():
            if len(data) == 1:
                ((tag, payload),) = data.items()
                if tag[:1] == "$" and tag[1:2] != "$":
                    try:
                        return untagged(tag, payload)
                    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
                        return data
            return fields(data)
        case _:
            return data


def untagged(tag: str, payload: Json) -> object:
    """The value of one tagged form. Raises what a payload that does not fit its tag makes Python raise."""
    if tags.reads(tag):
        return tags.read({tag: payload})
    match tag, payload:
        case "$tuple", list():
            return tuple(plain(item) for item in payload)
        case "$set" | "$frozenset", list():
            return {plain(item) for item in payload}
        case "$deque", [items, _]:
            return plain(items)
        case "$dict" | "$ordereddict" | "$counter", list():
            return pairs(payload)
        case "$defaultdict", [_, list(items)]:
            return pairs(items)
        case "$object" | "$enum" | "$secret" | "$state", [_, parts, *_]:
            # A subclass of a built-in container or scalar may have nothing but its content.
            return plain(parts["__items__"] if isinstance(parts, dict) and parts.keys() == {"__items__"} else parts)
        case "$row", [_, parts, *_]:
            return plain(parts)
        case "$cycle", [name, *_]:
            return f"<{name}>"
        case "$object" | "$enum" | "$secret", _:
            return plain(payload)
        case "$codec", [_, inner]:
            return plain(inner)
        case "$arm", [_, _, inner]:
            return plain(inner)
        case "$opaque", _:
            return f"<{payload}>"
        case _:
            return {tag: payload}


def pairs(items: list[Json]) -> dict[object, object]:
    """A dict from its list of pairs."""
    return {plain(key): plain(value) for key, value in items}  # type: ignore[str-unpack,misc]


def fields(data: dict[str, Json]) -> dict[str, object]:
    """A dict with its own keys, without what pydantic keeps beside its fields."""
    return {
        key[1:] if key[:2] == "$$" else key: plain(value)
        for key, value in data.items()
        if not key.startswith("__pydantic_")
    }
