"""A path as people would type it, and what they can do where the system refuses one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.model.paths import relative_path

# Folders that hold copies of what lies behind a URL, which is shown in their place.
FETCHED: dict[Path, str] = {}


def format_path(path: Path | str) -> str:
    """Return `path` from the working directory when it lies below, else whole; with slashes on every system."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  resolving would follow links, which people did not type
    for folder, url in FETCHED.items():
        if absolute.is_relative_to(folder):
            return "/".join([url, *absolute.relative_to(folder).parts])
    try:
        return relative_path(absolute, Path.cwd())
    except OSError:  # a working directory that is gone
        return absolute.as_posix()


# What the system says names no way out. These are the cases that people meet.
ADVICE = {
    errno.ENOSPC: "free some space and record again",
    errno.EDQUOT: "your quota is used up: free some space and record again",
    errno.EROFS: "the tree is read-only: replay works here, recording needs a writable checkout",
    errno.EACCES: "make the folder writable, or record in a checkout that is yours",
    errno.EPERM: "make the folder writable, or record in a checkout that is yours",
    errno.EFBIG: "the file is larger than this system allows; record a shorter run",
    errno.EEXIST: "another file stands there; name another place",
    errno.ENOTDIR: "another file stands there; name another place",
    errno.ENAMETOOLONG: "move the checkout to a shorter path, or shorten agentreplay_dir",
}


def make_cannot_write(path: Path, error: OSError, verb: str = "written") -> CannotWrite:
    """Return the error for people: which file, what the system said, what to do."""
    words = (error.strerror or str(error)).lower()
    advice = ADVICE.get(error.errno or 0, "whatever stood there before is intact; try again")
    return CannotWrite(f"{format_path(path)}: cannot be {verb}: {words}.\n{advice[0].upper()}{advice[1:]}.")
