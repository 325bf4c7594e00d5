"""Whose snapshots lie where: the test that a file states, read from its first bytes, and the files around a test.

Only plain files below the root are told: a link that leads out of the project is nobody's snapshot.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.store import files, layout, roots
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = 4096
MOST = 500
"""Snapshots that are looked at around a test, and folders beside one another."""

SKIPPED = frozenset({"node_modules", "venv", "build", "dist", "CVS", "_darcs", "__pycache__"})
"""Folders that pytest does not enter either, as those that begin with a dot."""

_STATED = re.compile(rb'"header":\s*\{\s*"test":\s*("(?:[^"\\]|\\.)*")')


def test_of(file: Path, root: Path) -> str | None:
    """The id, from `root`, of the test whose snapshot or pending run `file` says it is; None for what is unreadable."""
    stated = stated_by(file)
    return None if stated is None else roots.todays_id(root, layout.home_path(file) or file, stated)


def stated_by(file: Path) -> str | None:
    """The id that the file states itself; None for what is unreadable."""
    try:
        if found := _STATED.search(files.head(file, HEAD)):
            test = str(json.loads(found[1]))
        else:
            test = codec.loads(files.read(file), file=shown(file)).run.header.test
    except (SnapshotError, ValueError):
        return None
    return test if layout.names_test(test) else None


def snapshots_in(folder: Path, root: Path) -> Iterator[Path]:
    """The files named as snapshots in the folders of modules below `folder`, in order of names."""
    if not inside(folder, root):
        return
    for module in entries(folder, want_folders=True):
        if inside(module, root):
            yield from (file for file in entries(module) if file.name.endswith(layout.SUFFIX))


def inside(path: Path, root: Path) -> bool:
    """Whether `path`, all links followed, is there and lies below `root`."""
    try:
        return files.real(path).is_relative_to(files.real(root))
    except (OSError, RuntimeError):
        return False


def entries(folder: Path, *, want_folders: bool = False) -> list[Path]:
    """The plain files of a folder, or its folders; none where it cannot be read."""
    try:
        with os.scandir(files.taken(folder)) as found:
            wanted = [one for one in found if (one.is_dir() if want_folders else one.is_file(follow_symlinks=False))]
    except OSError:
        return []
    return [folder / name for name in sorted(one.name for one in wanted)]


def around(root: Path, place: Path, directory: str) -> list[Path]:
    """The nearest snapshots to tests in the folder `place`: beside them, above, and one step aside. `MOST` at most."""
    found: dict[Path, None] = {}
    for up in (place, *(up for up in place.parents if up.is_relative_to(root))):
        aside = [one for one in entries(up, want_folders=True)[:MOST] if not skipped(one.name)]
        for home in (up, *aside):
            for file in snapshots_in(home / directory, root):
                found[file] = None
                if len(found) == MOST:
                    return list(found)
    return list(found)


def everywhere(root: Path, directory: str) -> Iterator[Path]:
    """All snapshots of a project, folder by folder."""
    for here, folders, _ in os.walk(root):
        folders[:] = sorted(name for name in folders if not skipped(name))
        yield from snapshots_in(Path(here) / directory, root)


def named_by(root: Path, pattern: str) -> list[Path]:
    """The files and folders that an entry of pytest's `testpaths` names, wildcards and all."""
    return sorted(root.glob(pattern))


def skipped(name: str) -> bool:
    """Whether no tests are looked for in a folder of this name."""
    return name.startswith(".") or name in SKIPPED
