"""The section of the footer about recordings that are stale: as many lines as there are kinds of reasons."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.compare.staleness import RETIRED, RecordedFacts, find_stale
from pytest_agentreplay.report.notices import format_count, make_warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_agentreplay.report.notices import Notice
    from pytest_agentreplay.report.summary import SessionSummary

SHOWN = 2  # facts of a kind that are named


def make_stale_notices(
    summaries: Sequence[SessionSummary], *, days: int, retired: Mapping[str, str]
) -> Iterator[Notice]:
    """Yield what makes recordings of the session stale: each kind of reason with its first facts."""
    kinds: dict[str, dict[str, set[str]]] = {}
    today = datetime.fromtimestamp(clocks.wall(), UTC).date()
    for summary in summaries:
        facts = dict(summary.replay.aged if summary.replay is not None else {})
        now = facts.pop("now", {})
        installed = {name: version for name in facts["packages"] if (version := find_version(name))}
        recorded = RecordedFacts(**{**facts, "models": tuple(facts["models"])})
        stale = find_stale(
            recorded, today=today, days=days, retired={**RETIRED, **retired}, installed=installed, signatures=now
        )
        for fact in stale:
            kinds.setdefault(fact.kind, {}).setdefault(fact.text, set()).add(summary.test)
    lines = []
    for texts in kinds.values():
        tests = format_count(len(set[str]().union(*texts.values())), "test")
        more = f"; {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        lines.append(f"          {tests}: {'; '.join([*texts][:SHOWN])}{more}")
    if lines:
        yield make_warning("stale     some recordings are out of date:   agentreplay ls --stale", *lines)


def find_version(name: str) -> str:
    """Return the version of an installed distribution; "" for one that is not."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
