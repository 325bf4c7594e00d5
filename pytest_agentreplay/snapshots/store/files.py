"""Files, whole or not at all. The only module that opens one for writing.

A file is written beside its place, flushed to the disk and renamed, so that whatever happens the old one is intact or
the new one is whole. What is read is a plain file of bounded size: no link, pipe or device that a stranger committed.
It is long because it is one: whatever touches the disk does so through the name `os` in here, which tests replace.
"""

# One name, os, does everything to the disk, so that a test can fail each of its calls in turn.

from __future__ import annotations

import errno
import hashlib
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_agentreplay import clocks
from pytest_agentreplay.errors import CannotWrite, SnapshotError, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.snapshots.store.display_path import format_path, make_cannot_write
from pytest_agentreplay.snapshots.store.system import hold, to_extended, to_short

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import DirEntry
else:
    from pytest_agentreplay.snapshots.store.system import os

T = TypeVar("T")

LARGEST = 32 * 1024 * 1024
TEMPORARY = ".ar-"
STALE = 3600.0
# ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION: a scanner or an editor has the file open.
# https://learn.microsoft.com/windows/win32/debug/system-error-codes--0-499-
SHARING_VIOLATIONS = (5, 32)
TRIES = 5
# Five seconds: a snapshot is written in milliseconds, so whoever holds its lock longer hangs.
LOCK_TRIES, LOCK_PAUSE = 250, 0.02
# How a file system says that a file has only one name there, as on FAT.
LINKLESS = {errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP}
# What a folder's sync says where the rename may be lost; others say that this folder cannot be synced.
UNCONFIRMED = {errno.EIO, errno.ENOSPC, errno.EDQUOT}

# Without O_NONBLOCK the open of a pipe waits for a writer, without end: https://man7.org/linux/man-pages/man7/fifo.7.html
# Without O_BINARY the C library of Windows writes CRLF for LF.
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
BINARY = getattr(os, "O_BINARY", 0)


def to_system_path(path: Path) -> Path | str:
    """Return `path` in the form in which the system takes it, whatever its length.

    Each call to the disk goes through here.
    """
    if sys.platform == "win32":
        return to_extended(os.path.abspath(path))
    return path


def read_file(path: Path, largest: int | None = None) -> bytes:
    """Return the bytes of a plain file.

    Raises SnapshotMissing, or SnapshotUnreadable for whatever else stands there.
    """
    with open_plain(path) as handle:
        return read_bounded(handle, path, largest or LARGEST)


def read_if_there(path: Path, largest: int | None = None) -> bytes | None:
    """Return the bytes of a plain file, None where nothing stands. Raises SnapshotUnreadable for all else."""
    try:
        return read_file(path, largest)
    except SnapshotMissing:
        return None


def head(path: Path, size: int) -> bytes:
    """Return the first bytes of a plain file. Raises like `read_file`."""
    with open_plain(path) as handle:
        return os.read(handle, size)


def read_ends(path: Path, size: int) -> tuple[bytes, bytes, int]:
    """Return the first and the last `size` bytes of a plain file, and how many it has. Raises like `read_file`."""
    with open_plain(path) as handle:
        first, total = os.read(handle, size), os.fstat(handle).st_size
        if total <= size:
            return first, first, total
        os.lseek(handle, -size, os.SEEK_END)
        return first, os.read(handle, size), total


@contextmanager
def open_plain(path: Path) -> Iterator[int]:
    """A plain file, open. Raises SnapshotMissing, or SnapshotUnreadable for whatever else stands there."""
    try:
        if not stat.S_ISREG(os.lstat(to_system_path(path)).st_mode):
            raise SnapshotUnreadable(
                "is not a plain file; links, folders and pipes are not followed", file=format_path(path)
            )
        handle = insist(lambda: os.open(to_system_path(path), os.O_RDONLY | NOFOLLOW | NONBLOCK | BINARY))
        # Something else may have been put there between the look and the open.
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SnapshotUnreadable("is not a plain file", file=format_path(path))
            yield handle
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        raise SnapshotMissing("there is no such file", file=format_path(path)) from None
    except OSError as error:
        raise SnapshotUnreadable(f"cannot be read: {error.strerror or error}", file=format_path(path)) from None


