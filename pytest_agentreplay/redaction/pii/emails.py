"""E-mail addresses, found from their `@`: 64 characters at most before it, 253 bytes behind it.

Versions (`react@18.2.0`), pictures (`logo@2x.png`), digests, decorators, matrix products, remotes of git and users in
URLs are none. `user1@redacted.invalid` stands where an address was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.pii.hits import ESCAPE_TAIL
from pytest_agentreplay.redaction.secret_names import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.redaction.pii.hits import Hit

AT = re.compile(rb"(?<=[A-Za-z0-9_+\x80-\xff-])@(?=[A-Za-z0-9\x80-\xff])")
LOCAL_BACKWARDS = re.compile(r"(?:[\w+-][\w.+'~-]{0,62})?\w")
DOMAIN = re.compile(r"(?:\w(?:[\w-]{0,61}\w)?\.){1,8}(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})(?![\w(@]|-\w)")
REMOTE = re.compile(r":(?:[\w.~-]{0,64}/|[\w.-]{1,64}\.git|[0-9]{2,5}(?![0-9]))")
OURS = "redacted.invalid"
FILES = names(
    "png jpg jpeg gif svg webp ico bmp avif mp4 css scss js mjs cjs jsx ts tsx map json yaml yml toml lock md txt"
    " html py pyi rs go java rb php sh c cpp h zip tgz gz tar whl jar exe dll so service socket timer target mount"
)
REACH = 256


def find_emails(data: bytes) -> Iterator[Hit]:
    """Every e-mail address of a text."""
    if b"@" not in data:
        return
    for sign in AT.finditer(data):
        at = sign.start()
        local = local_part(data[max(at - REACH, 0) : at].decode(errors="ignore"))
        if not local:
            continue
        after = data[at + 1 : at + 1 + REACH + 80].decode(errors="ignore")
        if domain := domain_part(local, after):
            yield at - len(local.encode()), at + 1 + len(domain.encode()), "email"


def local_part(before: str) -> str:
    """What of the text before the `@` is the name of a mailbox; "" for none."""
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


def domain_part(local: str, after: str) -> str:
    """What of the text behind the `@` is a domain that gets mail; "" for none."""
    hit = DOMAIN.match(after)
    if hit is None or len(hit[0].encode()) > 253 or hit[0].lower() == OURS:
        return ""
    *labels, last = hit[0].lower().split(".")
    if last in FILES or (len(labels) > 1 and all(map(str.isdigit, labels))) or REMOTE.match(after, hit.end()):
        return ""
    if len(local) == len(labels[0]) == 1 and len(last) > 3:
        return ""  # A matrix product: w@x.mean
    return hit[0]
