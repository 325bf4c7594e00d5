"""What a body holds once its content-encoding is undone: JSON, a form, the parts of a multipart, or bytes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.core.canonical_json import NotJson, parse
from pytest_agentreplay.core.content_coding import Opaque, decode, is_coded
from pytest_agentreplay.core.matching.address import pairs

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Body, Headers, Json


_CHAR = rb"(?:[\w.~!*'()$+,;:@/?\[\]-]|%[0-9A-Fa-f]{2})"
_FIELD = rb"%b+=(?:%b|=)*" % (_CHAR, _CHAR)
_FORM = re.compile(rb"(?:%b(?:&%b)*)?" % (_FIELD, _FIELD), re.ASCII)
"""Fields as an encoder writes them. urllib and curl give any body the type of a form, JSON and plain text too; one that
holds what an encoder would have encoded, or a part without a "=", is none."""


@dataclass(frozen=True, slots=True)
class MatchContent:
    """A body as its headers say to read it.

    `tree` is the JSON value; for a form each name with its value (a list where it is repeated); for a multipart its
    parts `{"headers", "body"}` between the texts before and after them, where a body that is no text is `{"sha256",
    "bytes"}`; for bytes None. Trees are shared: read them, do not change them. `data` is the decoded body.
    """

    kind: Literal["json", "form", "multipart", "bytes"]
    tree: Json
    data: bytes


def header(headers: Headers, name: str) -> str:
    """The first value of the header `name` (given in lower case), "" when there is none."""
    return next((value for key, value in headers if key.lower() == name), "")


def content(headers: Headers, body: Body) -> MatchContent:
    """What `body` holds under `headers`. The last few answers are remembered. Raises what `Body.data` raises."""
    return _content(body, header(headers, "content-type"), header(headers, "content-encoding"))


@lru_cache(maxsize=4)
def _content(body: Body, content_type: str, encoding: str) -> MatchContent:
    data, whole = decoded(body.data, encoding)
    if not whole:
        return MatchContent("bytes", None, body.data)
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded" and _FORM.fullmatch(data):
        return MatchContent("form", _form(data), data)
    if kind.startswith("multipart/"):
        parts = _multipart(data, boundary(content_type).encode())
        return MatchContent("bytes", None, data) if parts is None else MatchContent("multipart", parts, data)
    if "json" in kind or data[:64].lstrip()[:1] in {b"{", b"["}:
        tree = parse(data, exact=True)
        if not isinstance(tree, NotJson):
            return MatchContent("json", tree, data)
    return MatchContent("bytes", None, data)


def decoded(data: bytes, coding: str) -> tuple[bytes, bool]:
    """The bytes under a content-encoding, and whether they are all of them.

    Of a body that broke off the part that came; what cannot be read within bounds comes back as it is.
    """
    if not is_coded(coding):
        return data, True
    try:
        found = decode(coding, data, ())
    except Opaque:
        return data, False
    return found.text, found.complete


def boundary(content_type: str) -> str:
    """The boundary that a multipart content-type names, "" when it names none."""
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
    """The parts between the delimiters; None when the body is not whole."""
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
