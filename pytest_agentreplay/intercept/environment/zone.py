"""The local time zone of one run: a prompt with a local time in it comes back the same on a machine elsewhere.

A zone comes from a file, so it is held to the letters of a zone's name or rule before the C library hears of it: a path
in `TZ` would be opened. The rule ("CET-1CEST,M3.5.0,M10.5.0/3") is for machines without zones, as small containers.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

ZONE_NAME = re.compile(r"[A-Za-z][\w+-]*(/[A-Za-z][\w+-]*){0,2}", re.ASCII)
_TIME = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_ABBREVIATION = r"(?:[A-Za-z]{3,10}|<[A-Za-z\d+-]{3,10}>)"
_DAY = rf"(?:J?\d{{1,3}}|M\d{{1,2}}\.\d\.\d)(?:/{_TIME})?"
RULE = re.compile(rf"{_ABBREVIATION}{_TIME}(?:{_ABBREVIATION}(?:{_TIME})?(?:,{_DAY},{_DAY})?)?", re.ASCII)
"""What POSIX takes for `TZ`: how far from UTC, and from which day to which other in summer."""
FOLDERS = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo")
LARGEST_OFFSET = 26 * 3600  # seconds that a zone is from UTC


def zone_here(wall_ns: int) -> JsonObject:
    """The zone at `wall_ns` nanoseconds since the epoch: name and rule, where known, and seconds from UTC."""
    named = name_here()
    found: JsonObject = {"name": named, "rule": rule_of(named), "offset": offset_at(wall_ns)}
    return {key: value for key, value in found.items() if value != ""}


def name_here() -> str:
    """The name of today's zone, "" where the system does not say it."""
    named = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    return named if ZONE_NAME.fullmatch(named) else ""


def rule_of(name: str) -> str:
    """The rule by which a zone goes from its last change on: the file's last line, or `TZ` itself; "" when unknown."""
    rule = os.environ.get("TZ", "")
    if name and (file := file_of(name)) is not None:
        rule = file.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2].decode("ascii", "replace")
    return rule if RULE.fullmatch(rule) else ""


def file_of(name: str) -> Path | None:
    """The file that this machine has of a zone."""
    return next((file for folder in FOLDERS if (file := Path(folder) / name).is_file()), None)


def offset_at(wall_ns: int) -> int:
    """Seconds that local time is ahead of UTC at `wall_ns`."""
    return time.localtime(wall_ns // 1_000_000_000).tm_gmtoff


class Zone:
    """The zone of a recording, put in the place of today's where it is another; on Windows nothing moves it.

    Two zones that agree at the start of a run may part at a change of summer time, or in a date that the agent counts.
    """

    __slots__ = ("_before", "_name", "_offset", "_rule", "_started", "_wall")

    def __init__(self, stored: Json, wall_ns: int) -> None:
        """`stored` is what `zone_here` gave; anything else, and the zone of today stays."""
        fields = stored if isinstance(stored, dict) else {}
        name, rule, offset = fields.get("name"), fields.get("rule"), fields.get("offset")
        self._name = name if isinstance(name, str) and ZONE_NAME.fullmatch(name) else ""
        self._rule = rule if isinstance(rule, str) and RULE.fullmatch(rule) else ""
        self._offset = offset if isinstance(offset, int) and abs(offset) <= LARGEST_OFFSET else None
        self._wall = wall_ns
        self._before: str | None = None
        self._started = False

    def start(self) -> None:
        """Local time is that of the recording."""
        offset, wall = self._offset, self._wall
        if offset is None or sys.platform == "win32":
            return
        if offset_at(wall) == offset and (self._name or self._rule) in {"", name_here() or os.environ.get("TZ", "")}:
            return
        self._before, self._started = os.environ.get("TZ"), True
        known = self._name and (file_of(self._name) is not None or not self._rule)
        if chosen := self._name if known else self._rule:
            _set(chosen)
        if not chosen or offset_at(wall) != offset:
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
