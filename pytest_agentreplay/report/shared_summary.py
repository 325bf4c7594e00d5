"""One change behind many tests: which findings have the same cause, and what is said of those after the first."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.paths import selecting
from pytest_agentreplay.report.findings import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.report.finding import Finding

RECORD = "pytest --snapshot-record "
NAMED = 3
"""Tests that are named of those behind one change."""

_PLACE = re.compile(r"\b(?:turn|call) \d")
CODES = frozenset(kind.code for kind in REQUESTS)


def cause_of(finding: Finding, test: str) -> dict[str, str]:
    """Return what tells the cause of `finding`, which fails `test`, from that of another, as plain data.

    Two findings have one cause where their code, and path and text of each difference on both sides, are equal; and,
    but for changed requests, what is called. Without differences it is all that is said but the next commands.
    """
    differences = [(line.text, line.recorded, line.now) for line in finding.lines if line.what == "difference"]
    said = [part for part in finding.headline.partition("] ")[2].split(": ") if not _PLACE.search(part)]
    if not differences:
        said += [line.text for line in finding.lines if line.what in {"text", "cause"}]
    text = json.dumps([finding.code, differences, [] if differences and finding.code in CODES else said])
    steps = [line.text for line in finding.lines if line.what == "next"]
    rule = (step for step in steps if finding.code in CODES and step.startswith("agentreplay accept --rule"))
    again = f"{RECORD}{selecting(finding.test)}"
    return {
        "cause": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        "code": finding.code,
        "headline": finding.headline,
        "test": test,
        "rule": next(rule, ""),
        "again": again if again in steps else "",
    }


def pointer(cause: dict[str, Any], first: str) -> list[str]:
    """Return what the report of a later test says: where the change is shown."""
    return [f"[{cause['code']}] the same change as in {first}, which shows it (-vv shows it here too)"]


def behind(causes: Iterable[dict[str, Any]]) -> str:
    """Return how many tests a change is behind, with the first few by name."""
    tests = sorted(cause["test"] for cause in causes)
    more = len(tests) - NAMED
    return f"in {len(tests)} tests: {', '.join(tests[:NAMED])}{f' and {more} more' if more > 0 else ''}"


def command(causes: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return the one command that takes the change in all tests, behind when to type it; "" where none does."""
    first = causes[0]
    if first["code"] in CODES:
        every = f'agentreplay accept --requests --all --code {first["code"]} --reason "why every reply still holds"'
        return "if every recorded reply still holds", first["rule"] or every
    targets = sorted({cause["again"].removeprefix(RECORD) for cause in causes})
    named = " ".join(targets) if len(targets) <= NAMED else "--last-failed"
    return "to keep the new behaviour", f"{RECORD}{named}" if all(targets) else ""


def first_lines(causes: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the report of the first test ends with."""
    when, typed = command(causes)
    return [
        "",
        f"  the same change {behind(causes)}",
        *([f"  {when}, in all of them:", f"    {typed}"] if typed else []),
    ]


def shared_lines(changes: Iterable[Sequence[dict[str, Any]]]) -> list[str]:
    """Return the lines at the session's end: each change behind several tests once, and what accepts it."""
    lines = []
    several = (sorted(causes, key=lambda cause: cause["test"]) for causes in changes if len(causes) > 1)
    for causes in sorted(several, key=lambda causes: causes[0]["test"]):
        lines.append(f"shared    {causes[0]['headline']}")
        lines.append(f"          {behind(causes)}")
        when, typed = command(causes)
        lines += [f"          {when}:   {typed}"] if typed else []
    return lines
