"""Personal data that is known by its looks: the set of rules `pii`, and the public addresses that `strict` adds to it.

Each finder looks at text that is decoded already (UTF-8) and yields where something personal stands. What is only a
number needs a check digit, a name before it or the signs of a telephone number: orders, versions, dates, ids stay.

E-mail addresses are found from their `@`. Versions (`react@18.2.0`), pictures (`logo@2x.png`), digests, decorators,
matrix products, remotes of git and users in URLs are none. An IBAN has a country's letters, its length, and check
digits modulo 97, in one piece or in groups of four. Cards have an issuer and a check digit by Luhn, telephones a `+` or
their groups. A number is a national id when its name stands before it (`"ssn":`, `PESEL`), and python-stdnum (the extra
`pii`) holds it for valid. Where that is not installed, name and form are enough: more is taken off, never less.
"""

from __future__ import annotations

import functools
import importlib
import ipaddress
import re
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_agentreplay.errors import PolicyError
from pytest_agentreplay.redaction.secret_names import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Hit: TypeAlias = tuple[int, int, str]
"""(start, end, category)."""


def find_pii(data: bytes) -> list[Hit]:
    """Return e-mail addresses, telephone and card numbers, IBANs and national ids, in order.

    No two overlap: of two that do, the one that begins first counts.
    """
    apart: list[Hit] = []
    for hit in sorted([*find_emails(data), *find_ibans(data), *find_numbers(data)]):
        if not apart or hit[0] >= apart[-1][1]:
            apart.append(hit)
    return apart


def names_a_person(name: str) -> bool:
    """Return whether a member of this name may hold a number that is personal only because of its name."""
    return NAME_OF_NUMBER.search(name.lower().encode("utf-8", "replace")) is not None


# What ends in letters or digits and is no part of a word: a colour of the terminal, an escape.
ESCAPE = re.compile(r"(?:\x1b|\\{1,4}(?:u001[bB]|x1b))\[[0-9;]{0,12}m|\\(?:u[0-9A-Fa-f]{4}|[bfnrt])|%[0-9A-Fa-f]{2}")
ESCAPE_AT_END = re.compile(rb".*(?:\\[bfnrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})\Z", re.DOTALL)


def begins_at(data: bytes, at: int) -> bool:
    """Return whether a value may begin here: no letter, digit or `_` stands before, or they end an escape."""
    before = data[at - 1 : at]
    if not (before.isalnum() or before == b"_"):
        return True
    return ESCAPE_AT_END.match(data[max(at - 6, 0) : at]) is not None


AT = re.compile(rb"(?<=[A-Za-z0-9_+\x80-\xff-])@(?=[A-Za-z0-9\x80-\xff])")
LOCAL_BACKWARDS = re.compile(r"(?:[\w+-][\w.+'~-]{0,62})?\w")
DOMAIN = re.compile(r"(?:\w(?:[\w-]{0,61}\w)?\.){1,8}(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})(?![\w(@]|-\w)")
REMOTE = re.compile(r":(?:[\w.~-]{0,64}/|[\w.-]{1,64}\.git|[0-9]{2,5}(?![0-9]))")
USER_OF_URL = re.compile(r"(?://|://[^\s/@\"']{0,64}:)\Z")
PLACEHOLDER_DOMAIN = "redacted.invalid"
FILES = names(
    "png jpg jpeg gif svg webp ico bmp avif mp4 css scss js mjs cjs jsx ts tsx map json yaml yml toml lock md txt"
    " html py pyi rs go java rb php sh c cpp h zip tgz gz tar whl jar exe dll so service socket timer target mount"
)
LONGEST_DOMAIN = 253  # bytes: RFC 1035, section 2.3.4, without the length bytes at its ends
LONGEST_LOCAL = 4 * 64  # bytes: RFC 5321, section 4.5.3.1.1, allows 64 characters, which UTF-8 spells in four each


