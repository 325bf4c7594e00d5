"""Numbers of people: cards by issuer and Luhn, telephones by `+` or their groups, national ids by name and check digit.

One pass finds digits that hang together; what they are is asked of these alone. A number is a national id when its name
stands before it (`"ssn":`, `PESEL`) and the number keeps the rules of that id.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Hit: TypeAlias = tuple[int, int, str]
"""(start, end, category)."""

ESCAPE_TAIL = re.compile(
    r"(?:\x1b|\\{1,4}(?:u001[bB]|x1b))\[[0-9;]{0,12}m|\\(?:u[0-9A-Fa-f]{4}|[bfnrt])|%[0-9A-Fa-f]{2}"
)
"""What ends in letters or digits and is no part of a word: a colour of the terminal, an escape."""

ENDS_ESCAPE = re.compile(rb".*(?:\\[bfnrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})\Z", re.DOTALL)


def begins_at(data: bytes, at: int) -> bool:
    """Return whether a value may begin here: no letter, digit or `_` stands before, or they end an escape."""
    before = data[at - 1 : at]
    if not (before.isalnum() or before == b"_"):
        return True
    return ENDS_ESCAPE.match(data[max(at - 6, 0) : at]) is not None


def extract_digits(text: bytes) -> bytes:
    """Return the digits of a number, without what groups them."""
    return bytes(filter(b"0123456789".__contains__, text))


def is_luhn(digits: bytes) -> bool:
    """Return whether the last digit is the check digit by Luhn."""
    values = [digit - 48 for digit in reversed(digits)]
    doubled = [value * 2 - 9 * (value > 4) for value in values[1::2]]
    return (sum(values[::2]) + sum(doubled)) % 10 == 0


REACH = 48
CONTEXT = re.compile(
    rb"(?i)(?<![a-z])(?:(?P<us>ssn|social[ _-]?security|itin|taxpayer[ _-]?id)|(?P<ca>sin|social[ _-]?insurance)"
    rb"|(?P<pl>pesel)|(?P<es>dni|nie|nif)|(?P<nl>bsn|burgerservicenummer)"
    rb"|(?P<fr>nir|insee|s(?:\xc3\xa9|e)curit(?:\xc3\xa9|e)[ _]sociale|num(?:\xc3\xa9|e)ro[ _]de[ _]s(?:\xc3\xa9|e)cu)"
    rb"|(?P<br>cpf)|(?P<india>aadha{1,2}r|uidai)|(?P<gb>nhs)|(?P<ch>ahv|avs)|(?P<de>steuer[ _-]?id(?:nr)?|idnr))"
    rb"(?:[ _-]?(?:number|num|no|nr|id|nummer))?(?![A-Za-z])[^0-9+(\n]{0,24}\Z"
)
NAMES = re.compile(
    rb"ssn|social|itin|taxpayer|sin|pesel|dni|nie|nif|bsn|burger|nir|insee|curit|ro de s|cpf|aadh|uidai|nhs|ahv|avs"
    rb"|steuer|idnr|phone|tel|mobil|handy|fax|whatsapp|msisdn"
)
"""What stands in lower case before every number that needs a name, telephones too: a cheap first look."""
NIE = {b"X": b"0", b"Y": b"1", b"Z": b"2"}


def tables(rows: str) -> tuple[tuple[int, ...], ...]:
    """Return rows of digits, as numbers."""
    return tuple(tuple(map(int, row)) for row in rows.split())


VERHOEFF = tables(
    "0123456789 1234067895 2340178956 3401289567 4012395678 5987604321 6598710432 7659821043 8765932104 9876543210"
)
SHUFFLE = tables("0123456789 1576283094 5803796142 8916043527 9453126870 4286573901 2793806415 7046913258")


def find_national_end(number: bytes, name: re.Match[bytes]) -> int | None:
    """Return where the id ends that is named before `number`; None when the number breaks the rules of that id."""
    country = name.lastgroup or ""
    hit = FORMS[country].match(number)
    return hit.end() if hit is not None and CHECKS[country](hit[0]) else None


def is_american(text: bytes) -> bool:
    """Return whether area, group and serial have been or will be given out; 9xx is for taxpayers who have none."""
    digits = extract_digits(text)
    return (
        digits[:3] not in (b"000", b"666") and digits[3:5] != b"00" and digits[5:] != b"0000" and digits[:3] != b"900"
    )


def make_weighted_sum(weights: tuple[int, ...], modulus: int = 11) -> Callable[[bytes], int]:
    """Return the weighted sum of the digits, modulo."""
    return lambda digits: sum((digit - 48) * weight for digit, weight in zip(digits, weights, strict=False)) % modulus


def is_polish(text: bytes) -> bool:
    """Return whether a PESEL holds: weights 1 3 7 9, and a month."""
    month = int(text[2:4]) % 20
    return 1 <= month <= 12 and make_weighted_sum((1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10)(text) == 0


def is_spanish(text: bytes) -> bool:
    """Return whether a DNI or NIE holds: the letter says the rest modulo 23."""
    digits = NIE.get(text[:1], text[:1]) + text[1:-1].rstrip(b"-")
    return digits.isdigit() and b"TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == text[-1]


def is_dutch(text: bytes) -> bool:
    """Return whether a BSN holds: the test of eleven."""
    return make_weighted_sum((9, 8, 7, 6, 5, 4, 3, 2, -1))(extract_digits(text)) == 0


def is_french(text: bytes) -> bool:
    """Return whether a NIR holds: 97 less the rest modulo 97."""
    digits = extract_digits(text)
    return int(digits[-2:]) == 97 - int(digits[:13]) % 97


def is_brazilian(text: bytes) -> bool:
    """Return whether a CPF holds: two check digits modulo 11."""
    digits = extract_digits(text)
    first = make_weighted_sum(tuple(range(10, 1, -1)))(digits) * -1 % 11 % 10
    second = make_weighted_sum(tuple(range(11, 1, -1)))(digits) * -1 % 11 % 10
    return len(set(digits)) > 1 and digits[-2:] == b"%d%d" % (first, second)


def is_verhoeff(text: bytes) -> bool:
    """Return whether an Aadhaar holds: the check digit of the dihedral group."""
    state = 0
    for at, digit in enumerate(reversed(extract_digits(text))):
        state = VERHOEFF[state][SHUFFLE[at % 8][digit - 48]]
    return state == 0


def is_british(text: bytes) -> bool:
    """Return whether an NHS number holds: modulo 11."""
    digits = extract_digits(text)
    return -make_weighted_sum(tuple(range(10, 1, -1)))(digits) % 11 == digits[-1] - 48


def is_swiss(text: bytes) -> bool:
    """Return whether an AHV holds: the check digit of an EAN."""
    return make_weighted_sum((1, 3) * 6 + (1,), 10)(extract_digits(text)) == 0


def is_german(text: bytes) -> bool:
    """Return whether a tax id holds: ISO 7064 modulo 11, 10."""
    product = 10
    digits = extract_digits(text)
    for digit in digits[:10]:
        total = (digit - 48 + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == digits[10] - 48


FORMS: Mapping[str, re.Pattern[bytes]] = {
    country: re.compile(form + rb"(?![0-9])")
    for country, form in {
        "us": rb"[0-9]{3}([ -]?)[0-9]{2}\1[0-9]{4}",
        "ca": rb"[0-9]{3}([ -]?)[0-9]{3}\1[0-9]{3}",
        "pl": rb"[0-9]{11}",
        "es": rb"[0-9XYZ][0-9]{7}-?[A-Z]|[XYZ]-?[0-9]{7}-?[A-Z]",
        "nl": rb"[0-9]{4}[. ]?[0-9]{2}[. ]?[0-9]{3}",
        "fr": rb"[1-4] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}",
        "br": rb"[0-9]{3}\.?[0-9]{3}\.?[0-9]{3}-?[0-9]{2}",
        "india": rb"[2-9][0-9]{3}([ -]?)[0-9]{4}\1[0-9]{4}",
        "gb": rb"[0-9]{3}([ -]?)[0-9]{3}\1[0-9]{4}",
        "ch": rb"756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}",
        "de": rb"[1-9][0-9]([ ]?)[0-9]{3}\1[0-9]{3}\1[0-9]{3}",
    }.items()
}
CHECKS: Mapping[str, Callable[[bytes], bool]] = {
    "us": is_american,
    "ca": lambda text: is_luhn(extract_digits(text)),
    "pl": is_polish,
    "es": is_spanish,
    "nl": is_dutch,
    "fr": is_french,
    "br": is_brazilian,
    "india": is_verhoeff,
    "gb": is_british,
    "ch": is_swiss,
    "de": is_german,
}


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
    """Yield every card, telephone number and national id of a text."""
    for hit in NUMBER.finditer(data):
        start, end = hit.span()
        if data[start - 1 : start] in SIGNS and (sign := PREFIX.search(data[max(start - 2, 0) : start])) is not None:
            start -= len(sign[0])
        if not begins_here(data, start) or not ends_here(data, end):
            continue
        before = data[max(start - REACH, 0) : start]
        if NAMES.search(before.lower()) is None:
            before = b""
        elif (name := CONTEXT.search(before)) is not None and (
            size := find_national_end(data[start:end], name)
        ) is not None:
            yield start, start + size, "ssn" if name["us"] else "national-id"
            continue
        for (begin, finish), category in parts(data[start:end], before):
            yield start + begin, start + finish, category


def parts(number: bytes, before: bytes) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the cards and telephone numbers among digits that hang together."""
    cards = [hit.span() for hit in CARD.finditer(number) if is_alone(number, hit) and is_card(extract_digits(hit[0]))]
    if cards:
        yield from ((span, "credit-card") for span in cards)
    elif number.startswith(b"+"):
        if (end := find_international_end(number)) is not None:
            yield (0, end), "phone"
    elif (american := AMERICAN.search(number)) is not None and is_alone(number, american):
        yield american.span(), "phone"
    elif before and TELEPHONE.search(before) and 7 <= len(extract_digits(number)) <= 15 and not DATE.match(number):
        yield (0, len(number)), "phone"


