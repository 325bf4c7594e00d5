"""How two texts or JSON values differ, as rows: lines with a sign, in which the changed words are marked.

Reports, pages and comments all show these rows.

Rules of this module:
- Texts come as they are; whatever formats a row escapes it.
- The rows without "+" and "@" are recorded lines, those without "-" and "@" are lines of now.
- The time is bounded: for 10,000 lines of 250 characters below a second. What would take longer is less exact: a part
  without a unique line is shown as replaced where it is large (`texts.find_changes`); words are marked in the first
  `MARKED` parts and in the first `MARKED` lines of each; of lines with more than `WORDS` characters all between the
  first change and the last is marked.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.compare.diff import read_json, texts
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Absent
from pytest_agentreplay.report.escape import escape_line, escape_markdown
from pytest_agentreplay.report.terminal import paint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.report.terminal import StyledLine

    Pieces = tuple[tuple[str, bool], ...]

CONTEXT = 2  # lines that stay as they are, shown before and after a change
WORDS = 120_000  # characters of two lines whose words are compared one by one
MARKED = 400  # changed parts, and changed lines of one part, in which changed words are marked
NEAR = 20  # lines among which the new form of a changed line is looked for
ALIKE = 0.5  # share of the words of the longer one that two forms of a line have in common
SHORT = 60  # characters of a JSON value that stands in one line

NARROW = 20  # characters of a line, however narrow the terminal is
LEAST = 8  # characters of each changed place of a line that is cut, and of what stands before and after it
SIGNS = {"-": "- ", "+": "+ ", " ": "  ", "@": "@ ", "?": "? "}
STYLES = {"-": "31", "+": "32", " ": "", "@": "36"}  # red, green and cyan, as pytest has them
INVERSE = "7"

_WORD = re.compile(r"\w+")


class Row(NamedTuple):
    """One line of a difference.

    Attributes:
        sign: "-" recorded, "+" now, " " both, "@" where a part begins.
        pieces: The texts whose join is the line, each with whether it has changed; of "@" the place, "line 92".
    """

    sign: str
    pieces: Pieces

    @property
    def text(self) -> str:
        """The line."""
        return "".join(text for text, _ in self.pieces)


def compare_texts(recorded: str, now: str, *, context: int = CONTEXT) -> tuple[Row, ...]:
    """Return the rows in which two texts differ, with `context` lines around each change; none if they are equal."""
    old, new = recorded.split("\n"), now.split("\n")
    return tuple(_make_rows(old, new, context, name="line {}" if max(len(old), len(new)) > 1 else ""))


def compare_values(recorded: Json | Absent, now: Json | Absent, *, context: int = CONTEXT) -> tuple[Row, ...]:
    """Return the rows in which two JSON values differ: texts by line, objects and lists by member."""
    if isinstance(recorded, str) and isinstance(now, str):
        inside = read_json(recorded), read_json(now)
        if None not in inside and canonical(inside[0]) != canonical(inside[1]):
            recorded, now = inside
        elif "\n" in recorded or "\n" in now:
            return compare_texts(recorded, now, context=context)
    old, new = ([] if isinstance(side, Absent) else format_value(side) for side in (recorded, now))
    return tuple(_make_rows(old, new, context))


def format_value(value: Json, name: str = "") -> list[str]:
    """Return a JSON value as lines: members below their names, texts with line breaks as these lines."""
    if isinstance(value, str) and "\n" in value:
        lines = value.split("\n")
    elif isinstance(value, dict | list) and (len(canonical(value)) > SHORT or "\\n" in canonical(value)):
        members = value.items() if isinstance(value, dict) else ((f"[{at}]", each) for at, each in enumerate(value))
        lines = [line for key, member in members for line in format_value(member, key)]
    else:
        return [f"{name}: {canonical(value)}" if name else canonical(value)]
    return [f"{name}:", *(f"  {line}" for line in lines)] if name else lines


def plain_rows(rows: Iterable[Row]) -> list[Json]:
    """Return rows as JSON takes them: `[sign, [[text, changed], ...]]`."""
    return [[row.sign, [[text, changed] for text, changed in row.pieces]] for row in rows]


def restore_rows(plain: Iterable[tuple[str, Iterable[tuple[str, bool]]]]) -> tuple[Row, ...]:
    """Return the rows that `plain_rows` gave."""
    return tuple(Row(sign, tuple((text, changed) for text, changed in pieces)) for sign, pieces in plain)


def change_row(row: Row, change: Callable[[str], str]) -> Row:
    """Return the row with its line changed; what is changed in a line begins and ends where it will, across pieces."""
    text = change(row.text)
    return row if text == row.text else Row(row.sign, ((text, any(changed for _, changed in row.pieces)),))


def is_mostly_changed(row: Row) -> bool:
    """Return whether marks would stand below most of the line, and say nothing."""
    return sum(len(text) for text, changed in row.pieces if changed) > ALIKE * len(row.text)


def format_rows(rows: Sequence[Row], width: int = 80, *, in_full: bool = True, colour: bool = False) -> list[str]:
    """Return rows as lines for a terminal of `width` columns, escaped, with long lines cut unless they stay `in_full`.

    Changed words are inverse where there is `colour`, and else have "^" below them.
    """
    styled = style_rows(rows, width, in_full=in_full, marks=not colour)
    return [paint(line, colour=colour) for lines in styled for line in lines]


def style_rows(
    rows: Sequence[Row], width: int, *, in_full: bool, marks: bool, names: Mapping[str, str] = SIGNS
) -> list[list[StyledLine]]:
    """Return the lines of each row, behind its name; with `marks` a line below those of which only a part changed."""
    alike = _find_alike(rows)
    styled = []
    for row in rows:
        name, style = names[row.sign], STYLES[row.sign]
        is_partial = len({changed for _, changed in row.pieces}) > 1
        is_alike = row.text in alike
        printed = [(_escape_piece(text, seen=not (changed and is_alike)), changed) for text, changed in row.pieces]
        printed = printed if in_full else _cut_pieces(printed, max(NARROW, width - len(name)))
        inverse = f"{style};{INVERSE}" if is_partial else style
        styles = ((text, inverse if changed else style) for text, changed in printed)
        lines: list[StyledLine] = [[(name, style), *styles]]
        if marks and is_partial:
            below = "".join(("^" if changed else " ") * _count_cells(text) for text, changed in printed)
            lines.append([(f"{names['?']}{below.rstrip()}", "")])
        styled.append(lines)
    return styled


def format_diff_block(rows: Iterable[Row], width: int = 0) -> str:
    """Return rows as a block of Markdown that shows them in the colours of a diff, cut to `width` unless that is 0."""
    cut = [Row(row.sign, tuple(_cut_pieces(row.pieces, width))) if width else row for row in rows]
    lines = [f"@@ {row.text} @@" if row.sign == "@" else f"{row.sign} {escape_line(row.text)}" for row in cut]
    return escape_markdown("\n".join(lines), "diff")


def _find_alike(rows: Sequence[Row]) -> set[str]:
    """Return the changed lines that look like another one of the other side."""
    recorded, now = ({row.text for row in rows if row.sign == sign} for sign in "-+")
    first, second = ({texts.look(text): text for text in side} for side in (recorded - now, now - recorded))
    return {side[look] for look in first.keys() & second.keys() for side in (first, second)}


def _escape_piece(text: str, *, seen: bool) -> str:
    """Return the text as it is shown; not `seen`, that is in lines that look alike, blanks and letters as escapes."""
    if seen:
        return escape_line(text)
    return "".join("\\x20" if char == " " and text.isspace() else texts.escape_char(char) for char in text)


def _cut_pieces(pieces: Sequence[tuple[str, bool]], room: int) -> list[tuple[str, bool]]:
    """Return the pieces of a line in about `room` characters: of each changed one something, and what is around it."""
    if sum(len(text) for text, _ in pieces) <= room:
        return [*pieces]
    if len(pieces) == 1:
        return [(texts.shorten(pieces[0][0], room), pieces[0][1])]
    sides = [1 if changed or at in {0, len(pieces) - 1} else 2 for at, (_, changed) in enumerate(pieces)]
    lengths = [len(text) // count for (text, _), count in zip(pieces, sides, strict=True) for _ in range(count)]
    limit = max(LEAST, _find_limit(lengths, room - 3 * len(pieces)))
    cut = []
    for at, (text, changed) in enumerate(pieces):
        if len(text) <= limit * sides[at] + 3:
            printed = text
        elif changed:
            printed = texts.shorten(text, limit)
        else:
            printed = f"{text[:limit] if at else ''}...{text[-limit:] if at < len(pieces) - 1 else ''}"
        cut.append((printed, changed))
    return cut


def _find_limit(lengths: list[int], room: int) -> int:
    """Return how much of each length has room, where those that are shorter leave theirs to the others."""
    for at, length in enumerate(sorted(lengths)):
        if length * (left := len(lengths) - at) > room:
            return room // left
        room -= length
    return max(lengths)


def _count_cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _make_rows(old: Sequence[str], new: Sequence[str], context: int, name: str = "") -> Iterator[Row]:
    """Yield the rows of two lists of lines; a part begins with its place where `name` has a form for it."""
    ranges = [*texts.find_changes(old, new)]
    end = 0  # of the recorded lines that were shown
    for at, (i1, i2, j1, j2) in enumerate(ranges):
        start = max(i1 - context, end)
        if (at or name) and (at == 0 or start > end):
            place = name.format((i1 if i2 > i1 else j1) + 1) if name else "..."
            yield Row("@", ((place, False),))
        yield from (Row(" ", ((line, False),)) for line in old[start:i1])
        yield from _make_changed_rows(old[i1:i2], new[j1:j2], marked=MARKED if at < MARKED else 0)
        end = min(i2 + context, ranges[at + 1][0] if at + 1 < len(ranges) else len(old))
        yield from (Row(" ", ((line, False),)) for line in old[i2:end])


def _make_changed_rows(old: Sequence[str], new: Sequence[str], marked: int) -> Iterator[Row]:
    """Yield the rows of a changed part, each line above the one that it became."""
    i = j = 0
    for at, to in [*_pair_lines(old[:marked], new[:marked]), (len(old), len(new))]:
        yield from (Row("-", ((line, True),)) for line in old[i:at])
        yield from (Row("+", ((line, True),)) for line in new[j:to])
        if at < len(old) and to < len(new):
            yield from map(Row, "-+", _mark_words(old[at], new[to]))
        i, j = at + 1, to + 1


def _pair_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield which recorded line became which line, both in their order: the one near by with the most common words."""
    if len(old) == len(new) == 1:
        yield 0, 0
        return
    words, others = ([Counter(_WORD.findall(line[:WORDS])) for line in lines] for lines in (old, new))
    start = 0
    for i, mine in enumerate(words):
        near = range(start, min(start + NEAR, len(new)))
        common = {j: (mine & others[j]).total() for j in near}
        j = max(common, key=common.__getitem__, default=-1)
        if j >= 0 and common[j] > ALIKE * max(mine.total(), others[j].total()):
            yield i, j
            start = j + 1