def read_bounded(handle: int, path: Path, largest: int) -> bytes:
    """Return everything, as long as it is not more than `largest`, whatever size the file claims to have."""
    # The size that a file states says nothing: those in /proc state 0, and others grow while they are read.
    parts = []
    size = 0
    while part := os.read(handle, 1 << 20):
        size += len(part)
        if size > largest:
            message = f"is larger than {largest:,} bytes; to allow it, raise largest in agentreplay_checks"
            raise SnapshotUnreadable(message, file=format_path(path), place=f"offset {largest}")
        parts.append(part)
    return b"".join(parts)


def write_whole(path: Path, text: str | bytes) -> None:
    """Put `text` (UTF-8) at `path`, making its folders. Raises CannotWrite; then what stood there is untouched."""
    write_unsynced(path, text)
    sync_folder(path)


def append_text(path: Path, text: str) -> None:
    """Add `text` to a file that others add to as well. Raises CannotWrite."""
    with refusals(path):
        handle = os.open(to_system_path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | NOFOLLOW | BINARY, 0o666)
        try:
            write_all(handle, text.encode())
        finally:
            os.close(handle)


def write_unsynced(path: Path, text: str | bytes) -> None:
    """`write_whole` without waiting for the folder: a power cut may bring back what stood there."""
    with refusals(path), hold_lock(path) as token:
        write_beside(path, text, token)


def write_derived(path: Path, text: str) -> None:
    """Put `text` at `path` whole, making its folders, without a lock and without waiting for the disk.

    For many files that can be made again at any time. Raises CannotWrite.
    """
    with refusals(path):
        os.makedirs(to_system_path(path.parent), exist_ok=True)
        write_beside(path, text, TEMPORARY, synced=False)


def write_if_unchanged(path: Path, text: str | bytes, expected: str | None) -> None:
    """`write_whole`, unless the file is no longer the one whose sha256 was `expected` (None: there was none).

    Raises CannotWrite when another process has written it meanwhile; nothing is written then.
    """
    with refusals(path), hold_lock(path) as token:
        # Under the lock, so that nobody writes it between this look and the rename.
        if sha256_of(path) != expected:
            raise CannotWrite(
                f"{format_path(path)}: changed underneath this recording, so nothing was written. "
                "Another run records the same test; let one of them record it again."
            )
        write_beside(path, text, token)
    sync_folder(path)


def remove_if_unchanged(path: Path, expected: str) -> None:
    """Remove a file, unless another process has written it meanwhile. Raises CannotWrite."""
    with refusals(path, "removed"), hold_lock(path):
        if sha256_of(path) == expected:
            insist(lambda: os.unlink(to_system_path(path)))


@contextmanager
def refusals(path: Path, verb: str = "written") -> Iterator[None]:
    """What the system refuses, in words for people."""
    try:
        yield
    except OSError as error:
        raise make_cannot_write(path, error, verb) from None


def write_beside(path: Path, text: str | bytes, token: str, *, synced: bool = True) -> None:
    """Write a temporary file, flush it if it is to be `synced`, and rename it to `path`. Raises OSError."""
    data = text.encode() if isinstance(text, str) else text
    mode = mode_to_keep(path)
    temporary = path.parent / f"{token}-{secrets.token_hex(4)}.tmp"
    try:
        write_new(temporary, data, mode, synced=synced)
        insist(lambda: os.replace(to_system_path(temporary), to_system_path(path)))
    # Ctrl-C too: what is left would wait for the next writer of this file.
    except BaseException:
        remove(temporary)
        raise


def write_new(path: Path, data: bytes, mode: int = 0o666, *, synced: bool = True) -> None:
    """Write a file that is not there yet, and flush it to the disk if it is to be `synced`. Raises OSError."""
    handle = os.open(to_system_path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | BINARY, mode)
    try:
        write_all(handle, data)
        if synced:
            os.fsync(handle)  # one that fails is not asked again: the system may have dropped what it could not write
    finally:
        os.close(handle)