def begins_here(data: bytes, start: int) -> bool:
    """Return whether the digits are not the tail of something longer (`ORD-2025...`, `0.41...`)."""
    hangs = data[start - 1 : start] in (b"-", b".", b"+", b"#", b"@") and data[max(start - 2, 0) : start - 1].isalnum()
    return not hangs and begins_at(data, start)


def ends_here(data: bytes, end: int) -> bool:
    """Return whether the digits are not the head of something longer."""
    after = data[end : end + 2]
    return not (
        after[:1].isalnum() or after[:1] == b"_" or (after[:1] in (b"-", b".", b":", b"@") and after[1:].isalnum())
    )


def is_card(digits: bytes) -> bool:
    """Return whether the issuer issues numbers of this length, and the check digit holds."""
    if len(set(digits)) == 1:
        return False
    return (AMEX if len(digits) == 15 else ISSUER).match(digits) is not None and is_luhn(digits)


def find_international_end(number: bytes) -> int | None:
    """Return where the number that begins with a `+` ends; None when it is none."""
    hit = INTERNATIONAL.match(number)
    if hit is None or DATE.match(number):
        return None
    digits = extract_digits(hit[0])
    code = CALLING.match(digits)
    if code is None or len(digits) < 8:
        return None
    exact = EXACT.get(digits[:2], EXACT.get(digits[:1]))
    if exact is None or len(digits) == exact:
        return hit.end()
    return find_end_of_digits(hit[0], exact) if len(digits) > exact else None


def find_end_of_digits(number: bytes, count: int) -> int | None:
    """Return where the first `count` digits end, if no digit follows at once."""
    digits = 0
    for at, char in enumerate(number):
        digits += 48 <= char <= 57
        if digits == count:
            return None if number[at + 1 : at + 2].isdigit() else at + 1
    return None


def is_alone(number: bytes, hit: re.Match[bytes]) -> bool:
    """Return whether no further group hangs on by a hyphen or full stop: an ISBN, a serial number."""
    return number[hit.end() : hit.end() + 1] not in (b"-", b".", b"/") and number[: hit.start()][-1:] not in (
        b"-",
        b".",
        b"/",
    )
