"""How two texts or JSON values differ, as rows: lines with a sign, in which the changed words are marked.

Reports, pages and comments all show these rows.

Rules of this module:
- Texts come as they are; whatever formats a row escapes it.
- The rows without "+" and "@" are recorded lines, those without "-" and "@" are lines of now.
- The time is bounded: for 10,000 lines of 250 characters below a second. What would take longer is less exact: a part
  without a unique line, of more than `PRODUCT` pairs of lines, is shown as replaced; words are marked in the first
  `MARKED` parts and in the first `MARKED` lines of each; of lines with more than `WORDS` characters all between the
  first change and the last is marked.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.divergence import Absent
from pytest_agentreplay.report.escape import escape_line, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Json

    Range = tuple[int, int, int, int]
    Pieces = tuple[tuple[str, bool], ...]

CONTEXT = 2  # lines that stay as they are, shown before and after a change
PRODUCT = 40_000  # pairs of elements that are aligned without a unique one between them: 0.1 s at worst
DEPTH = 6  # how often a part is divided at its unique elements
WORDS = 50_000  # characters of two lines whose words are compared one by one
MARKED = 400  # changed parts, and changed lines of one part, in which changed words are marked
NEAR = 20  # lines among which the new form of a changed line is looked for
ALIKE = 0.5  # share of the words of the longer one that two forms of a line have in common
SHORT = 60  # characters of a JSON value that stands in one line

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
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
    both = isinstance(recorded, str) and isinstance(now, str)
    inside = [_read_json(side) for side in (recorded, now)] if both else [recorded, now]
    if isinstance(recorded, str) and isinstance(now, str) and (None in inside or inside[0] == inside[1]):
        return compare_texts(recorded, now, context=context)
    # A text stands without quotes, unless the other side could be taken for one then.
    quoted = not any(isinstance(side, Absent) for side in inside)
    old, new = ([] if isinstance(side, Absent) else format_value(side, quoted=quoted) for side in inside)
    return tuple(_make_rows(old, new, context))


def format_value(value: Json, name: str = "", *, quoted: bool = True) -> list[str]:
    """Return a JSON value as lines: members below their names, texts with line breaks as these lines."""
    if isinstance(value, str) and ("\n" in value or not quoted):
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


def format_rows(rows: Iterable[Row]) -> list[str]:
    """Return rows as lines of text, escaped."""
    return [f"@ {escape_line(row.text)}" if row.sign == "@" else f"{row.sign} {escape_line(row.text)}" for row in rows]


def format_diff_block(rows: Iterable[Row]) -> str:
    """Return rows as a block of Markdown that shows them in the colours of a diff."""
    lines = [f"@@ {row.text} @@" if row.sign == "@" else f"{row.sign} {escape_line(row.text)}" for row in rows]
    return escape_markdown("\n".join(lines), "diff")


def _read_json(text: Json | Absent) -> Json:
    """Return the object or list that a text holds as JSON, else None."""
    if not isinstance(text, str) or text[:1] not in {"{", "["} or text[-1:] not in {"}", "]"}:
        return None
    value = parse(text)
    return None if isinstance(value, NotJson) else value


def _make_rows(old: Sequence[str], new: Sequence[str], context: int, name: str = "") -> Iterator[Row]:
    """Yield the rows of two lists of lines; a part begins with its place where `name` has a form for it."""
    ranges = [*_find_changes(old, new)]
    end = 0  # of the recorded lines that were shown
    for at, (i1, i2, j1, j2) in enumerate(ranges):
        start = max(i1 - context, end)
        if name and (at == 0 or start > end):
            yield Row("@", ((name.format((i1 if i2 > i1 else j1) + 1), False),))
        elif at and start > end:
            yield Row("@", (("...", False),))
        yield from (Row(" ", ((line, False),)) for line in old[start:i1])
        yield from _make_changed_rows(old[i1:i2], new[j1:j2], marked=MARKED if at < MARKED else 0)
        end = min(i2 + context, ranges[at + 1][0] if at + 1 < len(ranges) else len(old))
        yield from (Row(" ", ((line, False),)) for line in old[i2:end])


def _make_changed_rows(old: Sequence[str], new: Sequence[str], marked: int) -> Iterator[Row]:
    before: list[Pieces] = [((line, True),) for line in old]
    after: list[Pieces] = [((line, True),) for line in new]
    for i, j in _pair_lines(old[:marked], new[:marked]):
        before[i], after[j] = _mark_words(old[i], new[j])
    yield from (Row("-", pieces) for pieces in before)
    yield from (Row("+", pieces) for pieces in after)


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
        start, was, became = texts.hunk(old, new)
        ends = old[:start], old[start + len(was) :]
        before, after = (((ends[0], False), (middle, True), (ends[1], False)) for middle in (was, became))
        return _join_pieces(before), _join_pieces(after)
    words, others = _TOKEN.findall(old), _TOKEN.findall(new)
    before_pieces: list[tuple[str, bool]] = []
    after_pieces: list[tuple[str, bool]] = []
    i = 0
    for i1, i2, j1, j2 in [*_find_changes(words, others), (len(words),) * 2 + (len(others),) * 2]:
        same = "".join(words[i:i1])
        # A blank between two changed words belongs to the change.
        is_joined = i > 0 and i1 < len(words) and not same.strip()
        for pieces, changed in ((before_pieces, words[i1:i2]), (after_pieces, others[j1:j2])):
            pieces += [(same, is_joined), ("".join(changed), True)]
        i = i2
    if not any(_WORD.search(text) for text, changed in before_pieces if not changed):
        return ((old, True),), ((new, True),)
    return _join_pieces(before_pieces), _join_pieces(after_pieces)


def _join_pieces(pieces: Iterable[tuple[str, bool]]) -> Pieces:
    """Return the pieces without empty ones, and neighbours of one kind as one."""
    joined: list[tuple[str, bool]] = []
    for text, changed in pieces:
        if joined and joined[-1][1] == changed:
            joined[-1] = joined[-1][0] + text, changed
        elif text:
            joined.append((text, changed))
    return tuple(joined) or (("", True),)


def _find_changes(old: Sequence[str], new: Sequence[str], i: int = 0, j: int = 0, depth: int = 0) -> Iterator[Range]:
    """Yield the ranges of two sequences that differ, in order, as begin and end in the first and in the second.

    Both are divided at the elements that each has once ("patience diff"), and only what is between them is aligned.
    """
    head, tail = texts.count_common_ends(old, new)
    old, new, i, j = old[head : len(old) - tail], new[head : len(new) - tail], i + head, j + head
    anchors = _find_anchors(old, new) if depth < DEPTH else []
    if anchors:
        i1 = j1 = 0
        for i2, j2 in [*anchors, (len(old), len(new))]:
            yield from _find_changes(old[i1:i2], new[j1:j2], i + i1, j + j1, depth + 1)
            i1, j1 = i2 + 1, j2 + 1
    elif old or new:
        codes = texts.opcodes(old, new) if len(old) * len(new) <= PRODUCT else None
        for _, i1, i2, j1, j2 in codes if codes is not None else [("", 0, len(old), 0, len(new))]:
            yield i + i1, i + i2, j + j1, j + j2


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the elements stand that both have once: the longest list of those in the same order."""
    once, others = ({each for each, count in Counter(side).items() if count == 1} for side in (old, new))
    places = {each: j for j, each in enumerate(new) if each in others}
    pairs = [(i, places[each]) for i, each in enumerate(old) if each in once and each in places]
    # The longest increasing subsequence: of each length the one whose last place is the lowest.
    lasts: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        length = bisect_left(lasts, j)
        before.append(ends[length - 1] if length else -1)
        lasts[length : length + 1], ends[length : length + 1] = [j], [at]
    chain: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]