def _mark_words(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Return the pieces of two forms of a line."""
    if len(old) + len(new) > WORDS:
        return _mark_span(old, new)
    words, others, ranges = texts.find_words(old, new)
    before_pieces: list[tuple[str, bool]] = []
    after_pieces: list[tuple[str, bool]] = []
    i = 0
    for i1, i2, j1, j2 in [*ranges, (len(words),) * 2 + (len(others),) * 2]:
        same = "".join(words[i:i1])
        for pieces, changed in ((before_pieces, words[i1:i2]), (after_pieces, others[j1:j2])):
            pieces += [(same, False), ("".join(changed), True)]
        i = i2
    if not any(_WORD.search(text) for text, changed in before_pieces if not changed):
        # Of a long text without words, such as base64, all between the ends.
        return _mark_span(old, new) if len(old) + len(new) > SHORT else (((old, True),), ((new, True),))
    return _join_pieces(before_pieces), _join_pieces(after_pieces)


def _mark_span(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Return the pieces of two forms of a line with all between the first change and the last as one."""
    start = texts.common_prefix(old, new)
    end = texts.common_suffix(old, new, min(len(old), len(new)) - start)
    while start and any(texts.is_inside_character(side, start) for side in (old, new)):
        start -= 1
    while end and any(texts.is_inside_character(side, len(side) - end) for side in (old, new)):
        end -= 1
    before, after = (
        ((side[:start], False), (side[start : len(side) - end], True), (side[len(side) - end :], False))
        for side in (old, new)
    )
    return _join_pieces(before), _join_pieces(after)


def _join_pieces(pieces: Iterable[tuple[str, bool]]) -> Pieces:
    """Return the pieces without empty ones, and neighbours of one kind as one."""
    runs = groupby((piece for piece in pieces if piece[0]), lambda piece: piece[1])
    return tuple(("".join(text for text, _ in run), changed) for changed, run in runs) or (("", True),)
