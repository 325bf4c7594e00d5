"""Public network addresses, for strict policies only. Private, local and documentation ranges stay; so do versions."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.pii.hits import begins_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.redaction.pii.hits import Hit

FOUR = re.compile(rb"[0-9][0-9]{0,2}(?:\.[0-9]{1,3}){3}(?![A-Za-z0-9_]|[.-][A-Za-z0-9])")
SIX = re.compile(rb"[0-9A-Fa-f][0-9A-Fa-f]{0,3}(?::{1,2}[0-9A-Fa-f]{1,4}){2,7}(?:::)?(?![A-Za-z0-9_:])")
VERSION = re.compile(rb"[A-Za-z]/|.?[.:-]", re.DOTALL)


def find_addresses(data: bytes) -> Iterator[Hit]:
    """Every public IPv4 and IPv6 address of a text."""
    for pattern in (FOUR, SIX):
        for hit in pattern.finditer(data):
            start = hit.start()
            if VERSION.fullmatch(data, max(start - 2, 0), start) or not begins_at(data, start):
                continue
            if is_public(hit[0].decode()):
                yield *hit.span(), "ip"


def is_public(text: str) -> bool:
    """Whether the address is one of the open network."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast
