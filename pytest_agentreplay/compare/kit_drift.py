"""The drift of a replay kit: what around a run is not as it was recorded.

Kept variables, declared files, flags, locale, versions. It is reported beside a divergence, never compared: it says
where to look. Both sides are kits as headers hold them, redacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.snapshots.kit import table, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import JsonObject

OF_VERSIONS = frozenset({Kind.SDK, Kind.SCHEMA, Kind.REQUEST})
"""Divergences that another version of a library may well have made."""


def list_drift(recorded: JsonObject, today: JsonObject, kind: Kind | None = None) -> Iterator[str]:
    """Yield a line for each thing that changed since the recording; versions only where they may explain `kind`."""
    yield from _list_changes("environment", table(recorded, "environment"), table(today, "environment"))
    yield from list_changed_files(recorded, today)
    # What a test said of itself when it was recorded, and has not said yet, has not changed.
    flags = table(recorded, "annotations") | table(today, "annotations")
    yield from _list_changes("annotation", table(recorded, "annotations"), flags)
    yield from (f"locale {name} is not on this machine" for name in texts(today.get("missing_locale")))
    old, new = table(recorded, "hash"), table(today, "hash")
    if old != new and isinstance(old.get("seed"), int):  # else the order could not come again
        now = f"PYTHONHASHSEED={new['seed']}" if "seed" in new else "random"
        yield f"order of sets: PYTHONHASHSEED={old['seed']} -> {now}"
    if kind in OF_VERSIONS:
        yield from list_versions(recorded, today)


def _list_changes(what: str, old: JsonObject, new: JsonObject) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            before, after = (canonical(side[name]) if name in side else "(not set)" for side in (old, new))
            yield f"{what} {name}: {before} -> {after}"


def list_changed_files(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Yield declared files whose content is another, that went, or that came; a file of no recording is no drift."""
    old, new = table(recorded, "fixtures"), table(today, "fixtures")
    for name in sorted({*old, *new} if old else ()):
        if old.get(name) == new.get(name):
            continue
        if name not in new:
            yield f"kept file {name} is no longer named"
        elif new[name] == "missing":
            yield f"kept file {name} is gone"
        else:
            yield f"kept file {name} {'is new' if old.get(name, 'missing') == 'missing' else 'has another content'}"


def list_versions(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Yield what differs in interpreter and libraries; one that is not loaded on one side says nothing."""
    if recorded.get("python") not in (None, today.get("python")):
        yield f"python {recorded['python']} -> {today.get('python')}"
    old, new = table(recorded, "packages"), table(today, "packages")
    yield from (f"{name} {old[name]} -> {new[name]}" for name in sorted(old.keys() & new) if old[name] != new[name])
    old, new = table(recorded, "locks"), table(today, "locks")
    yield from (f"{name} has another content" for name in sorted(old.keys() & new) if old[name] != new[name])
