"""The rows of a log, however the file holds them: a line each, one list, or a list under the one name for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.loose import arr, obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened

_LISTS = ("data", "rows", "logs", "calls", "requests", "records")
_LOOKED_AT = 50


def rows(opened: Opened) -> list[JsonObject]:
    """The objects of a file; the file's only object where it is no list of others."""
    if len(opened.rows) != 1:
        return [row for row in opened.rows if isinstance(row, dict)]
    only = opened.rows[0]
    if isinstance(only, list):
        return objects(only)
    listed = [held for name in _LISTS if (held := objects(obj(only).get(name)))]
    return listed[0] if len(listed) == 1 else [obj(only)]


def any_with(opened: Opened, *names: str) -> bool:
    """Whether one of the first rows has all these fields."""
    return any(row.keys() >= {*names} for row in rows(opened)[:_LOOKED_AT])


def texts(value: Json) -> tuple[str, ...]:
    """The texts in a list."""
    return tuple(filter(None, map(string, arr(value))))
