"""What is reported about one test: as plain data, as text for a terminal, and with which other tests it shares a cause.

Rules of this module:
- `headline` is complete by itself; summaries, JUnit and annotations show nothing else.
- A finding survives JSON, so that xdist and any renderer can carry it. Its texts are as they were; whoever shows them
  passes them through `report.escape`.
- As text it has at most 24 lines unless more is asked for. Lines are cut around what changed, prose is wrapped,
  commands are never cut nor wrapped and come last, so that they can be copied.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.compare.diff.texts import shorten
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.paths import accepting_edit, quote_word, relative_path, selecting
from pytest_agentreplay.report.changes import (
    SIGNS,
    Row,
    change_row,
    compare_texts,
    is_mostly_changed,
    plain_rows,
    restore_rows,
    style_rows,
)
from pytest_agentreplay.report.escape import escape_line, escape_text
from pytest_agentreplay.report.notices import format_count, make_error
from pytest_agentreplay.report.terminal import paint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.report.notices import Notice
    from pytest_agentreplay.report.terminal import StyledLine

RECORD = "pytest --snapshot-record "
HEIGHT = 24  # lines of a finding, unless all of it is asked for
LEAST = 9  # of them for what differs
PROSE = {"text", "cause"}
HEADLINE, COMMAND = "1;31", "36"
SIDES = {"-": "recorded  ", "+": "now       ", "?": " " * 10}
ENDLESS = 1_000_000
NARROW = 40  # a terminal that says less than this does not know its width
LONGEST_WORD = 200  # characters of a word without a space
LABEL_WIDTH = 14  # columns of "likely cause" and its kind
_ENDLESS_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
MOST_TESTS = 3  # that are named of those behind one change
_PLACE = re.compile(r"\b(?:turn|call) \d")
# What `agentreplay accept --requests` can take over for good: noise differs again in the next run.
REQUEST_KINDS = {Kind.PROMPT, Kind.SCHEMA, Kind.MODEL, Kind.HISTORY, Kind.SDK}
# Their headlines have the first of the places that differ.
VALUE_KINDS = REQUEST_KINDS | {Kind.ARGS, Kind.RESULT, Kind.REQUEST, Kind.REPLY, Kind.NOISE}
REQUEST_CODES = frozenset(kind.code for kind in REQUEST_KINDS)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing to say. With `recorded` and `now` it has two sides; `what` says which kind of line it is.

    "text", "difference", "cause", "next" (`label` says what `text`, typed as it stands, does), "detail" (for those who
    want all).

    Attributes:
        rows: The two sides of a difference as rows; those of `recorded` and `now`, which may be cut, unless given.
        places: In how many places they differ, as `Difference` counts them.
    """

    what: str
    text: str
    label: str = ""
    recorded: str = ""
    now: str = ""
    rows: tuple[Row, ...] = ()
    places: int = 1

    def __post_init__(self) -> None:
        if self.what == "difference" and not self.rows:
            object.__setattr__(self, "rows", compare_texts(self.recorded, self.now))


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with `test`. `properties` are short facts by name, for machines."""

    test: str
    code: str
    headline: str
    lines: tuple[Line, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the finding as JSON takes it, each difference with its rows; `restore_finding` is the way back."""
        lines = [{**asdict(line), "rows": plain_rows(line.rows)} for line in self.lines]
        return {**asdict(self), "lines": lines}


def restore_finding(data: Mapping[str, Any]) -> Finding:
    """Return the finding that `plain` gave."""
    lines = (Line(**{**line, "rows": restore_rows(line.get("rows", ()))}) for line in data["lines"])
    return Finding(**{**data, "lines": tuple(lines)})


def map_texts(finding: Finding, change: Callable[[str], str]) -> Finding:
    """Return the finding with `change` applied to every text that it shows."""
    lines = (
        replace(
            line,
            text=change(line.text),
            label=change(line.label),
            recorded=change(line.recorded),
            now=change(line.now),
            rows=tuple(change_row(row, change) for row in line.rows),
        )
        for line in finding.lines
    )
    return replace(finding, headline=change(finding.headline), lines=tuple(lines))


