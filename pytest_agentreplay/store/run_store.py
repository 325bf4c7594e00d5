"""Captured runs, one file each, in a folder or behind any URL of fsspec: `NAME/DAY/ID.run.json`.

A file is there whole or not at all, and none is written over, so that services can share a store. A store may come
from a stranger: a link, and whatever lies elsewhere in it, is listed with its problem and not opened.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.errors import CannotWrite, SnapshotError, SnapshotMissing
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.layout import slug
from pytest_agentreplay.store.run_entry import DAY, STRAY, SUFFIX, RunEntry, add_head, explain, make_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import DirEntry

    from pytest_agentreplay.store.run_entry import StoreFiles

__all__ = ["SUFFIX", "RunEntry", "RunStore", "find_runs", "is_store"]

LONGEST = 80
"""Characters of a name or an id as part of a path; what is longer is cut and gets a hash."""
AT_ONCE = 256
"""Heads that are read together: an object store answers them in parallel."""
TRIES = 8
LOCAL = {"file", "local"}
AS_IT_IS = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")


class RunStore:
    """The captured runs in a folder, or behind a URL of fsspec."""

    def __init__(self, where: str | Path) -> None:
        """Touch nothing yet. Raises SettingsError for a URL whose package is not installed."""
        self.where = str(where)
        self._files: StoreFiles
        if is_remote(self.where):
            from pytest_agentreplay.store.remote_runs import RemoteFiles

            self._files = RemoteFiles(self.where)
        else:
            self._files = FolderFiles(Path(self.where.rpartition("://")[2]))

    def list_runs(self, since: str = "") -> Iterator[RunEntry]:
        """Yield the runs from day `since` on, by name, day and id. What is no run, or cannot be read, has a problem.

        The store is listed once, and of each file the head alone is read. Raises SnapshotUnreadable.
        """
        listing = self._files.list_files(since)
        while entries := list(islice(listing, AT_ONCE)):
            heads = iter(self._files.read_heads([entry for entry in entries if not entry.problem]))
            yield from (entry if entry.problem else add_head(entry, next(heads)) for entry in entries)

    def list_files(self) -> Iterator[RunEntry]:
        """Yield the runs unread. Raises SnapshotUnreadable."""
        return self._files.list_files("")

    def read_entry(self, where: str) -> RunEntry:
        """Return the entry of the run that lies at a path or URL, wherever that is."""
        place = "/".join(where.replace("\\", "/").split("/")[-3:])
        entry = replace(make_entry(where, place, 0, ""), problem="")
        try:
            entry = replace(entry, size=self._files.measure(where))
        except SnapshotError as error:
            return replace(entry, problem=explain(error))
        [head] = self._files.read_heads([entry])
        return add_head(entry, head)

    def read(self, entry: RunEntry) -> bytes:
        """Return the whole file of a run. Raises SnapshotError."""
        return self._files.read(entry)

    def delete(self, entry: RunEntry) -> None:
        """Remove the file of a run. Raises CannotWrite."""
        self._files.delete(entry.where)

    def write(self, name: str, day: str, identity: str, data: bytes) -> str:
        """Write a run, and return where. Whatever has its id already stays. Raises CannotWrite."""
        folder, file = make_part(name), make_part(identity)
        for suffix in ("", *(f"-{secrets.token_hex(4)}" for _ in range(TRIES))):
            place = f"{folder}/{day}/{file}{suffix}{SUFFIX}"
            if self._files.write(place, data):
                return self._files.locate(place)
        raise CannotWrite(f"{self.where}: every name for the run {identity} is taken")

    def rotate(self, oldest_day: str, most_bytes: int | None) -> int:
        """Delete the runs before a day, and the oldest ones beyond so many bytes; return how many.

        Raises SnapshotUnreadable and CannotWrite.
        """
        entries = [entry for entry in self._files.list_files("") if not entry.problem]
        entries.sort(key=lambda entry: (entry.day, entry.changed, entry.where))
        size, deleted, refusal = sum(entry.size for entry in entries), 0, None
        for entry in entries:
            if entry.day >= oldest_day and (most_bytes is None or size <= most_bytes):
                break
            size -= entry.size
            try:
                self._files.delete(entry.where)
                deleted += 1
            except CannotWrite as error:  # another service may have deleted it
                refusal = error
        if refusal is not None and not deleted:
            raise refusal
        return deleted


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """A store in a folder."""

    root: Path
    _swept: set[Path] = field(default_factory=set)
    """The folders from which this process has removed what killed ones have left: it lists each of them only once."""

    def locate(self, place: str) -> str:
        """Return the path of a place in the store."""
        return str(self.root / place)

    def list_files(self, since: str) -> Iterator[RunEntry]:
        """List the files, folder by folder. Raises SnapshotUnreadable where the store itself cannot be read."""
        names = files.list_entries(self.root)
        return chain.from_iterable(self._list_below(entry, (), since) for entry in names)

    def _list_below(self, child: DirEntry[str], above: tuple[str, ...], since: str) -> Iterator[RunEntry]:
        parts = (*above, child.name)
        place = "/".join(parts)
        where = self.locate(place)
        if child.is_symlink():
            yield RunEntry(where, problem="is a link, which is not followed")
        elif child.is_file(follow_symlinks=False):
            status = child.stat(follow_symlinks=False)
            yield make_entry(where, place, status.st_size, f"{status.st_mtime_ns:020}")
        elif len(parts) > 2 or (above and not DAY.fullmatch(child.name)):
            yield RunEntry(where, problem=STRAY)
        elif not above or child.name >= since:
            try:
                children = files.list_entries(Path(where))
            except SnapshotError as error:
                yield RunEntry(where, problem=explain(error))
                return
            for grandchild in children:
                yield from self._list_below(grandchild, parts, since)

    def read_heads(self, entries: Sequence[RunEntry]) -> Iterable[bytes | Exception]:
        """Return the first bytes of each, or why they cannot be read."""
        for entry in entries:
            try:
                yield files.head(Path(entry.where), codec.HEAD)
            except SnapshotError as error:
                yield error

    def measure(self, where: str) -> int:
        """Return the bytes of a file. Raises SnapshotError."""
        return files.measure(Path(where))

    def read(self, entry: RunEntry) -> bytes:
        """Return a whole file. Raises SnapshotError."""
        files.refuse_links(Path(entry.where), self.root)
        return files.read(Path(entry.where))

    def write(self, place: str, data: bytes) -> bool:
        """Write a file that is not there yet; False where one is. Raises CannotWrite."""
        path = self.root / place
        if path.parent not in self._swept:
            self._swept.add(path.parent)
            files.sweep(path.parent)
        try:
            files.refuse_links(path, self.root)
        except SnapshotError as error:
            raise CannotWrite(str(error)) from None
        return files.write_once(path, data)

    def delete(self, where: str) -> None:
        """Remove a file, and its folders once they are empty. Raises CannotWrite."""
        files.delete(Path(where), self.root)


def make_part(text: str) -> str:
    """Return a name or an id as a part of a path on every system."""
    return slug(text, text, LONGEST, whole=AS_IT_IS.fullmatch(text) is not None)


def is_store(path: str | Path) -> bool:
    """Return whether runs can be listed there: a URL, or a folder that holds NAME/DAY/ID.run.json."""
    where = str(path)
    if where.endswith(SUFFIX) or is_remote(where):
        return not where.endswith(SUFFIX)
    try:
        return any(not entry.problem for entry in RunStore(where).list_files())
    except SnapshotError:
        return False


def find_runs(paths: Iterable[str | Path], since: str = "") -> Iterator[RunEntry]:
    """Yield the runs that `paths` name: stores, and files of captured runs by their own paths or URLs.

    Raises SnapshotMissing where nothing is, SnapshotUnreadable for what cannot be listed, SettingsError as `RunStore`.
    """
    for path in paths:
        where = str(path)
        if where.endswith(SUFFIX) or Path(where).is_file():
            store = RunStore(where.replace("\\", "/").rpartition("/")[0] or ".")
            yield store.read_entry(where)
        elif is_store(where):
            yield from RunStore(where).list_runs(since)
        else:
            words = f"there are no captured runs, which lie there at NAME/DAY/ID{SUFFIX}"
            raise SnapshotMissing(words, file=format_path(where))


def is_remote(where: str) -> bool:
    """Return whether a store is behind a URL that is not that of a folder."""
    scheme, separator, _ = where.partition("://")
    return bool(separator) and scheme not in LOCAL
