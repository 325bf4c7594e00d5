"""The rows of a log, and the fields by which it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import arr, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened

_LOOKED_AT = 50


def rows(opened: Opened) -> list[JsonObject]:
    """The objects of a file."""
    return [row for row in opened.rows if isinstance(row, dict)]


def any_with(opened: Opened, *names: str) -> bool:
    """Whether one of the first rows has all these fields."""
    return any(row.keys() >= {*names} for row in rows(opened)[:_LOOKED_AT])


def texts(value: Json) -> tuple[str, ...]:
    """The texts in a list."""
    return tuple(filter(None, map(string, arr(value))))
