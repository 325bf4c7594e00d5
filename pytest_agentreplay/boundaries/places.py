"""Today's places: directories and names of this machine that must not bind a recording to it."""

from __future__ import annotations

import getpass
import os
import platform
import tempfile
from pathlib import Path


def todays_places(root: Path, *, tmp: Path | None = None) -> dict[str, str]:
    """Mark -> today's value: rootdir, current directory, the test's `tmp_path`, temp and home directory, host, user.

    A directory that symlinks elsewhere is given in the form that programs are told; its real form gets a mark of its
    own, because both turn up in prompts.
    """
    folders = {"root": root, "cwd": Path.cwd(), "tmp": tmp, "tempdir": Path(tempfile.gettempdir()), "home": home()}
    places: dict[str, str] = {}
    for mark, folder in folders.items():
        if folder is None or str(folder) in places.values():
            continue
        places[mark] = str(folder)
        real = os.path.realpath(folder)
        if real not in places.values():
            places[f"real{mark}"] = real
    places["host"] = platform.node()
    try:
        places["user"] = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        pass
    return {mark: value for mark, value in places.items() if value}


def home() -> Path | None:
    """The home directory, or None where the system does not say."""
    try:
        return Path.home()
    except RuntimeError:
        return None
