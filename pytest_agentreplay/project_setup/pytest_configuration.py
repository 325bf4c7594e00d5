"""The file that configures pytest in a project: which one it is, what it says, and its text with lines added to a key.

Text is inserted, never written anew, so comments, order and line ends stay. What comes out is parsed again, and
refused if it says anything else than the old file and the new lines.
"""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.project_setup import ini_text, toml_text
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NATIVE_TOML = 9
"""The major version of pytest that reads pytest.toml and native values below [tool.pytest]."""
NAMES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""In pytest's own order; the first that holds a configuration counts (`_pytest.config.findpaths`, pytest 9)."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The file, its text ("" where there is none yet), and the table or section that holds pytest's values."""

    file: Path
    text: str
    table: tuple[str, ...]
    values: dict[str, Any]

    @property
    def is_toml(self) -> bool:
        """Whether the values are those of TOML."""
        return self.file.suffix == ".toml"

    @property
    def section(self) -> str:
        """The name between the brackets."""
        return ".".join(self.table)

    def lines(self, key: str) -> list[str]:
        """Return what stands under a key that takes several values; those of `pythonpath` may share a line."""
        value = self.values.get(key, [])
        if isinstance(value, str):
            return (
                shlex.split(value)
                if key == "pythonpath"
                else [line.strip() for line in value.splitlines() if line.strip()]
            )
        return [str(each) for each in value] if isinstance(value, list) else []

    def extended(self, key: str, lines: Sequence[str]) -> Configuration:
        """Return the configuration with `lines` added under `key`. Raises SettingsError where that is not possible."""
        if not lines:
            return self
        wanted = [*self.lines(key), *lines]
        if self.is_toml:
            text = toml_text.extended(self.text, self.table, key, wanted, lines)
        else:
            text = ini_text.extended(self.text, self.section, key, lines)
        try:
            new = replace(self, text=text, values=read_table(self.file, text, self.table) or {})
        except SettingsError:
            new = self
        same = {name: value for name, value in self.values.items() if name != key}
        if new.lines(key) != wanted or same != {name: value for name, value in new.values.items() if name != key}:
            raise SettingsError(
                f"{shown(self.file)}: [{self.section}]: cannot add lines to {key} in the form in which this file is "
                f"written; add them by hand: {', '.join(lines)}"
            )
        return new


def configuration_of(root: Path) -> Configuration:
    """Return the file that configures pytest in `root`, else the one to write. Raises SettingsError."""
    native = int(metadata.version("pytest").partition(".")[0]) >= NATIVE_TOML
    for name in NAMES if native else NAMES[2:]:
        if (text := text_of(root / name)) is None:
            continue
        for table in tables_of(name, native=native):
            values = read_table(root / name, text, table)
            if values is not None and (values.keys() - {"ini_options"} or table != ("tool", "pytest")):
                return Configuration(root / name, text, table, values)
        if name.endswith(("pytest.toml", "pytest.ini")):
            return Configuration(root / name, text, ("pytest",), {})
    if (text := text_of(root / "pyproject.toml")) is not None:
        return Configuration(root / "pyproject.toml", text, ("tool", "pytest", "ini_options"), {})
    return Configuration(root / "pytest.ini", "", ("pytest",), {})


def tables_of(name: str, *, native: bool) -> list[tuple[str, ...]]:
    """Return the tables of a file that may hold the values."""
    if name == "pyproject.toml":
        return [("tool", "pytest", "ini_options"), *([("tool", "pytest")] if native else [])]
    return [("tool:pytest",)] if name == "setup.cfg" else [("pytest",)]


def text_of(file: Path) -> str | None:
    """Return a file's text with its line ends; None where there is none. Raises SettingsError for a link or folder."""
    try:
        data = files.read_if_there(file)
        return data.decode() if data is not None else None
    except SnapshotError as error:
        raise SettingsError(str(error)) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{shown(file)}: offset {error.start}: is not UTF-8") from None


def read_table(file: Path, text: str, table: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the values below a table or section; None where there is none. Raises SettingsError for invalid text."""
    if file.suffix != ".toml":
        return ini_text.section(file, text, table[0])
    try:
        value: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{shown(file)}: {error}") from None
    for name in table:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None
