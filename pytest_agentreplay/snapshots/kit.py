"""The entries of a replay kit, which says in the header of a snapshot what was around the run.

A file may hold anything there, so each is read as what it should be, and is empty where it is something else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject

PASSED: Final[JsonObject] = {"status": "passed"}
"""The outcome of a test that passed, which a recording does not have to state."""

RESELLERS = frozenset({"aws.bedrock", "azure.ai.inference", "azure.ai.openai"})
"""Platforms that retire the models of others by days of their own."""


def list_models(kit: JsonObject) -> tuple[str, ...]:
    """Return the ids of the models that were asked at their providers; Google's API has them as "models/ID"."""
    names = (text_of(entry, "model") for entry in entries(kit, "models") if text_of(entry, "provider") not in RESELLERS)
    return tuple(dict.fromkeys(name.removeprefix("models/") for name in names if name))


def list_unfrozen(kit: JsonObject) -> tuple[str, ...]:
    """Return the tools that ran unseen while recording: they run for real in each replay."""
    return tuple(text_of(entry, "tool") for entry in entries(kit, "unfrozen"))


def table(kit: JsonObject, name: str) -> JsonObject:
    """Return one entry of a kit that is an object; a file may hold anything there."""
    entry = kit.get(name)
    return entry if isinstance(entry, dict) else {}


def texts(value: Json) -> list[str]:
    """Return the texts of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def entries(kit: JsonObject, name: str) -> list[Json]:
    """Return one entry of a kit that is a list; a file may hold anything there."""
    entry = kit.get(name)
    return entry if isinstance(entry, list) else []


def text_of(entry: Json, key: str) -> str:
    """Return one text of an entry."""
    return str(entry.get(key) or "") if isinstance(entry, dict) else ""


_HEX = re.compile("[0-9a-f]{32}")


def list_draws(kit: JsonObject) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the ids that a captured run drew from `uuid`, as hex digits, with the lane and the call site."""
    for lane, sites in table(kit, "uuids").items():
        for site, ids in sites.items() if isinstance(sites, dict) else ():
            yield lane, site, [identity for identity in texts(ids) if _HEX.fullmatch(identity)]


_REGION = re.compile(
    r"(?<![a-z0-9])((?:af|ap|ca|cn|eu|il|me|mx|northamerica|asia|australia|europe|africa|sa|southamerica|us)"
    r"(?:-gov|-iso[a-z]?)?-(?:north|south|east|west|central)[a-z]*-?[1-9][0-9]?)(?![a-z0-9])"
)


def find_region(url: str) -> str:
    """Return the region that a host's name holds, "" when it holds none."""
    match = _REGION.search(url.partition("://")[2].partition("/")[0])
    return match[1] if match else ""


def plural(count: int, noun: str, more: str = "") -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {more or noun + 's'}"
