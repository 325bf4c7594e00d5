"""What GitHub Actions is told of tests that diverged: an annotation for each, and a table for the summary of the step.

Rules of this module:
- An annotation is one line, a workflow command; nothing that was recorded can end it, or begin another one.
  https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
- An annotation stands where the agent made the call. Where pytest-github-actions-annotate-failures is active, it prints
  the same first line as an error at the test: then ours is a notice, and none without a call site.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.report.change_blocks import TITLES, join_blocks, list_change_blocks, share_changes
from pytest_agentreplay.report.escape import escape_code, escape_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.report.finding import Cause, Finding

MOST_ROWS = 200  # of a table; GitHub takes 1 MiB for a step
_ORIGIN = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: in .*)?")


@dataclass(frozen=True, slots=True)
class DivergedTest:
    """A test that failed by a finding: its cause, the turn ("4/7" or ""), the agent's call site, its file and line.

    `is_annotated` says that another plugin has annotated the test itself. `finding` is what the summary shows of it.
    """

    cause: Cause
    turn: str
    origin: str
    place: tuple[str, int]
    is_annotated: bool = False
    finding: Finding | None = None


def make_diverged_test(
    cause: Cause,
    properties: Mapping[str, object],
    place: tuple[str, int],
    *,
    is_annotated: bool = False,
    finding: Finding | None = None,
) -> DivergedTest:
    """Return a test that diverged; `properties` are those of its report, `place` is file and line of the test."""
    turn, turns, origin = (str(properties.get(f"agentreplay.{name}", "")) for name in ("turn", "turns", "origin"))
    return DivergedTest(cause, turn and turns and f"{turn}/{turns}", origin, place, is_annotated, finding)


def format_annotation(diverged: DivergedTest, folder: str = "") -> str:
    """Return the command that annotates the call site, "" for none.

    `folder` leads from the repository's top to the folder that paths are relative to, "packages/shop/".
    """
    place = _ORIGIN.fullmatch(diverged.origin)
    if place is None and diverged.is_annotated:
        return ""
    file, line = (place["file"], place["line"]) if place else diverged.place
    title = f"{diverged.cause.code}{diverged.turn and f' turn {diverged.turn}'} {diverged.cause.test}"
    facts = {"file": folder + file.replace("\\", "/"), "line": str(line), "title": title}
    properties = ",".join(f"{name}={escape_property(value)}" for name, value in facts.items())
    return f"::{'notice' if diverged.is_annotated else 'error'} {properties}::{escape_data(diverged.cause.headline)}"


def escape_data(text: str) -> str:
    """Return a text as the message of a workflow command."""
    return escape_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Return a text as the value of a property of a workflow command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def format_step_summary(diverged: Sequence[DivergedTest], replayed: int) -> str:
    """Return the Markdown of the summary of a step: how many tests diverged, a row for each, and each change once."""
    counts = Counter(each.cause.code for each in diverged)
    kinds = ", ".join(f"{count} {code} ({TITLES.get(code, 'another reason')})" for code, count in counts.most_common())
    rows = [
        f"**agentreplay: {len(diverged)} of {max(replayed, len(diverged))} tests diverged**: {kinds}",
        "",
        "| test | code | turn | what | see all of it |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in diverged[:MOST_ROWS]:
        test, code = each.cause.test, each.cause.code
        what = each.cause.headline.removeprefix(f"[{code}] ").removeprefix(f"turn {each.turn}: ")
        cells = (test, code, each.turn or "-", what, f"pytest -vv {selecting(test)}")
        rows.append(f"| {' | '.join(escape_code(cell, cell=True) for cell in cells)} |")
    if (left := len(diverged) - MOST_ROWS) > 0:
        rows += ["", f"and {left} more: the log of this step has them"]
    changes = share_changes((each.finding, each.cause.test) for each in diverged if each.finding is not None)
    table = "\n".join(rows) + "\n\n"
    if not changes:
        return table
    blocks = join_blocks([*list_change_blocks(changes)], lambda rest: f"{rest} left out: the log of this step has all")
    return f"{table}{blocks}\n"