def rewrite_steps(finding: Finding, written: Callable[[str], str]) -> Finding:
    """Return the finding with `written` applied to each step, "what it does: what to type"."""
    # The key of a setting may stand in the label and its value in the text: both are needed to write it as TOML.
    steps = {line: written(f"{line.label}: {line.text}") for line in finding.lines if line.what == "next"}
    lines = (
        replace(line, text=steps[line][len(line.label) + 2 :]) if line in steps else line for line in finding.lines
    )
    return replace(finding, lines=tuple(lines))


def format_keeping(targets: str) -> str:
    """Return the command that keeps the recorded replies under changed requests."""
    return f'agentreplay accept {targets} --requests --reason "why every reply still holds"'


def format_restoring(file: str) -> str:
    """Return as a hint how a snapshot is taken back. What is wrong with it may be committed, so HEAD's may not do."""
    return (
        f"if it was committed, take a whole one from HEAD or an older commit: git checkout HEAD -- {quote_word(file)}"
    )


def format_edit_hints(file: str) -> tuple[str, str]:
    """Return the hints about a snapshot that was edited after it was recorded."""
    return f"if the edit is meant: {accepting_edit(file)}", f"else, {format_restoring(file)}"


def make_record_step(test: str, label: str) -> Line:
    """Return the command that records a test again, behind what it is for."""
    return Line("next", f"{RECORD}{selecting(test)}", label)


def make_snapshot_lines(facts: Mapping[str, Json], label: str = "snapshot") -> list[Line]:
    """Return the line that names the snapshot; none where `facts` have no file."""
    return [Line("text", file, label)] if (file := find_file(facts)) else []


def find_file(facts: Mapping[str, Json]) -> str:
    """Return the snapshot as people would type it: from the working directory when it is below."""
    file = str(facts.get("file") or "")
    return relative_path(Path(file), Path.cwd()) if file else ""


def format_finding(
    finding: Finding, *, width: int = 80, verbosity: int = 0, colour: bool = False, see_all: str = "-vv"
) -> str:
    """Return the finding in lines of `width` columns, commands apart, as it is printed.

    Args:
        finding: What is shown.
        width: Columns of the terminal.
        verbosity: That of pytest: at 2 all differences in full and both calls.
        colour: Whether the terminal takes colours.
        see_all: What shows all that more than `HEIGHT` lines would take; "" for all differences in full.
    """
    width, in_full = max(NARROW, width), verbosity >= 2 or not see_all
    head = [[(row, HEADLINE)] for row in _wrap_prose(finding.headline, width, "", "  ")]
    prose = _style_plain(row for line in finding.lines if line.what in PROSE for row in _wrap_line(line, width))
    steps = [row for line in finding.lines if line.what == "next" for row in _format_step(line, width)]
    texts = [line.text for line in finding.lines if line.what == "detail" and verbosity >= 2]
    details = _style_plain(f"  {escape_text(text)}" for text in texts)
    fixed = sum(len(block) + 1 for block in (head, prose, steps) if block)
    differences = [line for line in finding.lines if line.what == "difference"]
    height = ENDLESS if in_full else max(HEIGHT - fixed, LEAST)
    changed = _fit_differences(differences, width, height, marks=not colour, see_all=see_all)
    rows = [row for block in (head, changed, prose, details, steps) if block for row in (*block, [("", "")])][:-1]
    # The next commands stay, whatever is left out above them.
    if not in_full and len(rows) > HEIGHT:
        more = _style_plain([f"  ... {see_all} shows all", ""])
        rows = [*rows[: HEIGHT - 2 - len(steps)], *more, *rows[len(rows) - len(steps) :]]
    return "\n".join(paint(row, colour=colour) for row in rows)


def _style_plain(rows: Iterable[str]) -> list[StyledLine]:
    return [[(row, "")] for row in rows]


