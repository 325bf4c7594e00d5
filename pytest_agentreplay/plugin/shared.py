"""Reports of tests that diverged by one change: the first shows it, the others point to that.

The reports come together in the process that prints them: the only one, or the controller of pytest-xdist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.report import shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest


class SharedCauses:
    """The changes of requests that tests have failed with, each with its tests in the order of their reports."""

    def __init__(self) -> None:
        self._causes: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {}

    def add(self, report: pytest.TestReport, cause: dict[str, Any], *, shorten: bool) -> None:
        """Take the report of a test that failed; with `shorten` one of a known change says no more than where it is."""
        lines = lines_of(report)
        if (known := self._causes.get(cause["cause"])) is None:
            self._causes[cause["cause"]] = cause, [cause["test"]], lines
            return
        first, tests, _ = known
        tests.append(cause["test"])
        if shorten:
            lines[:] = shared.pointer(cause, first["test"])

    def complete(self) -> None:
        """Add to each first report how many tests have failed with its change; pytest prints the reports next."""
        for cause, tests, lines in self._causes.values():
            if len(tests) > 1:
                lines.extend(shared.first_lines(cause, tests))

    def lines(self) -> list[str]:
        """Return the lines at the session's end."""
        return shared.shared_lines([(cause, tests) for cause, tests, _ in self._causes.values()])


def lines_of(report: pytest.TestReport) -> list[str]:
    """Return the list of lines that pytest will print as the report, to be changed in place.

    They are those of the last entry of the last exception (pytest 8.4 to 9, `_pytest._code.code.ReprEntry`), which
    crosses xdist. Of a report that somebody else has made otherwise they are a list that nobody prints.
    """
    chain: Sequence[Any] = getattr(report.longrepr, "chain", ())
    entries = getattr(chain[-1][0], "reprentries", ()) if chain else ()
    lines = getattr(entries[-1], "lines", None) if entries else None
    return lines if isinstance(lines, list) else []
