"""IBANs: a country's letters, its length, and the check digits modulo 97; in one piece or in groups of four."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.pii.hits import begins_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.redaction.pii.hits import Hit

LENGTHS = {
    country: int(length)
    for length, countries in (
        line.split(" ", 1)
        for line in """15 NO
16 BE
18 DK FI FO GL NL SD FK
19 MK SI
20 AT BA EE KZ LT LU XK MN
21 CH HR LI LV
22 BG BH CR DE GB GE IE ME RS VA
23 AE GI IL IQ OM SO TL
24 AD CZ ES MD PK RO SA SE SK TN VG
25 LY PT ST
26 IS TR
27 BI DJ FR GR IT MC MR SM
28 AL AZ BY CY DO GT HU LB NI PL SV
29 BR EG PS QA UA
30 JO KW MU YE
31 MT SC
32 LC
33 RU""".splitlines()
    )
    for country in countries.split()
}
IBAN = re.compile(rb"[A-Z][A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?")


def find_ibans(data: bytes) -> Iterator[Hit]:
    """Every IBAN of a text."""
    for hit in IBAN.finditer(data):
        length = LENGTHS.get(hit[0][:2].decode())
        if length is None or not begins_at(data, hit.start()):
            continue
        end = hit.start()
        for _ in range(length):
            end += data[end : end + 1] == b" "
            end += 1
        text = data[hit.start() : end].replace(b" ", b"")
        if end <= len(data) and text.isalnum() and not data[end : end + 1].isalnum() and is_iban(text.decode()):
            yield hit.start(), end, "iban"


def is_iban(text: str) -> bool:
    """Whether the check digits hold."""
    return (
        text.isalnum()
        and text == text.upper()
        and int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1
    )
