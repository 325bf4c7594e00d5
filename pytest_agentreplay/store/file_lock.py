"""Whose file it is: a lock that the system keeps on an open file, and that no process outlives, however it ends."""

from __future__ import annotations

import errno
import sys

from pytest_agentreplay.store.system import os

ELSEWHERE = {errno.EAGAIN, errno.EACCES, errno.EDEADLK, getattr(errno, "EDEADLOCK", errno.EDEADLK)}
"""What the systems say where another process holds the file."""

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

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def hold(handle: int) -> bool | None:
    """Hold an open file until it is closed. False: another one holds it; None: this file system knows no locks."""
    try:
        _lock(handle)
    except OSError as error:
        return False if error.errno in ELSEWHERE else None
    return True
