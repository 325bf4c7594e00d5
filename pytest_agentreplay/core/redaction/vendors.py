r"""Vendors: credentials that are known by their looks, because who issues them gives them a prefix of their own.

The patterns (`vendor_table`) are our own, over bytes, in the syntax that RE2 shares with `re`. None says what follows,
since a key may be followed by anything, `\"` and `&` included; what comes before is `BORDER`.

Linear by construction: a repeat without bound is made of `[A-Za-z0-9_-]` alone, none of which is a border, or what
follows it may be nothing; so no byte is read by more than a few attempts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.vendor_table import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BORDER = (
    rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    rb"|(?<=\x1b\[[0-9]m)|(?<=[\[;][0-9]{2}m)|(?<=/bot))"
)
"""What stands before a key: no letter, digit, `_` or `-`; or an escape that ends in one (`\\n`, `%3D`, a colour)."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """One kind of key. `prefix` and `body` are patterns; `looks` is what the body must look like beyond them."""

    category: str
    name: str
    prefix: bytes
    body: bytes
    looks: str

    @property
    def pattern(self) -> bytes:
        """The whole key as a pattern."""
        return self.prefix + self.body

    def holds(self, value: bytes) -> bool:
        """Whether `value`, which the pattern matches, is a key: `sk-ant-your-key-goes-here` is not."""
        if self.looks == "fixed":
            return not value.endswith(b"EXAMPLE")
        hit = re.match(self.prefix, value)
        assert hit is not None
        body = value[hit.end() :]
        return looks_random(body) and (self.looks != "mixed" or is_mixed(body))


def rows() -> Iterator[Vendor]:
    """The table, row by row."""
    for line in TABLE.strip().splitlines():
        category, name, prefix, body, *looks = re.split(" {2,}", line.strip())
        yield Vendor(category, name, prefix.encode(), body.encode(), *looks or ["random"])


VENDORS = tuple(rows())
SEPARATOR = re.compile(rb"[^A-Za-z0-9]")
WORD = re.compile(rb"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*[A-Z]?|[A-Z]*)[0-9]{0,4}|[0-9]+")
LONG_PART = 20
BASE64 = re.compile(rb"[A-Za-z0-9+/]{64}")


def looks_random(body: bytes) -> bool:
    """Whether some part of `body` is neither a word, nor a number, nor a name in camel case, nor `xxxxxx`."""
    return len(set(body)) > 5 and any(map(is_random, SEPARATOR.split(body)))


def is_random(part: bytes) -> bool:
    """Whether letters and digits are mixed as chance mixes them."""
    return len(part) > 5 and WORD.fullmatch(part) is None


def is_mixed(body: bytes) -> bool:
    """Whether both cases occur or much stands in one piece: for prefixes that names in kebab case have as well."""
    return body not in (body.lower(), body.upper()) or max(map(len, SEPARATOR.split(body))) >= LONG_PART


SHORTEST = 20
KEY_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~:+/=@$-"
RUN = bytes(65 if char in KEY_BYTES else 32 for char in range(256))


HEAD = re.compile(rb"\[[^\]]+\]|\(\?:([^)]+)\)|.")
"""How a prefix begins: with one character of a class, with one of several words, or with a character."""


@cache
def heads() -> tuple[tuple[Vendor, bytes], ...]:
    """Return each row with the characters that its keys begin with; b"" where they begin with a class of many."""
    found = []
    for vendor in VENDORS:
        head = HEAD.match(vendor.prefix)
        assert head is not None
        words = head[1].split(b"|") if head[1] else [head[0]]
        found.append((vendor, b"" if head[0][:1] == b"[" else b"".join(word[:1] for word in words)))
    return tuple(found)


@cache
def any_beginning_with(first: bytes) -> re.Pattern[bytes] | None:
    """Return all rows in one pattern whose keys begin with the character `first`; b"" is for those with a class.

    Compiling all rows takes some 40 ms, and a test meets few first characters. Groups would cost tenfold.
    """
    patterns = [vendor.pattern for vendor, head in heads() if (first in head if first else not head)]
    return re.compile(b"|".join(patterns)) if patterns else None


def match_at(data: bytes, at: int) -> re.Match[bytes] | None:
    """Match the first row whose pattern fits at `at`; whether it is a key, `vendor_at` tells."""
    first = data[at : at + 1]
    by_class, by_first = any_beginning_with(b""), any_beginning_with(first) if first else None
    hit = by_class.match(data, at) if by_class is not None else None
    other = by_first.match(data, at) if by_first is not None else None
    if hit is None or other is None:
        return hit or other
    return next(found for _, match in matchers(first) if (found := match(data, at)) is not None)


@cache
def starts() -> re.Pattern[bytes]:
    """Where a key may begin."""
    return re.compile(BORDER + rb"[A-Za-z0-9_~.]")


ESCAPED = 10
"""So far into a run an escape before it may reach: `\\u0022`, `%3D`, the number of a colour."""
ESCAPES = frozenset((b"", b"\\", b"%", b"[", b";"))
"""What may stand before a run that begins with the end of an escape; no other run needs the search for one."""
FIRST = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~")
BOT = re.compile(rb"/bot[A-Za-z0-9_~.]")
SIGN = re.compile(rb"[.~:+/=@$](?=[A-Za-z0-9_~.])")


def borders_in(data: bytes, begin: int, end: int) -> Iterator[int]:
    """Where in a run a key may begin, in order: at its head, behind a sign, and behind an escape that ends in it."""
    head = begin
    if data[begin - 1 : begin] in ESCAPES:
        head = min(begin + ESCAPED, end)
        for start in starts().finditer(data, begin, head):
            yield start.start()
    elif begin < end and data[begin] in FIRST:
        head = begin + 1
        yield begin
    for sign in SIGN.finditer(data, max(begin, head - 4), end):
        at = sign.end()
        if head <= at < end:
            yield at
        if head <= at + 3 < end and BOT.match(data, at - 1) is not None:
            yield at + 3


@cache
def matchers(first: bytes) -> tuple[tuple[Vendor, Callable[[bytes, int], re.Match[bytes] | None]], ...]:
    """Return every row whose keys may begin with `first`, with what matches it, for the few places where one does."""
    rows = (vendor for vendor, head in heads() if not head or first in head)
    return tuple((vendor, re.compile(vendor.pattern).match) for vendor in rows)


def vendor_at(data: bytes, at: int) -> tuple[int, str] | None:
    """Where the key that begins at `at` ends, and its category."""
    for vendor, match in matchers(data[at : at + 1]):
        hit = match(data, at)
        if hit is not None and vendor.holds(hit[0]):
            return None if within_base64(data, at) else (hit.end(), vendor.category)
    return None


def within_base64(data: bytes, at: int) -> bool:
    """Whether what stands before is long base64, in which `/` and `+` are no borders and any four letters occur."""
    return data[at - 1 : at] in (b"/", b"+") and BASE64.fullmatch(data, max(at - 64, 0), at) is not None


MEDIA = 4096
"""So long a run without a full stop is a picture, a sound or a file in base64: it is hashed, and not looked at."""


def find_vendors(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Every key in a text, in order, as (start, end, category). Looks only where enough characters of a key stand.

    What looks like a key and holds no part that looks random is read once: there is none inside it either.
    """
    flat, run = data.translate(RUN), b"A" * SHORTEST
    begin, done = flat.find(run), 0
    while begin >= 0:
        end = flat.find(b" ", begin)
        end = len(data) if end < 0 else end
        media = end - begin >= MEDIA and b"." not in data[begin:end]
        for at in () if media else borders_in(data, begin, end - SHORTEST + 1):
            if at < done or (hit := match_at(data, at)) is None:
                continue
            if (found := vendor_at(data, at)) is None:
                done = hit.end()
            else:
                done, category = found
                yield at, done, category
        begin = flat.find(run, end)
