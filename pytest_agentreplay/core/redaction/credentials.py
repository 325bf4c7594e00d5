"""Credentials that a word beside them gives away: schemes of headers, parts of URLs, cookies, private keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.fields import is_generated, is_stand_in, looks_random
from pytest_agentreplay.core.redaction.headers import COOKIE_SHORTEST
from pytest_agentreplay.core.redaction.named import SEPARATOR, quoted
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
_USERINFO = re.compile(rb"""://(?P<user>[^\s/:@"'<>\\?#]{0,256})(?::(?P<password>[^\s/"'<>\\?#]{1,256}))?@""")
_HEX_KEY = re.compile(rb"[0-9a-f]{32,}\Z")
_LINE = re.compile(rb"""(?:[^\r\n"'=]|=(?:\\{0,63}"[^\r\n"]*")?){1,8192}""")
_PAIR = re.compile(rb"""(?P<name>[^=;\s"'\\]+)=\\{0,63}"?(?P<value>[^;"'\s\\]+)""")
_LONE = re.compile(rb"[^=;,\s\"'\\<>&]{16,}")
_ATTRIBUTES = frozenset((b"expires", b"path", b"domain", b"max-age", b"samesite", b"version"))
_PATHS = (
    # https://core.telegram.org/bots/api#authorizing-your-bot; the digits are the id of the bot.
    (b"/bot", re.compile(rb"(?P<value>[0-9]{4,12}:[\w-]{30,64})(?![\w-])"), "telegram-key"),
    # https://api.slack.com/messaging/webhooks
    (
        b"/services/T",
        re.compile(rb"[A-Z0-9]{5,12}/B[A-Z0-9]{5,12}/(?P<value>[A-Za-z0-9]{16,32})(?![\w-])"),
        "slack-webhook",
    ),
    # https://discord.com/developers/docs/resources/webhook
    (b"/webhooks/", re.compile(rb"[0-9]{15,22}/(?P<value>[\w-]{40,100})(?![\w-])"), "discord-webhook"),
    # Mattermost's ids are 26 characters of z-base-32, which has no "0", "2", "l" and "v".
    (b"/hooks/", re.compile(rb"(?P<value>[13-9a-km-uw-z]{26})(?![\w-])"), CATEGORY),
    # https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
    (b"/bot/v2/hook/", re.compile(rb"(?P<value>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?![\w-])"), CATEGORY),
    # https://ifttt.com/maker_webhooks
    (b"/with/key/", re.compile(rb"(?P<value>[\w-]{16,64})(?![\w-])"), CATEGORY),
)
"""What stands before a credential in the path of a URL, the form of what follows, and its category."""


def find_credentials(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Where credentials of all these kinds stand, as (start, end, category), in no order."""
    lower = text.lower()
    if _BEGIN in text:
        yield from find_private_keys(text)
    if b"://" in text:
        yield from find_userinfo(text)
    yield from find_in_paths(text)
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


def find_userinfo(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Passwords in URLs, and what stands there alone and is no user's name: a token, the key of a DSN."""
    for hit in _USERINFO.finditer(text):
        user, password = hit["user"], hit["password"]
        if password is not None and not is_stand_in(password):
            yield *hit.span("password"), CATEGORY
        if is_generated(user) or _HEX_KEY.match(user) is not None:
            yield *hit.span("user"), CATEGORY


def find_in_paths(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Return where services that take their credential in the path have it, on whatever host."""
    for before, form, category in _PATHS:
        at = text.find(before)
        while at >= 0:
            at += len(before)
            hit = form.match(text, at)
            if hit is not None and looks_random(hit["value"].rpartition(b":")[2]) and not is_stand_in(hit["value"]):
                yield *hit.span("value"), category
            at = text.find(before, at)


def find_cookies(text: bytes, lower: bytes) -> Iterator[tuple[int, int, str]]:
    """The values of cookies that are long enough to be a session, in lines and members named Cookie."""
    at = lower.find(b"cookie")
    while at >= 0:
        at += len(b"cookie")
        found = SEPARATOR.match(text, at)
        if found is not None and found["rest"] in {b"", b"2", b"s"} and (span := _cookies(text, found)) is not None:
            yield from _sessions(text, *span)
            at = max(at, span[1])
        at = lower.find(b"cookie", at)


def _cookies(text: bytes, found: re.Match[bytes]) -> tuple[int, int] | None:
    """Where the cookies stand: between quotes, or up to the end of the line."""
    if opened := found["open"] or found["prefixed"]:
        return quoted(text, found.end(), opened)
    line = None if found["shut"] else _LINE.match(text, found.end())
    return None if line is None else line.span()


def _sessions(text: bytes, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """What looks like a session among the cookies of a line; one may stand there without a name."""
    for pair in _PAIR.finditer(text, start, end):
        value = pair["value"]
        if len(value) >= COOKIE_SHORTEST and pair["name"].lower() not in _ATTRIBUTES and not is_stand_in(value):
            yield *pair.span("value"), "cookie"
    lone = _LONE.match(text, start, end)
    if lone is not None and text[lone.end() : lone.end() + 1] != b"=" and looks_random(lone[0]):
        yield *lone.span(), "cookie"
