"""A session with `--vcr`: what tests play from vcrpy is compared, reported, and with `strict` fails its test.

A test plays in its fixtures too, so what it has played goes with its last report, to the process that prints.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import AgentReplayError, SettingsError
from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.plugin import keys, reports
from pytest_agentreplay.plugin.session_report import fail_session
from pytest_agentreplay.report.escape import escape_line, escape_output
from pytest_agentreplay.report.finding import Finding, Line, map_texts
from pytest_agentreplay.report.findings import describe_comparison
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.runs.cassettes.audit import Audit, read_baseline
from pytest_agentreplay.runs.cassettes.watching import CassetterWatch, CassetteWatch
from pytest_agentreplay.runs.offline_session import make_matching
from pytest_agentreplay.runs.run_session import Location
from pytest_agentreplay.settings.parsers import check_word

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import NoReturn

PLUGIN = "agentreplay-cassettes"
PLAYED = "agentreplay_vcr"
MODES = {"audit": ("accept_stale", "json"), "strict": (), "convert": ("accept_stale", "apply")}
"""The modes, and the flags of ours that mean something in each."""
HEADERS = {
    "audit": "what cassettes play is compared, and no test changes",
    "strict": "a request that is not the recorded one fails its test, cassettes play offline",
    "convert": "what cassettes play is written as snapshots, offline",
}
PLAYS_NOTHING = "disable_recording=True record_mode=all record_mode=rewrite disable_vcr=True vcr_record=all"
"""Options of pytest-recording and pytest-vcr under which no cassette is played."""


def check_options(options: Mapping[str, object], mode: str | None) -> None:
    """Raise SettingsError for options with which nothing would be compared."""
    if mode is not None:
        check_word("--vcr", mode, list(MODES))
    for flag in ("accept_stale", "json", "apply"):
        if options.get(f"agentreplay_{flag}") and flag not in MODES.get(mode or "", ()):
            fitting = " or ".join(f"--vcr={name}" for name, flags in MODES.items() if flag in flags)
            raise SettingsError(f"--{flag.replace('_', '-')} goes with {fitting}")
    if find_spec("vcr") is None and (mode == "convert" or find_spec("cassetter") is None):
        raise SettingsError(f"--vcr={mode} needs vcrpy, which is not installed: pip install vcrpy")
    for name, _, value in (word.partition("=") for word in PLAYS_NOTHING.split()):
        if str(options.get(name)) == value:
            flag = f"--{name}={value}".removesuffix("=True").replace("_", "-")
            raise SettingsError(f"--vcr={mode} compares what is played, and {flag} plays nothing: leave it out")


class CassetteSession:
    """The hooks of a session with `--vcr`, in each of its processes."""

    def __init__(self, config: pytest.Config) -> None:
        """Watch vcrpy from now on. Raises UsageError."""
        self.config, self.mode, root = config, config.option.agentreplay_vcr, config.rootpath
        self.is_worker, self.has_passed = hasattr(config, "workerinput"), True
        try:
            check_options(vars(config.option), self.mode)
            matching = make_matching(Location("", root, root, {}, {}), config.stash[keys.SETTINGS])
            self.audit = Audit(read_baseline(root) if self.mode == "audit" and not self.is_worker else None)
            watch_class = CassetterWatch if find_spec("cassetter") else CassetteWatch
            matching.digests, is_strict = False, self.mode != "audit"
            self.watch = watch_class(root, matching, partial(keys.make_redaction, config), is_strict=is_strict)
            config.add_cleanup(self.watch.install())
        except AgentReplayError as error:
            raise pytest.UsageError(str(error)) from None
        config.stash[keys.CASSETTES] = self.watch

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
        """Fail a test with a stale request, whatever its agent or `xfail` makes of it; send what it has played."""
        report = yield
        if self.mode == "strict" and self.watch.divergences and (call.when != "setup" or report.failed):
            finding = self.take_finding(item)
            if report.failed:
                reports.add_section(report, reports.format_for(item, finding))
            else:
                call.excinfo = pytest.CallInfo.from_call(partial(fail_test, item, finding), call.when or "call").excinfo
                report = pytest.TestReport.from_item_and_call(item, call)
                reports.add_finding(item, call, report)
        self.has_passed = report.passed and self.has_passed
        if call.when == "teardown":
            opened = [(cassette.path, cassette.list_unplayed()) for cassette in self.watch.opened if cassette.requests]
            plays = [*map(vars, self.watch.plays)]
            report.__dict__[PLAYED] = keys.get_nodeid(item), plays, opened, self.has_passed
            self.has_passed = True
            self.watch.begin_test()
        return report

    def take_finding(self, item: pytest.Item) -> Finding:
        """Return the finding of a test with stale requests, once."""
        (play, divergence), *others = self.watch.divergences
        self.watch.divergences = []
        test, finding = keys.get_nodeid(item), describe_comparison(divergence, "", "")
        texts = {"cassette": f"{play.cassette}, interaction {play.index + 1}"}
        texts["others"] = f"{format_count(len(others), 'request')} more of this test" if others else ""
        again, how = f"delete {play.cassette}, and record it again", "pytest"
        if "record_mode" in item.config.option and item.get_closest_marker("vcr") is not None:
            again, how = "record it again", "pytest --record-mode=rewrite"
        steps = {again: f"{how} {selecting(test)}", "list all that are stale": "pytest --vcr=audit"}
        lines = [Line("text", text, label) for label, text in texts.items() if text]
        lines += [Line("next", typed, label) for label, typed in steps.items()]
        finding = replace(finding, test=test, lines=(*finding.lines, *lines))
        return map_texts(finding, keys.get_redaction(item.config).hide)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test, from whichever process."""
        if (played := getattr(report, PLAYED, None)) is not None:
            self.audit.add_test(*played[:3], is_complete=played[3])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the baseline where it is asked for, else fail a session that has stale requests beyond it."""
        if self.is_worker or self.mode != "audit":
            return
        if self.config.option.agentreplay_accept_stale:
            self.audit.accept(self.config.rootpath)
        elif self.audit.baseline is not None and self.audit.compare()[1]:
            fail_session(session)

    def pytest_report_header(self) -> str:
        """Return the line that says what becomes of requests that cassettes play."""
        return f"agentreplay: {HEADERS[self.mode]} (--vcr={self.mode})"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report, or one line of JSON."""
        if getattr(self.config.option, "agentreplay_json", False):
            terminalreporter.line(json.dumps(self.audit.count()))
        elif self.mode != "convert":
            width, verbosity = self.config.get_terminal_writer().fullwidth, self.config.get_verbosity()
            terminalreporter.section("agentreplay: cassettes", sep="-")
            for line in self.audit.format_lines(self.mode, width, verbosity):
                terminalreporter.line(escape_output(escape_line(line)))


def fail_test(item: pytest.Item, finding: Finding) -> NoReturn:
    """Raise what fails a test with our text."""
    raise reports.make_failure(item, finding)
