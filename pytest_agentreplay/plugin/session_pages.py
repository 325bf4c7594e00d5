"""`--agentreplay-html=DIR`: a page for each run of the project and each test that failed, and an index of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import CannotWrite, SettingsError
from pytest_agentreplay.plugin.keys import get_redaction
from pytest_agentreplay.plugin.reports import get_summary
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.report.finding import Finding, Line, restore_finding
from pytest_agentreplay.runs import pages
from pytest_agentreplay.snapshots.store import format_path

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 20_000
"""Characters of a report of pytest's that a page shows: its end, which has the error."""


class HtmlPages:
    """Takes how each test ended, those of the workers of xdist too, and writes the pages at the end."""

    def __init__(self, config: pytest.Config, folder: str) -> None:
        self.config = config
        self.folder = config.invocation_params.dir / folder
        self.statuses: dict[str, str] = {}
        self.findings: dict[str, Finding] = {}
        self.files: dict[str, Path] = {}
        self.line = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take how a test ended, why it failed, and where its snapshot is."""
        test = report.nodeid
        if (plain := getattr(report, "agentreplay_finding", None)) is not None:
            self.findings[test], self.statuses[test] = restore_finding(plain), "diverged"
        elif report.failed:
            self.findings.setdefault(test, describe_failure(report, get_redaction(self.config).hide))
            self.statuses.setdefault(test, "failed")
        elif report.when == "call" or report.skipped:
            self.statuses.setdefault(test, report.outcome)
        if (summary := get_summary(report)) is not None and summary.file:
            self.files[test] = Path(summary.file)
        elif hasattr(report, "agentreplay_case"):
            self.files[test] = self.config.rootpath / test.partition("::")[0]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the pages; what stands in the way is said in the summary and fails nothing.

        A session that ran no test (`--collect-only`, an error of collection) says nothing about pages that are there.
        """
        if not self.statuses:
            return
        outcomes = [
            pages.TestOutcome(test, status, self.files.get(test), self.findings.get(test))
            for test, status in self.statuses.items()
        ]
        try:
            index = pages.write_folder(self.folder, self.config.rootpath, outcomes=outcomes)
            counts = Counter(self.statuses.values())
            counted = ", ".join(f"{counts[status]} {status}" for status in ("diverged", "failed") if counts[status])
            self.line = f"pages     {format_path(index)}   {counted or 'none failed'}"
        except (CannotWrite, SettingsError) as error:
            self.line = f"pages     not written: {str(error).partition(chr(10))[0]}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the pages are."""
        if self.line:
            terminalreporter.write_line(escape_line(self.line))


def describe_failure(report: pytest.TestReport, hide: Callable[[str], str]) -> Finding:
    """Return why a test failed that did not diverge, as pytest reports it: by an assertion or another exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = hide(report.longreprtext)
    message = hide(crash.message) if crash is not None else text.strip().rpartition("\n")[2]
    headline = message.strip().partition("\n")[0]
    return Finding(
        report.nodeid, "FAILED", f"[FAILED] {headline}", (Line("detail", text[-LONGEST:], "report of pytest"),)
    )
