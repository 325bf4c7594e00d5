"""Where a request goes: its URL in parts, and which hosts are this machine.

Which local service of now stands for which recorded one.

A server of a test listens on a new port in every run, so ports are not compared; which of them are the same service is
learned from the calls instead, one to one over the run. All work is bounded by the number of local services.

What a body holds once its content-encoding is undone: JSON, a form, the parts of a multipart, or bytes.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.model.content_coding import Opaque, decode, is_coded
from pytest_agentreplay.model.exchanges import Body, Call, Headers, Json, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable


HIDDEN = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#@]*\[\[redacted:[^/?#@]*)@")
"""A placeholder in the user info."""
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Url(NamedTuple):
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
    """Return the parts of `url`; what no parser takes is a path of its own, never an error."""
    hidden = HIDDEN.match(url)  # to a parser its brackets are those of IPv6
    try:
        parts = urlsplit(hidden[1] + url[hidden.end() :] if hidden else url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return Url("", "", None, url)
    return Url(
        scheme=parts.scheme,
        host=host,
        port=None if port == DEFAULT_PORTS.get(parts.scheme) else port,
        path=parts.path or "/",
        query=pairs(parts.query),
        userinfo=hidden[2] if hidden else parts.netloc.rpartition("@")[0],
        fragment=parts.fragment,
        bare=tuple(part for part in parts.query.split("&") if part and "=" not in part),
    )


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Return the decoded name and value pairs of a query or form; bytes that are no UTF-8 stay distinct."""
    return tuple(parse_qsl(text, keep_blank_values=True, errors="surrogateescape"))


