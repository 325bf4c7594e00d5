"""The clock of a neighbour: instants at which programs err, and a run in which the clock passes one of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Exchange, Run

ZONES = ("UTC", "Europe/Berlin", "America/New_York")
"""Midnights and changes of summer time are those of these zones, beside the one of the recording."""
HALF_A_SECOND = 500_000_000


def list_instants(run: Run) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield calls of the agent with the instants, in ISO 8601, that the clock may pass there.

    The first call comes once for each kind of instant, since what is computed at a program's end sees any of them by
    it. Every later call comes once.
    """
    calls = [x for x in run.exchanges if x.parent is None]
    zone = run.header.kit.get("zone")
    name = zone.get("name") if isinstance(zone, dict) else zone
    kinds = find_instants(run.header.clock, [*dict.fromkeys([*([name] if isinstance(name, str) else []), *ZONES])])
    yield from ((1, instants) for instants in kinds if calls)
    every = [*dict.fromkeys(chain.from_iterable(kinds))]
    yield from ((at, every) for at in range(2, len(calls) + 1))


def find_instants(clock: int, zones: Sequence[str]) -> list[list[str]]:
    """Return the next midnights in these zones, then ends of months, of years, 29 February, changes of summer time."""
    began = datetime.fromtimestamp(clock / 1e9, UTC)
    leap = next(year for year in range(began.year, began.year + 9) if year % 4 == 0 and (year % 100 or year % 400 == 0))
    kinds: list[list[str]] = [[] for _ in range(5)]
    for name in zones:
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            continue
        today = began.astimezone(zone).date()
        next_month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
        leap_days = [today.replace(leap, 2, 29), today.replace(leap, 3, 1)]
        days = [[today + timedelta(days=1)], [next_month], [today.replace(today.year + 1, 1, 1)], leap_days]
        for kind, dates in zip(kinds, days, strict=False):
            kind += [datetime.combine(date, time(), zone).astimezone(UTC).isoformat() for date in dates]
        kinds[-1] += find_changes(zone, began.year)
    return [[*dict.fromkeys(kind)] for kind in kinds if kind]


def find_changes(zone: ZoneInfo, year: int) -> Iterator[str]:
    """Yield the instants of a year at which the offset of a zone changes, to the hour."""
    hour = datetime(year, 1, 1, tzinfo=UTC)
    while hour.year == year:
        following = hour + timedelta(hours=1)
        if hour.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            yield following.isoformat()
        hour = following


def shift_clock(run: Run, start: int, instant: datetime) -> Run:
    """Return the run at another time: the clock passes `instant` once the exchange `start` is answered.

    Agents see the time of the last answer: the call itself is made half a second before the instant, and whatever
    comes after its answer sees a time half a second past it.
    """
    here = next(x for x in run.exchanges if x.start == start)
    began = here.timing.start
    seen = round(instant.timestamp()) * 1_000_000_000
    moved = (place_exchange(x, start, began) for x in run.exchanges)
    header = replace(run.header, clock=seen - HALF_A_SECOND - began)
    return replace(run, header=header, exchanges=tuple(moved))


def place_exchange(exchange: Exchange, start: int, began: int) -> Exchange:
    """Return an exchange a second later where it is answered with, or after, the exchange `start`, made at `began`."""
    timing = exchange.timing
    if exchange.start < start or timing.end is None:
        return exchange
    later = 2 * HALF_A_SECOND
    first = None if timing.first is None else timing.first + later
    begin = timing.start if exchange.start == start else max(timing.start, began) + later
    return replace(exchange, timing=replace(timing, start=begin, first=first, end=timing.end + later))
