"""Which project a file belongs to, for people who name files on a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.store.display_path import shown
from pytest_agentreplay.store.layout import PRIVATE, names_test

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURES = {
    "pytest.toml": ("",),
    ".pytest.toml": ("",),
    "pytest.ini": ("",),
    ".pytest.ini": ("",),
    "pyproject.toml": ("[tool.pytest]", "[tool.pytest."),  # [tool.pytest_env] is the table of a plugin
    "tox.ini": ("[pytest]",),
    "setup.cfg": ("[tool:pytest]",),
}
"""Files that make a folder pytest's root, and words of which one must stand in them; the first one that does counts."""
BEGINS = ("pyproject.toml", "setup.py", ".git")
"""What makes a folder the root where nothing configures pytest."""


def root_above(folder: Path) -> Path:
    """The folder that pytest takes for its root when it is started in `folder` (absolute), as far as can be told."""
    above = (folder, *folder.parents)
    ours = next((up for up in above if (up / PRIVATE).is_dir() or configures(up)), None)
    return ours or next((up for up in above if any((up / name).exists() for name in BEGINS)), folder)


def configures(folder: Path) -> bool:
    """Whether `folder` holds a configuration of pytest."""
    return configuration(folder) is not None


def configuration(folder: Path) -> tuple[str, str] | None:
    """Name and text of the file in `folder` that configures pytest; None where there is none."""
    for name, words in CONFIGURES.items():
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if any(word in text for word in words):
            return name, text
    return None


def ini_value(root: Path, key: str) -> str | None:
    """What pytest's configuration in `root` says under `key`; None where it is silent, or pytest cannot read it."""
    value = configured(root, key)
    return value if isinstance(value, str) else None


def ini_lines(root: Path, key: str) -> tuple[list[str], str]:
    """The lines of a key that takes several, and the file in which they stand."""
    name, _ = configuration(root) or ("", "")
    value = configured(root, key)
    lines = value.splitlines() if isinstance(value, str) else value if isinstance(value, list) else []
    return [str(line).strip() for line in lines if str(line).strip()], str(root / name) if name else ""


def configured(root: Path, key: str) -> object:
    """What stands under `key`, in whatever type the file has it; None for nothing."""
    name, text = configuration(root) or ("", "")
    if not name.endswith(".toml"):
        import configparser

        parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
        try:
            parser.read_string(text)
            return parser.get("tool:pytest" if name == "setup.cfg" else "pytest", key, fallback=None)
        except configparser.Error:
            return None
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    ours = table.get("tool", {}).get("pytest", {}) if name == "pyproject.toml" else table.get("pytest", {})
    return {**ours, **ours.get("ini_options", {})}.get(key)


def is_file(path: Path) -> bool:
    """Whether a file stands at `path`; none does where no system takes the name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def file_of_test(file: Path, nodeid: str) -> tuple[Path, Path]:
    """The root of the project and the test's file, for the test `nodeid` that the snapshot `file` names.

    The file need not be there any more. Raises SnapshotUnreadable for a name that no test has: it would be taken for
    a flag, or lead out of the project.
    """
    if not names_test(nodeid):
        raise SnapshotUnreadable(f"{nodeid!r:.80} is no test of this project", file=shown(file), place="header")
    module = nodeid.partition("::")[0]
    for up in file.parents:
        if is_file(up / module) and file.is_relative_to((up / module).parent):
            return up, up / module
    root = root_above(file.parent)
    return root, root / module
