"""The footer of a whole session, and what makes it fail beside its tests."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.keys import get_redaction, store_of

if TYPE_CHECKING:
    import warnings
    from collections.abc import Callable, Iterator, Sequence

    from pytest_agentreplay.report.finding import Cause, SharedCauses
    from pytest_agentreplay.report.github import DivergedTest
    from pytest_agentreplay.report.notices import Notice
    from pytest_agentreplay.report.summary import CollectedSnapshots, ProcessSummary, SessionSummary, UnusedSnapshots
    from pytest_agentreplay.report.verdict import CaseSummary
    from pytest_agentreplay.runs.run_session import RunSession
    from pytest_agentreplay.settings import Settings


ANNOTATOR = "pytest_github_actions_annotate_failures"


def is_tried_again(report: pytest.TestReport) -> bool:
    """Return whether the test is run once more because of this report: pytest-rerunfailures has a word for it."""
    # https://github.com/pytest-dev/pytest-rerunfailures/blob/master/src/pytest_rerunfailures.py
    return str(report.outcome) == "rerun"


class SessionReport:
    """Keeps the summaries of the tests for the footer; under xdist the reports bring them to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.summaries: list[SessionSummary] = []
        self.neighbours: list[SessionSummary] = []
        self.shared_causes: SharedCauses | None = None
        self.failures: list[tuple[list[str], int, Any]] = []  # lines of reports, how many are the finding, and it
        self.diverged: list[DivergedTest] = []  # for GitHub Actions
        self.cases: dict[str, CaseSummary] = {}
        self.processes: list[ProcessSummary] = []  # of the workers of xdist, and of this process
        self.crashed: list[str] = []
        self.states: dict[str, None] = {}  # what tests leave in their processes, a line each
        self.tries: dict[str, int] = {}
        self.run_again: set[str] = set()
        self.items: list[pytest.Item] = []
        self.shared: dict[Path, bool] = {}  # by folder, whether a fixture there may be one that is recorded
        self.begun = time.time_ns()
        self.finishing = False
        self.seen: dict[str, list[str]] = {"items": [], "folders": [], "passed": [], "skipped": [], "failed": []}
        self.passed: dict[str, bool] = {}
        self.ran: dict[str, bool] = {}
        self.lost = False
        self.exits = ""  # how the names of files begin in which processes of xdist leave their last calls
        self.levels: set[str] = set()
        self.nothing_verified = False
        self.unused: UnusedSnapshots | None = None
        self.unlike: dict[str, list[str]] = {}
        self.hiding: tuple[str, Callable[[str], str]] | None = None  # of the guarded test that ran last

    @property
    def base(self) -> Settings:
        """The settings of the session."""
        return self.config.stash[keys.SETTINGS]

    @property
    def is_worker(self) -> bool:
        """Whether this is a worker process of xdist, whose controller reports."""
        return hasattr(self.config, "workerinput")

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Know each test, one that will be deselected too."""
        self.items.append(item)
        self.seen["items"].append(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Know which files and folders gave tests, and which could not, or would not."""
        self.seen[report.outcome].append(report.nodeid)

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> None:
        """Know the folders of snapshots, which pytest walks through anyway."""
        if path.match(parent.config.stash[keys.SETTINGS].dir):
            self.seen["folders"].append(str(path))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the plain data that a test's report carries; of a test that is tried again, those of its last try."""
        if is_tried_again(report):
            self.run_again.add(report.nodeid)
        if report.failed and (cause := getattr(report, "agentreplay_cause", None)):
            self.share_cause(report, cause)
        if state := getattr(report, "agentreplay_state", ""):
            self.states[state] = None
        summary = None
        if hasattr(report, "agentreplay") or hasattr(report, "agentreplay_fixtures"):
            from pytest_agentreplay.plugin.reports import get_fixture_summaries, get_summary

            summary = get_summary(report)
            self.summaries += get_fixture_summaries(report)
        if (case := getattr(report, "agentreplay_case", None)) is not None:
            from pytest_agentreplay.report.summary import restore_plain
            from pytest_agentreplay.report.verdict import CaseSummary

            self.cases[report.nodeid] = summary_of_case = restore_plain(CaseSummary, case)
            self.levels |= {*summary_of_case.networks}
        if report.when == "call":
            self.passed[report.nodeid] = report.passed
        elif report.when == "teardown":
            self.ran[summary.test if summary else report.nodeid] = self.passed.pop(report.nodeid, False)
        if summary is None:
            return
        if report.nodeid in self.run_again:
            self.run_again.remove(report.nodeid)
            self.tries[report.nodeid] = self.tries.get(report.nodeid, 1) + 1
            return
        if summary.result is not None:
            self.neighbours.append(summary)
            return
        tries = self.tries.pop(report.nodeid, 1)
        if summary.recording is not None and tries > 1:
            summary = replace(summary, recording=replace(summary.recording, tries=tries))
        self.summaries.append(summary)
        if summary.replay is not None:
            self.levels |= {summary.replay.network} - {""}

    def share_cause(self, report: pytest.TestReport, plain: dict[str, Any]) -> None:
        """Report a change that several tests fail with once; a worker of xdist leaves that to the controller."""
        if self.is_worker:
            return
        from pytest_agentreplay.plugin.reports import format_failure
        from pytest_agentreplay.report.finding import Cause, SharedCauses
        from pytest_agentreplay.report.summary import restore_plain

        if self.shared_causes is None:
            self.shared_causes = SharedCauses()
        cause, lines = restore_plain(Cause, plain), format_failure(report)
        height = len(lines)
        if self.shared_causes.add(cause, lines, shorten=self.config.get_verbosity() < 2):
            self.failures.append((lines, height, getattr(report, "agentreplay_finding", None)))
        if os.environ.get("GITHUB_ACTIONS") and self.config.option.agentreplay_proof is None:
            self.keep_for_github(report, cause)

    def colour_failures(self) -> None:
        """Colour the findings that pytest prints next. JUnit's file and other plugins have taken them without."""
        writer = self.config.get_terminal_writer()
        if not writer.hasmarkup:
            return
        from pytest_agentreplay.report.finding import format_finding, restore_finding

        width, verbosity = writer.fullwidth, self.config.get_verbosity()
        for lines, height, plain in self.failures:
            if plain is not None:
                finding = restore_finding(plain)
                lines[:height] = format_finding(finding, width=width, verbosity=verbosity, colour=True).split("\n")

    def keep_for_github(self, report: pytest.TestReport, cause: Cause) -> None:
        """Keep what GitHub Actions is told of a test that diverged."""
        from pytest_agentreplay.report.finding import restore_finding
        from pytest_agentreplay.report.github import make_diverged_test

        hide = get_redaction(self.config).hide
        cause = replace(cause, test=hide(cause.test), headline=hide(cause.headline))
        place = report.location[0], (report.location[1] or 0) + 1
        names = (name for name, plugin in self.config.pluginmanager.list_name_plugin() if plugin is not None)
        # It annotates what fails in its body, and nothing that fails before.
        is_annotated = report.when == "call" and any(name.startswith(ANNOTATOR) for name in names)
        facts = dict(report.user_properties)
        plain = getattr(report, "agentreplay_finding", None)
        finding = None if plain is None else restore_finding(plain)
        self.diverged.append(make_diverged_test(cause, facts, place, is_annotated=is_annotated, finding=finding))

    def report_to_github(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Annotate the call sites of tests that diverged, and add a table of them to the summary of the step."""
        from pytest_agentreplay.errors import CannotWrite
        from pytest_agentreplay.report.github import format_annotation, format_step_summary
        from pytest_agentreplay.snapshots.store.files import append_text

        top = Path(os.environ.get("GITHUB_WORKSPACE") or self.config.rootpath)
        below = self.config.rootpath.relative_to(top).parts if self.config.rootpath.is_relative_to(top) else ()
        folder = "".join(f"{part}/" for part in below)
        terminalreporter.ensure_newline()
        for diverged in self.diverged:
            if line := format_annotation(diverged, folder):
                terminalreporter.line(line)
        replayed = sum(summary.mode == "replay" and summary.fixture is None for summary in self.summaries)
        if file := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                append_text(Path(file), format_step_summary(self.diverged, replayed))
            except CannotWrite as error:
                from pytest_agentreplay.report.escape import escape_line, escape_output

                terminalreporter.line(escape_output(escape_line(str(error))))

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        """Show a warning that a guarded test has caused without its secrets; they come right after the test."""
        if self.hiding is not None and self.hiding[0] == nodeid:
            from pytest_agentreplay.plugin.reports import hide_warning

            hide_warning(warning_message, self.hiding[1])

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker process of xdist where to leave the calls that come when it exits."""
        import tempfile

        self.exits = self.exits or os.path.join(tempfile.gettempdir(), f"agentreplay-{os.getpid()}-{time.time_ns()}")  # noqa: PTH118
        node.workerinput["agentreplay_exit"] = f"{self.exits}-{node.gateway.id}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what a worker process of xdist heard when its tests were over."""
        self.lost |= error is not None or not hasattr(node, "workeroutput")
        if facts := getattr(node, "workeroutput", {}).get("agentreplay"):
            from pytest_agentreplay.report.summary import ProcessSummary, restore_plain

            self.processes.append(restore_plain(ProcessSummary, facts))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Remember in which tests worker processes of xdist have crashed."""
        self.crashed.append(crashitem)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close what an interrupt left open. A call that came after its test's report fails the session instead."""
        config = session.config
        facts: dict[str, Any] = {}  # of this process, by their names in `ProcessSummary`
        if self.shared_causes is not None:
            self.shared_causes.complete()
            self.colour_failures()
        if (run_session := config.stash.get(keys.OPEN, None)) is not None:
            self.end_interrupted(run_session)
        if keys.FIXTURES in config.stash:
            config.stash[keys.FIXTURES].close()
            facts["fixtures"] = (*config.stash[keys.FIXTURES].take_summaries(),)
        if keys.LATE_CALLS in config.stash:
            self.await_exit(session)
            self.processes.append(config.stash[keys.LATE_CALLS].summarize())
        if self.exits and self.summaries:
            from pytest_agentreplay.runs.late_calls import read_late_calls

            facts["late"] = read_late_calls(self.exits)
        if folders := self.list_snapshot_folders(session):
            from pytest_agentreplay.plugin.collected import find_unowned

            facts["collected"] = (find_unowned(session, folders),)
        if (closing := config.pluginmanager.get_plugin(keys.CLOSING)) is not None:
            facts["open"] = closing.why
        if self.crashed and (self.summaries or is_recording(self.base)):
            facts["crashed"] = (*self.crashed,)
        verified = any(summary.replay is not None and summary.replay.verified for summary in self.summaries)
        self.nothing_verified = self.base.replay_tools == "checked" and not verified
        if self.nothing_verified and not self.is_worker:
            fail_session(session, pytest.ExitCode.USAGE_ERROR)
        self.compare_locks(session)
        if not any(facts.values()) and not any(self.processes):
            return
        from pytest_agentreplay.report.summary import ProcessSummary, to_plain

        self.processes.append(ProcessSummary(**facts))
        processes = sum(self.processes, ProcessSummary())
        if self.is_worker:
            config.workeroutput["agentreplay"] = to_plain(processes)  # type: ignore[attr-defined]
            return
        self.summaries += processes.fixtures
        unused = self.unused = self.find_unused(session, processes.collected)
        diverged = any(summary.code for summary in processes.fixtures)
        if diverged or processes.late or (unused.files and self.base.unused == "fail"):
            fail_session(session)

    def await_exit(self, session: pytest.Session) -> None:
        """Fail the process by calls that come when the session has been reported."""
        from pytest_agentreplay.runs.late_calls import ExitGuard

        config = self.config
        prefix = getattr(config, "workerinput", {}).get("agentreplay_exit", "")
        guard = ExitGuard(
            config.stash[keys.LATE_CALLS],
            get_redaction(config),
            root=str(config.rootpath),
            files_prefix=prefix,
            allow_hosts=self.base.allow_hosts,
            has_passed=lambda: session.exitstatus == pytest.ExitCode.OK,
        )
        guard.collect_garbage()
        guard.await_exit()

    def end_interrupted(self, run_session: RunSession) -> None:
        """Close what an interrupt left open; a second one, which people type, has to wait for that moment."""
        from pytest_agentreplay.runs.run_session import EndedRun

        main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
        try:
            recording = run_session.summarize().recording
            if recording is None or recording.verdict not in {"created", "replaced"}:  # else it came when all was done
                run_session.end_body(EndedRun(interrupted=True))
                run_session.end()
            from pytest_agentreplay.plugin.reports import hide_summary

            self.summaries.append(hide_summary(run_session))
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def compare_locks(self, session: pytest.Session) -> None:
        """Hold the locks over the snapshots of this session against them; once, where the reports come together."""
        if not self.summaries or self.base.mode == "off" or self.is_worker:
            return
        from pytest_agentreplay.snapshots.store.projects import locks_over

        files = {os.path.dirname(summary.file): summary.file for summary in self.summaries}  # noqa: PTH120
        over = dict.fromkeys(lock for file in files.values() for lock in locks_over(Path(file), self.config.rootpath))
        if not over:
            return
        from pytest_agentreplay.snapshots.store import locks

        self.unlike = {str(lock): differences for lock in over if (differences := locks.list_faults(lock))}
        if self.unlike and self.lock_binds:
            fail_session(session)

    @property
    def lock_binds(self) -> bool:
        """Whether a lock that does not fit fails the session; a recording is what makes it unfit."""
        return self.base.strict and self.base.mode == "replay" and not self.base.adopt

    def list_snapshot_folders(self, session: pytest.Session) -> set[str]:
        """Return the folders in which to look for unused snapshots; none where nobody wants to know of them."""
        base = self.base
        if base.mode == "off" or not (base.unused != "ignore" or self.config.option.agentreplay_unused_into):
            return set()
        places = {item.path.parent for item in getattr(session, "items", [])}
        beside = {os.path.join(place, base.dir) for place in places}  # noqa: PTH118
        return {*self.seen["folders"], *filter(os.path.isdir, beside)}

    def find_unused(self, session: pytest.Session, collected: Sequence[CollectedSnapshots]) -> UnusedSnapshots:
        """Return the unused snapshots, if every test of the project was run to its end."""
        from pytest_agentreplay.runs import unused_snapshots

        stopped = session.shouldstop or session.shouldfail or session.exitstatus not in {0, 1, 5}
        why = unused_snapshots.LOST if self.lost else "the session was stopped" if stopped else ""
        unused = unused_snapshots.find_unused(
            collected, why=why, ran=self.ran, summaries=self.summaries, store=store_of(self.config)
        )
        if into := self.config.option.agentreplay_unused_into:
            unused_snapshots.write_unused(unused, into)
        return unused

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print the footer, and what GitHub Actions is told: only when there is something to say."""
        if self.diverged:
            self.report_to_github(terminalreporter)
        others = self.neighbours or self.cases or self.nothing_verified or keys.CAPTURED in config.stash
        if not (self.summaries or others or any(self.processes)):
            return
        from pytest_agentreplay.report.escape import escape_line, escape_output
        from pytest_agentreplay.report.notices import format_footer

        for call in [call for process in self.processes for call in process.late]:
            # Too late for a report: it is a notice below, and counted as an error.
            place = call.test.partition("::")[0], None, call.test
            error = pytest.TestReport(call.test, place, {}, "failed", escape_output(call.call), "teardown")
            terminalreporter.stats.setdefault("error", []).append(error)
        lines = format_footer(self.notices(), config.get_verbosity())
        if not lines:
            return
        if config.get_verbosity() >= 0:
            terminalreporter.section("agentreplay", sep="-")
        for row in map(get_redaction(config).hide, map(config.stash[keys.SETTINGS].format_message, lines)):
            terminalreporter.line(escape_output(escape_line(row)))

    def notices(self) -> Iterator[Notice]:
        """Yield the notices of the footer, in its order."""
        from pytest_agentreplay.report import session_notices
        from pytest_agentreplay.report.notices import make_error, make_lock_notices, make_unused_notices, make_warning
        from pytest_agentreplay.report.summary import ProcessSummary

        base, here = self.base, self.config.invocation_params.dir
        yield from session_notices.make_session_notices(self.summaries, here)
        yield from session_notices.make_neighbour_notices(self.neighbours)
        aged = [summary for summary in self.summaries if summary.replay is not None and summary.replay.aged]
        if aged and base.stale_days:
            from pytest_agentreplay.report.stale_notices import make_stale_notices

            yield from make_stale_notices(aged, days=base.stale_days, retired=dict(base.retired_models))
        if self.shared_causes is not None:
            yield from self.shared_causes.notices()
        if self.levels and base.on_ci and base.model == "frozen":
            yield from session_notices.make_secret_notices(os.environ)
        if self.nothing_verified:
            yield session_notices.NOTHING_VERIFIED
        processes = sum(self.processes, ProcessSummary())
        yield from session_notices.make_process_notices(processes, recording=is_recording(base))
        if self.unused is not None:
            yield from make_unused_notices(self.unused, here=here, fails=base.unused == "fail")
        yield from make_lock_notices(self.unlike, here=here, fails=self.lock_binds)
        if self.cases:
            from pytest_agentreplay.report.verdict import count_cases

            yield from session_notices.make_unheard_notices(case.unheard for case in self.cases.values())
            yield make_warning(count_cases([*self.cases.values()]))
        yield make_warning(*self.states)
        if keys.CAPTURED in self.config.stash:
            yield from self.config.stash[keys.CAPTURED].make_notices()
        if keys.LIVE_RUNS in self.config.stash:
            yield make_error(*self.config.stash[keys.LIVE_RUNS].lines)


def is_recording(base: Settings) -> bool:
    """Return whether tests of the session may be recorded."""
    return base.mode == "record" or base.record_missing


def fail_session(session: pytest.Session, status: int = pytest.ExitCode.TESTS_FAILED) -> None:
    """Have a session fail whose tests did not."""
    if session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        session.exitstatus = status
