"""Points in time as other tools write them, in nanoseconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s*(?:(Z|UTC)|([+-])(\d\d):?(\d\d))?", re.IGNORECASE
)
_LATEST = 4102444800
"""The year 2100 in seconds: a number beyond it counts in smaller units, and no moment lies beyond it."""
_DIGITS = 20


def moment(value: Json) -> int | None:
    """ISO 8601 (without a zone: UTC), or a number of seconds, milli-, micro- or nanoseconds; None for all else."""
    if isinstance(value, str):
        return _parse_date(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LATEST * 1e9:
        return None
    for factor in (10**9, 10**6, 10**3):
        if value * factor < _LATEST * 10**9:
            return value * factor if isinstance(value, int) else round(value * factor)
    return round(value)


def in_time(rows: list[JsonObject]) -> list[JsonObject]:
    """Return rows in the order of their `timestamp`; as they stand where any of them has none."""
    if any(moment(row.get("timestamp")) is None for row in rows):
        return rows
    return sorted(rows, key=lambda row: moment(row.get("timestamp")) or 0)


def extent(rows: Iterable[JsonObject]) -> dict[str, Any]:
    """When a run started and ended, by the first and the last `timestamp` of its rows."""
    times = [at for row in rows if (at := moment(row.get("timestamp"))) is not None]
    return {"started": min(times, default=None), "ended": max(times, default=None)}


def nanoseconds(value: Json) -> int | None:
    """A number of nanoseconds, as a number or its digits, or a date as `moment` reads it; None for else."""
    if isinstance(value, str):
        text = value.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
            return _parse_date(text)
        value = int(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**_DIGITS:
        return None
    return _check_range(int(value))


def add_milliseconds(start: int | None, milliseconds: Json) -> int | None:
    """Return the moment `milliseconds` later; None where either is not known."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return _check_range(start + round(milliseconds * 1e6)) if start is not None and 0 <= milliseconds < 1e12 else None


def _check_range(moment: int) -> int | None:
    """Return a moment that a snapshot can hold; None for one before 1970, as year 1 for unknown, or too late."""
    return moment if 0 <= moment < _LATEST * 10**9 else None


def _parse_date(text: str) -> int | None:
    if (match := _ISO.match(text)) is None:
        return None
    *numbers, fraction, _, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes)) if sign else timedelta()
    try:
        zone = timezone(-offset if sign == "-" else offset)
        there = datetime(*map(int, numbers), tzinfo=zone)  # type: ignore[arg-type,misc]
        seconds = (there - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    return _check_range(seconds * 10**9 + int((fraction or "").ljust(9, "0")[:9]))
