"""Files, whole or not at all. The only module that opens one for writing.

A file is written beside its place, flushed to the disk and renamed, so that whatever happens the old one is intact or
the new one is whole. What is read is a plain file of bounded size: no link, pipe or device that a stranger committed.
"""

# ruff: noqa: PTH103, PTH106, PTH108, PTH208
# One name, os, does everything to the disk, so that a test can fail each of its calls in turn.

from __future__ import annotations

import errno
import functools
import hashlib
import os
import secrets
import stat
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_agentreplay.errors import CannotWrite, SnapshotError, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.store.advice import cannot_write
from pytest_agentreplay.store.shown import shown
from pytest_agentreplay.store.windows import extended, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

LARGEST = 32 * 1024 * 1024
TEMPORARY = ".ar-"
STALE = 3600.0
SHARING_VIOLATIONS = (5, 32)
TRIES = 5
LOCK_PATIENCE, LOCK_STALE = 5.0, 30.0

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
BINARY = getattr(os, "O_BINARY", 0)


def taken(path: Path) -> Path | str:
    """`path` in the form in which the system takes it, whatever its length. Each call to the disk goes through here."""
    if sys.platform == "win32":
        return extended(os.path.abspath(path))  # noqa: PTH100  links stay what they are
    return path


def read(path: Path, largest: int | None = None) -> bytes:
    """The bytes of a plain file. Raises SnapshotMissing, or SnapshotUnreadable for whatever else stands there."""
    with plain(path) as handle:
        return read_bounded(handle, path, largest or LARGEST)


def head(path: Path, size: int) -> bytes:
    """The first bytes of a plain file. Raises like `read`."""
    with plain(path) as handle:
        return os.read(handle, size)


@contextmanager
def plain(path: Path) -> Iterator[int]:
    """A plain file, open. Raises SnapshotMissing, or SnapshotUnreadable for whatever else stands there."""
    try:
        if not stat.S_ISREG(os.lstat(taken(path)).st_mode):
            raise SnapshotUnreadable("is not a plain file; links, folders and pipes are not followed", file=shown(path))
        handle = insist(lambda: os.open(taken(path), os.O_RDONLY | NOFOLLOW | NONBLOCK | BINARY))
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SnapshotUnreadable("is not a plain file", file=shown(path))
            yield handle
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise SnapshotMissing("there is no such file", file=shown(path)) from None
    except OSError as error:
        raise SnapshotUnreadable(f"cannot be read: {error.strerror or error}", file=shown(path)) from None


def read_bounded(handle: int, path: Path, largest: int) -> bytes:
    """Everything, as long as it is not more than `largest`, whatever size the file claims to have."""
    parts = []
    size = 0
    while part := os.read(handle, 1 << 20):
        size += len(part)
        if size > largest:
            message = f"is larger than {largest:,} bytes; if that is meant, raise agentreplay_largest in the ini file"
            raise SnapshotUnreadable(message, file=shown(path), place=f"offset {largest}")
        parts.append(part)
    return b"".join(parts)


def write_whole(path: Path, text: str | bytes) -> None:
    """Put `text` (UTF-8) at `path`, making its folders. Raises CannotWrite; then what stood there is untouched."""
    data = text.encode() if isinstance(text, str) else text
    temporary = None
    try:
        os.makedirs(taken(path.parent), exist_ok=True)
        mode = mode_to_keep(path)
        temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(6)}.tmp"
        handle = os.open(taken(temporary), os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | BINARY, mode)
        try:
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        insist(functools.partial(os.replace, taken(temporary), taken(path)))
        temporary = None
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        if temporary is not None:
            remove(temporary)


def write_if_unchanged(path: Path, text: str | bytes, expected: str | None) -> None:
    """`write_whole`, unless the file is no longer the one whose sha256 was `expected` (None: there was none).

    Raises CannotWrite when another process has written it meanwhile; nothing is written then.
    """
    try:
        os.makedirs(taken(path.parent), exist_ok=True)
        with locked(path):
            if sha256_of(path) != expected:
                raise CannotWrite(
                    f"{shown(path)}: changed underneath this recording, so nothing was written. "
                    "Another run records the same test; let one of them record it again."
                )
            write_whole(path, text)
    except OSError as error:
        raise cannot_write(path, error) from None


def sha256_of(path: Path) -> str | None:
    """The digest of the file at `path`, or None when there is none."""
    try:
        return hashlib.sha256(read(path)).hexdigest()
    except SnapshotMissing:
        return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file of `path`. One that is older than `LOCK_STALE` seconds belonged to a killed process."""
    lock = path.parent / f"{TEMPORARY}{hashlib.sha256(path.name.encode()).hexdigest()[:12]}.lock"
    deadline = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            handle = os.open(taken(lock), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            if busy(error) and time.monotonic() <= deadline:  # on Windows a lock that is being removed can be met
                time.sleep(0.02)
            elif not isinstance(error, FileExistsError):
                raise
            elif older_than(lock, LOCK_STALE):
                remove(lock)
            elif time.monotonic() > deadline:
                raise CannotWrite(
                    f"{shown(path)}: another process is writing it; record again, or remove {shown(lock)}"
                ) from None
            else:
                time.sleep(0.02)
        else:
            break
    try:
        os.close(handle)
        yield
    finally:
        remove(lock)


def sweep(folder: Path) -> None:
    """Remove what killed processes have left in `folder`: our temporary files of more than an hour ago."""
    for name in names_in(folder):
        if name.startswith(TEMPORARY) and name.endswith((".tmp", ".lock")) and older_than(folder / name, STALE):
            remove(folder / name)


class Appending:
    """A new file that grows record by record; readable by its owner alone. Flushed to the system, not to the disk."""

    def __init__(self, path: Path) -> None:
        """Create the file and its folders. Raises CannotWrite."""
        self.path = path
        try:
            os.makedirs(taken(path.parent), exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | NOFOLLOW | BINARY
            self._handle: int | None = os.open(taken(path), flags, 0o600)
        except OSError as error:
            raise cannot_write(path, error) from None

    def append(self, data: bytes) -> None:
        """Add `data`. Raises CannotWrite; then nothing more can be added."""
        if self._handle is None:
            return
        try:
            write_all(self._handle, data)
        except OSError as error:
            self.close()
            raise cannot_write(self.path, error) from None

    def close(self, *, keep: bool = True) -> None:
        """Close it, and remove it unless it is to be kept."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        if not keep:
            remove(self.path)