def find_emails(data: bytes) -> Iterator[Hit]:
    """Yield every e-mail address of a text."""
    for sign in AT.finditer(data) if b"@" in data else ():
        at = sign.start()
        local = find_local_part(data[max(at - LONGEST_LOCAL, 0) : at].decode(errors="ignore"))
        # The 80 bytes behind the longest domain tell whether it ends there: a port, a path of git.
        after = data[at + 1 : at + 1 + LONGEST_DOMAIN + 83].decode(errors="ignore")
        if local and (domain := find_domain(local, after)):
            yield at - len(local.encode()), at + 1 + len(domain.encode()), "email"


def find_local_part(before: str) -> str:
    """Return what of the text before the `@` is the name of a mailbox; "" for none."""
    hit = LOCAL_BACKWARDS.match(before[::-1])
    if hit is None:
        return ""
    begin = len(before) - hit.end()
    # What ends an escape is no part of it: `\nada@` is a line break and ada.
    for escape in ESCAPE.finditer(before, max(begin - 12, 0)):
        if escape.start() < begin < escape.end():
            begin = escape.end()
    local = before[begin:].lstrip("'~.")
    head = before[: len(before) - len(local)]
    return "" if USER_OF_URL.search(head[-80:]) or head.endswith("\\") or local == "git" else local


def find_domain(local: str, after: str) -> str:
    """Return what of the text behind the `@` is a domain that gets mail; "" for none."""
    hit = DOMAIN.match(after)
    if hit is None or len(hit[0].encode()) > LONGEST_DOMAIN or hit[0].lower() == PLACEHOLDER_DOMAIN:
        return ""
    *labels, last = hit[0].lower().split(".")
    is_version = len(labels) > 1 and all(map(str.isdigit, labels))
    is_product = len(local) == len(labels[0]) == 1 and len(last) > 3  # of matrices: w@x.mean
    return "" if last in FILES or is_version or is_product or REMOTE.match(after, hit.end()) else hit[0]


# Country and length: SWIFT's IBAN registry, https://www.swift.com/standards/data-standards/iban-international-bank-account-number
IBAN_LENGTHS = {
    word[:2]: int(word[2:])
    for word in names(
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29"
        " ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20"
        " LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29"
        " PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
        " YE30"
    )
}
IBAN = re.compile(rb"[A-Z][A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?")


def find_ibans(data: bytes) -> Iterator[Hit]:
    """Yield every IBAN of a text."""
    for hit in IBAN.finditer(data):
        length = IBAN_LENGTHS.get(hit[0][:2].decode())
        if length is None or not begins_at(data, hit.start()):
            continue
        end = hit.start()
        for _ in range(length):
            end += data[end : end + 1] == b" "
            end += 1
        text = data[hit.start() : end].replace(b" ", b"").decode("latin-1")
        if len(text) == length and not data[end : end + 1].isalnum() and is_iban(text):
            yield hit.start(), end, "iban"


def is_iban(text: str) -> bool:
    """Return whether the check digits hold: ISO 7064, modulo 97, with letters as the numbers from 10 on."""
    return (
        re.fullmatch("[0-9A-Z]+", text) is not None
        and int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1
    )


# Two patterns, since `re` finds the beginnings of one in half the time that those of either take.
IP4 = re.compile(rb"[0-9][0-9]{0,2}(?:\.[0-9]{1,3}){3}(?![A-Za-z0-9_]|[.-][A-Za-z0-9])")
IP6 = re.compile(rb"[0-9A-Fa-f][0-9A-Fa-f]{0,3}(?::{1,2}[0-9A-Fa-f]{1,4}){2,7}(?:::)?(?![A-Za-z0-9_:])")
VERSION = re.compile(rb"[A-Za-z]/|.?[.:-]", re.DOTALL)


