"""One change behind many tests: which findings have the same cause, and what is said of those after the first.

Only changes of requests are shared: what an agent asks for, or gets, in another way belongs to its test.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.report.findings import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.report.finding import Finding

NAMED = 3
"""Tests that are named of those behind one change."""

CODES = frozenset(kind.code for kind in REQUESTS)


def cause_of(finding: Finding) -> dict[str, str]:
    """Return what tells the cause of a finding from that of another, as plain data; empty where it is not shared.

    Two findings have one cause where their code, and path and text of each difference on both sides, are equal.
    """
    differences = [(one.text, one.recorded, one.now) for one in finding.lines if one.what == "difference"]
    if finding.code not in CODES or not differences:
        return {}
    text = json.dumps([finding.code, differences])
    rule = (
        one.text for one in finding.lines if one.what == "next" and one.text.startswith("agentreplay accept --rule")
    )
    return {
        "cause": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        "code": finding.code,
        "headline": finding.headline,
        "test": finding.test,
        "rule": next(rule, ""),
    }


def pointer(cause: dict[str, Any], first: str) -> list[str]:
    """Return what the report of a later test says: where the change is shown."""
    return [f"[{cause['code']}] the same change as in {first}, which shows it (-vv shows it here too)"]


def behind(causes: Iterable[dict[str, Any]]) -> str:
    """Return how many tests a change is behind, with the first few by name."""
    tests = sorted(cause["test"] for cause in causes)
    more = len(tests) - NAMED
    return f"in {len(tests)} tests: {', '.join(tests[:NAMED])}{f' and {more} more' if more > 0 else ''}"


def command(cause: dict[str, Any]) -> str:
    """Return the one command that accepts the change in all tests."""
    every = f'agentreplay accept --requests --all --code {cause["code"]} --reason "why every reply still holds"'
    return cause["rule"] or every


def first_lines(causes: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the report of the first test ends with."""
    return ["", f"  the same change {behind(causes)}", "  accept it in all of them:", f"    {command(causes[0])}"]


def shared_lines(changes: Iterable[Sequence[dict[str, Any]]]) -> list[str]:
    """Return the lines at the session's end: each change behind several tests once, and what accepts it."""
    lines = []
    several = (sorted(causes, key=lambda cause: cause["test"]) for causes in changes if len(causes) > 1)
    for causes in sorted(several, key=lambda causes: causes[0]["test"]):
        lines.append(f"shared    {causes[0]['headline']}")
        lines.append(f"          {behind(causes)}")
        lines.append(f"          if every recorded reply still holds:   {command(causes[0])}")
    return lines
