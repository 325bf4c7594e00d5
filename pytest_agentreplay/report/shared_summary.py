"""One change behind many tests: which findings have the same cause, and what the reports after the first say."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.core.paths import selecting
from pytest_agentreplay.report.findings import REQUESTS
from pytest_agentreplay.report.notices import error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.notices import Notice

RECORD = "pytest --snapshot-record "
MOST = 3
"""Tests that are named of those behind one change."""

_PLACE = re.compile(r"\b(?:turn|call) \d")
CODES = frozenset(kind.code for kind in REQUESTS)


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


def cause_of(finding: Finding, test: str) -> Cause:
    """Return the cause of `finding`, which fails `test`.

    Two findings have one cause where their code, and path and text of each difference on both sides, are equal; and,
    but for changed requests, what is called. Without differences it is all that is said but the next commands.
    """
    differences = [(line.text, line.recorded, line.now) for line in finding.lines if line.what == "difference"]
    parts = [part for part in finding.headline.partition("] ")[2].split(": ") if not _PLACE.search(part)]
    if not differences:
        parts += [line.text for line in finding.lines if line.what in {"text", "cause"}]
    text = json.dumps([finding.code, differences, [] if differences and finding.code in CODES else parts])
    steps = [line.text for line in finding.lines if line.what == "next"]
    rule = (step for step in steps if finding.code in CODES and step.startswith("agentreplay accept --rule"))
    again = f"{RECORD}{selecting(finding.test)}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Cause(digest, finding.code, finding.headline, test, next(rule, ""), again if again in steps else "")


def point_to_first(cause: Cause, first: str) -> list[str]:
    """Return what the report of a later test says: where the change is shown."""
    return [f"[{cause.code}] the same change as in {first}, which shows it (-vv shows it here too)"]


def list_tests(causes: Iterable[Cause]) -> str:
    """Return how many tests a change is behind, with the first few by name."""
    tests = sorted(cause.test for cause in causes)
    more = len(tests) - MOST
    return f"in {len(tests)} tests: {', '.join(tests[:MOST])}{f' and {more} more' if more > 0 else ''}"


def find_command(causes: Sequence[Cause]) -> tuple[str, str]:
    """Return the one command that takes the change in all tests, behind when to type it; "" where none does."""
    first = causes[0]
    if first.code in CODES:
        every = f'agentreplay accept --requests --all --code {first.code} --reason "why every reply still holds"'
        return "if every recorded reply still holds", first.rule or every
    targets = sorted({cause.again.removeprefix(RECORD) for cause in causes})
    listed = " ".join(targets) if len(targets) <= MOST else "--last-failed"
    return "to keep the new behaviour", f"{RECORD}{listed}" if all(targets) else ""


def first_lines(causes: Sequence[Cause]) -> list[str]:
    """Return what the report of the first test ends with."""
    when, typed = find_command(causes)
    return [
        "",
        f"  the same change {list_tests(causes)}",
        *([f"  {when}, in all of them:", f"    {typed}"] if typed else []),
    ]


def shared_notices(changes: Iterable[Sequence[Cause]]) -> Iterator[Notice]:
    """Yield each change behind several tests, and what accepts it."""
    several = (sorted(causes, key=lambda cause: cause.test) for causes in changes if len(causes) > 1)
    for causes in sorted(several, key=lambda causes: causes[0].test):
        when, typed = find_command(causes)
        lines = [f"shared    {causes[0].headline}", f"          {list_tests(causes)}"]
        yield error(*lines, *([f"          {when}:   {typed}"] if typed else []))