def _fit_differences(lines: list[Line], width: int, height: int, *, marks: bool, see_all: str) -> list[StyledLine]:
    """Return the differences in `height` lines: with less around the changes, then as many of these as fit."""
    for around, marked in ((True, marks), (False, marks), (False, False)):
        look = {"around": around, "marks": marked, "in_full": height == ENDLESS}
        parts = [part for line in lines for part in _style_difference(line, width, **look)]
        if sum(len(rows) for _, rows in parts) <= height:
            return [row for _, rows in parts for row in rows]
    fitting: list[StyledLine] = []
    for at, (_, rows) in enumerate(parts):
        if fitting and len(fitting) + len(rows) >= height:
            left = sum(count for count, _ in parts[at:])
            rest = format_count(left, "more place") if left else "more of this place"
            return [*fitting, *_style_plain([f"  {rest}: {see_all} shows all"])]
        fitting += rows
    return fitting


def _style_difference(
    line: Line, width: int, *, around: bool, in_full: bool, marks: bool
) -> list[tuple[int, list[StyledLine]]]:
    """Return the parts of a difference that are not divided, each with how many changed places it begins.

    They are its place, with a note where the rows do not say it, and the rows; `around` a change only if wanted.
    """
    note = escape_line(line.label)
    if note.endswith(("] dropped", "] added")) or " -> " in note or note.startswith("line"):
        note = ""
    head = _style_plain(_wrap_prose(f"{escape_line(line.text)}   {note}".rstrip(), width, "  ", "    "))
    counted = zip(_count_places(line), line.rows, strict=True)
    shown = [(count, row) for count, row in counted if around or row.sign != " "]
    places, rows = [count for count, _ in shown], [row for _, row in shown]
    is_short = [row.sign for row in rows] == ["-", "+"]
    if is_short and all(len(row.text) < width - 4 - len(SIDES["-"]) for row in rows):
        marks = marks and not any(map(is_mostly_changed, rows))
    styled = style_rows(rows, width - 4, in_full=in_full, marks=marks, names=SIDES if is_short else SIGNS)
    parts = [(count, [[("    ", ""), *part] for part in lines]) for count, lines in zip(places, styled, strict=True)]
    first, rest = (parts, []) if is_short else (parts[:1], parts[1:])
    return [(sum(count for count, _ in first), [*head, *(row for _, lines in first for row in lines)]), *rest]


def _count_places(line: Line) -> list[int]:
    """Return for each row of a difference how many of its places begin there."""
    counts: list[int] = []
    for is_changed, run in groupby(line.rows, lambda row: row.sign in "-+"):
        signs = [row.sign for row in run]
        places = max(map(signs.count, "-+")) if len({*signs}) > 1 else 1
        counts += [int(is_changed and at < places) for at in range(len(signs))]
    if sum(counts) > line.places:  # what is no text is one place
        return [line.places, *[0] * (len(counts) - 1)]
    if counts:
        counts[-1] += line.places - sum(counts)  # of rows that are not kept
    return counts


def _wrap_line(line: Line, width: int) -> list[str]:
    """Return a line of prose, behind its label."""
    name = "likely cause" if line.what == "cause" else line.label
    if not name:
        return _wrap_prose(line.text, width, "  ", "    ")
    return _wrap_prose(line.text, width, f"  {name:{LABEL_WIDTH}}", " " * (LABEL_WIDTH + 2))


def _format_step(line: Line, width: int) -> list[StyledLine]:
    """Return what to type, whole; on a line of its own when it does not fit beside its label."""
    name, command = f"{escape_line(line.label)}:", (escape_line(line.text), COMMAND)
    beside = f"  {name:26} "
    if len(beside) + len(command[0]) <= width:
        return [[(beside, ""), command]]
    return [[(f"  {name}", "")], [("    ", ""), command]]


