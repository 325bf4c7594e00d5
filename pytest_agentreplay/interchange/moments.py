"""Points in time as other tools write them, as nanoseconds since the epoch."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 20


def nanoseconds(value: Json, *, unit: int = 1) -> int | None:
    """A number of `unit` nanoseconds, as a number or its digits, or a date and time in ISO 8601; None for else.

    A time without a zone is UTC, as all exporters mean it.
    """
    if isinstance(value, str):
        text = value.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
            return _of_date(text)
        value = int(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value * unit) if 0 < value < 10**_DIGITS else None


def _of_date(text: str) -> int | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH
    except OverflowError:
        return None
    return since // timedelta(microseconds=1) * 1000
