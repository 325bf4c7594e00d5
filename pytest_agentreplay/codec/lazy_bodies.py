"""The bodies of a file of format 1, asleep: restored when they are read, and proven by their sha256.

A body that sleeps keeps the stored bodies alive, and nothing else of the parsed file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec.bodies import digest
from pytest_agentreplay.codec.decode import headers_in
from pytest_agentreplay.core.content_coding import LIMIT, bomb
from pytest_agentreplay.core.model import Body
from pytest_agentreplay.errors import SnapshotUnreadable

if TYPE_CHECKING:
    from pytest_agentreplay.codec.bodies import BodyReader
    from pytest_agentreplay.codec.styles import BlobReader

SMALL = 512
"""Bytes of a reply that is restored together with its exchange, whose parts are at hand then."""

DAMAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError)
"""What reading damaged content raises; all of it becomes SnapshotUnreadable where the exchange is known."""

Stored = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LazyBody:
    """The bodies of `file`. A message is the stored request or response that holds the body."""

    file: str
    reader: BodyReader

    @property
    def blobs(self) -> BlobReader:
        """The blobs that bodies name."""
        return self.reader.blobs

    def body(self, number: int, place: str, message: Stored) -> Body:
        """A body; a small reply awake, since it costs less now than at the moment when it is served."""
        size = message["body"].get("size")
        if place == "request" or not isinstance(size, int) or size > SMALL:
            return self.asleep(number, place, message)
        data = self.proven(number, place, message)
        if len(data) != size:
            raise ValueError(f"a body of {len(data)} bytes says that it has {size}")
        return Body(data, sha256=sha256_of(message))

    def asleep(self, number: int, place: str, message: Stored) -> Body:
        """A body that is restored when it is read."""
        return Body(sha256=sha256_of(message), restore=partial(self.proven, number, place, message))

    def proven(self, number: int, place: str, message: Stored) -> bytes:
        """The bytes of a body, as they were recorded. Raises SnapshotUnreadable."""
        data = self.restored(number, place, message)
        if digest(data) != sha256_of(message):
            what = f"the body of this {place} does not come back as it was recorded"
            raise unreadable(self.file, what, f"exchange {number}, {place}")
        return data

    def restored(self, number: int, place: str, message: Stored) -> bytes:
        """The bytes of a body, unproven. Raises SnapshotUnreadable."""
        try:
            data = self.reader.request(number) if place == "request" else self.reader.reply(message["body"])
            for name, value in headers_in(message, self.blobs):
                if name.lower() == "content-encoding" and bomb(value, data):
                    what = f"the body of this {place} decodes to more than {LIMIT >> 20} MB, or is coded twice"
                    raise unreadable(self.file, what, f"exchange {number}, {place}")
        except DAMAGE as error:
            raise unreadable(self.file, told(error), f"exchange {number}, {place}") from None
        return data


def sha256_of(message: Stored) -> str:
    """The digest that stands beside a body. Raises ValueError."""
    found = message["body"].get("sha256")
    if not (isinstance(found, str) and len(found) == 64):
        raise ValueError("a body has no sha256")
    return found


def unreadable(file: str, message: str, place: str) -> SnapshotUnreadable:
    """The error for a file that does not say what it should."""
    hint = "restore the file from git, or record again with --snapshot-record"
    return SnapshotUnreadable(f"{message}; {hint}", file=file, place=place)


def told(error: Exception) -> str:
    """The message about something that reading raised."""
    match error:
        case KeyError():
            return f"{error.args[0]!r:.60} is missing"
        case RecursionError():
            return "nested too deep"
        case _:
            return str(error)[:200] or type(error).__name__
