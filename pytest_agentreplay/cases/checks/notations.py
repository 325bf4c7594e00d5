"""Days and amounts as people write them: one value, in many notations.

A day is 2026-11-22, 22 November 2026, Nov 22nd, 22.11.2026; an amount 1299.00, $1,299, 1.299,00 EUR. Which of two
numbers is the month nobody can know, so both readings count.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[t ][0-9:.,+z-]*)?", re.ASCII)
DOTTED = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})", re.ASCII)
IN_WORDS = re.compile(
    r"(?:(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?[. ] ?(?:of )?(?P<month>[a-z]{3,9})[.,]? (?P<year>[0-9]{4})"
    r"|(?P<month2>[a-z]{3,9})[. ] ?(?P<day2>[0-9]{1,2})(?:st|nd|rd|th)?,? (?P<year2>[0-9]{4}))",
    re.ASCII,
)
CURRENCY = "(?:[$\u20ac\u00a3\u00a5]|eur|usd|gbp|chf|jpy|cny|sek|nok|dkk|pln|czk|huf|cad|aud|nzd|inr|brl|mxn|zar|krw)"
AMOUNT = re.compile(rf"(?P<before>{CURRENCY}?) ?(?P<number>[0-9][0-9.,' ]{{0,20}}?) ?(?P<behind>{CURRENCY}?)", re.ASCII)
DECIMALS = re.compile(r"(.*[0-9])[.,]([0-9]{1,2})")


def day_of(text: str) -> dt.date | None:
    """The day that a plain text is; None for all else."""
    if found := ISO.fullmatch(text):
        year, month, day = map(int, found.groups())
    elif found := DOTTED.fullmatch(text):
        day, month, year = map(int, found.groups())
    elif found := IN_WORDS.fullmatch(text):
        name = (found["month"] or found["month2"])[: None if "sept" not in text else 3]
        month = next((at for at, one in enumerate(MONTHS, 1) if one.startswith(name)), 0)
        year, day = int(found["year"] or found["year2"]), int(found["day"] or found["day2"])
    else:
        return None
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def days(day: dt.date) -> tuple[str, ...]:
    """The ways in which people write a day, as plain texts."""
    year, number = day.year, day.day
    nth = f"{number}{'th' if number in {11, 12, 13} else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    month = MONTHS[day.month - 1]
    names = {month, month[:3], f"{month[:3]}."} | ({"sept", "sept."} if day.month == 9 else set())
    told = {day.isoformat(), day.strftime("%Y/%m/%d") if year > 999 else day.isoformat()}
    for one in {str(number), f"{number:02}", nth}:
        for name in names:
            told |= {f"{one} {name}", f"{one} of {name}", f"{one}. {name}", f"{name} {one}"}
            told |= {
                f"{one} {name} {year}",
                f"{one} {name}, {year}",
                f"{one}. {name} {year}",
                f"{one} of {name} {year}",
            }
            told |= {f"{name} {one} {year}", f"{name} {one}, {year}"}
    for first, second in ((number, day.month), (day.month, number)):
        for mark in "./-":
            told |= {f"{first}{mark}{second}{mark}{year}", f"{first:02}{mark}{second:02}{mark}{year}"}
            told |= {f"{first:02}{mark}{second:02}{mark}{year % 100:02}"}
    return tuple(sorted(told))


def amount_of(text: str) -> float | None:
    """The amount that a plain text is: with a currency, or with two digits behind the point; None for all else."""
    found = AMOUNT.fullmatch(text)
    if found is None:
        return None
    number, currency = found["number"].strip(), found["before"] or found["behind"]
    cut = DECIMALS.fullmatch(number)
    if not currency and (cut is None or len(cut[2]) != 2):
        return None
    whole = re.sub(r"[.,' ]", "", cut[1] if cut else number)
    return float(f"{whole}.{cut[2] if cut else 0}")


def amounts(value: float) -> tuple[str, ...]:
    """The ways in which people write a number, as plain texts."""
    if abs(value) >= 1e15:
        return (repr(value),)
    written = {f"{value:.2f}", f"{value:,.2f}"}
    written |= {str(int(value)), f"{int(value):,}"} if float(value).is_integer() else {repr(value)}
    swapped = {text.translate(str.maketrans(",.", ".,")) for text in written}
    parted = {text.replace(",", mark) for text in written for mark in " '"}
    parted |= {text.replace(".", " ") for text in swapped if text.count(",") == 1 and "." in text}
    return tuple(sorted(written | swapped | parted, key=len, reverse=True))
