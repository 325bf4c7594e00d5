r"""Arranged values: what a name tells that does not stand right before the value.

    Content-Disposition: form-data; name="password"      a field of a form, a blank line before the value
    {"key": "db.password", "value": {"stringValue": ...}}      two members of one object, in any order
    {"kty": "RSA", ..., "d": ...}      the private members of a JSON Web Key

Lines may end in escapes (`\n`) and quotes be escaped, as in JSON strings, any number of times.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.fields import believed, strength
from pytest_agentreplay.core.redaction.named import without_scheme
from pytest_agentreplay.core.redaction.secret_names import CATEGORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    Hit = tuple[int, int, str]

_END = rb"(?:\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)"
_QUOTE = rb"\\{0,16}[\"']"
_SPACE = rb"(?:[ \t\r\n]|\\{1,16}[nrt]){0,16}"

_FORM_FIELD = re.compile(
    rb"form-data;[^\r\n\\\"]{0,80}name=" + _QUOTE + rb"(?P<name>[^\"'\\\r\n]{1,80})" + _QUOTE + rb"[^\r\n\\]{0,200}"
    rb"(?:" + _END + rb"[A-Za-z-]{1,40}:[^\r\n\\]{0,200}){0,4}" + _END + _END + rb"(?P<value>[^\r\n\\]{4,4096})"
)
_SETS = _SPACE + rb":" + _SPACE
_NAME = re.compile(
    rb"[\"'](?i:key|name|header|field|variable|parameter|param|attribute|setting)" + _QUOTE + _SETS + _QUOTE
    + rb"(?P<name>[\w .:/-]{2,80})" + _QUOTE
)  # fmt: skip
_TEXT = _QUOTE + rb"(?P<value>[^\"'\\]{4,4096})" + _QUOTE + rb"(?!" + _SPACE + rb":)"
_VALUE = re.compile(
    rb"[\"'](?i:string_?)?[vV]alue" + _QUOTE + _SETS
    + rb"(?P<opened>(?:[\[{]" + _SPACE + rb"(?:" + _QUOTE + rb"\w{1,32}" + _QUOTE + _SETS + rb")?){0,4})" + _TEXT
)  # fmt: skip
_MORE = re.compile(
    rb"(?:[ \t\r\n}]|\\{1,16}[nrt]){0,16},"
    + _SPACE
    + rb"(?:\{"
    + _SPACE
    + _QUOTE
    + rb"\w{1,32}"
    + _QUOTE
    + _SETS
    + rb")?"
    + _TEXT
)
"""The next value of a list of them."""
_BETWEEN = re.compile(rb"(?:[ \t\r\n}\]]|\\{1,16}[nrt]){0,16},[^{}\[\]]{0,400}\Z")
_AHEAD = 400
_BEHIND = 4400
_YAML_VALUE = re.compile(
    rb"\bvalue:[ \t]{1,4}[\"']?(?P<value>[^\s\"'\\]{4,512})[\"']?" + _END + rb"[ \t]{0,40}name:[ \t]{1,4}[\"']?"
    rb"(?P<name>[\w.-]{2,80})"
)  # fmt: skip
_KEY = re.compile(
    _QUOTE
    + rb"(?:d|p|q|dp|dq|qi|k|priv)"
    + _QUOTE
    + _SPACE
    + rb":"
    + _SPACE
    + _QUOTE
    + rb"(?P<value>[A-Za-z0-9_=+/-]{16,4096})"
)
_KEY_SPAN = 8192


def find_arranged(text: bytes) -> Iterator[Hit]:
    """Where such values stand, as (start, end, category)."""
    if b"form-data" in text:
        for field in _FORM_FIELD.finditer(text):
            yield from named(field["name"], field["value"], field.span("value"))
    if b"alue" in text:
        yield from find_pairs(text)
    if b"kty" in text:
        yield from find_private_members(text)


def named(name: bytes, value: bytes, span: tuple[int, int]) -> Iterator[Hit]:
    """A value, where its name says that it is a secret."""
    said = strength(name.decode("utf-8", "replace"))
    if said not in {"", "parameter"} and believed(said, value.strip(), quoted=True):
        yield *span, CATEGORY


def valued(text: bytes, name: bytes, pair: re.Match[bytes]) -> Iterator[Hit]:
    """The value of a pair, without the scheme before it, where its name says that it is a secret."""
    more: re.Match[bytes] | None = pair
    while more is not None:
        start, end = without_scheme(text, *more.span("value"), name.decode("utf-8", "replace"))
        yield from named(name, text[start:end], (start, end))
        more = _MORE.match(text, more.end()) if b"[" in (pair.groupdict().get("opened") or b"") else None


def find_pairs(text: bytes) -> Iterator[Hit]:
    """The values of objects that have a name for one member and the value for another."""
    before = 0
    for hit in _NAME.finditer(text):
        if strength(hit["name"].decode("utf-8", "replace")) not in {"", "parameter"}:
            after = _VALUE.search(text, hit.end(), hit.end() + _AHEAD + _BEHIND)
            if after is not None and not set(text[hit.end() : after.start()]) & set(b"{}[]"):
                yield from valued(text, hit["name"], after)
            values = [*_VALUE.finditer(text, max(before, hit.start() - _BEHIND), hit.start())]
            last = values[-1] if values else None
            if last is not None and _BETWEEN.match(text, last.end(), hit.start()) is not None:
                yield from valued(text, hit["name"], last)
        before = hit.end()
    for pair in _YAML_VALUE.finditer(text):
        yield from valued(text, pair["name"], pair)


def find_private_members(text: bytes) -> Iterator[Hit]:
    """The private members of JSON Web Keys (RFC 7518, section 6)."""
    types = [hit.start() for hit in re.finditer(rb"[\"']kty\\{0,16}[\"']", text)]
    nth = 0
    for member in _KEY.finditer(text) if types else ():
        while nth + 1 < len(types) and abs(types[nth + 1] - member.start()) <= abs(types[nth] - member.start()):
            nth += 1
        if abs(types[nth] - member.start()) <= _KEY_SPAN:
            yield *member.span("value"), CATEGORY
