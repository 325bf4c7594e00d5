"""Which project a file belongs to, for people who name files on a command line."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.store.layout import PRIVATE
from pytest_agentreplay.store.shown import shown

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURES = {
    "pytest.ini": "",
    ".pytest.ini": "",
    "pytest.toml": "",
    ".pytest.toml": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
"""Files that make a folder pytest's root, and what must stand in them."""
BEGINS = ("pyproject.toml", "setup.py", ".git")
"""What makes a folder the root where nothing configures pytest."""


def root_above(folder: Path) -> Path:
    """The folder that pytest takes for its root when it is started in `folder` (absolute), as far as can be told."""
    above = (folder, *folder.parents)
    ours = next((up for up in above if (up / PRIVATE).is_dir() or configures(up)), None)
    return ours or next((up for up in above if any((up / name).exists() for name in BEGINS)), folder)


def configures(folder: Path) -> bool:
    """Whether `folder` holds a configuration of pytest."""
    for name, word in CONFIGURES.items():
        try:
            if word in (folder / name).read_text(encoding="utf-8"):
                return True
        except (OSError, UnicodeDecodeError):
            continue
    return False


def file_of_test(file: Path, nodeid: str) -> tuple[Path, Path]:
    """The root of the project and the test's file, for the test `nodeid` that the snapshot `file` names.

    The file need not be there any more. Raises SnapshotUnreadable for a name that no test has: it would be taken for
    a flag, or lead out of the project.
    """
    name, _, rest = nodeid.partition("::")
    module = PurePosixPath(name)
    wrong = name.startswith(("-", "@")) or "\\" in name or ":" in name or module.is_absolute() or ".." in module.parts
    if wrong or not rest or not name:
        raise SnapshotUnreadable(f"{nodeid!r:.80} is no test of this project", file=shown(file), place="header")
    for up in file.parents:
        if (up / module).is_file() and file.is_relative_to((up / module).parent):
            return up, up / module
    root = root_above(file.parent)
    return root, root / module
