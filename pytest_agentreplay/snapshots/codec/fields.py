"""The fields of the model's types <-> how they stand in a file: one table for each type serves both directions.

A kind says how one value is written and read. What a file holds where a kind expects something else is Malformed, with
the key and what belongs there.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.snapshots.codec import values
from pytest_agentreplay.snapshots.codec.values import Malformed, protect, protect_text, reveal, reveal_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Headers
    from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter

Stored = dict[str, Any]

_BOUND = 1 << 63

T = TypeVar("T")


class FieldKind(NamedTuple):
    """What a field holds: `read` takes what is stored, the key, which errors name, and the blobs of the file."""

    write: Callable[[Any, BlobWriter], Any]
    read: Callable[[Any, str, BlobReader], Any]


class Form(Generic[T]):
    """An object with a key for each field of a type. A field that has its default value is left out.

    Args:
        make: The type, a dataclass.
        kinds: The kinds of its fields, by their names, in the order of the file.
        always: The names of those that stand there with their default value too.
    """

    def __init__(self, make: type[T], kinds: Mapping[str, FieldKind | Form[Any]], always: Iterable[str] = ()) -> None:
        self._make = make
        self._kinds = kinds
        self._defaults: dict[str, Any] = {}
        for field in fields(make):  # type: ignore[arg-type]
            default = field.default if field.default_factory is MISSING else field.default_factory()
            self._defaults[field.name] = default
        self._needed = [name for name in kinds if self._defaults[name] is MISSING]
        self._defaults |= dict.fromkeys(always, MISSING)

    def write(self, value: T, blobs: BlobWriter) -> Stored:
        """Return a value as stored. Raises CannotWrite for what could not be read again."""
        stored = {}
        for name, kind in self._kinds.items():
            item = getattr(value, name)
            if item != self._defaults[name]:
                stored[name] = kind.write(item, blobs)
        return stored

    def read(self, stored: Any, key: str, blobs: BlobReader, **others: Any) -> T:
        """Return the value that is stored under `key`; `others` are fields that have no key. Raises Malformed."""
        members = read_object(stored, key)
        for name in self._needed:
            if name not in members:
                refuse(name, "there")
        for name, item in members.items():
            if (kind := self._kinds.get(name)) is not None:
                others[name] = kind.read(item, name, blobs)
        return self._make(**others)


def refuse(key: str, expected: str) -> NoReturn:
    """Raise Malformed."""
    raise Malformed(f"{key!r} must be {expected}")


def read_object(value: Any, key: str) -> Stored:
    """Return an object. Raises Malformed."""
    return value if isinstance(value, dict) else refuse(key, "an object")


def read_array(value: Any, key: str) -> list[Any]:
    """Return a list. Raises Malformed."""
    return value if isinstance(value, list) else refuse(key, "a list")


def read_integer(value: Any, key: str) -> int:
    """Return a number. Raises Malformed."""
    return value if type(value) is int and -_BOUND < value < _BOUND else refuse(key, "a whole number of 63 bits")


def read_count(value: Any, key: str) -> int:
    """Return a number that is not negative. Raises Malformed."""
    number = read_integer(value, key)
    return number if number >= 0 else refuse(key, "no negative number")


def _read_flag(value: Any, key: str, blobs: BlobReader) -> bool:  # noqa: ARG001  as every kind
    return value if isinstance(value, bool) else refuse(key, "true or false")


def _read_status(value: Any, key: str, blobs: BlobReader) -> int:  # noqa: ARG001  as every kind
    if why := values.wrong_status(read_integer(value, key)):
        raise Malformed(why)
    return int(value)


def _write_status(status: int, blobs: BlobWriter) -> int:  # noqa: ARG001  as every kind
    _refuse_to_write(values.wrong_status(status))
    return status


def _write_headers(headers: Headers, blobs: BlobWriter) -> list[Any]:
    """Return headers as "name: value" lines; as pairs where that line would not say which is which."""
    stored: list[Any] = []
    for name, value in headers:
        if (line := _write_short_header(name, value)) is not None:
            stored.append(line)
        elif f"{name}: ".find(": ") == len(name):
            stored.append(protect_text(f"{name}: {value}", blobs))
        else:
            stored.append([protect_text(name, blobs), protect_text(value, blobs)])
    return stored


@lru_cache(maxsize=1024)
def _write_short_header(name: str, value: str) -> str | None:
    """Return the line of a header that stands in a file as it is; None for any other. Most come with each message."""
    _refuse_to_write(values.wrong_header(name, value))
    line = f"{name}: {value}"
    return line if line.isascii() and len(line) <= values.LINE and line.find(": ") == len(name) else None


def _refuse_to_write(why: str) -> None:
    if why:
        msg = f"the server answered what no snapshot may hold: {why}; mend the server, or leave this call out"
        raise CannotWrite(msg)


def read_headers(stored: Any, key: str, blobs: BlobReader) -> Headers:
    """Return the headers of a message. Raises Malformed."""
    if isinstance(stored, tuple):  # a line of the file had some of their values
        return stored
    return tuple([read_header(header, blobs) for header in read_array(stored, key)])


def read_header(stored: Any, blobs: BlobReader) -> tuple[str, str]:
    """Return the name and the value of a stored header. Raises Malformed."""
    if isinstance(stored, list) and len(stored) == 2:
        return check_header(reveal_text(stored[0], blobs), reveal_text(stored[1], blobs))
    return _cut_header(reveal_text(stored, blobs))


@lru_cache(maxsize=1024)
def _cut_header(line: str) -> tuple[str, str]:
    """Return the name and the value in a line; one object for the many replies that have the same."""
    name, colon, value = line.partition(": ")
    return check_header(name, value) if colon else refuse("headers", "a list of `name: value`")


def check_header(name: str, value: str) -> tuple[str, str]:
    """Return a name and a value that a header may have. Raises Malformed."""
    if why := values.wrong_header(name, value):
        raise Malformed(why)
    return name, value


TEXT = FieldKind(protect_text, lambda value, _, blobs: reveal_text(value, blobs))
VALUE = FieldKind(protect, lambda value, _, blobs: reveal(value, blobs))
OBJECT = FieldKind(protect, lambda value, key, blobs: read_object(reveal(value, blobs), key))
VALUES = FieldKind(
    lambda items, blobs: protect(list(items), blobs),
    lambda value, key, blobs: tuple(read_array(reveal(value, blobs), key)),
)
TEXTS = FieldKind(
    lambda texts, blobs: [protect_text(text, blobs) for text in texts],
    lambda value, key, blobs: tuple(reveal_text(text, blobs) for text in read_array(value, key)),
)
INTEGER = FieldKind(lambda number, _: number, lambda value, key, _: read_integer(value, key))
COUNT = FieldKind(lambda number, _: number, lambda value, key, _: read_count(value, key))
COUNTS = FieldKind(
    lambda numbers, _: list(numbers),
    lambda value, key, _: tuple(read_count(number, key) for number in read_array(value, key)),
)
FLAG = FieldKind(lambda flag, _: flag, _read_flag)
STATUS = FieldKind(_write_status, _read_status)
HEADERS = FieldKind(_write_headers, read_headers)