@lru_cache(maxsize=512)
def is_loopback(host: str) -> bool:
    """Return whether `host`, as a URL gives it, is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_this_host(host: str) -> bool:
    """Return whether `host` is one of the usual names of this machine, which a client may use for one another.

    A name below .localhost and another address of 127.0.0.0/8 are given on purpose, to tell services apart.
    """
    return host in {"localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"}


Authority: TypeAlias = str | None
"""Host and port of a local service, "localhost:8123"; None for a call that goes to none."""


class Authorities:
    """The local services of a recorded run, and those of now that stand for them."""

    def __init__(self, calls: Iterable[Call]) -> None:
        """Take the recorded calls."""
        self.recorded = tuple(dict.fromkeys(authority(call) for call in calls))
        self._recorded_by_now: dict[str, str] = {}
        self._moved = False

    def options(self, now: Authority) -> tuple[Authority, ...]:
        """The recorded services that `now` may be: the one it stands for, else itself, else those nobody stands for."""
        if now is None:
            return (None,)
        if (recorded := self._recorded_by_now.get(now)) is not None:
            return (recorded,)
        taken = self._recorded_by_now.values()
        # A port that was recorded is that same service, unless this run has new ports: then it is a coincidence.
        if now in self.recorded and now not in taken and not self._moved:
            return (now,)
        return tuple(service for service in self.recorded if service is not None and service not in taken)

    def bind(self, now: Authority, recorded: Authority) -> None:
        """`now` stands for `recorded` from here on."""
        if now is not None and recorded is not None and now not in self._recorded_by_now:
            self._recorded_by_now[now] = recorded
            self._moved = self._moved or now != recorded

    def find_recorded(self, now: Authority) -> str | None:
        """Return the recorded service that `now` stands for, if it is known."""
        return None if now is None else self._recorded_by_now.get(now)

    def find_current(self, recorded: Authority) -> str | None:
        """Return the service of now that stands for `recorded`, if it is known."""
        return next((name for name, service in self._recorded_by_now.items() if service == recorded), None)


def authority(call: Call) -> Authority:
    """Return the local service that a call goes to; `localhost`, 127.0.0.1 and ::1 are one host."""
    return None if isinstance(call, ToolCall) else _authority(call.url)


@lru_cache(maxsize=512)
def _authority(url: str) -> Authority:
    parts = split(url)
    if not is_loopback(parts.host):
        return None
    host = "localhost" if is_this_host(parts.host) else parts.host
    return f"{host}:{parts.port or DEFAULT_PORTS.get(parts.scheme, 0)}"


_CHAR = rb"(?:[\w.~!*'()$+,;:@/?\[\]-]|%[0-9A-Fa-f]{2})"
_FIELD = rb"%b+=(?:%b|=)*" % (_CHAR, _CHAR)
_FORM = re.compile(rb"(?:%b(?:&%b)*)?" % (_FIELD, _FIELD), re.ASCII)
"""Fields as an encoder writes them. urllib and curl give any body the type of a form, JSON and plain text too; one that
holds what an encoder would have encoded, or a part without a "=", is none."""


class MatchContent(NamedTuple):
    """A body as its headers say to read it.

    `tree` is the JSON value; for a form each name with its value (a list where it is repeated); for a multipart its
    parts `{"headers", "body"}` between the texts before and after them, where a body that is no text is `{"sha256",
    "bytes"}`; for bytes None. Trees are shared: read them, do not change them. `data` is the decoded body, empty for
    JSON, whose tree says it all.
    """

    kind: Literal["json", "form", "multipart", "bytes"]
    tree: Json
    data: bytes


def header(headers: Headers, name: str) -> str:
    """Return the first value of the header `name` (given in lower case), "" when there is none."""
    return next((value for key, value in headers if key.lower() == name), "")


def content(headers: Headers, body: Body) -> MatchContent:
    """Return what `body` holds under `headers`. The last few answers are remembered. Raises what `Body.data` raises."""
    return _content(body, header(headers, "content-type"), header(headers, "content-encoding"))


@lru_cache(maxsize=4)
def _content(body: Body, content_type: str, encoding: str) -> MatchContent:
    kind = content_type.partition(";")[0].strip().lower()
    if body.shared is not None and not is_coded(encoding) and not kind.startswith("multipart/"):
        return MatchContent("json", body.shared.tree(), b"")
    data, is_whole = decode_body(body.data, encoding)
    if not is_whole:
        return MatchContent("bytes", None, body.data)
    if kind == "application/x-www-form-urlencoded" and _FORM.fullmatch(data):
        return MatchContent("form", _form(data), data)
    if kind.startswith("multipart/"):
        parts = _multipart(data, boundary(content_type).encode())
        return MatchContent("bytes", None, data) if parts is None else MatchContent("multipart", parts, data)
    if "json" in kind or data[:64].lstrip()[:1] in {b"{", b"["}:
        tree = parse(data, exact=True)
        if not isinstance(tree, NotJson):
            return MatchContent("json", tree, b"")
    return MatchContent("bytes", None, data)


def decode_body(data: bytes, coding: str) -> tuple[bytes, bool]:
    """Return the bytes under a content-encoding, and whether they are all of them.

    Of a body that broke off the part that came; what cannot be read within bounds comes back as it is.
    """
    if not is_coded(coding):
        return data, True
    try:
        result = decode(coding, data, ())
    except Opaque:
        return data, False
    return result.text, result.complete


def boundary(content_type: str) -> str:
    """Return the boundary that a multipart content-type names, "" when it names none."""
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.strip().lower() == "boundary":
            return value.strip().strip('"')
    return ""


def _form(data: bytes) -> Json:
    tree: dict[str, Json] = {}
    repeated: dict[str, list[Json]] = {}
    for name, value in pairs(data.decode("utf-8", "surrogateescape")):
        repeated.setdefault(name, []).append(value)
    for name, values in repeated.items():
        tree[name] = values[0] if len(values) == 1 else values
    return tree


def _multipart(data: bytes, mark: bytes) -> Json | None:
    """Return the parts between the delimiters; None when the body is not whole."""
    pieces = (b"\r\n" + data).split(b"\r\n--" + mark)
    if not mark or len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        return None
    parts: list[Json] = [pieces[0].decode("latin-1")]
    for piece in pieces[1:-1]:
        head, blank, body = piece.partition(b"\r\n\r\n")
        if not blank or (head.strip() and not head.lstrip(b" \t").startswith(b"\r\n")):
            return None
        try:
            value: Json = body.decode()
        except UnicodeDecodeError:
            value = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
        parts.append({"headers": head.decode("latin-1").strip(), "body": value})
    return [*parts, pieces[-1].decode("latin-1")]
