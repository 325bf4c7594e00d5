"""A store of captured runs behind a URL of fsspec: `s3://bucket/runs`, `sftp://host/runs`, `memory://runs`."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import codec
from pytest_agentreplay.errors import CannotWrite, SettingsError, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.store import files
from pytest_agentreplay.store.run_entry import RunEntry, make_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RENAMING = {"sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs"}
"""Protocols that write a file bit by bit, and rename it in one step; an object store puts it in one step."""
CHANGED = ("LastModified", "mtime", "last_modified", "updated", "created")
"""Where the file systems of fsspec say when a file was written."""
USER = re.compile(r"(?<=://)[^/@]*@")


class RemoteFiles:
    """A store behind a URL of fsspec."""

    def __init__(self, url: str) -> None:
        """Import what the URL needs, and connect to nothing yet. Raises SettingsError."""
        self._protocol, _, rest = url.partition("://")
        self._url = f"{self._protocol}://{rest.rstrip('/')}"
        self._shown = USER.sub("", self._url)
        self._connected: tuple[int, Any, str] = -1, None, ""
        try:
            from fsspec import get_filesystem_class

            get_filesystem_class(self._protocol)
        except ImportError as error:
            cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
            package = "'frozen-agentreplay[stores]'" if cause.name == "fsspec" else cause.name or "what it names"
            raise SettingsError(f"{self._shown}: {error}. Type: pip install {package}") from None
        except ValueError:
            words = "fsspec knows no such protocol; name a folder, or a URL as s3://bucket/runs"
            raise SettingsError(f"{self._shown}: {words}") from None

    def _connect(self) -> tuple[Any, str]:
        """Return the file system and the path of the store in it: those of this process, a fork makes its own."""
        process, system, root = self._connected
        if process != os.getpid():
            from fsspec.core import url_to_fs

            system, root = url_to_fs(self._url)
            self._connected = os.getpid(), system, root.rstrip("/")
        return self._connected[1:]

    def _find_path(self, where: str) -> str:
        return f"{self._connect()[1]}/{where.removeprefix(f'{self._url}/')}"

    def locate(self, place: str) -> str:
        """Return the URL of a place in the store."""
        return f"{self._url}/{place}"

    def list_files(self, since: str) -> Iterator[RunEntry]:
        """List the files of the days from `since` on, unread, in one request of each thousand or so.

        Raises SnapshotUnreadable.
        """
        with self._reading(self._url):
            system, root = self._connect()
            system.invalidate_cache()  # others write there too
            # fsspec leaves out folders that it may not read, where folders are real and nobody says otherwise.
            options = {"on_error": "raise"} if self._protocol in RENAMING and system.exists(root) else {}
            details = system.find(root, detail=True, **options)
        for path, facts in sorted(details.items()):
            place = path.removeprefix(f"{root}/")
            if place.rpartition("/")[2].startswith("."):
                continue
            changed = next((str(facts[name]) for name in CHANGED if facts.get(name)), "")
            entry = make_entry(self.locate(place), place, facts.get("size") or 0, changed)
            if facts.get("type", "file") != "file":
                entry = RunEntry(entry.where, problem="is a link or another thing that is not followed")
            if entry.problem or entry.day >= since:
                yield entry

    def read_heads(self, entries: Sequence[RunEntry]) -> Sequence[bytes | Exception]:
        """Return the first bytes of each, or why they cannot be read; in parallel where the file system can."""
        paths = [self._find_path(entry.where) for entry in entries]
        # A range beyond the end of a file is an error in some stores.
        ends = [min(entry.size, codec.HEAD) for entry in entries]
        with self._reading(self._url):
            heads = self._connect()[0].cat_ranges(paths, [0] * len(paths), ends)
        return [head if isinstance(head, Exception) else bytes(head) for head in heads]

    def measure(self, where: str) -> int:
        """Return the bytes of a file. Raises SnapshotError."""
        with self._reading(where):
            return int(self._connect()[0].size(self._find_path(where)) or 0)

    def read(self, entry: RunEntry) -> bytes:
        """Return a whole file. Raises SnapshotError."""
        if entry.size > files.LARGEST:
            raise SnapshotUnreadable(f"is larger than {files.LARGEST:,} bytes", file=USER.sub("", entry.where))
        with self._reading(entry.where):
            return bytes(self._connect()[0].cat_file(self._find_path(entry.where)))

    def write(self, place: str, data: bytes) -> bool:
        """Write a file that is not there yet; False where one is. Raises CannotWrite."""
        with self._writing(place):
            system, path = self._connect()[0], self._find_path(place)
            if self._protocol in RENAMING:
                return write_and_rename(system, path, data)
            try:
                system.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
        return True

    def delete(self, where: str) -> None:
        """Remove a file. Raises CannotWrite."""
        with self._writing(where):
            self._connect()[0].rm_file(self._find_path(where))

    @contextmanager
    def _reading(self, where: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise SnapshotMissing("is not there", file=USER.sub("", where)) from None
        except Exception as error:  # each file system has errors of its own
            words = USER.sub("", f"cannot be read: {type(error).__name__}: {error}")
            raise SnapshotUnreadable(words, file=USER.sub("", where)) from None

    @contextmanager
    def _writing(self, place: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # as above
            words = f"{self._url}: {place} cannot be written: {type(error).__name__}: {error}"
            advice = "Check that the store is there, and that this service may write it."
            raise CannotWrite(f"{USER.sub('', words)}\n{advice}") from None


def write_and_rename(system: Any, path: str, data: bytes) -> bool:
    """Write a file beside its place and rename it; False where one stands there already."""
    if system.exists(path):
        return False
    folder = path.rpartition("/")[0]
    temporary = f"{folder}/{files.TEMPORARY}{secrets.token_hex(8)}.tmp"
    system.makedirs(folder, exist_ok=True)
    try:
        system.pipe_file(temporary, data)
        system.mv(temporary, path)
    except BaseException:
        if system.exists(temporary):
            system.rm_file(temporary)
        raise
    return True