def find_addresses(data: bytes) -> Iterator[Hit]:
    """Yield every public IPv4 and IPv6 address of a text; private and local ones and those of examples stay."""
    for hit in chain(IP4.finditer(data), IP6.finditer(data)):
        start = hit.start()
        if VERSION.fullmatch(data, max(start - 2, 0), start) or not begins_at(data, start):
            continue
        try:
            address = ipaddress.ip_address(hit[0].decode())
        except ValueError:
            continue
        if address.is_global and not address.is_multicast:
            yield *hit.span(), "ip"


NUMBER = re.compile(rb"[0-9](?:[ ().\-/]{0,3}[0-9]){6,30}(?:-?[A-Z](?![A-Za-z0-9_]))?")
SIGN = re.compile(rb"(?:\+\(?|\(|[XYZ]-?)\Z")
TAIL_OF_LONGER = re.compile(rb"[A-Za-z0-9][-.+#@]")  # `ORD-2025...`, `0.41...`
HEAD_OF_LONGER = re.compile(rb"[A-Za-z0-9_]|[-.:@][A-Za-z0-9]")
NAME_REACH = 48  # bytes before a number in which its name may stand: "numero de securite sociale" and what may follow


def find_numbers(data: bytes) -> Iterator[Hit]:
    """Yield every card, telephone number and national id of a text: digits that hang together, and what they are."""
    for hit in NUMBER.finditer(data):
        start, end = hit.span()
        if data[start - 1 : start] in b"+(XYZ-" and (sign := SIGN.search(data[max(start - 2, 0) : start])):
            start -= len(sign[0])
        if HEAD_OF_LONGER.match(data, end) or TAIL_OF_LONGER.fullmatch(data, max(start - 2, 0), start):
            continue
        if not begins_at(data, start):
            continue
        number, before = data[start:end], data[max(start - NAME_REACH, 0) : start]
        if NAME_OF_NUMBER.search(before.lower()) is None:
            before = b""
        if before and (national := find_national_id(number, before)):
            yield start, start + national[0], national[1]
        else:
            for (begin, finish), category in find_cards_and_telephones(number, before):
                yield start + begin, start + finish, category


class NationalId(NamedTuple):
    """How an id is called, what it looks like, and the modules of python-stdnum, one of which must take it."""

    names: bytes
    form: bytes
    modules: str


NATIONAL_IDS = {
    "us": NationalId(
        rb"ssn|social[ _-]?security|itin|taxpayer[ _-]?id", rb"[0-9]{3}([ -]?)[0-9]{2}\1[0-9]{4}", "us.ssn us.itin"
    ),
    "ca": NationalId(rb"sin|social[ _-]?insurance", rb"[0-9]{3}([ -]?)[0-9]{3}\1[0-9]{3}", "ca.sin"),
    "pl": NationalId(rb"pesel", rb"[0-9]{11}", "pl.pesel"),
    "es": NationalId(rb"dni|nie|nif", rb"[0-9XYZ][0-9]{7}-?[A-Z]|[XYZ]-?[0-9]{7}-?[A-Z]", "es.dni es.nie"),
    "nl": NationalId(rb"bsn|burgerservicenummer", rb"[0-9]{4}[. ]?[0-9]{2}[. ]?[0-9]{3}", "nl.bsn"),
    "fr": NationalId(
        "nir|insee|s[ée]curit[ée][ _]sociale|num[ée]ro[ _]de[ _]s[ée]cu".replace("[ée]", "(?:é|e)").encode(),
        rb"[1-4] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}",
        "fr.nir",
    ),
    "br": NationalId(rb"cpf", rb"[0-9]{3}\.?[0-9]{3}\.?[0-9]{3}-?[0-9]{2}", "br.cpf"),
    "india": NationalId(rb"aadha{1,2}r|uidai", rb"[2-9][0-9]{3}([ -]?)[0-9]{4}\1[0-9]{4}", "in_.aadhaar"),
    "gb": NationalId(rb"nhs", rb"[0-9]{3}([ -]?)[0-9]{3}\1[0-9]{4}", "gb.nhs"),
    "ch": NationalId(rb"ahv|avs", rb"756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}", "ch.ssn"),
    "de": NationalId(rb"steuer[ _-]?id(?:nr)?|idnr", rb"[1-9][0-9]([ ]?)[0-9]{3}\1[0-9]{3}\1[0-9]{3}", "de.idnr"),
}
NATIONAL_NAME = re.compile(
    rb"(?i)(?<![a-z])(?:%b)(?:[ _-]?(?:number|num|no|nr|id|nummer))?(?![A-Za-z])[^0-9+(\n]{0,24}\Z"
    % b"|".join(b"(?P<%b>%b)" % (country.encode(), kind.names) for country, kind in NATIONAL_IDS.items())
)
# A cheap look before any other: in lower case, what some name of a number that needs one holds, telephones too.
NAME_OF_NUMBER = re.compile(
    rb"ssn|social|itin|taxpayer|sin|pesel|dni|nie|nif|bsn|burger|nir|insee|curit|ro de s|cpf|aadh|uidai|nhs|ahv|avs"
    rb"|steuer|idnr|phone|tel|mobil|handy|fax|whatsapp|msisdn"
)


