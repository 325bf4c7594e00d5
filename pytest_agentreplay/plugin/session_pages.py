"""`--agentreplay-html=DIR`: a page for each test that has diverged, and one over all that the project has recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import CannotWrite, SettingsError
from pytest_agentreplay.plugin.reports import get_summary
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.report.finding import restore_finding
from pytest_agentreplay.runs import pages
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    from pytest_agentreplay.report.finding import Finding


class HtmlPages:
    """Takes the findings of all tests, those of the workers of xdist too, and writes the pages at the end."""

    def __init__(self, config: pytest.Config, folder: str) -> None:
        self.config = config
        self.folder = config.invocation_params.dir / folder
        self.findings: dict[str, Finding] = {}
        self.files: dict[str, Path] = {}
        self.line = ""
        self.has_run = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the finding of a test that has failed, and where its snapshot is."""
        self.has_run = True
        if (plain := getattr(report, "agentreplay_finding", None)) is not None:
            self.findings[report.nodeid] = restore_finding(plain)
        if report.nodeid in self.findings and (summary := get_summary(report)) is not None and summary.file:
            self.files[report.nodeid] = Path(summary.file)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the pages; what stands in the way is said in the summary and fails nothing.

        A session that ran no test (`--collect-only`, an error of collection) says nothing about pages that are there.
        """
        if not self.has_run:
            return
        try:
            failed = [(finding, self.files.get(test)) for test, finding in self.findings.items()]
            index = pages.write_pages(self.folder, self.config.rootpath, failed)
            self.line = f"pages     {format_path(index)}   {len(failed)} diverged"
        except (CannotWrite, SettingsError) as error:
            self.line = f"pages     not written: {str(error).partition(chr(10))[0]}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the pages are."""
        if self.line:
            terminalreporter.write_line(escape_line(self.line))
