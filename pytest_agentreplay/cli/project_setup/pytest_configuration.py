"""The file that configures pytest in a project: which one it is, what it says, and its text with lines added to a key.

Text is inserted, never written anew, so comments, order and line ends stay. The standard library reads TOML and does
not write it: what is here knows lines and arrays. What comes out is parsed again, and refused if it says anything else
than the old file and the new lines.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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

    def extend(self, key: str, lines: Sequence[str]) -> Configuration:
        """Return the configuration with `lines` added under `key`. Raises SettingsError where that is not possible."""
        if not lines:
            return self
        all_lines = [*self.lines(key), *lines]
        if self.is_toml:
            text = extend_toml(self.text, self.table, key, all_lines, lines)
        else:
            text = extend_ini(self.text, self.table, key, lines)
        try:
            new = replace(self, text=text, values=read_table(self.file, text, self.table) or {})
        except SettingsError:
            new = self
        same = {name: value for name, value in self.values.items() if name != key}
        if new.lines(key) != all_lines or same != {name: value for name, value in new.values.items() if name != key}:
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


INDENT = "    "


def extend_ini(text: str, section: str, key: str, added: Sequence[str]) -> str:
    """Return `text` with the lines `added` under `key` of a section; either is made where it is missing."""
    place = find_key(text, section, rf"{re.escape(key)}\s*[=:]")
    lines, start, stop, end = place.lines, place.start, place.stop, place.end
    if start == stop:
        at = last_line(lines, place.header, stop) + 1
        new = [f"{key} ={end}", *(f"{INDENT}{line}{end}" for line in added)]
    else:
        after = next((at for at in range(start + 1, stop) if is_value(lines[at]) and not lines[at][0].isspace()), stop)
        last = last_line(lines, start, after)
        indent = INDENT if last == start else lines[last][: len(lines[last]) - len(lines[last].lstrip())]
        at, new = last + 1, [f"{indent}{line}{end}" for line in added]
    return "".join([*lines[:at], *new, *lines[at:]])


class KeyPlace(NamedTuple):
    """The lines of a file, and which of them begin a table, a key in it (`stop` where there is none), and what follows.

    `end` is how lines end there.
    """

    lines: list[str]
    header: int
    start: int
    stop: int
    end: str


def find_key(text: str, table: str, pattern: str) -> KeyPlace:
    """Return where a key stands in a table, whose header is added where it is missing."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    header = next((at for at, line in enumerate(lines) if re.match(rf"\[{re.escape(table)}\]", line)), None)
    if header is None:
        lines += [end] * bool(text.strip()) + [f"[{table}]{end}"]
        header = len(lines) - 1
    stop = next((at for at in range(header + 1, len(lines)) if lines[at].startswith("[")), len(lines))
    start = next((at for at in range(header + 1, stop) if re.match(pattern, lines[at])), stop)
    return KeyPlace(lines, header, start, stop, end)


def last_line(lines: Sequence[str], first: int, stop: int) -> int:
    """Return the last line between two that is no comment and not empty."""
    return max((at for at in range(first, stop) if is_value(lines[at])), default=first)


def is_value(line: str) -> bool:
    """Return whether a line is neither empty nor a comment."""
    return bool(line.strip()) and line.lstrip()[0] not in "#;"


def extend_toml(text: str, table: str, key: str, all_values: Sequence[str], added: Sequence[str]) -> str:
    """Return `text` with `added` in the array under `key` of a table; either is made where it is missing.

    `all_values` are all that the array holds then: they take the place of a string.
    """
    pattern = rf"{re.escape(key)}\s*=\s*"
    lines, header, start, stop, end = find_key(text, table, pattern)
    if start == stop:
        at = last_line(lines, header, stop) + 1
        entry = f"[{end}{format_items(added, INDENT, end)}]" if len(added) > 1 else inline(added)
        return "".join([*lines[:at], f"{key} = {entry}{end}", *lines[at:]])
    rest = "".join(lines[start:])
    value = re.sub(pattern, "", rest, count=1)
    before = "".join(lines[:start]) + rest.removesuffix(value)
    if string := re.match(r"\"[^\"\n]*\"|'[^'\n]*'", value):
        return before + inline(all_values) + value[string.end() :]
    close = find_array_end(value)
    array, rest = value[:close], value[close:]
    at = len(re.sub(r"(?:\s|#[^\n]*\n)*\Z", "", array))  # white space and comments may follow the last value
    comma = "" if at < 2 or array[at - 1] == "," else ","
    if "\n" not in array:
        return f"{before}{array[:at]}{comma and ', '}{inline(added)[1:-1]}{array[at:]}{rest}"
    indent = re.match(r"[ \t]*", array[array.find("\n") + 1 :] if at > 1 else INDENT)
    line = max(array.rfind("\n") + 1, at)  # of the bracket, unless a value stands before it there
    items = format_items(added, indent[0] if indent else INDENT, end)
    return f"{before}{array[:at]}{comma}{array[at:line]}{'' if line > at else end}{items}{array[line:]}{rest}"


def format_items(values: Sequence[str], indent: str, end: str) -> str:
    """Return the lines of values in an array."""
    return "".join(f"{indent}{inline([value])[1:-1]},{end}" for value in values)


def find_array_end(text: str) -> int:
    """Return where the array that `text` begins with has its closing bracket: the first one that makes it valid."""
    for bracket in re.finditer(r"\]", text):
        try:
            tomllib.loads(f"array = {text[: bracket.end()]}")
        except tomllib.TOMLDecodeError:
            continue
        return bracket.start()
    return 0


def inline(values: Sequence[str]) -> str:
    """Return an array in one line."""
    return json.dumps(list(values), ensure_ascii=False)
