"""Credentials by their shape: what stands where only a credential does, whatever its name and whoever issued it.

    -----BEGIN PRIVATE KEY-----      a block of base64 in armour
    Bearer VALUE      behind a scheme of the header Authorization, also in a text
    https://user:VALUE@host      what a URL says of its user
    https://host/bot123:VALUE/      the path of a URL whose service takes its credential there

A scheme is a word of sentences too, so what follows it has to look random. Keys that their vendor gave a form of their
own are in `vendors`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.encodings import find_everywhere
from pytest_agentreplay.redaction.secret_names import CATEGORY, is_generated, is_stand_in, looks_random

if TYPE_CHECKING:
    from collections.abc import Iterator

# An RSA key of 4,096 bits takes 3,300 bytes in armour, an OpenPGP key with its signatures more.
LONGEST_BLOCK = 8192
SHORTEST_BLOCK = 16
# RFC 7468, section 2; OpenPGP adds BLOCK (RFC 9580, section 6.2).
_BEGINS = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_ENDS = re.compile(rb"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_REST = re.compile(rb"[A-Za-z0-9+/=\s]*")
# RFC 9110, section 11.4: a scheme, a space, and a token68.
_SCHEMES = (b"bearer", b"basic", b"token", b"apikey", b"negotiate")
_AFTER_SCHEME = re.compile(rb"[ \t]{1,4}(?:token=)?[\"']?(?P<value>[A-Za-z0-9._~+/%-]{12,4096}={0,2})")
# RFC 3986, section 3.2.1.
_USERINFO = re.compile(rb"""://(?P<user>[^\s/:@"'<>\\?#]{0,256})(?::(?P<password>[^\s/"'<>\\?#]{1,256}))?@""")
_HEX_KEY = re.compile(rb"[0-9a-f]{32,}\Z")
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


def find_private_keys(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield private keys in their armour. One without its end, cut off, ends where no more of it can stand."""
    at = 0
    while b"-----BEGIN " in text and (begin := _BEGINS.search(text, at)) is not None:
        limit = begin.end() + LONGEST_BLOCK
        if (end := _ENDS.search(text, begin.end(), limit)) is not None:
            stop = end.end()
        else:
            rest = _BLOCK_REST.match(text, begin.end(), limit)
            assert rest is not None
            stop = begin.end() + len(rest[0].rstrip())
        if stop - begin.end() >= SHORTEST_BLOCK:
            yield begin.start(), stop, "private-key"
        at = stop


def find_userinfo(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield passwords in URLs, and what stands there alone and is no user's name: a token, the key of a DSN."""
    for hit in _USERINFO.finditer(text):
        user, password = hit["user"], hit["password"]
        if password is not None and not is_stand_in(password):
            yield *hit.span("password"), CATEGORY
        if is_generated(user) or _HEX_KEY.match(user) is not None:
            yield *hit.span("user"), CATEGORY


def find_in_paths(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield where services that take their credential in the path have it, on whatever host."""
    for before, form, category in _PATHS:
        for at in find_everywhere(before, text) if before in text else ():
            hit = form.match(text, at + len(before))
            if hit is not None and looks_random(hit["value"].rpartition(b":")[2]) and not is_stand_in(hit["value"]):
                yield *hit.span("value"), category


def find_behind_schemes(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield what follows a scheme of Authorization and is no word of a sentence."""
    lower = text.lower()
    for scheme in _SCHEMES:
        for at in find_everywhere(scheme, lower) if scheme in lower else ():
            hit = _AFTER_SCHEME.match(text, at + len(scheme))
            value = b"" if hit is None else hit["value"]
            # Basic is base64 of a name and a password, of which a short one may have no digit.
            is_token = looks_random(value) or (scheme == b"basic" and value.endswith(b"="))
            if hit is not None and is_token and not is_stand_in(value):
                end = hit.start("value") + len(value.rstrip(b"."))
                yield hit.start("value"), end, "basic" if scheme == b"basic" else CATEGORY