def find_national_id(number: bytes, before: bytes) -> tuple[int, str] | None:
    """Return where the id ends that `before` names, and its category; None when `number` is no such id."""
    name = NATIONAL_NAME.search(before)
    if name is None or name.lastgroup is None:
        return None
    kind = NATIONAL_IDS[name.lastgroup]
    hit = re.match(kind.form + rb"(?![0-9])", number)
    if hit is None or not any(is_valid(hit[0].decode().replace(" ", "")) for is_valid in load_checks(kind.modules)):
        return None
    return hit.end(), "ssn" if name.lastgroup == "us" else "national-id"


def require_checks(file: str, place: str = "") -> None:
    """Raise PolicyError where python-stdnum is not installed: who asks for `pii` gets the same on each machine.

    `file` and `place` are where that is asked for. Nobody asks where a trace is imported.
    """
    if load_checks(NATIONAL_IDS["us"].modules) == [bool]:
        what = "pii redacts national ids (national-id, ssn), whose check digits need python-stdnum"
        raise PolicyError(f"{what}: pip install 'frozen-agentreplay[pii]'", file=file, place=place)


@functools.cache
def load_checks(modules: str) -> list[Callable[[str], bool]]:
    """Return the checks of these modules of python-stdnum; one that takes every number where it is not installed."""
    try:
        return [importlib.import_module(f"stdnum.{module}").is_valid for module in modules.split()]
    except ImportError:
        return [bool]


