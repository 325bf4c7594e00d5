r"""What differs between systems: files under lock, and paths as Windows takes them.

`os` has the functions of Python's `os` as they are before a test replaces them.

A guard against blocking calls (blockbuster) replaces `os.write` and others, and takes what we write on the event loop
for a call of the agent. What we write is a line of a journal, which the next call must not overtake.

Windows takes a long path only in its extended form, `\\?\C:\...`, which people are never shown.

A lock says whose file it is: the system keeps it on an open file, and no process outlives it, however it ends.
"""

from __future__ import annotations

import errno
import ntpath
import os as _os
import sys
from types import SimpleNamespace

# `__wrapped__` is the real function where such a guard stands in its place already.
os = SimpleNamespace(**{name: getattr(value, "__wrapped__", value) for name, value in vars(_os).items()})


# UTF-16 units of a folder's path, its end included in Windows' 260 with room for a name; a file may have 12 more.
LONGEST = 247
# https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation
EXTENDED, DEVICE, SHARE = "\\\\?\\", "\\\\.\\", "\\\\"


def to_extended(path: str) -> str:
    r"""Return an absolute path of Windows as it may be of any length: `\\?\C:\...`, `\\?\UNC\server\share\...`.

    A path that needs no such form stays as it is.
    """
    if path.startswith((EXTENDED, DEVICE)):
        return path
    normal = ntpath.normpath(path)  # in the extended form Windows takes slashes and dots literally
    if len(normal.encode("utf-16-le", "surrogatepass")) <= 2 * LONGEST:
        return path
    return f"{EXTENDED}UNC\\{normal[2:]}" if normal.startswith(SHARE) else EXTENDED + normal


def to_short(path: str) -> str:
    """Return a path as people know it, whatever form it came in."""
    if path.startswith(f"{EXTENDED}UNC\\"):
        return SHARE + path.removeprefix(f"{EXTENDED}UNC\\")
    return path.removeprefix(EXTENDED)


# What the systems say where another process holds the file.
ELSEWHERE = {errno.EAGAIN, errno.EACCES, errno.EDEADLK, getattr(errno, "EDEADLOCK", errno.EDEADLK)}

if sys.platform == "win32":
    import msvcrt

    BEYOND = 1 << 30  # Windows lets nobody read what is locked, so a byte is locked that no file has

    def _lock(handle: int) -> None:
        here = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(handle, here, os.SEEK_SET)
else:
    import fcntl

    # Not `lockf`: its locks are those of a process, and end when any thread closes any handle of the file.
    # https://man7.org/linux/man-pages/man2/fcntl_locking.2.html
    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def hold(handle: int) -> bool | None:
    """Hold an open file until it is closed. False: another one holds it; None: this file system knows no locks."""
    try:
        _lock(handle)
    except OSError as error:
        return False if error.errno in ELSEWHERE else None
    return True