def _wrap_prose(text: str, width: int, first: str, then: str) -> list[str]:
    """Prose on several lines; a path that is too long for one stays whole, unless it has no end."""
    wrap = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False, break_long_words=False
    )
    bounded = _ENDLESS_WORD.sub(lambda match: shorten(match[0], LONGEST_WORD), escape_line(text))
    return wrap.wrap(bounded) or [first.rstrip()]


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a finding: `digest` is the same for all findings of one change.

    `rule` and `again` are the commands that accept it for all tests, and record this one again; "" for none.
    """

    digest: str
    code: str
    headline: str
    test: str
    rule: str = ""
    again: str = ""


def find_cause(finding: Finding, test: str) -> Cause:
    """Return the cause of `finding`, which fails `test`.

    Two findings have one cause where their code, and path and text of each difference on both sides, are equal; and,
    but for changed requests, what is called. Without differences it is all that is said but the next commands.
    """
    differences = [(line.text, line.recorded, line.now) for line in finding.lines if line.what == "difference"]
    # The place in the run differs from test to test, also where the change is the same.
    parts = [part for part in finding.headline.partition("] ")[2].split(": ") if not _PLACE.search(part)]
    if not differences:
        parts += [line.text for line in finding.lines if line.what in {"text", "cause"}]
    # One edit of a prompt reaches many calls: their names say nothing about the change.
    text = json.dumps([finding.code, differences, [] if differences and finding.code in REQUEST_CODES else parts])
    steps = [line.text for line in finding.lines if line.what == "next"]
    rule = (step for step in steps if finding.code in REQUEST_CODES and step.startswith("agentreplay accept --rule"))
    again = f"{RECORD}{selecting(finding.test)}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Cause(digest, finding.code, finding.headline, test, next(rule, ""), again if again in steps else "")


def list_tests(causes: Iterable[Cause]) -> str:
    """Return how many tests a change is behind, with the first few by name."""
    tests = sorted(cause.test for cause in causes)
    more = len(tests) - MOST_TESTS
    return f"in {len(tests)} tests: {', '.join(tests[:MOST_TESTS])}{f' and {more} more' if more > 0 else ''}"


def find_command(causes: Sequence[Cause]) -> tuple[str, str]:
    """Return the one command that takes the change in all tests, behind when to type it; "" where none does."""
    first = causes[0]
    targets = sorted({cause.again.removeprefix(RECORD) for cause in causes})
    if first.code in REQUEST_CODES and first.again:
        # By name: `--all` would take the runs of other tests too, whose requests changed in another way.
        return "if every recorded reply still holds", first.rule or format_keeping(" ".join(targets))
    # With many tests a command that names them all would not fit a terminal.
    listed = " ".join(targets) if len(targets) <= MOST_TESTS else "--last-failed"
    return "to keep the new behaviour", f"{RECORD}{listed}" if all(targets) else ""


def format_first_lines(causes: Sequence[Cause]) -> list[str]:
    """Return what the report of the first test ends with."""
    when, typed = find_command(causes)
    return [
        "",
        f"  the same change {list_tests(causes)}",
        *([f"  {when}, in all of them:", f"    {typed}"] if typed else []),
    ]


def make_shared_notices(changes: Iterable[Sequence[Cause]]) -> Iterator[Notice]:
    """Yield each change behind several tests, and what accepts it."""
    several = (sorted(causes, key=lambda cause: cause.test) for causes in changes if len(causes) > 1)
    for causes in sorted(several, key=lambda causes: causes[0].test):
        when, typed = find_command(causes)
        lines = [f"shared    {causes[0].headline}", f"          {list_tests(causes)}"]
        yield make_error(*lines, *([f"          {when}:   {typed}"] if typed else []))


class SharedCauses:
    """The changes that tests have failed with, each with its tests in the order of their reports.

    The first report shows the change, the others point to it. The reports come together in the process that prints
    them: the only one, or the controller of pytest-xdist.
    """

    def __init__(self) -> None:
        self._causes: dict[str, list[Cause]] = {}
        self._first_reports: dict[str, list[str]] = {}

    def add(self, cause: Cause, lines: list[str], *, shorten: bool) -> bool:
        """Add the report of a failed test, to be changed in place; with `shorten` a later one only points back.

        Returns whether it does not.
        """
        causes = self._causes.setdefault(cause.digest, [])
        causes.append(cause)
        if len(causes) == 1:
            self._first_reports[cause.digest] = lines
        elif shorten:
            first = causes[0].test
            lines[:] = [f"[{cause.code}] the same change as in {first}, which shows it (-vv shows it here too)"]
            return False
        return True

    def complete(self) -> None:
        """Add to each first report how many tests have failed with its change; pytest prints the reports next."""
        for digest, causes in self._causes.items():
            if len(causes) > 1:
                self._first_reports[digest].extend(format_first_lines(causes))

    def notices(self) -> Iterator[Notice]:
        """Return the notices at the session's end, the same whichever worker of xdist was faster."""
        return make_shared_notices(self._causes.values())
