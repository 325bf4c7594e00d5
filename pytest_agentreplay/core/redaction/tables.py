r"""Tables: values below the name of their column, in CSV, with tabs or semicolons, in Markdown.

Lines may end in escapes (`\n`) and quotes be escaped, as in JSON strings.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.core.redaction.fields import believed, strength
from pytest_agentreplay.core.redaction.secret_names import CATEGORY

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_END = re.compile(rb"\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n")
_CELL_END = re.compile(rb"[\w -]{0,40}\\{0,16}[\"'`*]{0,3}[ \t]{0,40}(?P<end>[,;|\t]|\\{1,16}[tnr]|[\r\n])")
_CELL = re.compile(rb"[ \t]*(?:\\{0,16}[\"'`*]{1,3})?(?P<text>[\w .#()/%:-]{0,48}?)(?:\\{0,16}[\"'`*]{1,3})?[ \t]*")
_RULE = re.compile(rb"[ \t|:+-]*")
_OPENING = re.compile(rb"[:\[({,=][ \t]{0,8}\\{0,16}[\"']")
_CLOSING = re.compile(rb"\\{0,16}[\"'][ \t]{0,8}[,}\])]")
_TAB = re.compile(rb"\\{1,16}t")
_WIDEST = 2000
_ROWS = 10_000
_COLUMNS = 64
"""So many kinds of tables of one text are looked at."""


class TextTable(NamedTuple):
    """A table: what parts its cells, where its line of names begins, the names, and the number of the line below."""

    mark: bytes
    begin: int
    names: list[bytes]
    below: int


class Columns:
    """The columns of one text whose names say that they hold secrets."""

    def __init__(self, text: bytes) -> None:
        """Nothing is looked at before the first name that could be the head of a column."""
        self._text = text
        self._ends: list[tuple[int, int]] = []
        self._tables: dict[int, TextTable | None] = {}
        self._asked: set[tuple[int, int]] = set()
        self._within: dict[tuple[bytes, int], int] = {}
        """By sign and width, up to which line the tables reach that were read: a line of values is no line of names."""

    def below(self, word: int) -> Iterator[tuple[int, int, str]]:
        """The values below the name in which a word stands at `word`, where that is the head of a column."""
        text = self._text
        if _CELL_END.match(text, word) is None:
            return
        self._ends = self._ends or [hit.span() for hit in _LINE_END.finditer(text)] or [(len(text), len(text))]
        line = bisect_left(self._ends, (word, 0))
        if line not in self._tables:
            self._tables[line] = self._table(line, word)
        table = self._tables[line]
        if table is None or word < table.begin:
            return
        nth = text.count(table.mark, table.begin, word)
        if (line, nth) in self._asked or nth >= len(table.names):
            return
        self._asked.add((line, nth))
        said = strength(table.names[nth].decode("utf-8", "replace"))
        if said in {"", "parameter"} or len(self._within) > _COLUMNS:
            return
        for start, end in self._values(table, nth):
            if believed(said, text[start:end], quoted=True):
                yield start, end, CATEGORY

    def _table(self, line: int, word: int) -> TextTable | None:
        """The table of which a line is the line of names."""
        text = self._text
        first = self._ends[line - 1][1] if line else 0
        last = self._ends[line][0] if line < len(self._ends) else len(text)
        if line >= len(self._ends) or last - max(first, word) > _WIDEST:
            return None
        for begin in beginnings(text, max(first, word - _WIDEST), word):
            head = text[begin:last]
            for mark in (b"|", b"\t", *set(_TAB.findall(head)), b";", b","):
                cells = head.split(mark) if mark in head and head.count(mark) < _WIDEST // 4 else []
                names = [cell["text"] for cell in map(_CELL.fullmatch, cells) if cell]
                if cells and len(names) == len(cells):
                    known = self._within.get((mark, len(cells)), -1)
                    return None if line < known else TextTable(mark, begin, names, line + 1)
        return None

    def _values(self, table: TextTable, nth: int) -> Iterator[tuple[int, int]]:
        """Where the values of a column stand, without their quotes, as long as lines have as many cells."""
        text, last = self._text, len(table.names) - 1
        line_end = text[slice(*self._ends[table.below - 1])]
        for line in range(table.below, min(table.below + _ROWS, len(self._ends) + 1)):
            at = self._ends[line - 1][1]
            stop, _ = self._ends[line] if line < len(self._ends) else (len(text), 0)
            row = text[at : min(stop, at + 2 * _WIDEST)]
            self._within[table.mark, last + 1] = line + 1
            cells = row.split(table.mark)
            if row and _RULE.fullmatch(row) is not None:
                continue
            if len(cells) <= last:
                return
            if cells[nth]:
                cell = _CLOSING.split(cells[nth], maxsplit=1)[0] if nth == last else cells[nth]
                if bare := cell.strip(b" \t\\\"'`*\r"):
                    start = at + sum(len(cell) + len(table.mark) for cell in cells[:nth]) + cell.find(bare)
                    yield start, start + len(bare)
            if line < len(self._ends) and text[slice(*self._ends[line])] != line_end:
                return


def beginnings(text: bytes, first: int, at: int) -> list[int]:
    """Where the line of `at` may begin: at `first`, or behind one of the last quotes that open a string in it."""
    return [first, *[hit.end() for hit in _OPENING.finditer(text, first, at)][-4:]]
