"""Values that JSON has no word for, as tagged text: {"$decimal": "1.50"}, {"$datetime": "2026-11-20T09:30:00"}.

A closed table of exact types. Each row returns a value that is equal and of the very same type, on any platform. What
is JSON as it is needs no tag: `is_plain` knows it, `copy_plain` copies it.
"""

from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from math import copysign
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.model.exchanges import Json

# Beyond these, other JSON readers round or refuse.
_INT_LOW, _INT_HIGH = -(2**63), 2**64
_MICROSECOND = timedelta(microseconds=1)


class Tag(NamedTuple):
    """How one exact type is written and read. `write` may raise ValueError when a value has no exact form."""

    name: str
    write: Callable[[Any], Json]
    read: Callable[[Any], Any]


class NotPlain(Exception):
    """The value is not JSON through and through."""


def is_plain(value: Any) -> bool:
    """Return whether a value without parts may stand in JSON as it is.

    A string with lone surrogates may not, nor a number that other readers round (nan, infinities, -0.0, large ints).
    """
    kind = type(value)
    if kind is str:
        if value.isascii():
            return True
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True
    if kind is int:
        return bool(_INT_LOW <= value < _INT_HIGH)
    if kind is float:
        # Of nan and the infinities the difference is nan; -0.0 equals 0 and is told by its sign alone.
        return value - value == 0 and (value != 0 or copysign(1, value) > 0)
    return value is None or kind is bool


def copy_plain(value: Any) -> Any:
    """Return a copy of a value that is JSON through and through and needs no tag: most are, so this is kept quick.

    Raises NotPlain (or RecursionError) for any other, keys that begin with "$" included.
    """
    kind = type(value)
    if kind is dict:
        fields = {}
        for key, part in value.items():
            if type(key) is not str or key[:1] == "$" or not (key.isascii() or is_plain(key)):
                raise NotPlain
            # Without a call for the commonest parts, a dict of 20 fields takes half the time.
            inner = type(part)
            is_common = part is None or inner is bool or (inner is str and part.isascii())
            fields[key] = part if is_common or is_plain(part) else copy_plain(part)
        return fields
    if kind is list:
        return [copy_plain(part) if type(part) is dict or not is_plain(part) else part for part in value]
    if is_plain(value):
        return value
    raise NotPlain


def _write_int(value: int) -> str:
    # Decimal digits beyond 4300 are refused by Python itself; hexadecimal ones never.
    return str(value) if value.bit_length() < 10_000 else hex(value)


def _write_str(value: str) -> str:
    return value.encode("unicode_escape").decode("ascii")


def write_bytes(value: bytes) -> Json:
    """Bytes as they are frozen: as text where they are UTF-8, else as base64 in a list."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return [base64.b64encode(value).decode("ascii")]


def _read_bytes(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else base64.b64decode(data[0], validate=True)


def _write_timezone(value: timezone) -> Json:
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    return "UTC" if value is UTC else [offset // _MICROSECOND, *name]


def _read_timezone(data: Any) -> timezone:
    return UTC if data == "UTC" else timezone(data[0] * _MICROSECOND, *data[1:])


def _write_moment(value: datetime | time) -> Json:
    zone = value.tzinfo
    # ISO 8601 has an offset and neither the name of a zone nor which of two equal hours in autumn is meant (fold).
    if not value.fold and (zone is None or (type(zone) is timezone and len(zone.__getinitargs__()) == 1)):  # type: ignore[attr-defined]
        return value.isoformat()
    if zone is not None and type(zone) not in (timezone, ZoneInfo):
        raise ValueError(f"its tzinfo is a {type(zone).__module__}.{type(zone).__qualname__}")
    return [value.replace(tzinfo=None, fold=0).isoformat(), None if zone is None else write_leaf(zone), value.fold]


def _read_moment(kind: Any) -> Callable[[Any], Any]:
    def read_moment(data: Any) -> Any:
        if isinstance(data, str):
            return kind.fromisoformat(data)
        text, zone, fold = data
        return kind.fromisoformat(text).replace(tzinfo=zone and read_leaf(zone), fold=fold)

    return read_moment


def _write_zone(value: ZoneInfo) -> str:
    # Rules read from a file, or bypassing the cache, have an identity that a name does not carry.
    if not value.key or ZoneInfo(value.key) is not value:
        raise ValueError("its ZoneInfo was not made by name")
    return value.key


TAG_OF: dict[type, Tag] = {
    int: Tag("$int", _write_int, lambda data: int(data, 0)),
    float: Tag("$float", repr, float),
    str: Tag("$str", _write_str, lambda data: data.encode("ascii").decode("unicode_escape")),
    bytes: Tag("$bytes", write_bytes, _read_bytes),
    bytearray: Tag("$bytearray", write_bytes, lambda data: bytearray(_read_bytes(data))),
    complex: Tag("$complex", lambda v: [repr(v.real), repr(v.imag)], lambda data: complex(*map(float, data))),
    datetime: Tag("$datetime", _write_moment, _read_moment(datetime)),
    time: Tag("$time", _write_moment, _read_moment(time)),
    date: Tag("$date", date.isoformat, date.fromisoformat),
    timedelta: Tag("$timedelta", lambda v: [v.days, v.seconds, v.microseconds], lambda data: timedelta(*data)),
    timezone: Tag("$timezone", _write_timezone, _read_timezone),
    ZoneInfo: Tag("$zoneinfo", _write_zone, ZoneInfo),
    Decimal: Tag("$decimal", str, Decimal),
    Fraction: Tag("$fraction", str, Fraction),
    UUID: Tag("$uuid", str, UUID),
    type(Path()): Tag("$path", lambda v: v.as_posix(), Path),
    PurePosixPath: Tag("$posixpath", str, PurePosixPath),
    PureWindowsPath: Tag("$windowspath", str, PureWindowsPath),
    range: Tag("$range", lambda v: [v.start, v.stop, v.step], lambda data: range(*data)),
    EllipsisType: Tag("$ellipsis", lambda _: True, lambda _: ...),
    ipaddress.IPv4Address: Tag("$ipv4", str, ipaddress.IPv4Address),
    ipaddress.IPv6Address: Tag("$ipv6", str, ipaddress.IPv6Address),
    ipaddress.IPv4Network: Tag("$ipv4network", str, ipaddress.IPv4Network),
    ipaddress.IPv6Network: Tag("$ipv6network", str, ipaddress.IPv6Network),
}

TAG_NAMED = {tag.name: tag for tag in TAG_OF.values()}


def write_leaf(value: Any) -> dict[str, Json]:
    """Return the tagged form of a leaf whose exact type is in the table."""
    tag = TAG_OF[type(value)]
    return {tag.name: tag.write(value)}


def read_leaf(data: dict[str, Any]) -> Any:
    """The leaf of a tagged form. Raises KeyError for a tag of another kind, ValueError or TypeError for bad text."""
    ((name, payload),) = data.items()
    return TAG_NAMED[name].read(payload)


def is_leaf_tag(name: str) -> bool:
    """Return whether `name` is the tag of a leaf."""
    return name in TAG_NAMED
