"""One file of a store of captured runs, as a list shows it, and what the files of a store can be asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from pytest_agentreplay import codec
from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.store import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.core.model import JsonObject

SUFFIX = layout.RUN_SUFFIX
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
PLACE = re.compile(rf"(\w[\w .@+-]*)/({DAY.pattern})/(\w[\w .@+-]*){re.escape(SUFFIX)}")
STRAY = f"is no captured run, which lies at NAME/DAY/ID{SUFFIX}"


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One file of a store, of which the first bytes were read.

    Attributes:
        where: Its path or URL.
        name: The folder that it lies in: the name of the run, made safe for files.
        day: The day on which the run began, "2026-11-28".
        id: The name of the file: the id of the run, made safe for files.
        size: Its bytes.
        head: What it says of its run: "capture" of its kit ("outcome" stands there, too), and "recorded" of its header.
            Not proven by the seal.
        problem: Why it cannot be used; "" where it can.
        changed: When it was written, as its file system says; of use in comparisons alone.
    """

    where: str
    name: str = ""
    day: str = ""
    id: str = ""
    size: int = 0
    head: JsonObject = field(default_factory=dict)
    problem: str = ""
    changed: str = ""


class StoreFiles(Protocol):
    """The files of a store."""

    def locate(self, place: str) -> str:
        """Return the path or URL of a place in the store."""

    def list_files(self, since: str) -> Iterator[RunEntry]:
        """List the files of the days from `since` on, unread. Raises SnapshotUnreadable."""

    def read_heads(self, entries: Sequence[RunEntry]) -> Iterable[bytes | Exception]:
        """Return the first bytes of each, or why they cannot be read."""

    def measure(self, where: str) -> int:
        """Return the bytes of a file. Raises SnapshotError."""

    def read(self, entry: RunEntry) -> bytes:
        """Return a whole file. Raises SnapshotError."""

    def write(self, place: str, data: bytes) -> bool:
        """Write a file that is not there yet; False where one is. Raises CannotWrite."""

    def delete(self, where: str) -> None:
        """Remove a file. Raises CannotWrite."""


def make_entry(where: str, place: str, size: int, changed: str) -> RunEntry:
    """Return the entry of a file at `place` in its store, unread."""
    if (parts := PLACE.fullmatch(place)) is None:
        return RunEntry(where, size=size, problem=STRAY)
    name, day, identity = parts.groups()
    return RunEntry(where, name, day, identity, size, changed=changed)


def add_head(entry: RunEntry, head: bytes | Exception) -> RunEntry:
    """Return an entry with what the first bytes of its file say, or with its problem."""
    if isinstance(head, Exception):
        return replace(entry, problem=explain(head))
    try:
        fields = codec.read_head(head, file=entry.where)
    except SnapshotError as error:
        return replace(entry, problem=explain(error))
    capture = fields.get("capture")
    if not isinstance(capture, dict):
        return replace(entry, problem=f"is no captured run: its first {codec.HEAD:,} bytes have no `capture`")
    return replace(entry, head=capture | {"recorded": fields.get("recorded", "")})


def explain(error: Exception) -> str:
    """Return the problem of a file, without its name."""
    if isinstance(error, SnapshotError):
        return str(error).removeprefix(f"{error.file}: ")
    return f"cannot be read: {type(error).__name__}: {error}"