def write_once(path: Path, data: bytes) -> bool:
    """Put a new file at `path` that only its owner may read, and make its folders; False where something stands there.

    There is no lock, and the folder is not listed: it may hold many thousand files. Raises CannotWrite.
    """
    temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}.tmp"
    with refusals(path):
        make_private(path.parent)
        try:
            write_new(temporary, data, 0o600)
            is_new = rename_once(temporary, path)
        finally:
            remove(temporary)
    sync_folder(path)
    return is_new


def check_writable(folder: Path) -> None:
    """Raise CannotWrite where no file can be put into `folder`, which need not be there yet. Writes nothing."""
    with refusals(folder):
        place = next(path for path in (folder, *folder.parents) if exists(path) or path == path.parent)
        may_write = os.access(to_system_path(place), os.W_OK | os.X_OK)
        code = errno.ENOTDIR if not os.path.isdir(to_system_path(place)) else 0 if may_write else errno.EACCES
        if code:
            raise OSError(code, os.strerror(code))


def rename_once(old: Path, new: Path) -> bool:
    """Rename a file unless something stands at `new`: then False. Raises OSError."""
    # A rename replaces what stands there. A link does not, on every POSIX system; RENAME_NOREPLACE is Linux's alone.
    rename = os.link if os.name == "posix" else os.rename  # Windows replaces no file in a rename
    try:
        insist(lambda: rename(to_system_path(old), to_system_path(new)))
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in LINKLESS:
            raise
        if exists(new):
            return False
        os.replace(to_system_path(old), to_system_path(new))
    return True


def make_private(folder: Path) -> None:
    """Make a folder, and those above it, that only its owner may enter. Raises OSError."""
    for place in reversed([folder, *folder.parents]):
        if not exists(place):
            with suppress(FileExistsError):  # made meanwhile
                os.mkdir(to_system_path(place), 0o700)


def sha256_of(path: Path) -> str | None:
    """Return the digest of the file at `path`, or None when there is none."""
    digest = hashlib.sha256()
    try:
        with open_plain(path) as handle:
            while part := os.read(handle, 1 << 20):
                digest.update(part)
    except SnapshotMissing:
        return None
    return digest.hexdigest()


@contextmanager
def hold_lock(path: Path) -> Iterator[str]:
    """Hold the lock of `path`, making its folders; yield how the names of its temporary files begin.

    The system lets go of it when the process ends, so that nobody waits for a dead one. Whoever holds it also clears
    away what a killed writer of this file has left, and what others left long ago. Raises CannotWrite where another one
    holds it for long.
    """
    os.makedirs(to_system_path(path.parent), exist_ok=True)
    token = f"{TEMPORARY}{hashlib.sha256(path.name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    lock = path.parent / f"{token}.lock"
    handle, sure = open_lock(path, lock)
    try:
        sweep(path.parent, f"{token}-" if sure else "")
        yield token
    finally:
        try:
            if os.name == "posix":
                remove(lock)  # while it is ours
        finally:
            close_quietly(handle)
        if os.name != "posix":
            remove(lock)  # Windows removes no open file, and so none that another process waits for


def open_lock(path: Path, lock: Path) -> tuple[int, bool]:
    """Return the lock file, open and ours; and whether the system holds others off, which some file systems cannot."""
    refusal: OSError | None = None
    for _ in range(LOCK_TRIES):
        try:
            handle = os.open(to_system_path(lock), os.O_RDWR | os.O_CREAT | NOFOLLOW | NONBLOCK | BINARY, 0o666)
        except OSError as error:
            if not is_sharing_violation(error):  # on Windows one that is being removed can be met
                raise
            refusal = error
        else:
            try:
                ours = hold(handle)
                # One that was removed meanwhile is locked for nobody: the next process opens another file of that name.
                if ours is None or (ours and is_still_at(lock, handle)):
                    return handle, bool(ours)
            except BaseException:
                close_quietly(handle)
                raise
            close_quietly(handle)
            refusal = None
        clocks.sleep(LOCK_PAUSE)
    if refusal is not None:
        raise refusal
    raise CannotWrite(f"{format_path(path)}: another process is writing it, and has been for a while; record again")


def is_still_at(path: Path, handle: int) -> bool:
    """Return whether the open file is still the one at `path`, and not one that was removed meanwhile."""
    if os.name != "posix":  # where nobody removes an open file
        return True
    try:
        current, opened = os.lstat(to_system_path(path)), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (current.st_dev, current.st_ino) == (opened.st_dev, opened.st_ino)


def sweep(folder: Path, ours: str = "") -> None:
    """Remove what killed processes have left in `folder`: our temporary files of more than an hour ago.

    Those whose names begin with `ours` go whatever their age: nobody writes them any more.
    """
    for name in list_names(folder):
        mine = bool(ours) and name.startswith(ours)
        if mine or (is_temporary(name) and name.endswith((".tmp", ".lock")) and is_older_than(folder / name, STALE)):
            remove(folder / name)


def is_temporary(name: str) -> bool:
    """Return whether a file or folder of this name is being written, or was left by a process that was killed."""
    return name.startswith(TEMPORARY)


class Appending:
    """A new file that grows record by record; readable by its owner alone. Flushed to the system, not to the disk.

    It is held while it is open: `is_growing` tells a file that somebody still adds to from one that was left behind.
    """

    def __init__(self, path: Path) -> None:
        """Create the file and its folders. Raises CannotWrite."""
        self.path = path
        with refusals(path):
            os.makedirs(to_system_path(path.parent), exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | NOFOLLOW | BINARY
            self._handle: int | None = os.open(to_system_path(path), flags, 0o600)
        # At once: the file is new, so that nobody else can hold it.
        hold(self._handle)

    def append(self, data: bytes) -> None:
        """Add `data`. Raises CannotWrite; then nothing more can be added."""
        if self._handle is None:
            return
        try:
            write_all(self._handle, data)
        except OSError as error:
            self.close()
            raise make_cannot_write(self.path, error, "written") from None

    def close(self, *, keep: bool = True) -> None:
        """Close it, and remove it unless it is to be kept."""
        if self._handle is not None:
            close_quietly(self._handle)
            self._handle = None
        if not keep:
            remove(self.path)


@contextmanager
def shared_lines(path: Path) -> Iterator[tuple[list[bytes], Callable[[bytes], None]]]:
    """Hold the lock of a file of lines: those that are whole, and what adds one. Raises CannotWrite."""
    with refusals(path), hold_lock(path):
        data = read_if_there(path) or b""
        *lines, rest = data.split(b"\n")

        def append(line: bytes) -> None:
            nonlocal rest  # what a killed writer has left of a line goes, so that it spoils no other
            handle = os.open(to_system_path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | NOFOLLOW | BINARY, 0o666)
            try:
                if rest:
                    os.ftruncate(handle, len(data) - len(rest))
                write_all(handle, line + b"\n")
            finally:
                os.close(handle)
            rest = b""

        yield lines, append


def make_private_folder(folder: Path) -> None:
    """Make `folder`, and keep it and everything in it out of git. Raises CannotWrite."""
    sweep(folder)
    if not exists(folder / ".gitignore"):
        write_whole(folder / ".gitignore", "*\n")


def make_new(folder: Path) -> bool:
    """Make a folder that is nobody else's; False where there is one already. Raises CannotWrite."""
    with refusals(folder):
        os.makedirs(to_system_path(folder.parent), exist_ok=True)
        try:
            os.mkdir(to_system_path(folder))
        except FileExistsError:
            return False
    return True


def move_all(moves: Sequence[tuple[Path, Path, str]]) -> None:
    """Put each text at its new path and remove the old file: all of them, or none. Raises CannotWrite."""
    undo: list[tuple[Path, bytes | None]] = []
    try:
        # All new files come before the first removal: a kill leaves a snapshot twice, and never nowhere.
        for old, new, text in moves:
            undo.append((new, read_file(old) if old == new else None))
            write_whole(new, text)
        for old, new, _ in moves:
            if old != new:
                undo.append((old, read_file(old)))
                unlink(old)
    except (CannotWrite, SnapshotError):
        for path, before in reversed(undo):
            if before is None:
                remove(path)
            else:
                write_whole(path, before)
        raise


def make_folder(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Make `folder` with these files (by name from there): all of it, or nothing. False where one is there already.

    It is made beside its place and renamed, so that whatever happens there is no half of it. Raises CannotWrite.
    """
    with refusals(folder), hold_lock(folder) as token:
        if exists(folder):
            return False
        beside = folder.parent / f"{token}-{secrets.token_hex(4)}.tmp"
        try:
            for name, data in contents.items():
                os.makedirs(to_system_path((beside / name).parent), exist_ok=True)
                write_new(beside / name, data)
            # The rename may reach the disk before the names inside, which would be an empty folder after a power cut.
            for inside in {(beside / name).parent for name in contents}:
                sync(inside)
            insist(lambda: os.replace(to_system_path(beside), to_system_path(folder)))
        except BaseException:
            remove(beside)
            raise
    sync_folder(folder)
    return True


def write_all_whole(contents: Mapping[Path, bytes], last: Callable[[], object] = lambda: None) -> None:
    """Put every file in its place, or leave all as they were; they are put there in this order, then `last` is called.

    Raises CannotWrite, or SnapshotUnreadable for a link. On a disk that takes nothing more not even the old ones can be
    put back: then each file is the old one or the new one, whole.
    """
    before: dict[Path, bytes | None] = {}
    try:
        for path, data in contents.items():
            before[path] = read_if_there(path)
            write_unsynced(path, data)
        last()
    except BaseException:
        for path, was in before.items():
            put_back(path, was)
        raise
    for path in {path.parent: path for path in contents}.values():
        sync_folder(path)


def put_back(path: Path, was: bytes | None) -> None:
    """Bring back what stood at `path`, None for nothing, where the disk still allows it."""
    if was is None:
        remove(path)
    else:
        with suppress(CannotWrite):
            write_unsynced(path, was)


def refuse_links(path: Path, top: Path) -> None:
    """Raise SnapshotUnreadable where a folder between `path` and `top` is a link: it may lead out of the project."""
    for folder in path.parents:
        if folder == top or not folder.is_relative_to(top):
            return
        if is_link(folder):
            raise SnapshotUnreadable(
                "lies behind a link, which is not followed; make it a folder", file=format_path(folder)
            )


def is_link(path: Path) -> bool:
    """Return whether a link stands at `path`."""
    try:
        return stat.S_ISLNK(os.lstat(to_system_path(path)).st_mode)
    except OSError:
        return False


def exists(path: Path) -> bool:
    """Return whether anything stands at `path`, a dead link too."""
    try:
        os.lstat(to_system_path(path))
    except OSError:
        return False
    return True


def resolve_path(path: Path) -> Path:
    """Return where `path` is, all links followed. Raises OSError for one that is not there."""
    return Path(to_short(os.path.realpath(to_system_path(path), strict=True)))


def unlink(path: Path) -> None:
    """Remove a file. Raises CannotWrite."""
    with refusals(path, "removed"):
        insist(lambda: os.unlink(to_system_path(path)))


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
            os.rmdir(to_system_path(folder))
        except OSError:
            return


def mode_to_keep(path: Path) -> int:
    """Return the permissions of the file that will be replaced, or of a new one.

    Refuses to replace what is no plain file.
    """
    try:
        mode = os.lstat(to_system_path(path)).st_mode
    except FileNotFoundError:
        return 0o666
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a plain file")
    return stat.S_IMODE(mode) | stat.S_IWUSR


def write_all(handle: int, data: bytes) -> None:
    """Write everything, however little the system takes at a time."""
    # One call takes 2 GiB at the most, and less on a disk that is nearly full: https://man7.org/linux/man-pages/man2/write.2.html
    view = memoryview(data)
    while view:
        if not (written := os.write(handle, view)):
            raise OSError(errno.EIO, "the system took nothing")
        view = view[written:]


def insist(action: Callable[[], T]) -> T:
    """Do `action`, again where another process on Windows has the file open: a scanner, an editor, a sync client."""
    for attempt in range(TRIES - 1):
        try:
            return action()
        except OSError as error:
            if not is_sharing_violation(error):
                raise
            clocks.sleep(0.01 * 2**attempt)
    return action()


def is_sharing_violation(error: OSError) -> bool:
    """Return whether Windows refused because another process has the file open or is removing it."""
    return getattr(error, "winerror", None) in SHARING_VIOLATIONS


def is_growing(path: Path) -> bool | None:
    """Return whether a process that is alive still adds to the file at `path`; None where that cannot be told."""
    with open_plain(path) as handle:
        # Closing the file lets go of the lock again.
        free = hold(handle)
    return None if free is None else not free


def sync_folder(path: Path) -> None:
    """Make the rename to `path` last, where a folder can be synced at all. Raises CannotWrite: it is written then."""
    try:
        sync(path.parent)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CannotWrite(
            f"{format_path(path)}: is written, but the disk did not confirm it: {reason}.\n"
            "A power cut may bring back what stood there before: check the disk, and record again."
        ) from None


def sync(folder: Path) -> None:
    """Flush the names in `folder` to the disk, where a folder can be synced at all. Raises OSError."""
    # A file's own fsync leaves its name behind: https://man7.org/linux/man-pages/man2/fsync.2.html
    # Windows opens no folder, so that none can be flushed there.
    if os.name != "posix":
        return
    try:
        handle = os.open(to_system_path(folder), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            close_quietly(handle)
    except OSError as error:
        if error.errno in UNCONFIRMED:
            raise


def close_quietly(handle: int) -> None:
    """Close a file of which nothing more is wanted."""
    try:
        os.close(handle)
    except OSError:
        pass


def list_names(folder: Path, *, strict: bool = False) -> list[str]:
    """Return what lies in `folder`, sorted; nothing where it is not there.

    One that cannot be read holds nothing either, or, where it is `strict`, raises SnapshotUnreadable.
    """
    try:
        return sorted(os.listdir(to_system_path(folder)))
    except OSError as error:
        raise_unreadable(folder, error, strict=strict)
        return []


def list_folders(folder: Path) -> list[DirEntry[str]]:
    """Return the folders in `folder`, by name, but links and hidden ones. Raises SnapshotUnreadable."""
    return [entry for entry in list_entries(folder) if entry.is_dir(follow_symlinks=False)]


def list_entries(folder: Path) -> list[DirEntry[str]]:
    """Return what lies in `folder`, by name, but hidden and temporary files. Raises SnapshotUnreadable."""
    try:
        with os.scandir(to_system_path(folder)) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SnapshotUnreadable(f"cannot be read: {error.strerror or error}", file=format_path(folder)) from None


def list_below(folder: Path, ending: str | tuple[str, ...], *, strict: bool = False) -> list[Path]:
    """The files at any depth below `folder` whose names end in `ending`, sorted; none that is still being written.

    Links to folders are not followed. What cannot be read is left out, or, where it is `strict`, raises
    SnapshotUnreadable.
    """
    files = []
    for name in list_names(folder, strict=strict):
        file = folder / name
        if is_temporary(name):
            continue
        try:
            # Not `stat`: a link to a folder above would be followed round and round.
            mode = os.lstat(to_system_path(file)).st_mode
        except OSError as error:
            raise_unreadable(file, error, strict=strict)
            continue
        if stat.S_ISDIR(mode):
            files += list_below(file, ending, strict=strict)
        elif name.endswith(ending):
            files.append(file)
    return files


def raise_unreadable(path: Path, error: OSError, *, strict: bool) -> None:
    """Raise SnapshotUnreadable where one is `strict`, unless nothing stands at `path`, any more or at all."""
    if strict and not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise SnapshotUnreadable(f"cannot be read: {error.strerror or error}", file=format_path(path)) from None


def is_older_than(path: Path, seconds: float) -> bool:
    """Return whether a file was last written so long ago, or, as clocks are set, will be.

    False for one that is gone.
    """
    try:
        # A clock that was set back has left files of the future, which would never grow old.
        return abs(clocks.wall() - os.lstat(to_system_path(path)).st_mtime) > seconds
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove a file of ours, or a folder with all that is in it, if it can be; what stays is swept later."""
    try:
        if stat.S_ISDIR(os.lstat(to_system_path(path)).st_mode):
            for name in list_names(path):
                remove(path / name)
            os.rmdir(to_system_path(path))
        else:
            insist(lambda: os.unlink(to_system_path(path)))
    except OSError:
        pass
