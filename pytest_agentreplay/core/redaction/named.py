r"""Named values: what stands beside a name that says it is a secret, in JSON, YAML, .env files, headers, forms, URLs.

Names are found by the few words they are made of, since looking at every pair of a large body would cost too much; and
parameters by their `=`. Quotes may be escaped, any number of times: `\"password\": \"...\"` is read where it stands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.fields import SHORTEST, Strength, believed, strength
from pytest_agentreplay.core.redaction.secret_names import CATEGORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WORDS = (
    *(b"token", b"secret", b"pass", b"pwd", b"key", b"auth", b"credential", b"jwt", b"csrf", b"xsrf", b"otp", b"pin"),
    *(b"signature", b"security_answer", b"securityanswer"),
)
LONGEST = 4096
NAME = 64
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$-"
_ESCAPE_ENDS = re.compile(rb"\\(?:[ntrbf]|[ux][0-9A-Fa-f]{2,4})\Z")
_SEPARATOR = re.compile(
    rb"""(?P<rest>[\w-]{0,40})(?P<shut>\\{0,63}["']?)[ \t]{0,8}(?P<sign>=>|:=|[:=])(?P<space>[ \t]{0,8})"""
    rb"""(?:(?P<open>\\{0,63}["'])|[bru](?P<prefixed>["']))?"""
)
_CLOSED = {quote: re.compile(rb"[^%b\\]{1,%d}(?:\\.[^%b\\]*)*" % (quote, LONGEST, quote)) for quote in (b'"', b"'")}
_BARE = re.compile(rb"""[^\s"'<>()\[\]{}`|;,&\\]{1,4096}""")
_AFTER_COLON = re.compile(rb"""[^\s"'<>(){}`|,\\]{1,4096}""")
_PARAMETER = re.compile(rb"[?&#;,](?:[ \t]{0,2}|amp;)([\w.-]{1,40})=([^\s\"'<>()\[\]{}`|;,&\\]{6,4096})")
_SCHEME = re.compile(rb"(?i:bearer|basic|token|apikey|negotiate|digest)[ \t]+")


def find_named(text: bytes, names: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Where values stand that a name gives away, as (start, end, category); `names` are a project's, in lower case."""
    lower = text.lower()
    seen: set[int] = set()
    for word in (*WORDS, *(name.encode() for name in names)):
        at = lower.find(word)
        while at >= 0:
            hit = _SEPARATOR.match(text, at)
            if hit is not None and hit.end() not in seen:
                seen.add(hit.end())
                if (span := _value(text, at, hit, names)) is not None:
                    yield span
            at = lower.find(word, at + len(word))
    if b"=" in text:
        for found in _PARAMETER.finditer(text):
            said = strength(found[1].decode("ascii", "replace"))
            if said == "parameter" and believed(said, found[2], quoted=False):
                yield *found.span(2), CATEGORY


def _value(text: bytes, at: int, hit: re.Match[bytes], names: Mapping[str, str]) -> tuple[int, int, str] | None:
    name = _name(text, at, hit.end("rest"))
    own = names.get(name.lower())
    said: Strength = "strong" if own else strength(name)
    if said in {"", "parameter"}:
        return None
    opened = hit["open"] or hit["prefixed"]
    span = _quoted(text, hit.end(), opened) if opened else _bare(text, hit)
    if span is None:
        return None
    start, end = span
    if (scheme := _SCHEME.match(text, start, end)) is not None and end - scheme.end() >= SHORTEST:
        start = scheme.end()
    value = text[start:end]
    if own and (opened or value.isdigit()):
        return start, end, own
    return (start, end, own or CATEGORY) if believed(said, value, quoted=bool(opened)) else None


def _name(text: bytes, at: int, end: int) -> str:
    r"""The whole name of which the word at `at` is a part; the n of a `\n` before it is none of it."""
    before = text[max(0, at - NAME) : at]
    first = start = at - len(before) + len(before.rstrip(_LETTERS))
    if text[start - 1 : start] == b"\\":
        while start < at and _ESCAPE_ENDS.search(text, max(0, first - 1), start) is None:
            start += 1
        start = start if start < at else first
    return text[start:end].decode("utf-8", "replace")


def _quoted(text: bytes, start: int, opened: bytes) -> tuple[int, int] | None:
    """The value behind an opening quote, up to the quote that is escaped as often, or the end of a text cut off."""
    slashes = len(opened) - 1
    if not slashes:
        found = _CLOSED[opened].match(text, start)
        return None if found is None else found.span()
    at = text.find(opened, start)
    while at >= 0 and text[at - 1 : at] == b"\\":
        at = text.find(opened, at + len(opened))
    end = at if at >= 0 else len(text)
    return (start, end) if start < end <= start + LONGEST else None


def _bare(text: bytes, hit: re.Match[bytes]) -> tuple[int, int] | None:
    """The value behind a sign without quotes. `host:port` and a type behind a name are none."""
    quoted_name = hit["shut"].endswith((b'"', b"'"))
    if hit["sign"] == b":" and not hit["space"] and not quoted_name:
        return None
    found = (_BARE if hit["sign"] == b"=" or quoted_name else _AFTER_COLON).match(text, hit.end())
    return None if found is None else (found.start(), found.start() + len(found[0].rstrip(b".:")))
