"""Personal data that is known by its looks: the set of rules `pii`, and the public addresses that `strict` adds to it.

Each finder looks at text that is decoded already (UTF-8) and returns where something personal stands. What is only a
number needs a check digit, a name before it or the signs of a telephone number: orders, versions, dates, ids stay.

E-mail addresses are found from their `@`: 64 characters at most before it, 253 bytes behind it. Versions
(`react@18.2.0`), pictures (`logo@2x.png`), digests, decorators, matrix products, remotes of git and users in URLs are
none. An IBAN has a country's letters, its length, and check digits modulo 97, in one piece or in groups of four.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.personal_numbers import ESCAPE_TAIL, NAMES, begins_at, find_numbers
from pytest_agentreplay.redaction.secret_names import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.redaction.personal_numbers import Hit


def find_pii(data: bytes) -> list[Hit]:
    """Return e-mail addresses, telephone and card numbers, IBANs and national ids, in order; no two overlap."""
    return drop_overlaps([*find_emails(data), *find_ibans(data), *find_numbers(data)])


def names_a_person(name: str) -> bool:
    """Return whether a member of this name may hold a number that is personal only because of its name."""
    return NAMES.search(name.lower().encode("utf-8", "replace")) is not None


def drop_overlaps(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits by place; of two that overlap the one that begins first."""
    apart: list[Hit] = []
    for hit in sorted(hits):
        if not apart or hit[0] >= apart[-1][1]:
            apart.append(hit)
    return apart


AT = re.compile(rb"(?<=[A-Za-z0-9_+\x80-\xff-])@(?=[A-Za-z0-9\x80-\xff])")
LOCAL_BACKWARDS = re.compile(r"(?:[\w+-][\w.+'~-]{0,62})?\w")
DOMAIN = re.compile(r"(?:\w(?:[\w-]{0,61}\w)?\.){1,8}(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})(?![\w(@]|-\w)")
REMOTE = re.compile(r":(?:[\w.~-]{0,64}/|[\w.-]{1,64}\.git|[0-9]{2,5}(?![0-9]))")
OURS = "redacted.invalid"
FILES = names(
    "png jpg jpeg gif svg webp ico bmp avif mp4 css scss js mjs cjs jsx ts tsx map json yaml yml toml lock md txt"
    " html py pyi rs go java rb php sh c cpp h zip tgz gz tar whl jar exe dll so service socket timer target mount"
)
MAIL_REACH = 256


def find_emails(data: bytes) -> Iterator[Hit]:
    """Yield every e-mail address of a text."""
    if b"@" not in data:
        return
    for sign in AT.finditer(data):
        at = sign.start()
        local = find_local_part(data[max(at - MAIL_REACH, 0) : at].decode(errors="ignore"))
        if not local:
            continue
        after = data[at + 1 : at + 1 + MAIL_REACH + 80].decode(errors="ignore")
        if domain := find_domain_part(local, after):
            yield at - len(local.encode()), at + 1 + len(domain.encode()), "email"


def find_local_part(before: str) -> str:
    """Return what of the text before the `@` is the name of a mailbox; "" for none."""
    hit = LOCAL_BACKWARDS.match(before[::-1])
    if hit is None:
        return ""
    begin = len(before) - hit.end()
    # What ends an escape is no part of it: `\nada@` is a line break and ada.
    for tail in ESCAPE_TAIL.finditer(before, max(begin - 12, 0)):
        if tail.start() < begin < tail.end():
            begin = tail.end()
    local = before[begin:].lstrip("'~.")
    head = before[: len(before) - len(local)]
    is_user_of_url = head.endswith("//") or re.search(r"://[^\s/@\"']{0,64}:\Z", head[-80:]) is not None
    return "" if is_user_of_url or head.endswith("\\") or local == "git" else local


def find_domain_part(local: str, after: str) -> str:
    """Return what of the text behind the `@` is a domain that gets mail; "" for none."""
    hit = DOMAIN.match(after)
    if hit is None or len(hit[0].encode()) > 253 or hit[0].lower() == OURS:
        return ""
    *labels, last = hit[0].lower().split(".")
    if last in FILES or (len(labels) > 1 and all(map(str.isdigit, labels))) or REMOTE.match(after, hit.end()):
        return ""
    if len(local) == len(labels[0]) == 1 and len(last) > 3:
        return ""  # A matrix product: w@x.mean
    return hit[0]


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
    """Yield every IBAN of a text."""
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
    """Return whether the check digits hold."""
    return (
        text.isalnum()
        and text == text.upper()
        and int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1
    )


FOUR = re.compile(rb"[0-9][0-9]{0,2}(?:\.[0-9]{1,3}){3}(?![A-Za-z0-9_]|[.-][A-Za-z0-9])")
SIX = re.compile(rb"[0-9A-Fa-f][0-9A-Fa-f]{0,3}(?::{1,2}[0-9A-Fa-f]{1,4}){2,7}(?:::)?(?![A-Za-z0-9_:])")
VERSION = re.compile(rb"[A-Za-z]/|.?[.:-]", re.DOTALL)


def find_addresses(data: bytes) -> Iterator[Hit]:
    """Yield every public IPv4 and IPv6 address of a text."""
    for pattern in (FOUR, SIX):
        for hit in pattern.finditer(data):
            start = hit.start()
            if VERSION.fullmatch(data, max(start - 2, 0), start) or not begins_at(data, start):
                continue
            if is_public(hit[0].decode()):
                yield *hit.span(), "ip"


def is_public(text: str) -> bool:
    """Return whether the address is one of the open network."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast
