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
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_agentreplay import clocks
from pytest_agentreplay.errors import CannotWrite, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.snapshots.store import format_path
from pytest_agentreplay.snapshots.store.system import hold, to_extended, to_short

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import DirEntry
else:
    from pytest_agentreplay.snapshots.store.system import os

T = TypeVar("T")

# What the system says names no way out. These are the cases that people meet.
ADVICE = {
    errno.ENOSPC: "Free some space and record again.",
    errno.EDQUOT: "Your quota is used up: free some space and record again.",
    errno.EROFS: "The tree is read-only: replay works here, recording needs a writable checkout.",
    errno.EACCES: "Make the folder writable, or record in a checkout that is yours.",
    errno.EPERM: "Make the folder writable, or record in a checkout that is yours.",
    errno.EFBIG: "The file is larger than this system allows; record a shorter run.",
    errno.EEXIST: "Another file stands there; name another place.",
    errno.ENOTDIR: "Another file stands there; name another place.",
    errno.ENAMETOOLONG: "Move the checkout to a shorter path, or shorten agentreplay_dir.",
}

LARGEST = 32 * 1024 * 1024
TEMPORARY = ".ar-"
STALE = 3600.0
# ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION: a scanner or an editor has the file open.
# https://learn.microsoft.com/windows/win32/debug/system-error-codes--0-499-
SHARING_VIOLATIONS = (5, 32)
# With growing pauses: 0.6 seconds in all.
TRIES = 7
# Five seconds: a snapshot is written in milliseconds, so whoever holds its lock longer hangs.
LOCK_TRIES, LOCK_PAUSE = 250, 0.02
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

    Raises SnapshotMissing, or SnapshotUnreadable for whatever else stands there and for more bytes than `largest`.
    """
    with open_plain(path) as handle:
        return read_bounded(handle, path, largest or LARGEST)


def read_bounded(handle: int, path: Path, largest: int) -> bytes:
    """Return everything, as long as it is not more than `largest`, whatever size the file claims to have."""
    # The size that a file states says nothing: those in /proc state 0, and others grow while they are read.
    data = bytearray()
    while part := os.read(handle, 1 << 20):
        data += part
        if len(data) > largest:
            message = f"is larger than {largest:,} bytes; to allow it, raise largest in agentreplay_checks"
            raise SnapshotUnreadable(message, file=format_path(path), place=f"offset {largest}")
    return bytes(data)


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
        check_plain(os.lstat(to_system_path(path)), path)
        handle = insist(lambda: os.open(to_system_path(path), os.O_RDONLY | NOFOLLOW | NONBLOCK | BINARY))
        try:
            check_plain(os.fstat(handle), path)  # something else may have been put there since
            yield handle
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        raise SnapshotMissing("there is no such file", file=format_path(path)) from None
    except OSError as error:
        raise SnapshotUnreadable(f"cannot be read: {error.strerror or error}", file=format_path(path)) from None


def check_plain(status: os.stat_result, path: Path) -> None:
    """Raise SnapshotUnreadable for what is no plain file."""
    if not stat.S_ISREG(status.st_mode):
        message = "is not a plain file; links, folders and pipes are not followed"
        raise SnapshotUnreadable(message, file=format_path(path))


def write_whole(path: Path, text: str | bytes) -> None:
    """Put `text` (UTF-8) at `path`, making its folders. Raises CannotWrite; then what stood there is untouched."""
    write_unsynced(path, text)
    sync_folder(path)


def write_unsynced(path: Path, text: str | bytes) -> None:
    """`write_whole` without waiting for the folder: a power cut may bring back what stood there."""
    with refusals(path), hold_lock(path) as token:
        write_beside(path, text, token)


def append_text(path: Path, text: str) -> None:
    """Add `text` to a file that others add to as well. Raises CannotWrite."""
    with refusals(path), open_to_write(path, os.O_APPEND) as handle:
        write_all(handle, text.encode())


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
        words = (error.strerror or str(error)).lower()
        advice = ADVICE.get(error.errno or 0, "Whatever stood there before is intact; try again.")
        raise CannotWrite(f"{format_path(path)}: cannot be {verb}: {words}.\n{advice}") from None


def write_beside(path: Path, text: str | bytes, token: str, *, synced: bool = True) -> None:
    """Write a temporary file, flush it if it is to be `synced`, and rename it to `path`. Raises OSError."""
    data = text.encode() if isinstance(text, str) else text
    with free_path_beside(path, token) as temporary:
        write_new(temporary, data, mode_to_keep(path), synced=synced)
        insist(lambda: os.replace(to_system_path(temporary), to_system_path(path)))


@contextmanager
def free_path_beside(path: Path, token: str) -> Iterator[Path]:
    """The path of a temporary file or folder beside `path`; what was not renamed from there is removed."""
    temporary = path.parent / f"{token}-{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
    # Ctrl-C too: what is left would wait for the next writer of this file.
    except BaseException:
        remove(temporary)
        raise


def write_new(path: Path, data: bytes, mode: int = 0o666, *, synced: bool = True) -> None:
    """Write a file that is not there yet, and flush it to the disk if it is to be `synced`. Raises OSError."""
    with open_to_write(path, os.O_EXCL, mode) as handle:
        write_all(handle, data)
        if synced:
            os.fsync(handle)  # one that fails is not asked again: the system may have dropped what it could not write


@contextmanager
def open_to_write(path: Path, flags: int, mode: int = 0o666) -> Iterator[int]:
    """A file, open for writing, and made where there is none; no link is followed. Raises OSError."""
    handle = os.open(to_system_path(path), os.O_WRONLY | os.O_CREAT | NOFOLLOW | BINARY | flags, mode)
    try:
        yield handle
    finally:
        os.close(handle)


def write_once(path: Path, data: bytes) -> bool:
    """Put a new file at `path` that only its owner may read, and make its folders; False where something stands there.

    There is no lock, and the folder is not listed: it may hold many thousand files. Raises CannotWrite.
    """
    with refusals(path), free_path_beside(path, TEMPORARY) as temporary:
        make_private(path.parent)
        write_new(temporary, data, 0o600)
        is_new = rename_once(temporary, path)
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
    except OSError:
        if exists(new):
            return False
        # On file systems where a file has only one name, as on FAT.
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
    flags = os.O_RDWR | os.O_CREAT | NOFOLLOW | NONBLOCK | BINARY
    for _ in range(LOCK_TRIES):
        handle = insist(lambda: os.open(to_system_path(lock), flags, 0o666))
        try:
            ours = hold(handle)
            # One that was removed meanwhile is locked for nobody: the next process opens another file of that name.
            if ours is None or (ours and is_still_at(lock, handle)):
                return handle, bool(ours)
        except BaseException:
            close_quietly(handle)
            raise
        close_quietly(handle)
        clocks.sleep(LOCK_PAUSE)
    raise CannotWrite(f"{format_path(path)}: another process is writing it, and has been for a while; record again")


def is_still_at(path: Path, handle: int) -> bool:
    """Return whether the open file is still the one at `path`, and not one that was removed meanwhile."""
    try:  # Windows removes no open file
        return os.name != "posix" or os.path.samestat(os.lstat(to_system_path(path)), os.fstat(handle))
    except FileNotFoundError:
        return False


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
            with refusals(self.path):
                write_all(self._handle, data)
        except CannotWrite:
            self.close()
            raise

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
        *lines, torn = data.split(b"\n")
        size = len(data) - len(torn)

        def append(line: bytes) -> None:
            nonlocal size
            with open_to_write(path, os.O_APPEND) as handle:
                os.ftruncate(handle, size)  # what a killed writer has left of a line, so that it spoils no other
                write_all(handle, line + b"\n")
            size += len(line) + 1

        yield lines, append


def make_private_folder(folder: Path) -> None:
    """Make `folder`, and keep it and everything in it out of git. Raises CannotWrite."""
    sweep(folder)
    if not exists(folder / ".gitignore"):
        write_whole(folder / ".gitignore", "*\n")


def make_new(folder: Path) -> bool:
    """Make a folder that is nobody else's; False where there is one already. Raises CannotWrite."""
    with refusals(folder):
        try:
            os.makedirs(to_system_path(folder))
        except FileExistsError:
            return False
    return True


