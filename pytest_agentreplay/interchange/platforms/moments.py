"""Times, as platforms write them, in nanoseconds since the epoch."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCALES = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (0, 10**9))
"""From which number on a count since the epoch is one of nanoseconds, microseconds, milliseconds, seconds."""


def ns(value: Json) -> int | None:
    """A time as an ISO text (UTC where it names no zone) or as a number since the epoch; None for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _of_number(value)
    if not isinstance(value, str) or not value or len(value) > 64:
        return None
    try:
        told = datetime.fromisoformat(value.strip())
    except ValueError:
        return _of_text(value)
    told = told.replace(tzinfo=UTC) if told.tzinfo is None else told
    passed = told - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 10**9 + passed.microseconds * 1000


def _of_number(value: float) -> int | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not 0 < value < 10**20:
        return None
    scale = next(scale for least, scale in _SCALES if value >= least)
    return value * scale if isinstance(value, int) else round(value * 10**6) * scale // 10**6


def _of_text(value: str) -> int | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return _of_number(int(value) if value.isdecimal() else number)
