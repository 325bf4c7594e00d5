"""Reports of tests that diverged by one change: the first shows it, the others point to that.

The reports come together in the process that prints them: the only one, or the controller of pytest-xdist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.report import shared_summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

    from pytest_agentreplay.report.notices import Notice
    from pytest_agentreplay.report.shared_summary import Cause


class SharedCauses:
    """The changes of requests that tests have failed with, each with its tests in the order of their reports."""

    def __init__(self) -> None:
        self._causes: dict[str, list[Cause]] = {}
        self._first: dict[str, list[str]] = {}

    def add(self, report: pytest.TestReport, cause: Cause, *, shorten: bool) -> None:
        """Take the report of a test that failed; with `shorten` one of a known change says no more than where it is."""
        lines, key = lines_of(report), cause.digest
        causes = self._causes.setdefault(key, [])
        causes.append(cause)
        if len(causes) == 1:
            self._first[key] = lines
        elif shorten:
            lines[:] = shared_summary.point_to_first(cause, causes[0].test)

    def complete(self) -> None:
        """Add to each first report how many tests have failed with its change; pytest prints the reports next."""
        for key, causes in self._causes.items():
            if len(causes) > 1:
                self._first[key].extend(shared_summary.first_lines(causes))

    def notices(self) -> Iterable[Notice]:
        """Return the notices at the session's end, the same whichever worker of xdist was faster."""
        return shared_summary.shared_notices(list(self._causes.values()))


def lines_of(report: pytest.TestReport) -> list[str]:
    """Return the list of lines that pytest will print as the report, to be changed in place.

    They are those of the last entry of the last exception (pytest 8.4 to 9, `_pytest._code.code.ReprEntry`), which
    crosses xdist. Of a report that somebody else has made otherwise they are a list that nobody prints.
    """
    chain: Sequence[Any] = getattr(report.longrepr, "chain", ())
    entries = getattr(chain[-1][0], "reprentries", ()) if chain else ()
    lines = getattr(entries[-1], "lines", None) if entries else None
    return lines if isinstance(lines, list) else []
