"""The table of blobs: base64 of 4 kB and more stands once, at the end of the file, by the sha256 of its text."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

SMALLEST = 4096
"""Characters from which on base64 is worth a place of its own."""

LARGEST = 64 * 1024 * 1024
"""Characters that one body may unfold to; a small hostile file could name one blob a million times."""

TOGETHER = 8 * LARGEST
"""Characters that all bodies of a file may unfold to."""

COLUMNS = 108

_BLOB = re.compile(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,|)([A-Za-z0-9+/_-]{4096,}={0,2})", re.ASCII)


_ROW_ENDS = re.compile(rf'(?<=[A-Za-z0-9+/_-]{{{COLUMNS}}})",\s*"(?=[A-Za-z0-9+/_-]+={{0,2}}")', re.ASCII)


class OverBudget(ValueError):
    """A body that unfolds to more than `LARGEST`, or bodies to more than `TOGETHER`."""


@dataclass(slots=True)
class BlobWriter:
    """Collects the blobs of one file; `table` is what is stored."""

    table: dict[str, list[str]] = field(default_factory=dict)

    def named(self, text: str) -> dict[str, Any] | None:
        """`{"$blob": name}` for a text that is one big base64 value, with `prefix` for data URLs; else None."""
        if not SMALLEST <= len(text) <= LARGEST // 4 or (found := _BLOB.fullmatch(text)) is None:
            return None
        prefix, content = found.groups()
        name = hashlib.sha256(content.encode()).hexdigest()
        if name not in self.table:
            self.table[name] = wrapped(content)
        return {"$blob": name, "prefix": prefix} if prefix else {"$blob": name}


@dataclass(slots=True)
class BlobReader:
    """Return the texts of blobs by name, proven by their sha256, within the budgets of one body and of the file."""

    table: dict[str, Any] = field(default_factory=dict)
    spent: int = 0
    together: int = 0
    proven: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """The base64 text called `name`. Raises ValueError when it is not there or not what its name says."""
        if name not in self.proven:
            lines = self.table.get(name)
            if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
                msg = f"blob {name[:12]} is not in the table of blobs"
                raise ValueError(msg)
            text = "".join(lines)
            if hashlib.sha256(text.encode()).hexdigest() != name:
                msg = f"blob {name[:12]} is not what its name says"
                raise ValueError(msg)
            self.proven[name] = text
        self.spend(len(self.proven[name]))
        return self.proven[name]

    def spend(self, characters: int) -> None:
        """Count what was unfolded. Raises OverBudget."""
        self.spent += characters
        self.together += characters
        if self.spent > LARGEST or self.together > TOGETHER:
            most = LARGEST if self.spent > LARGEST else TOGETHER
            msg = f"the content unfolds to more than {most >> 20} MB"
            raise OverBudget(msg)


def wrapped(text: str) -> list[str]:
    """`text` cut into lines of `COLUMNS`."""
    return [text[at : at + COLUMNS] for at in range(0, len(text), COLUMNS)]


def unwrapped(text: str) -> str:
    """The text of a file with the lines that `wrapped` has cut in one piece: a line's beginning is no word's."""
    return _ROW_ENDS.sub("", text)
