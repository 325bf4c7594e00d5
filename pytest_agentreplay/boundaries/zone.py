"""The local time zone of one run: a prompt with a local time in it comes back the same on a machine elsewhere.

A zone comes from a file, so it is held to the letters of a zone's name before the C library hears of it: a path in
`TZ` would be opened.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

NAME = re.compile(r"[A-Za-z][\w+-]*(/[A-Za-z][\w+-]*){0,2}", re.ASCII)
MOST = 26 * 3600  # seconds that a zone is from UTC


def zone_here(wall_ns: int) -> JsonObject:
    """The zone at `wall_ns` nanoseconds since the epoch: its name, where the system says it, and seconds from UTC."""
    named = name_here()
    found: JsonObject = {"name": named} if named else {}
    return found | {"offset": offset_at(wall_ns)}


def name_here() -> str:
    """The name of today's zone, "" where the system does not say it."""
    named = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    return named if NAME.fullmatch(named) else ""


def offset_at(wall_ns: int) -> int:
    """Seconds that local time is ahead of UTC at `wall_ns`."""
    return time.localtime(wall_ns // 1_000_000_000).tm_gmtoff


class Zone:
    """The zone of a recording, put in the place of today's where it is another; on Windows nothing moves it.

    Two zones that agree at the start of a run may part at a change of summer time, or in a date that the agent counts.
    """

    __slots__ = ("_before", "_name", "_offset", "_started", "_wall")

    def __init__(self, stored: Json, wall_ns: int) -> None:
        """`stored` is what `zone_here` gave; anything else, and the zone of today stays."""
        fields = stored if isinstance(stored, dict) else {}
        name, offset = fields.get("name"), fields.get("offset")
        self._name = name if isinstance(name, str) and NAME.fullmatch(name) else ""
        self._offset = offset if isinstance(offset, int) and abs(offset) <= MOST else None
        self._wall = wall_ns
        self._before: str | None = None
        self._started = False

    def start(self) -> None:
        """Local time is that of the recording."""
        offset, wall = self._offset, self._wall
        if offset is None or sys.platform == "win32":
            return
        if offset_at(wall) == offset and self._name in {"", name_here()}:
            return
        self._before, self._started = os.environ.get("TZ"), True
        if self._name:
            _set(self._name)
        if not self._name or offset_at(wall) != offset:
            # This machine does not know the name: the offset alone, which POSIX counts the other way round.
            hours, minutes = divmod(abs(offset) // 60, 60)
            behind, ahead = ("-", "+") if offset >= 0 else ("", "-")
            _set(f"<{ahead}{hours:02}{minutes:02}>{behind}{hours:02}:{minutes:02}")

    def stop(self) -> None:
        """Local time is today's again. A second call does nothing."""
        if self._started:
            self._started = False
            _set(self._before)


def _set(name: str | None) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    if sys.platform != "win32":
        time.tzset()
