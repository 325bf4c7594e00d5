"""What a whole session is told at its end, and what makes it fail beside its tests."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_agentreplay.plugin.stash import (
    AFTERWARDS,
    BASE,
    FIXTURES,
    LIVE_RUNS,
    OPEN,
    SUITE,
    nodeid_of,
    redaction_of,
    store_of,
    wanted,
)

if TYPE_CHECKING:
    import warnings
    from collections.abc import Callable

    from pytest_agentreplay.plugin.shared import SharedCauses
    from pytest_agentreplay.runs.renamed_tests import Suite
    from pytest_agentreplay.runs.run_session import RunSession


def tried_again(report: pytest.TestReport) -> bool:
    """Whether the test is run once more because of this report; pytest-rerunfailures says so in a word of its own."""
    return str(report.outcome) == "rerun"


CLOSING = "agentreplay-closing"
"""The name of the plugin that closes the sandbox; there is none where nobody asked for one."""

UNHARMED = {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


class SessionReport:
    """Keeps what each test told, and says it at the end; under xdist the reports bring it to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.told: list[dict[str, Any]] = []
        self.shared_causes: SharedCauses | None = None
        self.cases: dict[str, dict[str, Any]] = {}
        self.elsewhere: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self.crashed: list[str] = []
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
        self.unused: dict[str, Any] = {}
        self.unlike: dict[str, list[str]] = {}
        self.hiding: tuple[str, Callable[[str], str]] | None = None  # of the guarded test that ran last

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Know each test, one that will be deselected too."""
        self.items.append(item)
        self.seen["items"].append(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Know which files and folders gave tests, and which could not, or would not."""
        self.seen[report.outcome].append(report.nodeid)

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> None:
        """Know the folders of snapshots, which pytest walks through anyway."""
        if path.match(parent.config.stash[BASE].directory):
            self.seen["folders"].append(str(path))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the plain data that a test's report carries; of a test that is tried again, those of its last try."""
        if tried_again(report):
            self.run_again.add(report.nodeid)
        if report.failed and (cause := getattr(report, "agentreplay_cause", None)):
            self.share(report, cause)
        told = getattr(report, "agentreplay", None)
        self.told += getattr(report, "agentreplay_fixtures", ())
        if (case := getattr(report, "agentreplay_case", None)) is not None:
            self.cases[report.nodeid] = case
            self.levels |= {case["network"]} - {""}
        if report.when == "call":
            self.passed[report.nodeid] = report.passed
        elif report.when == "teardown":
            self.ran[told["test"] if told else report.nodeid] = self.passed.pop(report.nodeid, False)
        if told is None:
            return
        if report.nodeid in self.run_again:
            self.run_again.remove(report.nodeid)
            self.tries[report.nodeid] = self.tries.get(report.nodeid, 1) + 1
            return
        if (tries := self.tries.pop(report.nodeid, 1)) > 1:
            told["tries"] = tries
        self.told.append(told)
        self.levels |= {told["network"]} if "network" in told else set()

    def share(self, report: pytest.TestReport, cause: dict[str, Any]) -> None:
        """Report a change that several tests fail with once; a worker of xdist leaves that to the controller."""
        if hasattr(self.config, "workerinput"):
            return
        if self.shared_causes is None:
            from pytest_agentreplay.plugin.shared import SharedCauses

            self.shared_causes = SharedCauses()
        self.shared_causes.add(report, cause, shorten=self.config.get_verbosity() < 2)

    def into_junit(self, config: pytest.Config) -> None:
        """Write the level of the network guard into the report: the lowest one of any test."""
        for report in config.pluginmanager.get_plugins() if self.levels else ():
            if hasattr(report, "add_global_property"):
                report.add_global_property("agentreplay.network", min(self.levels))

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        """Show a warning that a guarded test has caused without its secrets; they come right after the test."""
        if self.hiding is not None and self.hiding[0] == nodeid:
            from pytest_agentreplay.plugin.outcome import hide_warning

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
        self.elsewhere.append(getattr(node, "workeroutput", {}).get("agentreplay", {}))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Remember in which tests worker processes of xdist have crashed."""
        self.crashed.append(crashitem)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close what an interrupt left open. A call that came after its test's report fails the session instead."""
        config = session.config
        if self.shared_causes is not None:
            self.shared_causes.complete()
        if (run_session := config.stash.get(OPEN, None)) is not None:
            self.cut_short(run_session)
        if FIXTURES in config.stash:
            config.stash[FIXTURES].close()
            if told := config.stash[FIXTURES].report():
                self.elsewhere.append({"fixtures": told})
        if AFTERWARDS in config.stash:
            self.await_exit(session)
            self.elsewhere.append(config.stash[AFTERWARDS].facts())
        if self.exits and self.told:
            from pytest_agentreplay.runs.late_calls import handed_over

            if late := handed_over(self.exits):
                self.elsewhere.append({"late": late})
        if looked := self.look(session):
            self.elsewhere.append({"looked": [looked]})
        if (closing := config.pluginmanager.get_plugin(CLOSING)) is not None and closing.why:
            self.elsewhere.append({"open": closing.why})
        if self.crashed and (self.told or is_recording(config)):
            self.elsewhere.append({"lost": self.crashed})
        self.nothing_verified = config.stash[BASE].replay_tools == "verify" and not any(
            told.get("verified") for told in self.told
        )
        if self.nothing_verified and not hasattr(config, "workeroutput") and session.exitstatus in UNHARMED:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        self.compare(session)
        if not any(self.elsewhere):
            return
        from pytest_agentreplay.runs.late_calls import joined

        self.facts = joined(self.elsewhere)
        self.told += () if hasattr(config, "workeroutput") else self.facts.get("fixtures", ())
        if (to_controller := getattr(config, "workeroutput", None)) is not None:
            to_controller["agentreplay"] = self.facts
            return
        self.conclude(session)
        parted = any("code" in told for told in self.facts.get("fixtures", ()))
        fails = parted or "late" in self.facts or (self.unused.get("unused") and config.stash[BASE].unused == "fail")
        if fails and session.exitstatus in UNHARMED:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @staticmethod
    def await_exit(session: pytest.Session) -> None:
        """Fail the process by calls that come when the session has been reported."""
        from pytest_agentreplay.runs.late_calls import Exit

        config = session.config
        hand_over = getattr(config, "workerinput", {}).get("agentreplay_exit", "")
        root, hosts = str(config.rootpath), config.stash[BASE].allow_hosts
        exiting = Exit(config.stash[AFTERWARDS], redaction_of(config), root, hand_over, hosts)
        exiting.passed = lambda: session.exitstatus == pytest.ExitCode.OK
        exiting.collect()
        exiting.await_exit()

    def cut_short(self, run_session: RunSession) -> None:
        """Close what an interrupt left open; a second one, which people type, has to wait for that moment."""
        from pytest_agentreplay.runs.run_session import EndedRun

        main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
        try:
            if run_session.told.get("verdict") not in {"created", "replaced"}:  # else it came when all was done
                run_session.end_body(EndedRun(interrupted=True))
                run_session.end()
            self.told.append(cast("dict[str, Any]", run_session.redaction.hide_tree(run_session.told)))
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def compare(self, session: pytest.Session) -> None:
        """Hold the locks over the snapshots of this session against them; once, where the reports come together."""
        config = session.config
        base = config.stash[BASE]
        if not self.told or base.mode == "off" or hasattr(config, "workerinput"):
            return
        from pytest_agentreplay.store.projects import locks_over

        files = {os.path.dirname(told["file"]): told["file"] for told in self.told if "file" in told}  # noqa: PTH120
        over = dict.fromkeys(lock for file in files.values() for lock in locks_over(Path(file), config.rootpath))
        if not over:
            return
        from pytest_agentreplay.store import locks

        self.unlike = {str(lock): found for lock in over if (found := locks.told(lock))}
        if self.unlike and self.lock_binds(config) and session.exitstatus in UNHARMED:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @staticmethod
    def lock_binds(config: pytest.Config) -> bool:
        """Whether a lock that does not fit fails the session; a recording is what makes it unfit."""
        base = config.stash[BASE]
        return base.strict and base.mode == "replay" and not base.adopt

    def look(self, session: pytest.Session) -> dict[str, Any]:
        """The snapshots that no test of this process owns; nothing is looked for where no folder of snapshots is."""
        config = session.config
        base, items = config.stash[BASE], getattr(session, "items", [])
        wish = base.unused != "ignore" or config.option.agentreplay_unused_into
        beside = {os.path.join(place, base.directory) for place in {item.path.parent for item in items}}  # noqa: PTH118
        folders = {*self.seen["folders"], *filter(os.path.isdir, beside)}
        if not folders or not wish or base.mode == "off":
            return {}
        from pytest_agentreplay.plugin.fixture_names import id_of, wide
        from pytest_agentreplay.runs import unused_snapshots

        words = (config.args, config.invocation_params.dir, config.rootpath, config.getini("testpaths"))
        if part := unused_snapshots.narrowed(vars(config.option), *words):
            return unused_snapshots.nothing(part)
        tests = [(nodeid_of(item) if wanted(item) else item.nodeid, item.path, wanted(item)) for item in items]
        shared = {id_of(each, item) for item in items if wanted(item) for each in wide(item)}
        fixtures = [(fixture, config.rootpath / fixture.partition("::")[0]) for fixture in sorted(shared)]
        return unused_snapshots.look(
            unused_snapshots.CollectedTests(tests, fixtures, self.seen, {*map(Path, folders)}), store_of(config)
        )

    def conclude(self, session: pytest.Session) -> None:
        """Decide which snapshots are unused, if every test of the project was run to its end."""
        from pytest_agentreplay.runs import unused_snapshots

        config = session.config
        stopped = session.shouldstop or session.shouldfail or session.exitstatus not in {0, 1, 5}
        why = unused_snapshots.LOST if self.lost else "the session was stopped" if stopped else ""
        looked = self.facts.get("looked", [])
        self.unused = unused_snapshots.conclude(looked, why=why, ran=self.ran, told=self.told, store=store_of(config))
        if into := config.option.agentreplay_unused_into:
            unused_snapshots.hand_over(self.unused, into)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """The footer: only when there is something to say."""
        if not self.told and not self.cases and not self.facts and not self.nothing_verified:
            return
        from pytest_agentreplay.report.escape import line, printed
        from pytest_agentreplay.report.session import NOTHING_VERIFIED, afterwards, footer, secrets_lines, unheard_lines

        lines = footer(self.told, verbosity=config.get_verbosity(), here=str(config.invocation_params.dir))
        lines += self.shared_causes.lines() if self.shared_causes is not None else ()
        if self.levels and config.stash[BASE].on_ci and config.stash[BASE].model == "frozen":
            lines += secrets_lines(os.environ)
        for late in self.facts.get("late", ()):  # too late for a report: it is told below, and counted as an error
            where = late["test"].partition("::")[0], None, late["test"]
            error = pytest.TestReport(late["test"], where, {}, "failed", printed(late["call"]), "teardown")
            terminalreporter.stats.setdefault("error", []).append(error)
        lines += NOTHING_VERIFIED if self.nothing_verified else ()
        lines += afterwards(self.facts, recording=is_recording(config))
        if self.unused and (self.unused["unused"] or "lost" in self.unused["why"]):
            from pytest_agentreplay.report.unused import unused_lines

            fails = config.stash[BASE].unused == "fail"
            here = str(config.invocation_params.dir)
            lines += unused_lines(self.unused, verbosity=config.get_verbosity(), here=here, fails=fails)
        if self.unlike:
            from pytest_agentreplay.report.lock_summary import lock_lines

            here = str(config.invocation_params.dir)
            binds = self.lock_binds(config)
            lines += lock_lines(self.unlike, verbosity=config.get_verbosity(), here=here, fails=binds)
        if self.cases and config.get_verbosity() >= -1:
            from pytest_agentreplay.report.verdict import summary

            lines += unheard_lines(self.cases.values()) if config.get_verbosity() >= 0 else []
            lines += summary(self.cases.values())
        lines += config.stash[LIVE_RUNS].lines if LIVE_RUNS in config.stash else ()
        if not lines:
            return
        if config.get_verbosity() >= 0:
            terminalreporter.section("agentreplay", sep="-")
        for row in map(redaction_of(config).hide, map(config.stash[BASE].written, lines)):
            terminalreporter.line(printed(line(row)))


def is_recording(config: pytest.Config) -> bool:
    """Return whether tests of the session may be recorded."""
    return config.stash[BASE].mode == "record" or config.stash[BASE].record_missing


LINES: pytest.StashKey[SessionReport] = pytest.StashKey()


def suite_of(session: pytest.Session) -> Suite:
    """What the session knows of the project's tests, for those that were renamed."""
    if SUITE not in session.config.stash:
        from pytest_agentreplay.plugin.fixture_names import id_of, wide
        from pytest_agentreplay.runs.renamed_tests import Suite

        opted_in = [*filter(wanted, session.items)]
        fixtures = (id_of(each, item) for item in opted_in for each in wide(item))
        ids = frozenset((*session.config.stash[LINES].seen["items"], *map(nodeid_of, opted_in), *fixtures))
        modules = {item.nodeid.partition("::")[0]: getattr(item, "module", None) for item in session.items}
        session.config.stash[SUITE] = Suite(session.config.rootpath, ids, session.config.args, modules)
    return session.config.stash[SUITE]
