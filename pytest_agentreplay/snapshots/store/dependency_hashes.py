"""Files of the project that a run depends on, by the hash of their content: declared ones, and those that pin versions.

Which files is said by settings or by code, never by a snapshot.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "conda-lock.yml", "requirements.txt")
MISSING = "missing"


def digests(root: Path, patterns: Iterable[str]) -> dict[str, str]:
    """Path, from the project's root -> sha256 of its content, for every file that a pattern (`data/*.json`) meets.

    A path without a wildcard that leads to nothing is kept as missing, so that its coming is seen.
    """
    found: dict[str, str] = {}
    for pattern in patterns:
        if any(sign in pattern for sign in "*?["):
            base = Path(Path(pattern).anchor) if Path(pattern).is_absolute() else root
            met = base.glob(str(Path(pattern).relative_to(base)) if base is not root else pattern)
            found |= {named(file, root): digest(file) for file in met if file.is_file()}
        else:
            found[named(root / pattern, root)] = digest(root / pattern)
    return dict(sorted(found.items()))


def locks(root: Path) -> dict[str, str]:
    """The files at the root that pin versions, as `digests` tells them."""
    return digests(root, (name for name in LOCKS if (root / name).is_file()))


def named(file: Path, root: Path) -> str:
    """A file as it is told on every machine: from the root when it is below."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.as_posix()


def digest(file: Path) -> str:
    """The sha256 of what a file holds; read again only when it has changed."""
    try:
        about = file.stat()
        return _digest(file, about.st_mtime_ns, about.st_size)
    except OSError:
        return MISSING


@functools.lru_cache(maxsize=4096)
def _digest(file: Path, changed: int, size: int) -> str:
    del changed, size
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
