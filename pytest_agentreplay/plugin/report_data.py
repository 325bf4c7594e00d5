"""What a report of pytest carries for us from the process of a test to the one that prints the footer.

A report crosses xdist as plain JSON (`pytest_report_to_serializable` copies its `__dict__`), so the attributes hold
plain data; all others read and write them by these functions, as the types of `report.summary`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.report.summary import Proof, SessionSummary, from_plain, to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from pytest_agentreplay.core.redaction import Redaction

TEST = "agentreplay"
FIXTURES = "agentreplay_fixtures"


def summary_of(report: pytest.TestReport) -> SessionSummary | None:
    """Return the summary of the test that ended with this report, if it is the last one of a test of ours."""
    plain = getattr(report, TEST, None)
    return None if plain is None else from_plain(SessionSummary, plain)


def fixture_summaries_of(report: pytest.TestReport) -> list[SessionSummary]:
    """Return the summaries of the wider fixtures that were torn down with the test."""
    return [from_plain(SessionSummary, plain) for plain in getattr(report, FIXTURES, ())]


def attach_summary(report: pytest.TestReport, summary: SessionSummary) -> None:
    """Have the report carry the summary of its test."""
    report.__dict__[TEST] = to_plain(summary)


def attach_fixture_summaries(report: pytest.TestReport, summaries: Sequence[SessionSummary]) -> None:
    """Have the report carry the summaries of fixtures."""
    report.__dict__[FIXTURES] = to_plain(summaries)


def hide_secrets(summary: SessionSummary, redaction: Redaction) -> SessionSummary:
    """Return the summary without what its redaction knows as a secret: nothing else leaves the process."""
    return from_plain(SessionSummary, cast("dict[str, Any]", redaction.hide_tree(to_plain(summary))))


def with_proof(summary: SessionSummary, proofs: Mapping[str, Proof]) -> SessionSummary:
    """Return the summary with the proof of its recording, if there is one under its id."""
    if summary.recording is None or summary.test not in proofs:
        return summary
    return replace(summary, recording=replace(summary.recording, proof=proofs[summary.test]))


def failure_lines(report: pytest.TestReport) -> list[str]:
    """Return the list of lines that pytest will print as the report, to be changed in place.

    They are those of the last entry of the last exception (pytest 8.4 to 9, `_pytest._code.code.ReprEntry`), which
    crosses xdist. Of a report that somebody else has made otherwise they are a list that nobody prints.
    """
    chain: Sequence[Any] = getattr(report.longrepr, "chain", ())
    entries = getattr(chain[-1][0], "reprentries", ()) if chain else ()
    lines = getattr(entries[-1], "lines", None) if entries else None
    return lines if isinstance(lines, list) else []
