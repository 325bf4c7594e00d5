"""The file that configures pytest in a project: which one it is, what it says, and its text with lines added to a key.

Text is inserted, never written anew, so comments, order and line ends stay. What comes out is parsed again, and
refused if it says anything else than the old file and the new lines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cli.project_setup import ini_text, toml_text
from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.snapshots.store import files, projects
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import read_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Configuration:
    """The file, its text ("" where there is none yet), and the table or section that holds pytest's values."""

    file: Path
    text: str
    table: str
    values: dict[str, Any]

    @property
    def is_toml(self) -> bool:
        """Whether the values are those of TOML."""
        return self.file.suffix == ".toml"

    def lines(self, key: str) -> list[str]:
        """Return what stands under a key that takes several values."""
        return projects.lines_of(self.values.get(key), key)

    def extended(self, key: str, lines: Sequence[str]) -> Configuration:
        """Return the configuration with `lines` added under `key`. Raises SettingsError where that is not possible."""
        if not lines:
            return self
        wanted = [*self.lines(key), *lines]
        if self.is_toml:
            text = toml_text.extended(self.text, self.table.split("."), key, wanted, lines)
        else:
            text = ini_text.extended(self.text, self.table, key, lines)
        try:
            new = replace(self, text=text, values=read_table(self.file, text, self.table) or {})
        except SettingsError:
            new = self
        same = {name: value for name, value in self.values.items() if name != key}
        if new.lines(key) != wanted or same != {name: value for name, value in new.values.items() if name != key}:
            raise SettingsError(
                f"{format_path(self.file)}: [{self.table}]: cannot add lines to {key} in the form in which this file "
                f"is written; add them by hand: {', '.join(lines)}"
            )
        return new


def configuration_of(root: Path) -> Configuration:
    """Return the file that configures pytest in `root`, else the one to write. Raises SettingsError."""
    default = "pyproject.toml" if files.exists(root / "pyproject.toml") else "pytest.ini"
    name, _ = projects.configuration(root) or (default, "")
    file, tables = root / name, projects.TABLES[name]
    text = text_of(file) or ""
    present = {table: values for table in tables if (values := read_table(file, text, table)) is not None}
    table = next(iter(present), tables[0])
    return Configuration(file, text, table, present.get(table, {}))


def text_of(file: Path) -> str | None:
    """Return a file's text with its line ends; None where there is none. Raises SettingsError for a link or folder."""
    try:
        data = files.read_if_there(file)
        return data.decode() if data is not None else None
    except SnapshotError as error:
        raise SettingsError(str(error)) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{format_path(file)}: offset {error.start}: is not UTF-8") from None
