"""Readings of this process's clocks that an object holds: when it was made, when its rate limiter was asked last.

They are other ones in each process, so an object that a method is called on is not compared by them. A reading is told
from other numbers by its value: it lies between the start of the process, or of the run, and now, and a float has the
digits of a clock.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from pytest_agentreplay import clocks

_EARLIER = 60.0
"""Seconds before this module is loaded, or before the present of the run, in which objects are made."""

_WALL, _MONOTONIC = clocks.wall(), clocks.monotonic()


def is_reading(value: Any) -> bool:
    """Whether a number or a moment is a reading of a clock of this process or this run."""
    kind = type(value)
    if kind is datetime:
        try:
            return _is_wall((value if value.tzinfo else value.astimezone()).astimezone(UTC).timestamp())
        except (OverflowError, OSError, ValueError):
            return False
    if kind is int:
        return 10**18 < value < 2**62 and _is_wall(value / 10**9)
    if kind is not float:
        return False
    seconds: float = value
    # Readings of `time.time` are 0.24 microseconds apart today: one in 420 has four digits, and no price is as large.
    if not seconds.is_integer() and _is_wall(seconds):
        return True
    return seconds != round(seconds, 4) and _MONOTONIC - _EARLIER <= seconds <= clocks.monotonic()


def _is_wall(seconds: float) -> bool:
    # `time.time` is that of the run, which a replay sets to the recorded day; monotonic time runs on.
    process = _WALL + clocks.monotonic() - _MONOTONIC
    run = time.time()
    return _WALL - _EARLIER <= seconds <= process + 1 or run - _EARLIER <= seconds <= run + 1
