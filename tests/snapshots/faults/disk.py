"""Disks that fail. One stands in place of `os` in `snapshots.store.files`, the only name through which the store touches a disk."""

from __future__ import annotations

import errno
import itertools
import os
import signal
from contextlib import contextmanager

from pytest_agentreplay.snapshots.store import files

TAKES_SPACE = {"open", "write", "fsync", "replace", "makedirs"}
CHANGES = TAKES_SPACE | {"unlink", "rmdir"}
TOUCHES = CHANGES | {"read", "lstat", "fstat", "listdir", "close"}

NAMING = CHANGES - {"write", "fsync"}
LASTING = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), TAKES_SPACE)
LASTING |= {errno.EFBIG: {"write"}, errno.EIO: TOUCHES - {"close"}}
LASTING |= dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), NAMING)
"""What goes on failing once a disk is full, read-only or broken: the calls that such a disk refuses."""


class Disk:
    """`os`, whose calls that touch the disk are counted, and of which the n-th does what `act` says instead."""

    def __init__(self, at=0, act=None, *, counted=TOUCHES, lasting=frozenset()):
        self.at, self.act, self.counted, self.lasting = at, act, counted, lasting
        self.count = 0
        self.struck = ""
        self.calls = []
        self.open_handles = {}
        self.failed_syncs = set()

    def __getattr__(self, name):
        real = getattr(os, name)
        return self.counting(name, real) if name in TOUCHES else real

    def counting(self, name, real):
        def call(*args, **kwargs):
            reads = name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            self.calls.append(name)
            self.count += name in self.counted
            strikes = name in self.counted and self.count == self.at
            if strikes or (self.struck and name in self.lasting and not reads):
                self.struck = self.struck or name
                if name == "close":
                    self.done(name, args, real(*args, **kwargs))  # the descriptor is gone whatever close says
                if name == "fsync":
                    self.failed_syncs.add(self.open_handles.get(args[0]))
                return self.act(real, *args, **kwargs)
            if name == "fsync" and self.open_handles.get(args[0]) in self.failed_syncs:
                raise AssertionError("a sync that failed was asked again of the same open file")
            return self.done(name, args, real(*args, **kwargs))

        return call

    def done(self, name, args, result):
        if name == "open":
            self.open_handles[result] = (result, self.count)
        elif name == "close":
            self.open_handles.pop(args[0], None)
        return result


def fails(code):
    """The call is refused with an error of the system."""

    def act(real, *args, **kwargs):
        raise OSError(code, os.strerror(code))

    return act


def dies(real, *args, **kwargs):
    """The process is killed before the call."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupts(real, *args, **kwargs):
    """Somebody types Ctrl-C before the call."""
    signal.raise_signal(signal.SIGINT)
    return real(*args, **kwargs)


def takes_little(real, handle, data):
    """A write takes one byte, as it may."""
    return real(handle, data[:1])


def refusing(why, code, times, suffix=""):
    """So many calls on files with this ending are refused as Windows does, by an error with its code."""
    left = [times]

    def act(real, path, *args):
        if not str(path).endswith(suffix) or not left[0]:
            return real(path, *args)
        left[0] -= 1
        error = PermissionError(errno.EACCES, why)
        error.winerror = code
        raise error

    return act


@contextmanager
def instead_of(disk):
    """The store on this disk."""
    before, files.os = files.os, disk
    try:
        yield disk
    finally:
        files.os = before


def each_call(act, **more):
    """Disks that strike at the first call, the second, and so on; who runs on one that did not strike has seen all."""
    for at in itertools.count(1):
        disk = Disk(at, act, **more)
        yield disk
        if not disk.struck:
            return
