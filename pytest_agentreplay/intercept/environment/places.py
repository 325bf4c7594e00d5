"""Today's places: directories and names of this machine that must not bind a recording to it."""

from __future__ import annotations

import getpass
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LINKS = ("/tmp", "/var")  # noqa: S108  on macOS both lead into /private
"""Links of the system that directories are told through."""


def todays_places(root: Path, *, tmp: Path | None = None) -> dict[str, str]:
    """Mark -> today's value: rootdir, current directory, the test's `tmp_path`, temp and home directory, host, user.

    A directory has several spellings, all of which turn up in prompts: as programs are told it, as it really is, and
    through a link above it. Each gets a mark of its own.
    """
    temporary = tempfile.gettempdir()
    folders = {"root": root, "cwd": Path.cwd(), "tmp": tmp, "tempdir": Path(temporary), "home": home()}
    links = {os.path.realpath(link): link for link in (*LINKS, temporary)}
    places: dict[str, str] = {}
    for mark, folder in folders.items():
        if folder is None or str(folder) in places.values():
            continue
        places[mark] = str(folder)
        real = os.path.realpath(folder)
        for kind, spelling in (("real", real), ("link", linked(real, links))):
            if spelling not in places.values():
                places[kind + mark] = spelling
    places["host"] = platform.node()
    try:
        places["user"] = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run under a number without a name; Windows without both
        pass
    return {mark: value for mark, value in places.items() if value}


def linked(real: str, links: Mapping[str, str]) -> str:
    """The directory `real` as it is spelled through one of `links` (where it leads -> the link), the nearest one."""
    for target in sorted(links, key=len, reverse=True):
        rest = real.removeprefix(target)
        if rest != real and rest[:1] in {"", "/", "\\"}:
            return links[target] + rest
    return real


def home() -> Path | None:
    """The home directory, or None where the system does not say."""
    try:
        return Path.home()
    except RuntimeError:
        return None
