"""Where a request goes: its URL in parts, and which hosts are this machine."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl, urlsplit

HIDDEN = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#@]*\[\[redacted:[^/?#@]*)@")
"""A placeholder in the user info."""
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in parts. `host` is in lower case, `port` None for the scheme's own, `path` as sent and never empty.

    `query` holds the decoded pairs in order; `userinfo` and `fragment` are "" when there are none.
    """

    scheme: str
    host: str
    port: int | None
    path: str
    query: tuple[tuple[str, str], ...] = ()
    userinfo: str = ""
    fragment: str = ""
    bare: tuple[str, ...] = ()
    """The names in the query that stand without a "=", which a server may tell from an empty value."""

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine: localhost, 127.0.0.0/8 or ::1."""
        return is_loopback(self.host)


@lru_cache(maxsize=512)
def split(url: str) -> Url:
    """The parts of `url`; what no parser takes is a path of its own, never an error."""
    hidden = HIDDEN.match(url)  # to a parser its brackets are those of IPv6
    try:
        found = urlsplit(hidden[1] + url[hidden.end() :] if hidden else url)
        host, port = (found.hostname or "").rstrip("."), found.port
    except ValueError:
        return Url("", "", None, url)
    return Url(
        scheme=found.scheme,
        host=host,
        port=None if port == DEFAULT_PORTS.get(found.scheme) else port,
        path=found.path or "/",
        query=pairs(found.query),
        userinfo=hidden[2] if hidden else found.netloc.rpartition("@")[0],
        fragment=found.fragment,
        bare=tuple(part for part in found.query.split("&") if part and "=" not in part),
    )


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The decoded name and value pairs of a query or form; bytes that are no UTF-8 stay distinct."""
    return tuple(parse_qsl(text, keep_blank_values=True, errors="surrogateescape"))


@lru_cache(maxsize=512)
def is_loopback(host: str) -> bool:
    """Whether `host`, as a URL gives it, is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_this_host(host: str) -> bool:
    """Whether `host` is one of the usual names of this machine, which a client may use for one another.

    A name below .localhost and another address of 127.0.0.0/8 are given on purpose, to tell services apart.
    """
    return host in {"localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"}
