"""A session with `--vcr`: what tests play from vcrpy is compared, reported, and with `strict` fails its test.

A test plays in its fixtures too, so what it has played goes with its last report, to the process that prints.
"""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.skipping import xfailed_key  # as in `reports`

from pytest_agentreplay.cassettes.audit import Audit, read_baseline, write_baseline
from pytest_agentreplay.cassettes.watching import CassetteWatch
from pytest_agentreplay.core.paths import selecting
from pytest_agentreplay.errors import AgentReplayError, SettingsError
from pytest_agentreplay.plugin import item_session, keys, reports
from pytest_agentreplay.plugin.session_report import fail_session, is_tried_again
from pytest_agentreplay.report.escape import escape_line, escape_output
from pytest_agentreplay.report.finding import Finding, Line, map_texts
from pytest_agentreplay.report.findings import describe_comparison
from pytest_agentreplay.report.notices import format_footer
from pytest_agentreplay.runs.offline_session import make_matching
from pytest_agentreplay.runs.run_session import Location
from pytest_agentreplay.settings.parsers import refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Generator

PLUGIN = "agentreplay-cassettes"
PLAYED = "agentreplay_vcr"
MODES = ("audit", "strict", "convert")
FLAGS = {"accept_stale": ("audit", "convert"), "apply": ("convert",), "json": ("audit",)}
"""Flags of ours, and the modes in which they mean something."""
NOTHING_PLAYED = {
    "disable_recording": (True,),
    "record_mode": ("all", "rewrite"),
    "disable_vcr": (True,),
    "vcr_record": ("all",),
}
"""Options of pytest-recording and pytest-vcr under which no cassette is played."""


def check_options(config: pytest.Config, mode: str | None) -> None:
    """Raise SettingsError for options with which nothing would be compared."""
    options = vars(config.option)
    if mode is not None:
        refuse_unknown("--vcr", mode, MODES)
    for name, modes in FLAGS.items():
        if options.get(f"agentreplay_{name}") and mode not in modes:
            raise SettingsError(f"--{name.replace('_', '-')} goes with --vcr={' or --vcr='.join(modes)} only")
    if find_spec("vcr") is None:
        raise SettingsError(f"--vcr={mode} needs vcrpy, which is not installed here")
    for name, values in NOTHING_PLAYED.items():
        if (value := options.get(name)) in values:
            flag = f"--{name.replace('_', '-')}" + (f"={value}" if isinstance(value, str) else "")
            raise SettingsError(f"--vcr={mode} compares what is played, and {flag} plays nothing: leave it out")


class CassetteSession:
    """The hooks of a session with `--vcr`, in each of its processes."""

    def __init__(self, config: pytest.Config, mode: str | None) -> None:
        """Watch vcrpy from now on. Raises UsageError."""
        self.config, self.mode = config, str(mode)
        self.is_worker = hasattr(config, "workerinput")
        root = config.rootpath
        try:
            check_options(config, mode)
            matching = make_matching(Location("", root, root, {}, {}), config.stash[keys.SETTINGS])
            self.audit = Audit(read_baseline(root) if mode == "audit" and not self.is_worker else None)
        except AgentReplayError as error:
            raise pytest.UsageError(str(error)) from None
        matching.digests = False
        changes = mode != "audit"
        redaction = keys.get_redaction(config)
        self.watch = CassetteWatch(root, matching, redaction, prefers_equal=changes, is_offline=changes)
        config.stash[keys.CASSETTES] = self.watch
        self.watch.install()
        config.add_cleanup(self.watch.uninstall)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        """Begin the test, or another try of it."""
        self.watch.begin_test()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test that passed, or failed as expected, though a request of it is stale."""
        failure, result = None, None
        try:
            result = yield
        except BaseException as raised:  # a failed test too
            failure = raised
        ended = item_session.end_of_body(item, failure)
        passed = ended.failure is None and not ended.skipped
        if (passed or item.stash.get(xfailed_key, None) is not None) and not ended.interrupted:
            self.fail_stale(item)
        if failure is not None:
            raise failure
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test whose fixtures make a stale request when they are torn down."""
        result = yield
        self.fail_stale(item)
        return result

    def fail_stale(self, item: pytest.Item) -> None:
        """Raise the first divergence of the test, where there is one and the mode is strict."""
        if (finding := self.take_finding(item)) is not None:
            reports.forget_unittest_failure(item)
            raise reports.make_failure(item, finding)

    def take_finding(self, item: pytest.Item) -> Finding | None:
        """Return the finding of a test with stale requests, once; None without, and where they fail no test."""
        if self.mode != "strict" or not self.watch.divergences:
            return None
        (play, divergence), *others = self.watch.divergences
        self.watch.divergences = []
        test = keys.get_nodeid(item)
        finding = describe_comparison(divergence, "", "")
        lines = [Line("text", divergence.origin, "called from")] if divergence.origin else []
        lines.append(Line("text", f"{play.cassette}, interaction {play.index + 1}", "cassette"))
        if others:
            lines.append(Line("text", f"{len(others)} more requests of this test are not the recorded ones"))
        again = "pytest --record-mode=rewrite"
        if getattr(item.config.option, "record_mode", self) is self or item.get_closest_marker("vcr") is None:
            again = "pytest"
            lines.append(Line("text", f"delete {play.cassette} before you record it again"))
        lines += [
            Line("next", f"{again} {selecting(test)}", "record it again"),
            Line("next", f"pytest --vcr=strict -vv {selecting(test)}", "see all of it"),
            Line("next", "pytest --vcr=audit", "list all that are stale"),
        ]
        return map_texts(
            replace(finding, test=test, lines=(*finding.lines, *lines)), keys.get_redaction(item.config).hide
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the last report what the test has played; add our finding to a failure of its own."""
        report = yield
        if getattr(call.excinfo and call.excinfo.value, "agentreplay", False):
            reports.correct_xfail(item, call, report)
            reports.add_finding(item, call, report)
        elif report.failed and (finding := self.take_finding(item)) is not None:
            reports.add_section(report, reports.format_for(item, finding))
        if call.when == "teardown":
            opened = [(loaded.path, loaded.list_unplayed()) for loaded in self.watch.opened if loaded.requests]
            test = keys.get_nodeid(item)
            report.__dict__[PLAYED] = {"test": test, "plays": [*map(astuple, self.watch.plays)], "opened": opened}
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test, from whichever process."""
        if is_tried_again(report):
            return
        facts = getattr(report, PLAYED, None)
        if report.outcome != "passed":
            self.audit.incomplete.add(report.nodeid)
        if facts is not None:
            self.audit.add_test(facts["test"], facts)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the baseline where it is asked for, else fail a session that has stale requests beyond it."""
        if self.is_worker or self.mode != "audit":
            return
        if self.config.option.agentreplay_accept_stale:
            self.audit.baseline = self.audit.accepted
            write_baseline(self.config.rootpath, self.audit.baseline)
        elif self.audit.baseline is not None and self.audit.new:
            fail_session(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report, or one line of JSON."""
        if self.mode == "convert":
            return
        if getattr(self.config.option, "agentreplay_json", False):
            terminalreporter.ensure_newline()
            terminalreporter.line(json.dumps(self.audit.count()))
            return
        notices = self.audit.make_notices(self.mode, terminalreporter._tw.fullwidth)
        terminalreporter.section("agentreplay: vcrpy", sep="-")
        for row in format_footer(notices, self.config.get_verbosity()):
            terminalreporter.line(escape_output(escape_line(row)))
