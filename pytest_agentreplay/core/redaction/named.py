r"""Named values: what stands beside a name that says it is a secret, in JSON, YAML, .env files, headers, forms, URLs.

Names are found by the few words they are made of, since looking at every pair of a large body would cost too much; and
parameters by their `=`. Quotes may be escaped, any number of times: `\"password\": \"...\"` is read where it stands.
A name and its value may be two members as well, or two items: `{"name": "X-Api-Key", "value": "..."}`, `["X-Api-Key",
"..."]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.blocks import find_block
from pytest_agentreplay.core.redaction.fields import (
    SHORTEST_VALUE,
    VAGUE,
    Strength,
    believed,
    is_drawn,
    is_generated,
    looks_random,
    strength,
)
from pytest_agentreplay.core.redaction.secret_names import CATEGORY
from pytest_agentreplay.core.redaction.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WORDS = (
    *(b"token", b"secret", b"pass", b"pwd", b"key", b"auth", b"credential", b"jwt", b"csrf", b"xsrf", b"otp", b"pin"),
    *(b"signature", b"security_answer", b"securityanswer", b"sessid", b"psk", b"_pat", b"recovery", b"backup"),
)
SHARED = {b"sec": (b"secret", b"security_answer", b"securityanswer"), b"srf": (b"csrf", b"xsrf")}
"""Parts that several of the words share: where one is absent, none of its words is searched for."""
LONGEST = 4096
NAME = 64
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$-"
_ESCAPE_ENDS = re.compile(rb"\\(?:[ntrbf]|[ux][0-9A-Fa-f]{2,4})\Z")
SEPARATOR = re.compile(
    rb"""(?P<rest>[\w-]{0,40})(?P<shut>\\{0,63}["'`]?)"""
    rb"""(?:[ \t]{0,4}:[ \t]{0,4}(?:[sS]tr(?:ing)?|bytes|SecretStr|Optional\[str\]|str \| None)[ \t]{0,4}(?==))?"""
    rb"""(?:(?:[\s,]|\\[nrt]){1,16}\\{0,63}["']?value\\{0,63}["']?[ \t]{0,4}[:=][ \t]{0,4}"""
    rb"""|[ \t]{0,8}(?P<sign>=>|:=|[:=]|,(?=\s{0,8}[bru]?\\{0,63}["']))(?P<space>[ \t]{0,8}))"""
    rb"""(?:(?:\[\s{0,8})?(?P<open>\\{0,63}["'`])|(?:[bBrRuUfF]{1,2}|[$@]{1,2})(?P<prefixed>\\{0,63}["'`]))?"""
)
"""What stands between the word in a name and its value: the rest of the name, a sign, the quotes of both."""
_CLOSED = {
    quote: re.compile(rb"[^%b\\]{1,%d}(?:\\.[^%b\\]*)*" % (quote, LONGEST, quote)) for quote in (b'"', b"'", b"`")
}
_BARE = re.compile(rb"""[^\s"'<>()\[\]{}`|;,&\\]{1,4096}""")
_AFTER_COLON = re.compile(rb"""[^\s"'<>(){}`|,\\]{1,4096}""")
_PARAMETER = re.compile(rb"(?:\A|[?&#;,\"'](?:[ \t]{0,2}|amp;))([\w.-]{1,40})=([^\s\"'<>()\[\]{}`|;,&\\]{6,4096})")
_SCHEME = re.compile(rb"(?i:bearer|basic|token|apikey|negotiate|digest)[ \t]+")
_ANY_SCHEME = re.compile(rb"[A-Za-z][\w-]{1,30}[ \t]{1,4}(?=[^\s\"'<>(){}`|,\\]{12})")
_SIGNED = re.compile(rb"""[^\s"'<>(){}`|\\]{1,4096}""")


def find_named(text: bytes, names: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Where values stand that a name gives away, as (start, end, category); `names` are a project's, in lower case."""
    lower = text.lower()
    seen: set[int] = set()
    columns = Columns(text)
    absent = {word for part, words in SHARED.items() if part not in lower for word in words}
    for word in (word for word in (*WORDS, *(name.encode() for name in names)) if word not in absent):
        at = lower.find(word)
        while at >= 0:
            hit = SEPARATOR.match(text, at)
            if hit is not None and hit.end() not in seen:
                seen.add(hit.end())
                if (span := _value(text, at, hit, names)) is not None:
                    yield span
                yield from _block(text, at, hit, names)
            yield from columns.below(at)
            at = lower.find(word, at + len(word))
    if b"=" in text:
        for found in _PARAMETER.finditer(text):
            name = found[1].decode("ascii", "replace")
            said = strength(name)
            sure = said == "parameter" and believed(said, found[2], quoted=False)
            if sure or (name.lower() in VAGUE and is_generated(found[2])):
                yield *found.span(2), CATEGORY


def _block(text: bytes, at: int, hit: re.Match[bytes], names: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """The lines of a block behind a name and its sign, where one begins there."""
    opened = hit["open"] or hit["prefixed"]
    if opened is None and (hit["sign"] != b":" or text[hit.end() : hit.end() + 1] not in (b"|", b">", b"!")):
        return
    if opened is not None and not text.startswith(opened, hit.end()):
        return
    name = _name(text, at, hit.end("rest"))
    own = names.get(name.lower())
    said: Strength = "strong" if own else strength(name)
    if said not in {"", "parameter"}:
        yield from ((*span, own or CATEGORY) for span in find_block(text, hit.end(), said, opened))


def _value(text: bytes, at: int, hit: re.Match[bytes], names: Mapping[str, str]) -> tuple[int, int, str] | None:
    name = _name(text, at, hit.end("rest"))
    own = names.get(name.lower())
    said: Strength = "strong" if own else strength(name)
    if said in {"", "parameter"}:
        return None
    opened = hit["open"] or hit["prefixed"]
    span = quoted(text, hit.end(), opened) if opened else _bare(text, hit, name)
    if span is None:
        return None
    start, end = without_scheme(text, *span, name)
    value = text[start:end]
    if own and (opened or value.isdigit()):
        return start, end, own
    if hit["sign"] == b",":  # two items of a list: the one before may be a word among others
        return (start, end, own or CATEGORY) if is_generated(value) or is_drawn(value) else None
    if name.lower().endswith("signature"):
        value = value.replace(b",", b"=")
    return (start, end, own or CATEGORY) if believed(said, value, quoted=bool(opened)) else None


def without_scheme(text: bytes, start: int, end: int, name: str) -> tuple[int, int]:
    """The value without a scheme before it: any word, where the name says that there is one."""
    if name.lower().endswith("authorization") and (scheme := _ANY_SCHEME.match(text, start)) is not None:
        rest = _AFTER_COLON.match(text, scheme.end())
        if rest is not None and rest.end() >= end and looks_random(rest[0]) and b"=" not in rest[0].rstrip(b"="):
            return rest.span()
    if (scheme := _SCHEME.match(text, start, end)) is not None and end - scheme.end() >= SHORTEST_VALUE:
        start = scheme.end()
    return start, end


def _name(text: bytes, at: int, end: int) -> str:
    r"""The whole name of which the word at `at` is a part; the n of a `\n` before it is none of it."""
    before = text[max(0, at - NAME) : at]
    first = start = at - len(before) + len(before.rstrip(_LETTERS))
    if text[start - 1 : start] == b"\\":
        while start < at and _ESCAPE_ENDS.search(text, max(0, first - 1), start) is None:
            start += 1
        start = start if start < at else first
    return text[start:end].decode("utf-8", "replace")


def quoted(text: bytes, start: int, opened: bytes) -> tuple[int, int] | None:
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


def _bare(text: bytes, hit: re.Match[bytes], name: str) -> tuple[int, int] | None:
    """The value behind a sign without quotes. `host:port` and a type behind a name are none."""
    quoted_name = hit["shut"].endswith((b'"', b"'"))
    if hit["sign"] == b":" and not hit["space"] and not quoted_name:
        return None
    after = _SIGNED if name.lower().endswith("signature") else _AFTER_COLON
    found = (_BARE if hit["sign"] == b"=" or quoted_name else after).match(text, hit.end())
    return None if found is None else (found.start(), found.start() + len(found[0].rstrip(b".:")))
