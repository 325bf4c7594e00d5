"""The rows of a log, however the file holds them: a line each, one list, or pages with a list under a name for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.loose import arr, obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened

_LISTS = ("data", "rows", "logs", "calls", "requests", "records", "runs", "items", "results")
_LOOKED_AT = 50


def rows(opened: Opened) -> list[JsonObject]:
    """The objects of a file; those in its pages where it holds nothing else."""
    pages = [_page(row) for row in opened.rows]
    if any(page is None for page in pages):
        return [row for row in opened.rows if isinstance(row, dict)]
    return [one for page in pages for one in page or ()]


def _page(row: Json) -> list[JsonObject] | None:
    """The objects in a list, or in an object's only list of a known name; None for any other object."""
    if isinstance(row, list):
        return objects(row)
    listed = [held for name in _LISTS if (held := objects(obj(row).get(name)))]
    return listed[0] if len(listed) == 1 else None


def any_with(opened: Opened, *names: str) -> bool:
    """Whether one of the first rows has all these fields."""
    return any(row.keys() >= {*names} for row in rows(opened)[:_LOOKED_AT])


def texts(value: Json) -> tuple[str, ...]:
    """The texts in a list."""
    return tuple(filter(None, map(string, arr(value))))
