"""What a disk may hold after a power cut: nothing is there for certain but what was synced.

A `Recorded` disk keeps the calls that change something. `states` are the directories that they may have left when the
power went after any of them: of a file, any part of what was written since its last sync; of a folder, any of the
creations, renames and removals since its last sync, in their order.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from tests.snapshots.faults.disk import Disk


class Recorded(Disk):
    """A disk that writes down what is done to it."""

    def __init__(self, **more):
        super().__init__(**more)
        self.log = []
        self.names = {}

    def counting(self, name, real):
        call = super().counting(name, real)

        def logged(*args, **kwargs):
            new = name == "open" and bool(args[1] & os.O_CREAT) and not os.path.lexists(args[0])
            result = call(*args, **kwargs)
            match name:
                case "open":
                    self.names[result] = Path(args[0])
                    if new:
                        self.log.append(("create", Path(args[0]), os.fstat(result).st_ino))
                case "write":
                    self.log.append(("write", os.fstat(args[0]).st_ino, bytes(args[1][:result])))
                case "fsync":
                    kind = "sync folder" if self.names[args[0]].is_dir() else "sync"
                    self.log.append((kind, self.names[args[0]] if "folder" in kind else os.fstat(args[0]).st_ino))
                case "replace":
                    self.log.append(("rename", Path(args[0]), Path(args[1])))
                case "unlink":
                    self.log.append(("remove", Path(args[0])))
            return result

        return logged


def states(log, before):
    """The folders (path -> bytes) that may be there after a power cut; `before` is what was durable."""
    for end in range(len(log) + 1):
        yield from after(log[:end], before)


def after(log, before):
    inodes = {("old", path): [data, b""] for path, data in before.items()}
    durable = {path: ("old", path) for path in before}
    loose = []
    for call, *facts in log:
        match call:
            case "create":
                inodes[facts[1]] = [b"", b""]
                loose.append((call, *facts))
            case "write":
                inodes[facts[0]][1] += facts[1]
            case "sync":
                inodes[facts[0]] = [inodes[facts[0]][0] + inodes[facts[0]][1], b""]
            case "sync folder":
                for change in loose:
                    changed(durable, change)
                loose = []
            case _:
                loose.append((call, *facts))
    for chosen in itertools.product((False, True), repeat=len(loose)):
        names = dict(durable)
        for change in itertools.compress(loose, chosen):
            changed(names, change)
        for part in (0.0, 0.5, 1.0):
            yield {
                path: inodes[inode][0] + inodes[inode][1][: int(len(inodes[inode][1]) * part)]
                for path, inode in names.items()
            }


def changed(names, change):
    match change:
        case ("create", path, inode):
            names[path] = inode
        case ("rename", old, new):
            if old in names:  # its creation may be lost; a rename is atomic for itself
                names[new] = names.pop(old)
        case ("remove", path):
            names.pop(path, None)