def make_folder(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Make `folder` with these files (by name from there): all of it, or nothing. False where one is there already.

    It is made beside its place and renamed, so that whatever happens there is no half of it. Raises CannotWrite.
    """
    with refusals(folder), hold_lock(folder) as token:
        if exists(folder):
            return False
        with free_path_beside(folder, token) as beside:
            for name, data in contents.items():
                os.makedirs(to_system_path((beside / name).parent), exist_ok=True)
                write_new(beside / name, data)
            # The rename may reach the disk before the names inside, which would be an empty folder after a power cut.
            for inside in {(beside / name).parent for name in contents}:
                sync(inside)
            insist(lambda: os.replace(to_system_path(beside), to_system_path(folder)))
    sync_folder(folder)
    return True


def move_all(moves: Sequence[tuple[Path, Path, str]]) -> None:
    """Put each text at its new path and remove the old file: all of them, or none. Raises CannotWrite."""
    new_files = {new: text.encode() for _, new, text in moves}
    old_files = [old for old, _, _ in moves if old not in new_files]
    before = {path: read_if_there(path) for path in (*new_files, *old_files)}
    try:
        # All new files come before the first removal: a kill leaves a snapshot twice, and never nowhere.
        write_all_whole(new_files)
        for old in old_files:
            unlink(old)
    except BaseException:
        put_back(before)
        raise


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
        put_back(before)
        raise
    for path in {path.parent: path for path in contents}.values():
        sync_folder(path)


def put_back(before: Mapping[Path, bytes | None]) -> None:
    """Bring back what stood at each path, None for nothing, where the disk still allows it."""
    for path, data in before.items():
        if data is None:
            remove(path)
        else:
            with suppress(CannotWrite):
                write_unsynced(path, data)


def refuse_links(path: Path, top: Path) -> None:
    """Raise SnapshotUnreadable where a folder between `path` and `top` is a link: it may lead out of the project."""
    for folder in list_folders_between(path, top):
        if os.path.islink(to_system_path(folder)):
            message = "lies behind a link, which is not followed; make it a folder"
            raise SnapshotUnreadable(message, file=format_path(folder))


def list_folders_between(path: Path, top: Path) -> Iterator[Path]:
    """Return the folders above `path` and below `top`, from `path` up."""
    return takewhile(lambda folder: folder != top and folder.is_relative_to(top), path.parents)


def exists(path: Path) -> bool:
    """Return whether anything stands at `path`, a dead link too."""
    return os.path.lexists(to_system_path(path))


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
    with suppress(OSError):
        for folder in list_folders_between(path, top):
            os.rmdir(to_system_path(folder))


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
    with suppress(OSError):
        os.close(handle)


def list_names(folder: Path, *, strict: bool = False) -> list[str]:
    """Return the names in `folder`. Raises like `list_entries`."""
    return [entry.name for entry in list_entries(folder, strict=strict)]


def list_entries(folder: Path, *, strict: bool = False) -> list[DirEntry[str]]:
    """Return what lies in `folder`, sorted by name; nothing where it is not there.

    One that cannot be read holds nothing either, or, where it is `strict`, raises SnapshotUnreadable.
    """
    try:
        with os.scandir(to_system_path(folder)) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if strict and not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise SnapshotUnreadable(f"cannot be read: {error.strerror or error}", file=format_path(folder)) from None
        return []


def list_folders(folder: Path, *, strict: bool = False) -> list[Path]:
    """Return the folders in `folder`, sorted; no link to one, and none that is being written. As `list_entries`."""
    entries = [entry for entry in list_entries(folder, strict=strict) if entry.is_dir(follow_symlinks=False)]
    return [folder / entry.name for entry in entries if not is_temporary(entry.name)]


def walk(
    folder: Path, skips: Callable[[Path], bool] = lambda _: False, *, strict: bool = False
) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder at or below `folder` with the names of its files, sorted; no file that is still being written.

    A folder that `skips` is left out with all below it; a link is a file. Raises like `list_entries`.
    """
    entries = [entry for entry in list_entries(folder, strict=strict) if not is_temporary(entry.name)]
    below = [folder / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    yield folder, [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    for inside in below:
        if not skips(inside):
            yield from walk(inside, skips, strict=strict)


def list_below(folder: Path, ending: str | tuple[str, ...], *, strict: bool = False) -> list[Path]:
    """Return the files at any depth below `folder` whose names end in `ending`, sorted. Raises like `walk`."""
    return sorted(here / name for here, names in walk(folder, strict=strict) for name in names if name.endswith(ending))


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
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(to_system_path(path)).st_mode):
            for name in list_names(path):
                remove(path / name)
            os.rmdir(to_system_path(path))
        else:
            insist(lambda: os.unlink(to_system_path(path)))
