"""Captured runs, one file each, in a folder or behind any URL of fsspec: `NAME/DAY/ID.run.json`.

A file is there whole or not at all, and none is written over, so that services can share a store. A store may come
from a stranger: no link is followed, and what lies elsewhere in it is left alone.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_agentreplay.errors import CannotWrite, SettingsError, SnapshotError, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import FETCHED, files, format_path
from pytest_agentreplay.snapshots.store.layout import RUN_SUFFIX, make_slug

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject

# Characters of a name or an id as part of a path; what is longer is cut and gets a hash.
LONGEST = 80
# Heads that are read together: an object store answers them in parallel.
AT_ONCE = 256
# Protocols that write a file bit by bit, and rename it in one step; an object store puts it in one step.
RENAMING = {"sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs"}
READ_ONLY = {"http", "https", "data"}
# Where the file systems of fsspec say when a file was written.
CHANGED = ("LastModified", "mtime", "last_modified", "updated", "created")
# What needs no hash: where a system takes two of them for one, the second file gets another name.
SAFE_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
PLACE = re.compile(rf"(\w[\w .@+-]*)/({DAY.pattern})/(\w[\w .@+-]*){re.escape(RUN_SUFFIX)}")
USER = re.compile(r"(?<=://)[^/@]*@")


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


class RunStore:
    """The captured runs in a folder, or behind a URL of fsspec: `RunStore(url)` is a `RemoteStore`."""

    def __new__(cls, where: str | Path) -> Self:
        """Make a store of the class that fits."""
        # Services name a store by one word, a folder or a URL, in code and in settings.
        return super().__new__(RemoteStore if is_remote(str(where)) else cls)  # type: ignore[return-value]

    def __init__(self, where: str | Path) -> None:
        """Touch nothing yet. Raises SettingsError for a URL whose package is not installed."""
        self._root = Path(str(where).rpartition("://")[2])
        self.where = str(self._root)
        # From these folders this process has removed what killed ones have left: it lists each of them only once.
        self._swept: set[Path] = set()

    def check_writable(self) -> None:
        """Raise CannotWrite or SettingsError for a store that cannot be written, as far as can be seen from here."""
        files.check_writable(self._root)

    def list_runs(self, since: str = "") -> Iterator[RunEntry]:
        """Yield the runs from day `since` on, by name, day and id. What cannot be read, or is no run, has a problem.

        The store is listed once, and of each file the head alone is read. Raises SnapshotError.
        """
        listing = self.list_files(since)
        while entries := list(islice(listing, AT_ONCE)):
            yield from map(add_head, entries, self._read_heads(entries))

    def write(self, name: str, day: str, identity: str, data: bytes) -> str:
        """Write a run, and return where. Whatever has its id already stays. Raises CannotWrite."""
        folder, file = (
            make_slug(text, text, LONGEST, is_safe=bool(SAFE_PART.fullmatch(text))) for text in (name, identity)
        )
        # A run that was kept is evidence: one of the same id, or of one that this system cannot tell from it, stays.
        for suffix in ("", f"-{secrets.token_hex(8)}"):
            where = self._locate(f"{folder}/{day}/{file}{suffix}{RUN_SUFFIX}")
            if self._put(where, data):
                return where
        raise CannotWrite(f"{self.where}: every name for the run {identity} is taken")

    def rotate(self, oldest_day: str, most_bytes: int | None) -> int:
        """Delete the runs before a day, and the oldest ones beyond so many bytes; return how many.

        Raises SnapshotError and CannotWrite.
        """
        entries = sorted(self.list_files(), key=lambda entry: (entry.day, entry.changed, entry.where))
        # The day of a run comes first: a copy of a store has new times of writing.
        size, deleted, refusal = sum(entry.size for entry in entries), 0, None
        for entry in entries:
            if entry.day >= oldest_day and (most_bytes is None or size <= most_bytes):
                break
            size -= entry.size
            try:
                self.delete(entry)
                deleted += 1
            except CannotWrite as error:  # another service may have deleted it
                refusal = error
        if refusal is not None and not deleted:
            raise refusal
        return deleted

    def _locate(self, place: str) -> str:
        return f"{self.where}/{place}"

    def list_files(self, since: str = "") -> Iterator[RunEntry]:
        """List the files of the days from `since` on, unread. Raises SnapshotError where the store cannot be read."""
        for place, size, changed in self._find_files():
            if (parts := PLACE.fullmatch(place)) is not None and parts[2] >= since:
                yield RunEntry(self._locate(place), parts[1], parts[2], parts[3], size, changed=changed)

    def _find_files(self) -> Iterator[tuple[str, int, str]]:
        """Yield place, size and time of the files at NAME/DAY/ID; a link is none."""
        for folder in files.list_folders(self._root, strict=True):
            for day in () if folder.name.startswith(".") else files.list_folders(folder, strict=True):
                for file in files.list_entries(day, strict=True) if DAY.fullmatch(day.name) else ():
                    if file.is_file(follow_symlinks=False):
                        status = file.stat(follow_symlinks=False)
                        place = f"{folder.name}/{day.name}/{file.name}"
                        yield place, status.st_size, f"{status.st_mtime_ns:020}"

    def _read_heads(self, entries: Sequence[RunEntry]) -> Iterable[bytes | Exception]:
        for entry in entries:
            try:
                yield files.head(Path(entry.where), codec.HEAD)
            except SnapshotError as error:
                yield error

    def read_run(self, entry: RunEntry) -> bytes:
        """Return the whole file of a run. Raises SnapshotError."""
        # A store may be a stranger's: a link in it could name any file of this machine.
        files.refuse_links(Path(entry.where), self._root)
        return files.read_file(Path(entry.where))

    def _put(self, where: str, data: bytes) -> bool:
        path = Path(where)
        if path.parent not in self._swept:
            self._swept.add(path.parent)
            files.sweep(path.parent)
        try:
            files.refuse_links(path, self._root)
        except SnapshotError as error:
            raise CannotWrite(str(error)) from None
        return files.write_once(path, data)

    def delete(self, entry: RunEntry) -> None:
        """Remove the file of a run, and its folders once they are empty. Raises CannotWrite."""
        files.delete(Path(entry.where), self._root)


class RemoteStore(RunStore):
    """A store behind a URL of fsspec: `s3://bucket/runs`, `sftp://host/runs`, `memory://runs`."""

    def __init__(self, where: str | Path) -> None:
        """Import what the URL needs, and connect to nothing yet. Raises SettingsError."""
        self._protocol, _, rest = str(where).partition("://")
        self.where = f"{self._protocol}://{rest.rstrip('/')}"
        try:
            from fsspec import get_filesystem_class

            get_filesystem_class(self._protocol)
        except ImportError as error:
            name = getattr(error.__cause__ or error, "name", "") or self._protocol
            package = "'frozen-agentreplay[stores]'" if name == "fsspec" else name
            raise SettingsError(f"{USER.sub('', self.where)}: {error}. Type: pip install {package}") from None
        except ValueError:
            words = "fsspec knows no such protocol; name a folder, or a URL as s3://bucket/runs"
            raise SettingsError(f"{USER.sub('', self.where)}: {words}") from None

    def check_writable(self) -> None:
        """Raise SettingsError for a protocol that only reads; whether the place is there, the first run shows."""
        if self._protocol in READ_ONLY:
            words = "files can be read there, but not written; name a folder, or a URL as s3://bucket/runs"
            raise SettingsError(f"{USER.sub('', self.where)}: {words}")

    def _connect(self, where: str) -> tuple[Any, str]:
        """Return the file system of a URL, and the path in it. fsspec keeps it open; a fork gets one of its own."""
        from fsspec.core import url_to_fs

        system, path = url_to_fs(where)
        return system, path.rstrip("/")

    def _find_files(self) -> Iterator[tuple[str, int, str]]:
        """Yield what lies there, in one request of each thousand or so."""
        with translate_errors(self.where):
            system, root = self._connect(self.where)
            system.invalidate_cache()  # others write there too
            details = system.find(root, detail=True)
        for path, facts in sorted(details.items()):
            if facts.get("type", "file") == "file":
                changed = next((str(facts[name]) for name in CHANGED if facts.get(name)), "")
                yield path.removeprefix(f"{root}/"), facts.get("size") or 0, changed

    def _read_heads(self, entries: Sequence[RunEntry]) -> Iterable[bytes | Exception]:
        # A range beyond the end of a file is an error in some stores.
        ends = [min(entry.size, codec.HEAD) for entry in entries]
        with translate_errors(self.where):
            system, root = self._connect(self.where)
            paths = [f"{root}{entry.where.removeprefix(self.where)}" for entry in entries]
            heads: list[bytes | Exception] = system.cat_ranges(paths, [0] * len(paths), ends)
        return heads

    def read_run(self, entry: RunEntry) -> bytes:
        """Return the whole file of a run. Raises SnapshotError."""
        # Before it is fetched: all of it would be in memory.
        if entry.size > files.LARGEST:
            raise SnapshotUnreadable(f"is larger than {files.LARGEST:,} bytes", file=USER.sub("", entry.where))
        with translate_errors(entry.where):
            system, path = self._connect(entry.where)
            return bytes(system.cat_file(path))

    def _put(self, where: str, data: bytes) -> bool:
        with translate_errors(where, "written"):
            system, path = self._connect(where)
            if self._protocol not in RENAMING:
                try:
                    system.pipe_file(path, data, mode="create")
                except FileExistsError:
                    return False
                return True
            # These protocols cannot refuse to replace in one step. Ids are random: no two services write the same one.
            if system.exists(path):
                return False
            temporary = f"{path.rpartition('/')[0]}/{files.TEMPORARY}{secrets.token_hex(8)}.tmp"
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.pipe_file(temporary, data)
            system.mv(temporary, path)
            return True

    def delete(self, entry: RunEntry) -> None:
        """Remove the file of a run. Raises CannotWrite."""
        with translate_errors(entry.where, "removed"):
            system, path = self._connect(entry.where)
            system.rm_file(path)


@contextmanager
def translate_errors(where: str, verb: str = "") -> Iterator[None]:
    """What a file system of fsspec raises, errors of its own, as ours: CannotWrite where there is a `verb`."""
    try:
        yield
    # Each file system raises what its own library raises: botocore, paramiko, smbprotocol and others.
    except Exception as error:
        address = USER.sub("", where)
        reason = USER.sub("", f"{type(error).__name__}: {error}")
        if verb:
            advice = "Check that the store is there, and that this service may write it."
            raise CannotWrite(f"{address}: cannot be {verb}: {reason}.\n{advice}") from None
        if isinstance(error, FileNotFoundError):
            raise SnapshotMissing("is not there", file=address) from None
        raise SnapshotUnreadable(f"cannot be read: {reason}", file=address) from None


def is_remote(where: str) -> bool:
    """Return whether a store is behind a URL that is not that of a folder."""
    return "://" in where and not where.startswith(("file://", "local://"))


def add_head(entry: RunEntry, head: bytes | Exception) -> RunEntry:
    """Return an entry with what the first bytes of its file say, or with its problem."""
    try:
        fields = {} if isinstance(head, Exception) else codec.read_head(head, file=entry.where)
    except SnapshotError as error:
        head = error
    if isinstance(head, SnapshotError):
        return replace(entry, problem=str(head).removeprefix(f"{head.file}: "))
    if isinstance(head, Exception):  # of its own kind in each file system
        return replace(entry, problem=f"cannot be read: {type(head).__name__}: {head}")
    if not isinstance(capture := fields.get("capture"), dict):
        return replace(entry, problem=f"is no captured run: its first {codec.HEAD:,} bytes have no `capture`")
    return replace(entry, head=capture | {"recorded": fields.get("recorded", "")})


def is_store(path: str | Path) -> bool:
    """Return whether runs can be listed there: a URL, or a folder that holds NAME/DAY/ID.run.json."""
    where = str(path)
    if where.endswith(RUN_SUFFIX) or is_remote(where):
        return not where.endswith(RUN_SUFFIX)
    try:
        return any(True for _ in RunStore(where).list_files())
    except SnapshotError:
        return False


def find_runs(paths: Iterable[str | Path], since: str = "") -> Iterator[RunEntry]:
    """Yield the runs that `paths` name: stores, and files of captured runs by their own paths or URLs.

    Raises SnapshotMissing where nothing is, SnapshotUnreadable for what cannot be listed, SettingsError as `RunStore`.
    """
    for path in paths:
        where = str(path)
        if where.endswith(RUN_SUFFIX) or Path(where).is_file():
            parts = where.replace(os.sep, "/").split("/")
            data = RunStore("/".join(parts[:-1]) or ".").read_run(RunEntry(where))
            place = PLACE.fullmatch("/".join(parts[-3:]))
            name, day, identity = place.groups() if place else ("", "", "")
            yield add_head(RunEntry(where, name, day, identity, len(data)), data[: codec.HEAD])
        elif is_store(where):
            yield from RunStore(where).list_runs(since)
        else:
            words = f"there are no captured runs, which lie there at NAME/DAY/ID{RUN_SUFFIX}"
            raise SnapshotMissing(words, file=format_path(where))


# Files that are read together: each waits for an object store for some 20 ms.
FETCHED_TOGETHER = 16


def fetch_runs(url: str, since: str = "") -> Path:
    """Return the folder that holds a copy of the runs behind `url` from day `since` on, or the copy of one run.

    Raises SettingsError for a URL whose package is not installed, SnapshotError for what cannot be read.
    """
    import atexit
    from concurrent.futures import ThreadPoolExecutor
    from tempfile import TemporaryDirectory

    # Pages and replays want files, and read them more than once.
    temporary = TemporaryDirectory(prefix="agentreplay-", ignore_cleanup_errors=True)
    atexit.register(temporary.cleanup)
    folder = Path(temporary.name)
    base = url.rstrip("/") if (is_a_store := is_store(url)) else url.rpartition("/")[0]
    FETCHED[folder] = USER.sub("", base)
    store, depth = RunStore(base), 3 if is_a_store else 1

    def copy(entry: RunEntry) -> None:
        files.write_once(folder.joinpath(*entry.where.split("/")[-depth:]), store.read_run(entry))

    entries = store.list_files(since) if is_a_store else [RunEntry(url)]
    with ThreadPoolExecutor(FETCHED_TOGETHER) as pool:
        [*pool.map(copy, entries)]
    return folder if is_a_store else folder / url.rpartition("/")[2]
