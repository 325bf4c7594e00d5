"""Changes as blocks of Markdown, for a comment and for the summary of a step: each once, with the tests that show it.

Rules of this module:
- Whatever a run, a path or the id of a test says stands in code: nothing links, mentions, loads or commands.
- What differs is a block of lines with "-" and "+". One that is long is folded; it is cut before it fills the page.
- A page consists of whole blocks, the most important first, and says how many it leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.report.changes import Row, format_diff_block
from pytest_agentreplay.report.escape import escape_code
from pytest_agentreplay.report.finding import Finding, find_cause
from pytest_agentreplay.report.notices import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Place = tuple[str, tuple[Row, ...]]

LONGEST = 60_000  # characters of a page; GitHub takes 65,536 in a comment
FOLDED = 20  # lines of a difference above which it is folded
MOST_OPEN = 5  # differences of a kind, above which they are folded
MOST_ROWS = 200  # lines of one difference
WIDTH = 300  # characters of a line, which is cut around what changed in it
MOST_NAMES = 5  # tests that are named behind one change
TITLES = {kind.code: kind.title for kind in Kind}


@dataclass(frozen=True, slots=True)
class SharedChange:
    """One change, as the first test with it shows it, and all tests behind it."""

    finding: Finding
    tests: tuple[str, ...]


def share_changes(findings: Iterable[tuple[Finding, str]]) -> list[SharedChange]:
    """Return the findings about tests, those with one cause as one, the ones behind most tests first."""
    causes: dict[str, list[tuple[Finding, str]]] = {}
    for finding, test in findings:
        causes.setdefault(find_cause(finding, test).digest, []).append((finding, test))
    several = sorted(causes.values(), key=lambda group: -len(group))
    return [SharedChange(group[0][0], tuple(dict.fromkeys(test for _, test in group))) for group in several]


def list_change_blocks(changes: Iterable[SharedChange]) -> Iterator[str]:
    """Yield a title for each kind of change, and below it each difference of that kind once, with its tests."""
    kinds: dict[str, list[SharedChange]] = {}
    for change in changes:
        kinds.setdefault(change.finding.code, []).append(change)
    for code, of_kind in kinds.items():
        title = TITLES.get(code, code)
        tests = dict.fromkeys(test for change in of_kind for test in change.tests)
        yield f"**{title[:1].upper()}{title[1:]}** in {format_count(len(tests), 'test')}"
        places: dict[Place, dict[str, None]] = {}
        for change in of_kind:
            for place in list_places(change.finding):
                places.setdefault(place, {}).update(dict.fromkeys(change.tests))
        for number, ((where, rows), names) in enumerate(places.items()):
            is_folded = number >= MOST_OPEN or len(rows) > FOLDED
            yield f"{escape_code(where)} in {join_names([*map(escape_code, names)])}" + format_rows(
                rows, folded=is_folded
            )


def list_places(finding: Finding) -> Iterator[Place]:
    """Yield where a finding has differences, and their rows; its headline where it has none."""
    facts = finding.properties
    turn = f"turn {facts['turn']}/{facts['turns']}: " if "turns" in facts else ""
    differences = [line for line in finding.lines if line.what == "difference"]
    for line in differences:
        yield f"{turn}{line.text}", line.rows
    if not differences:
        yield finding.headline.removeprefix(f"[{finding.code}] "), ()


def join_names(names: Sequence[str]) -> str:
    """Return the first few names, which are code, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def format_rows(rows: Sequence[Row], *, folded: bool) -> str:
    """Return the block of a difference, to be added to its title; "" for none."""
    if not rows:
        return ""
    left = len(rows) - MOST_ROWS
    rest = [Row("@", ((format_count(left, "more line"), False),))] if left > 0 else []
    block = format_diff_block([*rows[:MOST_ROWS], *rest], WIDTH)
    if not folded:
        return f"\n\n{block}"
    return f"\n\n<details><summary>{format_count(len(rows), 'line')}</summary>\n\n{block}\n\n</details>"


def join_blocks(blocks: Sequence[str], describe_rest: Callable[[str], str]) -> str:
    """Return as many of the blocks as a page takes; `describe_rest` says what to do about "3 more parts"."""
    kept: list[str] = []
    room = LONGEST - 500  # for the last line
    for block in blocks:
        room -= len(block) + 2
        if room < 0:
            break
        kept.append(block)
    left = len(blocks) - len(kept)
    rest = [describe_rest(format_count(left, "more part"))] if left else []
    return "\n\n".join([*kept, *rest]) + "\n"
