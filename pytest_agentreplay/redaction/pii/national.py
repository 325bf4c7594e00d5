"""National ids: a number is one when its name stands before it (`"ssn":`, `PESEL`) and the number keeps its rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.pii.hits import digits_of, luhn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    """Rows of digits, as numbers."""
    return tuple(tuple(map(int, row)) for row in rows.split())


VERHOEFF = tables(
    "0123456789 1234067895 2340178956 3401289567 4012395678 5987604321 6598710432 7659821043 8765932104 9876543210"
)
SHUFFLE = tables("0123456789 1576283094 5803796142 8916043527 9453126870 4286573901 2793806415 7046913258")


def national(number: bytes, named: re.Match[bytes]) -> int | None:
    """Where the id ends that is named before `number`; None when the number breaks the rules of that id."""
    country = named.lastgroup or ""
    hit = FORMS[country].match(number)
    return hit.end() if hit is not None and CHECKS[country](hit[0]) else None


def american(text: bytes) -> bool:
    """Area, group and serial that have been or will be given out; 9xx is for taxpayers who have none."""
    digits = digits_of(text)
    return (
        digits[:3] not in (b"000", b"666") and digits[3:5] != b"00" and digits[5:] != b"0000" and digits[:3] != b"900"
    )


def weighted(weights: tuple[int, ...], modulus: int = 11) -> Callable[[bytes], int]:
    """The weighted sum of the digits, modulo."""
    return lambda digits: sum((digit - 48) * weight for digit, weight in zip(digits, weights, strict=False)) % modulus


def polish(text: bytes) -> bool:
    """PESEL: weights 1 3 7 9, and a month."""
    month = int(text[2:4]) % 20
    return 1 <= month <= 12 and weighted((1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10)(text) == 0


def spanish(text: bytes) -> bool:
    """DNI and NIE: the letter says the rest modulo 23."""
    digits = NIE.get(text[:1], text[:1]) + text[1:-1].rstrip(b"-")
    return digits.isdigit() and b"TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == text[-1]


def dutch(text: bytes) -> bool:
    """BSN: the test of eleven."""
    return weighted((9, 8, 7, 6, 5, 4, 3, 2, -1))(digits_of(text)) == 0


def french(text: bytes) -> bool:
    """NIR: 97 less the rest modulo 97."""
    digits = digits_of(text)
    return int(digits[-2:]) == 97 - int(digits[:13]) % 97


def brazilian(text: bytes) -> bool:
    """CPF: two check digits modulo 11."""
    digits = digits_of(text)
    first = weighted(tuple(range(10, 1, -1)))(digits) * -1 % 11 % 10
    second = weighted(tuple(range(11, 1, -1)))(digits) * -1 % 11 % 10
    return len(set(digits)) > 1 and digits[-2:] == b"%d%d" % (first, second)


def verhoeff(text: bytes) -> bool:
    """Aadhaar: the check digit of the dihedral group."""
    state = 0
    for at, digit in enumerate(reversed(digits_of(text))):
        state = VERHOEFF[state][SHUFFLE[at % 8][digit - 48]]
    return state == 0


def british(text: bytes) -> bool:
    """NHS number: modulo 11."""
    digits = digits_of(text)
    return -weighted(tuple(range(10, 1, -1)))(digits) % 11 == digits[-1] - 48


def swiss(text: bytes) -> bool:
    """AHV: the check digit of an EAN."""
    return weighted((1, 3) * 6 + (1,), 10)(digits_of(text)) == 0


def german(text: bytes) -> bool:
    """Tax id: ISO 7064 modulo 11, 10."""
    product = 10
    digits = digits_of(text)
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
    "us": american,
    "ca": lambda text: luhn(digits_of(text)),
    "pl": polish,
    "es": spanish,
    "nl": dutch,
    "fr": french,
    "br": brazilian,
    "india": verhoeff,
    "gb": british,
    "ch": swiss,
    "de": german,
}
