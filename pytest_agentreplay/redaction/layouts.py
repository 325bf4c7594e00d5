r"""Layouts: values that stand below their name, in a block of lines or in a column of a table.

A block is what follows `password: |` in YAML, or stands between three quotes. A table has a line of names, and below it
lines of as many cells: CSV, with tabs or semicolons, in Markdown. Lines may end in escapes (`\\n`) and quotes be
escaped, as in JSON strings, any number of times: so both are read where they stand, and no layer has to be undone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.redaction.secret_names import CATEGORY, SECRET, get_strength, is_believed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.redaction.secret_names import Strength

# How a block scalar begins: a tag, the sign, how it is indented, nothing else (YAML 1.2.2, section 8.1).
_HEAD = re.compile(rb"(?:![\w!]{1,16}[ \t]{1,4})?[|>][0-9+-]{0,2}[ \t]{0,8}(?:\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)")
_LINE = re.compile(rb"(?P<indent>[ \t]*)(?P<line>[^\r\n\\]*)(?P<end>\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)?")
# Each branch begins with one character, so that `re` looks for these three alone: five times as quick.
_LINE_END = re.compile(rb"\n|\r\n|\\\\{0,15}(?:r\\{1,16})?n")
# Bounds, so that no text costs more than its length: of lines of a block, bytes of a head, lines and kinds of tables.
_MOST = 64
_WIDEST = 2000
_ROWS = 10_000
_COLUMNS = 64
_CELL_END = re.compile(rb"[\w ()\[\]-]{0,40}\\{0,16}[\"'`*]{0,3}[ \t]{0,40}(?P<end>[,;|\t]|\\{1,16}[tnr]|[\r\n])")
_CELL = re.compile(rb"[ \t]*(?:\\{0,16}[\"'`*]{1,3})?(?P<text>[\w .#()/%:\[\]-]{0,48}?)(?:\\{0,16}[\"'`*]{1,3})?[ \t]*")
_RULE = re.compile(rb"[ \t|:+-]*")
"""The line below the names in Markdown, and in what psql prints."""
_OPENING = re.compile(rb"[:\[({,=][ \t]{0,8}\\{0,16}[\"']")
_CLOSING = re.compile(rb"\\{0,16}[\"'][ \t]{0,8}[,}\])]")
_TAB = re.compile(rb"\\{1,16}t")


def find_block(text: bytes, at: int, strength: Strength, opened: bytes | None) -> Iterator[tuple[int, int]]:
    """Yield the lines that look like a secret of a block that begins at `at`, if one does.

    Behind an `opened` quote, two more make one, which ends with three; any other is as long as its lines are indented.
    """
    if opened is not None and text.startswith(opened * 2, at):
        at += 2 * len(opened)
    elif opened is None and (head := _HEAD.match(text, at)) is not None:
        at = head.end()
    else:
        return
    for line in islice(_LINE.finditer(text, at), _MOST):
        if opened is None and not line["indent"]:
            return
        start, stop = line.span("line")
        # An escaped quote begins with a backslash, at which the line has ended.
        end = text.find(opened * 3, start, stop + 3 * len(opened)) if opened is not None else -1
        value = text[start : stop if end < 0 else end].rstrip()
        if opened is None:
            value = value.split(b'"')[0]
        if is_believed(strength, value, quoted=True):
            yield start, start + len(value)
        if end >= 0 or line["end"] is None:
            return


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
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._tables: dict[int, TextTable | None] = {}
        self._read_columns: set[tuple[int, int]] = set()
        self._reached: dict[tuple[bytes, int], int] = {}
        """By sign and width, up to which line the tables reach that were read: a line of values is no line of names."""

    def find_below(self, word: int) -> Iterator[tuple[int, int, str]]:
        """Yield the values below the name in which a word stands at `word`, where that is the head of a column."""
        text = self._text
        if _CELL_END.match(text, word) is None:
            return
        if not self._starts:
            ends = [hit.span() for hit in _LINE_END.finditer(text)]
            self._starts, self._stops = [0, *(end for _, end in ends)], [*(begin for begin, _ in ends), len(text)]
        line = bisect_right(self._starts, word) - 1
        if line not in self._tables:
            self._tables[line] = self._read_head(line, word)
        table = self._tables[line]
        nth = -1 if table is None else text.count(table.mark, table.begin, word)
        if table is None or word < table.begin or (line, nth) in self._read_columns or nth >= len(table.names):
            return
        self._read_columns.add((line, nth))
        strength = get_strength(table.names[nth].decode("utf-8", "replace"))
        if strength in SECRET and len(self._reached) <= _COLUMNS:
            for start, end in self._list_cells(table, nth):
                if is_believed(strength, text[start:end], quoted=True):
                    yield start, end, CATEGORY

    def _read_head(self, line: int, word: int) -> TextTable | None:
        """Return the table of which a line is the line of names."""
        first, last = self._starts[line], self._stops[line]
        if line + 1 == len(self._starts) or last - max(first, word) > _WIDEST:
            return None
        first = max(first, word - _WIDEST)
        # In a string of JSON the first line begins behind a quote that opens one: one of the last few.
        for begin in [first, *[hit.end() for hit in _OPENING.finditer(self._text, first, word)][-4:]]:
            head = self._text[begin:last]
            for mark in (b"|", b"\t", *set(_TAB.findall(head)), b";", b","):
                cells = head.split(mark) if mark in head and head.count(mark) < _WIDEST // 4 else []
                names = [cell["text"] for cell in map(_CELL.fullmatch, cells) if cell]
                if cells and len(names) == len(cells):
                    is_head = line >= self._reached.get((mark, len(cells)), -1)
                    return TextTable(mark, begin, names, line + 1) if is_head else None
        return None

    def _list_cells(self, table: TextTable, nth: int) -> Iterator[tuple[int, int]]:
        """Yield where the values of a column stand, without their quotes, as long as lines have as many cells."""
        last = len(table.names) - 1
        line_end = self._text[self._stops[table.below - 1] : self._starts[table.below]]
        for line, at in enumerate(self._starts[table.below : table.below + _ROWS], table.below):
            row = self._text[at : min(self._stops[line], at + 2 * _WIDEST)]
            self._reached[table.mark, last + 1] = line + 1
            cells = row.split(table.mark)
            if row and _RULE.fullmatch(row) is not None:
                continue
            if len(cells) <= last:
                return
            cell = _CLOSING.split(cells[nth], maxsplit=1)[0] if nth == last else cells[nth]
            if bare := cell.strip(b" \t\\\"'`*\r"):
                start = at + sum(len(before) + len(table.mark) for before in cells[:nth]) + cells[nth].find(bare)
                yield start, start + len(bare)
            if line + 1 < len(self._starts) and self._text[self._stops[line] : self._starts[line + 1]] != line_end:
                return