CARD = re.compile(
    rb"(?<![0-9])(?:[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?|[0-9]{4}([ -])[0-9]{6}\2[0-9]{5}"
    rb"|[0-9]{19}|[0-9]{15,16})(?![0-9]|[.][0-9])"
)
# First digits by issuer, https://en.wikipedia.org/wiki/Payment_card_number: Visa 4, Mastercard 51 to 55 and 2221 to
# 2720, Maestro 50 and 56 to 58, Discover and UnionPay 6 and 81, JCB 35, RuPay 82; only American Express has 15 digits.
ISSUER = re.compile(rb"4|5[0-8]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720|20[0-4])|6(?:0|[2-9])|35(?:2[89]|[3-8])|81|82")
AMERICAN_EXPRESS = re.compile(rb"3[47]")
INTERNATIONAL = re.compile(
    rb"\+(?:\([1-9][0-9]{0,2}\)|[1-9])(?:[ ./-]?[0-9]|[ ]?\([0-9]{1,5}\)[ ]?[0-9]){6,14}(?![0-9])"
)
NORTH_AMERICAN = re.compile(
    rb"(?<![0-9])(?:1[ .-])?(?:\([2-9][0-9]{2}\)[ -]?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}(?![0-9])"
)
# The codes that are in use, https://www.itu.int/pub/T-SP-E.164D: none is 28, 291 to 296, 422, 424 to 429, 83, 87 or 89.
CALLING_CODE = re.compile(rb"[135679]|2(?:[0-7]|9[07-9])|4(?:[013-9]|2[013])|8[0124-68]")
# Digits of a number with its code, in countries where all numbers are of one length.
FULL_LENGTHS = {
    code.encode(): length
    for length, codes in ((11, "1 7 31 33 34 41 48 61"), (12, "91"), (13, "86"))
    for code in codes.split()
}
DATE = re.compile(rb"\+?(?:19|20)[0-9]{2}([-./])[0-9]{2}\1[0-9]{2}")
TELEPHONE_NAME = re.compile(
    rb"(?i)(?:phone|telefon|telephone|(?<![a-z])tel|mobile|mobil|handy|(?<![a-z])fax|whatsapp|msisdn)"
    rb"(?:[ _-]?(?:number|num|nummer|no|nr))?\.?[\\\"']{0,4}\s{0,3}[:=]?\s{0,3}[\\\"']{0,4}\Z"
)


def find_cards_and_telephones(number: bytes, before: bytes) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield what digits that hang together are, as (span in them, category); `before` may hold their name."""
    cards = [hit.span() for hit in CARD.finditer(number) if stands_alone(hit) and is_card(extract_digits(hit[0]))]
    if cards:
        yield from ((span, "credit-card") for span in cards)
    elif number.startswith(b"+"):
        if (end := find_international_end(number)) is not None:
            yield (0, end), "phone"
    elif (hit := NORTH_AMERICAN.search(number)) is not None and stands_alone(hit):
        yield hit.span(), "phone"
    elif TELEPHONE_NAME.search(before) and 7 <= len(extract_digits(number)) <= 15 and not DATE.match(number):
        yield (0, len(number)), "phone"


def stands_alone(hit: re.Match[bytes]) -> bool:
    """Return whether no further group hangs on by a hyphen or full stop: an ISBN, a serial number."""
    before, after = hit.string[: hit.start()][-1:], hit.string[hit.end() :][:1]
    return not {before, after} & {b"-", b".", b"/"}


def extract_digits(text: bytes) -> bytes:
    """Return the digits of a number, without what groups them."""
    return bytes(filter(b"0123456789".__contains__, text))


def is_card(digits: bytes) -> bool:
    """Return whether the issuer issues numbers of this length, and the check digit holds."""
    if len(set(digits)) == 1:
        return False
    return (AMERICAN_EXPRESS if len(digits) == 15 else ISSUER).match(digits) is not None and is_luhn(digits)


def is_luhn(digits: bytes) -> bool:
    """Return whether the last digit is the check digit by Luhn: ISO/IEC 7812-1, annex B."""
    values = [digit - 48 for digit in reversed(digits)]
    doubled = [value * 2 - 9 * (value > 4) for value in values[1::2]]
    return (sum(values[::2]) + sum(doubled)) % 10 == 0


def find_international_end(number: bytes) -> int | None:
    """Return where the number that begins with a `+` ends; None when it is none."""
    hit = INTERNATIONAL.match(number)
    if hit is None or DATE.match(number):
        return None
    digits = extract_digits(hit[0])
    if CALLING_CODE.match(digits) is None or len(digits) < 8:
        return None
    length = FULL_LENGTHS.get(digits[:2], FULL_LENGTHS.get(digits[:1], len(digits)))
    if len(digits) <= length:
        return hit.end() if len(digits) == length else None
    # Behind a number of full length another one may follow, but no digit at once.
    cut = re.match(rb"(?:[^0-9]*[0-9]){%d}(?![0-9])" % length, hit[0])
    return cut.end() if cut else None
