"""A finding as text for a terminal: at most 24 lines unless more is asked for, the same with and without colour.

Rules of this module: the headline comes first; values are cut around what changed, prose is wrapped, commands are never
cut nor wrapped and come last, so that they can be copied.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from pytest_agentreplay.core.diff.texts import excerpt, shorten
from pytest_agentreplay.report.escape import line as on_one_line
from pytest_agentreplay.report.escape import safe

if TYPE_CHECKING:
    from pytest_agentreplay.report.finding import Finding, Line

HEIGHT = 24
ENDLESS = 1_000_000
NARROW = 40  # a terminal that says less than this does not know its width
WORD = 200  # characters of a word without a space
LABEL = 14  # columns of "likely cause" and its kind

_ENDLESS_WORD = re.compile(rf"\S{{{WORD + 1},}}")


def text(finding: Finding, *, width: int = 80, verbosity: int = 0) -> str:
    """The finding in lines of `width` columns, commands apart; at verbosity 2 every difference and both calls."""
    width = max(NARROW, width)
    everything = verbosity >= 2
    head = _wrap(finding.headline, width, "", "  ")
    prose = [row for line in finding.lines if line.what in {"text", "cause"} for row in _paragraph(line, width)]
    steps = [row for line in finding.lines if line.what == "next" for row in _step(line, width)]
    details = [f"  {safe(line.text)}" for line in finding.lines if line.what == "detail"] if everything else []
    fixed = sum(len(block) + 1 for block in (head, prose, steps) if block)
    differences = [line for line in finding.lines if line.what == "difference"]
    difference_rows = _differences(differences, width, ENDLESS if everything else HEIGHT - fixed, everything=everything)
    rows = [row for block in (head, difference_rows, prose, details, steps) if block for row in (*block, "")][:-1]
    if not everything and len(rows) > HEIGHT:
        rows = [*rows[: HEIGHT - 2 - len(steps)], "  ... -vv shows all", "", *rows[len(rows) - len(steps) :]]
    return "\n".join(rows)


def _differences(lines: list[Line], width: int, height: int, *, everything: bool) -> list[str]:
    """As many differences as fit in `height` lines, at least one, and how many there are besides."""
    rows: list[str] = []
    for number, line in enumerate(lines):
        block = _difference(line, width, everything=everything)
        left = len(lines) - number
        if rows and len(rows) + len(block) + (left > 1) > height:
            rows.append(f"  {left} more difference{'s' * (left > 1)}: -vv shows {'them' if left > 1 else 'it'}")
            break
        rows += block
    return rows


def _difference(line: Line, width: int, *, everything: bool) -> list[str]:
    """Its place, a note where the sides do not say it themselves, then the two sides, cut around the change."""
    place, note = on_one_line(line.text), on_one_line(line.label)
    sides = on_one_line(line.recorded), on_one_line(line.now)
    room = width - 4 - len("recorded  ")
    if note.endswith(("] dropped", "] added")) or (max(map(len, sides)) <= room and " -> " in note):
        note = ""
    head = _wrap(f"{place}   {note}".rstrip(), width, "  ", "    ")
    if everything:
        labelled = zip(("recorded  ", "now       "), sides, strict=True)
        return [*head, *(row for name, side in labelled for row in _hard(side, width, f"    {name}"))]
    recorded, now = excerpt(*sides, room)
    return [*head, f"    recorded  {recorded}", f"    now       {now}"]


def _paragraph(line: Line, width: int) -> list[str]:
    """A line of prose, behind its label."""
    name = "likely cause" if line.what == "cause" else line.label
    if not name:
        return _wrap(line.text, width, "  ", "    ")
    return _wrap(line.text, width, f"  {name:{LABEL}}", " " * (LABEL + 2))


def _step(line: Line, width: int) -> list[str]:
    """What to type, whole; on a line of its own when it does not fit beside its label."""
    name, command = on_one_line(line.label), on_one_line(line.text)
    beside = f"  {name + ':':26} {command}"
    return [beside] if len(beside) <= width else [f"  {name}:", f"    {command}"]


def _wrap(text: str, width: int, first: str, then: str) -> list[str]:
    """Prose on several lines; a path that is too long for one stays whole, unless it has no end."""
    wrap = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False, break_long_words=False
    )
    bounded = _ENDLESS_WORD.sub(lambda match: shorten(match[0], WORD), on_one_line(text))
    return wrap.wrap(bounded) or [first.rstrip()]


def _hard(text: str, width: int, first: str) -> list[str]:
    room = width - len(first)
    pieces = [text[at : at + room] for at in range(0, len(text), room)] or [""]
    return [(first if number == 0 else " " * len(first)) + piece for number, piece in enumerate(pieces)]
