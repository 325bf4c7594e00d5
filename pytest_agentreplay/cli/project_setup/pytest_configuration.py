"""The file that configures pytest in a project: which one it is, what it says, and its text with lines added to a key.

Text is inserted, never written anew, so comments, order and line ends stay. The standard library reads TOML and does
not write it: what is here knows just enough of its grammar to find where a statement and a value end. What comes out
is parsed again, and refused if it says anything else than the old file and the new lines.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.snapshots.store import files, format_path, projects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
            text = extend_toml(self.text, self.table.split("."), key, all_lines, lines)
        else:
            text = extend_ini(self.text, self.table, key, lines)
        try:
            new = replace(self, text=text, values=projects.read_table(self.file, text, self.table) or {})
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
    present = {table: values for table in tables if (values := projects.read_table(file, text, table)) is not None}
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


def extend_ini(text: str, name: str, key: str, added: Sequence[str]) -> str:
    """Return `text` with the lines `added` under `key` of section `name`; either is made where it is missing."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    header = next((at for at, line in enumerate(lines) if re.match(rf"\[{re.escape(name)}\]", line)), None)
    if header is None:
        lines += [end] * bool(text.strip()) + [f"[{name}]{end}"]
        header = len(lines) - 1
    stop = next((at for at in range(header + 1, len(lines)) if lines[at].startswith("[")), len(lines))
    start = next((at for at in range(header + 1, stop) if re.match(rf"{re.escape(key)}\s*[=:]", lines[at])), None)
    if start is None:
        at = last_line(lines, header, stop) + 1
        new = [f"{key} ={end}", *(f"{INDENT}{line}{end}" for line in added)]
    else:
        after = next((at for at in range(start + 1, stop) if is_value(lines[at]) and not lines[at][0].isspace()), stop)
        last = last_line(lines, start, after)
        indent = INDENT if last == start else lines[last][: len(lines[last]) - len(lines[last].lstrip())]
        at, new = last + 1, [f"{indent}{line}{end}" for line in added]
    return "".join([*lines[:at], *new, *lines[at:]])


def last_line(lines: Sequence[str], first: int, stop: int) -> int:
    """Return the last line between two that is no comment and not empty."""
    return max((at for at in range(first, stop) if is_value(lines[at])), default=first)


def is_value(line: str) -> bool:
    """Return whether a line is neither empty nor a comment."""
    return bool(line.strip()) and line.lstrip()[0] not in "#;"


TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\n|[^"\'#\[\]{}\n]+|.',
    re.DOTALL,
)


class Statement(NamedTuple):
    """A table's header or a key with its value: where it begins, and where it ends (before its line's comment)."""

    start: int
    end: int
    text: str


def statements(text: str) -> Iterator[Statement]:
    """Return the statements of a valid document in order."""
    start = end = depth = 0
    for token in TOKEN.finditer(text):
        word = token[0]
        if word == "\n" and depth == 0:
            if end > start:
                yield Statement(start, end, text[start:end])
            start = end = token.end()
        elif word[0] != "#" and word.strip():
            if end == start:
                start = token.start() + len(word) - len(word.lstrip())
            end = token.start() + len(word.rstrip())
            depth += (word in "[{") - (word in "]}")
    if end > start:
        yield Statement(start, end, text[start:end])


def extend_toml(text: str, table: Sequence[str], key: str, all_values: Sequence[str], added: Sequence[str]) -> str:
    """Return `text` with `added` in the array under `key` of `table`; either is made where it is missing.

    `all_values` are all that the array holds then: they take the place of a string.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    inside, last = False, None
    for statement in statements(text):
        if statement.text.startswith("["):
            inside = is_header(statement.text, table)
            last = statement if inside else last
        elif inside:
            last = statement
            if name := re.match(
                rf"""(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')\s*=\s*""", statement.text
            ):
                start = statement.start + name.end()
                if text[start] == "[":
                    return with_values(text, start, statement.end, added, end)
                return text[:start] + inline(all_values) + text[statement.end :]
    lines = [f"{INDENT}{json.dumps(value, ensure_ascii=False)}," for value in added]
    new = end.join([f"{key} = [", *lines, "]", ""]) if len(added) > 1 else f"{key} = {inline(added)}{end}"
    if last is None:
        gap = "" if not text else end if text.endswith("\n") else end + end
        return f"{text}{gap}[{'.'.join(table)}]{end}{new}"
    at = text.find("\n", last.end) + 1
    return text[:at] + new + text[at:] if at else text + end + new


def is_header(text: str, table: Sequence[str]) -> bool:
    """Return whether a statement is the header of `table`."""
    names = [part.strip().strip("\"'") for part in text.strip("[]").split(".")]
    return not text.startswith("[[") and names == list(table)


def with_values(text: str, start: int, stop: int, added: Sequence[str], end: str) -> str:
    """Return `text` with more values in the array between two offsets."""
    value = text[start:stop]
    close = stop - 1
    tokens = [token for token in TOKEN.finditer(text, start, close) if token[0][0] != "#" and token[0].strip()]
    last = tokens[-1].start() + len(tokens[-1][0].rstrip())
    comma = "" if text[last - 1] == "," or len(tokens) == 1 else ","
    if "\n" not in value:
        space = " " if len(tokens) > 1 else ""
        return text[:last] + comma + space + inline(added)[1:-1] + text[close:]
    line = text.rfind("\n", 0, close) + 1
    at = line if not text[line:close].strip() else close
    first = text[text.find("\n", start) + 1 :]
    indent = first[: len(first) - len(first.lstrip(" \t"))] if len(tokens) > 1 else INDENT
    new = "".join(f"{indent or INDENT}{json.dumps(value, ensure_ascii=False)},{end}" for value in added)
    before = text[:last] + comma + text[last:at]
    return before + (new if at == line else f"{end}{new}") + text[at:]


def inline(values: Sequence[str]) -> str:
    """Return an array in one line."""
    return json.dumps(list(values), ensure_ascii=False)
