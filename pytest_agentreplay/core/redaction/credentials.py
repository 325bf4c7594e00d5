"""Credentials that a word beside them gives away: schemes of headers, passwords in URLs, cookies, private keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.fields import is_stand_in, looks_random
from pytest_agentreplay.core.redaction.headers import COOKIE_SHORTEST
from pytest_agentreplay.core.redaction.secret_names import CATEGORY

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 8192
LEAST = 16
_BEGIN = b"-----BEGIN "
_BEGINS = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_ENDS = re.compile(rb"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_REST = re.compile(rb"[A-Za-z0-9+/=\s]*")
_SCHEMES = (b"bearer", b"basic", b"token", b"apikey", b"negotiate")
_AFTER_SCHEME = re.compile(rb"[ \t]{1,4}(?:token=)?[\"']?(?P<value>[A-Za-z0-9._~+/%-]{12,4096}={0,2})")
_USERINFO = re.compile(rb"""://[^\s/:@"'<>\\?#]{0,256}:(?P<value>[^\s/"'<>\\?#]{1,256})@""")
_COOKIES = re.compile(rb"[ \t]*:[ \t]*(?P<pairs>[^\r\n\"']{1,8192})|\"[ \t]*:[ \t]*\"(?P<quoted>[^\"\\]{1,8192})")
_PAIR = re.compile(rb"(?P<name>[^=;\s]+)=(?P<value>\"?[^;\"\s]+)")
_ATTRIBUTES = frozenset((b"expires", b"path", b"domain", b"max-age", b"samesite", b"version"))


def find_credentials(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Where credentials of all these kinds stand, as (start, end, category), in no order."""
    lower = text.lower()
    if _BEGIN in text:
        yield from find_private_keys(text)
    if b"://" in text:
        for hit in _USERINFO.finditer(text):
            if not is_stand_in(hit["value"]):
                yield *hit.span("value"), CATEGORY
    if b"cookie" in lower:
        yield from find_cookies(text, lower)
    for scheme in _SCHEMES:
        at = lower.find(scheme)
        while at >= 0:
            found = _AFTER_SCHEME.match(text, at + len(scheme))
            if found is not None and is_token(scheme, found["value"]):
                category = "basic" if scheme == b"basic" else CATEGORY
                yield found.start("value"), found.start("value") + len(found["value"].rstrip(b".")), category
            at = lower.find(scheme, at + len(scheme))


def is_token(scheme: bytes, value: bytes) -> bool:
    """Whether what follows a scheme is no word of a sentence."""
    if is_stand_in(value):
        return False
    return looks_random(value) or (scheme == b"basic" and value.endswith(b"="))


def find_private_keys(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Private keys in their armour. One without its end, cut off, ends where no more of it can stand."""
    at = 0
    while (begin := _BEGINS.search(text, at)) is not None:
        limit = begin.end() + BLOCK
        if (end := _ENDS.search(text, begin.end(), limit)) is not None:
            stop = end.end()
        else:
            rest = _REST.match(text, begin.end(), limit)
            assert rest is not None
            stop = begin.end() + len(rest[0].rstrip())
        if stop - begin.end() >= LEAST:
            yield begin.start(), stop, "private-key"
        at = stop


def find_cookies(text: bytes, lower: bytes) -> Iterator[tuple[int, int, str]]:
    """The values of cookies that are long enough to be a session, in lines and JSON members named Cookie."""
    at = lower.find(b"cookie")
    while at >= 0:
        at += len(b"cookie")
        if (found := _COOKIES.match(text, at)) is None:
            at = lower.find(b"cookie", at)
            continue
        group = "pairs" if found["pairs"] is not None else "quoted"
        for pair in _PAIR.finditer(text, *found.span(group)):
            value = pair["value"].lstrip(b'"')
            if len(value) >= COOKIE_SHORTEST and pair["name"].lower() not in _ATTRIBUTES and not is_stand_in(value):
                yield pair.end("value") - len(value), pair.end("value"), "cookie"
        at = lower.find(b"cookie", found.end())
