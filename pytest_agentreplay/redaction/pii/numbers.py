"""Numbers of people: cards by issuer and Luhn, telephones by `+` or their groups, national ids by name and check digit.

One pass finds digits that hang together; what they are is asked of these alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.pii.hits import begins_at, digits_of, luhn
from pytest_agentreplay.redaction.pii.national import CONTEXT, NAMES, REACH, national

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.redaction.pii.hits import Hit

NUMBER = re.compile(rb"[0-9](?:[ ().\-/]{0,3}[0-9]){6,30}(?:-?[A-Z](?![A-Za-z0-9_]))?")
SIGNS = (b"+", b"(", b"X", b"Y", b"Z", b"-")
PREFIX = re.compile(rb"(?:\+\(?|\(|[XYZ]-?)\Z")
CARD = re.compile(
    rb"(?<![0-9])(?:[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?|[0-9]{4}([ -])[0-9]{6}\2[0-9]{5}"
    rb"|[0-9]{19}|[0-9]{15,16})(?![0-9]|[.][0-9])"
)
ISSUER = re.compile(rb"4|5[0-8]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720|20[0-4])|6(?:0|[2-9])|35(?:2[89]|[3-8])|81|82")
AMEX = re.compile(rb"3[47]")
INTERNATIONAL = re.compile(
    rb"\+(?:\([1-9][0-9]{0,2}\)|[1-9])(?:[ ./-]?[0-9]|[ ]?\([0-9]{1,5}\)[ ]?[0-9]){6,14}(?![0-9])"
)
AMERICAN = re.compile(
    rb"(?<![0-9])(?:1[ .-])?(?:\([2-9][0-9]{2}\)[ -]?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}(?![0-9])"
)
CALLING = re.compile(
    rb"1|7|2(?:0|7|[1-6]|9[0789])|3(?:[0-4]|[5789]|6)|4(?:[0135-9]|2[013]|4)|5(?:[1-8]|0|9)|6(?:[0-6]|[789])"
    rb"|8(?:[1246]|5|8|0)|9(?:[0-58]|6|7|9)"
)
EXACT = {b"1": 11, b"7": 11, b"33": 11, b"34": 11, b"48": 11, b"91": 12, b"86": 13, b"31": 11, b"41": 11, b"61": 11}
DATE = re.compile(rb"\+?(?:19|20)[0-9]{2}([-./])[0-9]{2}\1[0-9]{2}")
TELEPHONE = re.compile(
    rb"(?i)(?:phone|telefon|telephone|(?<![a-z])tel|mobile|mobil|handy|(?<![a-z])fax|whatsapp|msisdn)"
    rb"(?:[ _-]?(?:number|num|nummer|no|nr))?\.?[\\\"']{0,4}\s{0,3}[:=]?\s{0,3}[\\\"']{0,4}\Z"
)


def find_numbers(data: bytes) -> Iterator[Hit]:
    """Every card, telephone number and national id of a text."""
    for hit in NUMBER.finditer(data):
        start, end = hit.span()
        if data[start - 1 : start] in SIGNS and (sign := PREFIX.search(data[max(start - 2, 0) : start])) is not None:
            start -= len(sign[0])
        if not begins_here(data, start) or not ends_here(data, end):
            continue
        before = data[max(start - REACH, 0) : start]
        if NAMES.search(before.lower()) is None:
            before = b""
        elif (named := CONTEXT.search(before)) is not None and (ended := national(data[start:end], named)) is not None:
            yield start, start + ended, "ssn" if named["us"] else "national-id"
            continue
        for (begin, finish), category in parts(data[start:end], before):
            yield start + begin, start + finish, category


def parts(number: bytes, before: bytes) -> Iterator[tuple[tuple[int, int], str]]:
    """The cards and telephone numbers among digits that hang together."""
    cards = [hit.span() for hit in CARD.finditer(number) if alone(number, hit) and is_card(digits_of(hit[0]))]
    if cards:
        yield from ((span, "credit-card") for span in cards)
    elif number.startswith(b"+"):
        if (end := international(number)) is not None:
            yield (0, end), "phone"
    elif (american := AMERICAN.search(number)) is not None and alone(number, american):
        yield american.span(), "phone"
    elif before and TELEPHONE.search(before) and 7 <= len(digits_of(number)) <= 15 and not DATE.match(number):
        yield (0, len(number)), "phone"


def begins_here(data: bytes, start: int) -> bool:
    """Whether the digits are not the tail of something longer (`ORD-2025...`, `0.41...`)."""
    hangs = data[start - 1 : start] in (b"-", b".", b"+", b"#", b"@") and data[max(start - 2, 0) : start - 1].isalnum()
    return not hangs and begins_at(data, start)


def ends_here(data: bytes, end: int) -> bool:
    """Whether the digits are not the head of something longer."""
    after = data[end : end + 2]
    return not (
        after[:1].isalnum() or after[:1] == b"_" or (after[:1] in (b"-", b".", b":", b"@") and after[1:].isalnum())
    )


def is_card(digits: bytes) -> bool:
    """Whether the issuer issues numbers of this length, and the check digit holds."""
    if len(set(digits)) == 1:
        return False
    return (AMEX if len(digits) == 15 else ISSUER).match(digits) is not None and luhn(digits)


def international(number: bytes) -> int | None:
    """Where the number that begins with a `+` ends; None when it is none."""
    hit = INTERNATIONAL.match(number)
    if hit is None or DATE.match(number):
        return None
    digits = digits_of(hit[0])
    code = CALLING.match(digits)
    if code is None or len(digits) < 8:
        return None
    exact = EXACT.get(digits[:2], EXACT.get(digits[:1]))
    if exact is None or len(digits) == exact:
        return hit.end()
    return cut(hit[0], exact) if len(digits) > exact else None


def cut(number: bytes, count: int) -> int | None:
    """Where the first `count` digits end, if no digit follows at once."""
    seen = 0
    for at, char in enumerate(number):
        seen += 48 <= char <= 57
        if seen == count:
            return None if number[at + 1 : at + 2].isdigit() else at + 1
    return None


def alone(number: bytes, hit: re.Match[bytes]) -> bool:
    """Whether no further group hangs on by a hyphen or full stop: an ISBN, a serial number."""
    return number[hit.end() : hit.end() + 1] not in (b"-", b".", b"/") and number[: hit.start()][-1:] not in (
        b"-",
        b".",
        b"/",
    )
