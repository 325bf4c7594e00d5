"""What around a run is not as it was recorded: kept variables, declared files, flags, locale, versions.

Noted beside a divergence, never compared: it says where to look. Both sides are kits as headers hold them, redacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.divergence import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.model import Json, JsonObject

OF_VERSIONS = frozenset({Kind.SDK, Kind.SCHEMA, Kind.REQUEST})
"""Divergences that another version of a library may well have made."""


def drift(recorded: JsonObject, today: JsonObject, kind: Kind | None = None) -> tuple[str, ...]:
    """A line for each thing that changed since the recording; versions only where they may explain `kind`."""
    lines = [*environment(recorded, today), *files(recorded, today), *flags(recorded, today)]
    lines += [f"locale {name} is not on this machine" for name in texts(today.get("missing_locale"))]
    lines += hash_order(table(recorded, "hash"), table(today, "hash"))
    if kind in OF_VERSIONS:
        lines += versions(recorded, today)
    return tuple(lines)


def environment(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Variables that are kept, as far as both or one of the sides has them."""
    old, new = table(recorded, "environment"), table(today, "environment")
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"environment {name}: {side(old, name)} -> {side(new, name)}"


def files(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Declared files whose content is another, that went, or that came; a file of no recording is no drift."""
    old, new = table(recorded, "fixtures"), table(today, "fixtures")
    for name in sorted({*old, *new} if old else ()):
        if old.get(name) == new.get(name):
            continue
        if name not in new:
            yield f"fixture file {name} is declared no longer"
        elif new[name] == "missing":
            yield f"fixture file {name} is gone"
        else:
            yield f"fixture file {name} {'is new' if old.get(name, 'missing') == 'missing' else 'has another content'}"


def flags(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Facts that the test has told already, and that it told otherwise."""
    old, new = table(recorded, "annotations"), table(today, "annotations")
    for name in sorted(new):
        if old.get(name) != new[name]:
            yield f"annotation {name}: {side(old, name)} -> {side(new, name)}"


def hash_order(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Whether sets came in an order that is not today's, and could come in it again."""
    if old != new and isinstance(old.get("seed"), int):
        now = f"PYTHONHASHSEED={new['seed']}" if "seed" in new else "random"
        yield f"order of sets: PYTHONHASHSEED={old['seed']} -> {now}"


def versions(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Interpreter and libraries; one that is not loaded on one side says nothing."""
    if recorded.get("python") not in (None, today.get("python")):
        yield f"python {recorded['python']} -> {today.get('python')}"
    old, new = table(recorded, "packages"), table(today, "packages")
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield f"{name} {old[name]} -> {new[name]}"
    locked, locks = table(recorded, "locks"), table(today, "locks")
    yield from (f"{name} has another content" for name in sorted(locked.keys() & locks) if locked[name] != locks[name])


def table(kit: JsonObject, name: str) -> JsonObject:
    """One entry of a kit that is an object; a file may hold anything there."""
    found = kit.get(name)
    return found if isinstance(found, dict) else {}


def texts(value: Json) -> list[str]:
    """The texts of a list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def side(values: JsonObject, name: str) -> str:
    """One side as it is told."""
    return canonical(values[name]) if name in values else "(not set)"