def private(folder: Path) -> None:
    """Make `folder`, and keep it and everything in it out of git. Raises CannotWrite."""
    if not exists(folder / ".gitignore"):
        write_whole(folder / ".gitignore", "*\n")


def move_all(moves: Sequence[tuple[Path, Path, str]]) -> None:
    """Put each text at its new path and remove the old file: all of them, or none. Raises CannotWrite."""
    undo: list[tuple[Path, bytes | None]] = []
    try:
        for old, new, text in moves:
            undo.append((new, read(old) if old == new else None))
            write_whole(new, text)
        for old, new, _ in moves:
            if old != new:
                undo.append((old, read(old)))
                unlink(old)
    except (CannotWrite, SnapshotError):
        for path, before in reversed(undo):
            if before is None:
                remove(path)
            else:
                write_whole(path, before)
        raise


def refuse_links(path: Path, top: Path) -> None:
    """Raise SnapshotUnreadable where a folder between `path` and `top` is a link: it may lead out of the project."""
    for folder in path.parents:
        if folder == top or not folder.is_relative_to(top):
            return
        if linked(folder):
            raise SnapshotUnreadable("lies behind a link, which is not followed; make it a folder", file=shown(folder))


def linked(path: Path) -> bool:
    """Whether a link stands at `path`."""
    try:
        return stat.S_ISLNK(os.lstat(taken(path)).st_mode)
    except OSError:
        return False


def exists(path: Path) -> bool:
    """Whether anything stands at `path`, a dead link too."""
    try:
        os.lstat(taken(path))
    except OSError:
        return False
    return True


def real(path: Path) -> Path:
    """Where `path` is, all links followed. Raises OSError for one that is not there."""
    return Path(shortened(os.path.realpath(taken(path), strict=True)))


def unlink(path: Path) -> None:
    """Remove a file. Raises CannotWrite."""
    try:
        insist(lambda: os.unlink(taken(path)))
    except OSError as error:
        raise cannot_write(path, error, "removed") from None


def delete(path: Path, top: Path) -> None:
    """Remove a file for good, and the folders between it and `top` that became empty. Raises CannotWrite."""
    unlink(path)
    prune(path, top)


def prune(path: Path, top: Path) -> None:
    """Remove the folders between `path` and `top` that are empty."""
    for folder in path.parents:
        if folder == top or not folder.is_relative_to(top):
            return
        try:
            os.rmdir(taken(folder))
        except OSError:
            return


def mode_to_keep(path: Path) -> int:
    """The permissions of the file that will be replaced, or of a new one. Refuses to replace what is no plain file."""
    try:
        mode = os.lstat(taken(path)).st_mode
    except FileNotFoundError:
        return 0o666
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a plain file")
    return stat.S_IMODE(mode) | stat.S_IWUSR


def write_all(handle: int, data: bytes) -> None:
    """Write everything, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def insist(action: Callable[[], T]) -> T:
    """Do `action`, again where another process on Windows has the file open: a scanner, an editor, a sync client."""
    for attempt in range(TRIES - 1):
        try:
            return action()
        except OSError as error:
            if not busy(error):
                raise
            time.sleep(0.01 * 2**attempt)
    return action()


def busy(error: OSError) -> bool:
    """Whether Windows refused because another process has the file open or is removing it."""
    return getattr(error, "winerror", None) in SHARING_VIOLATIONS


def sync_folder(folder: Path) -> None:
    """Make the rename last, where a folder can be synced at all; the file is in its place already."""
    if os.name != "posix":
        return
    try:
        handle = os.open(taken(folder), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        pass


def names_in(folder: Path) -> list[str]:
    """What lies in `folder`, sorted; nothing where it is not there or cannot be read."""
    try:
        return sorted(os.listdir(taken(folder)))
    except OSError:
        return []


def below(folder: Path, ending: str) -> list[Path]:
    """The files at any depth below `folder` whose names end in `ending`, sorted. Links to folders are not followed."""
    found = []
    for name in names_in(folder):
        file = folder / name
        try:
            mode = os.lstat(taken(file)).st_mode
        except OSError:  # gone meanwhile
            continue
        if stat.S_ISDIR(mode):
            found += below(file, ending)
        elif name.endswith(ending):
            found.append(file)
    return found


def older_than(path: Path, seconds: float) -> bool:
    """Whether a file was last written so long ago; False for one that is gone."""
    try:
        return time.time() - os.lstat(taken(path)).st_mtime > seconds
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove a file of ours if it is there and can be removed; one that stays is swept later."""
    try:
        insist(lambda: os.unlink(taken(path)))
    except OSError:
        pass
