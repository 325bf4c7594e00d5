"""Live runs of a test, as items: test_refund[frozen] first, then test_refund[live-1] ... until its verdict is clear.

What they share stands in a ledger: workers of xdist add to it, and skip what no longer matters. The item whose result
decides fails, unless the verdict is "same"; a run that drifted before is shown as such, and fails nothing.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.backends.statistics import NEEDS, LivePlan, judge
from pytest_agentreplay.compare.live_result import Drift, LiveResult
from pytest_agentreplay.errors import AgentReplayError, CannotWrite, CaseError, SettingsError
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.item_session import INTERRUPTS, will_be_skipped
from pytest_agentreplay.plugin.keys import get_nodeid, get_redaction, get_settings, is_opted_in, store_of
from pytest_agentreplay.plugin.orders import repeat_item
from pytest_agentreplay.report.live_reports import describe_live_verdict, format_cost, format_runs, format_verdicts
from pytest_agentreplay.report.summary import ReplaySummary
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.live import history
from pytest_agentreplay.runs.live.history import Ledger, results_of, spent_of
from pytest_agentreplay.runs.live.live_session import check_settings
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from pytest_agentreplay.backends.statistics import LiveVerdict
    from pytest_agentreplay.plugin.case_items import CaseItem
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.verdict import Verdict
    from pytest_agentreplay.runs.run_session import RunSession
    from pytest_agentreplay.settings import Settings

PLUGIN = "agentreplay-live"
ATTRIBUTE = "agentreplay_live"
# Of an item: what its run came to.
WORD: pytest.StashKey[str] = pytest.StashKey()
NOT_NEEDED = "not needed"
WORDS = {"FF": "frozen", "FL": "live-tools", "LF": "live", "LL": "live-all"}
SKIPPED = "the test skipped itself"
ENDED = "the session ended before it was decided"


def can_go_live(item: pytest.Item) -> bool:
    """Return whether the item is a test that is replayed, and has a snapshot; any other says itself what is wrong."""
    try:
        mode = get_settings(item).mode
    except SettingsError:
        return False
    return (
        is_opted_in(item) and mode == "replay" and store_of(item.config).path_of(item.path, get_nodeid(item)).exists()
    )


def get_live_items(item: Any) -> list[Any]:
    """Return the item as its frozen run and its live runs; as it is where it is none that can go live."""
    if not isinstance(item, pytest.Function) or not can_go_live(item):
        return [item]
    base: Any = item.config.stash[keys.SETTINGS]
    items: list[Any] = []
    cell = base.axes.cell
    cells = {"FF", f"F{cell[1]}", f"{cell[0]}F", cell} if base.released is None else {cell}
    for name, word in WORDS.items():
        if name in cells:
            for number in range(1, 2 if name == "FF" else item.config.stash[keys.LIVE_RUNS].most + 1):
                items.append(repeat_item(item, get_nodeid(item), word if name == "FF" else f"{word}-{number}"))
                items[-1].stash[keys.LIVE] = name, number
    return items


def make_live_run(item: Any, number: int) -> Any:
    """Return the item of a case as its live run of this number: cases/refund/case.yaml::refund[live-3]."""
    other = type(item).from_parent(item.parent, name=f"{item.name}[live-{number}]")
    other.title = item.title
    other.extra_keyword_matches |= item.extra_keyword_matches
    for mark in item.own_markers:
        other.add_marker(mark.name)
    other.stash[keys.NODEID], other.stash[keys.LIVE] = item.nodeid, ("LF", number)
    return other


def is_asking_live(item: CaseItem) -> bool:
    """Return whether somebody runs this case with a live model. What cannot be read itself says why."""
    try:
        case = stored_case.read_case(item.path, words=None)
    except CaseError:
        return False
    return any(bool(case.runners.get(name)) and served.model == "live" for name, served in case.serving.items())


def list_drifts(verdict: Verdict) -> Iterator[Drift]:
    """Yield where a case that failed left its recording, and which of its checks are not as the case expects."""
    checks = verdict.decisive.checks if verdict.decisive is not None else ()
    if not checks:
        yield Drift("model", verdict.decided_by, "recorded calls only", verdict.headline)
    for check in [check for check in checks if not check.held] or checks:  # all hold: the failure is back
        now = "holds" if check.held else "; ".join(check.lines) or "fails"
        path = f"{verdict.decided_by}.{check.text.partition(':')[0]}"
        yield Drift("model", path, check.text, f"{path}: {now}", "fails" if check.held else "holds", now)


class LiveItems:
    """The live runs of one session, in each of its processes."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        """`settings` are those of the session."""
        self.config, self.settings = config, settings
        self.most = settings.replay_runs or settings.make_test().cap
        inherited = getattr(config, "workerinput", {}).get(PLUGIN) or os.environ.get(keys.LIVE_SESSION)
        self.session = inherited or f"{time.time_ns():x}-{os.getpid()}"
        # What a line-up releases is no history of the test.
        folder = "live" if settings.released is None else "lineup"
        path = config.rootpath / history.FOLDER / folder / self.session / history.LEDGER
        self.ledger = Ledger(path, settings)
        config.stash[keys.SETTINGS] = settings._replace(ledger=self.ledger)
        self.selected: dict[str, Counter[str]] = {}
        self.done, self.error = 0, ""
        self.running: files.Appending | None = None
        self.lines: list[str] = []
        # The runs of a test with parameters have other names: have pytest collect its function.
        self.names = [argument.rpartition("::")[2] for argument in config.args if argument.endswith("]")]
        self.names = getattr(config, "workerinput", {}).get(f"{PLUGIN}-names", self.names)
        config.args[:] = dict.fromkeys(re.sub(r"(?<=\w)\[[^:]*\]$", "", argument) for argument in config.args)

    def is_named(self, item: pytest.Item, run: pytest.Item) -> bool:
        """Return whether the command line takes `run`, which is one of the test `item`."""
        names = [name for name in self.names if name.partition("[")[0] == item.name.partition("[")[0]]
        return not names or item.name in names or run.name in names

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Have the workers of xdist share one ledger."""
        node.workerinput |= {PLUGIN: self.session, f"{PLUGIN}-names": self.names}

    def pytest_sessionstart(self) -> None:
        """Show other processes that the session runs: its ledger is not theirs to take over."""
        if not (hasattr(self.config, "workerinput") or self.config.option.agentreplay_apart):
            with suppress(CannotWrite):  # the ledger says so, where something goes live
                self.running = files.Appending(self.ledger.path.with_name(history.RUNNING))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put what is waited for first: whoever waits has none of it among its own items."""
        items.sort(key=lambda item: len(NEEDS[item.stash.get(keys.LIVE, ("FF", 0))[0]]))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know how many runs of which test are selected. Raises UsageError where nothing can be kept of them."""
        for item in session.items:
            # pytest makes one item of a method of TestCase: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/unittest.py
            if hasattr(item, "_excinfo") and can_go_live(item):
                item.stash[keys.LIVE] = self.settings.axes.cell, 1
            if keys.LIVE in item.stash:
                self.selected.setdefault(get_nodeid(item), Counter())[item.stash[keys.LIVE][0]] += 1
        tests = {get_nodeid(item): get_settings(item) for item in session.items if keys.LIVE in item.stash}
        try:
            self.ledger.note([*check_settings([*tests.values()], self.config.rootpath, self.settings.prices)])
        except AgentReplayError as error:
            self.error = str(error)
            if not hasattr(self.config, "workerinput"):  # xdist shows no usage error of a worker
                raise pytest.UsageError(self.error) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail each run of a worker whose settings are wrong."""
        if self.error and keys.LIVE in item.stash:
            pytest.fail(self.error, pytrace=False)

    def make_plan(self, runs: Mapping[str, int]) -> LivePlan:
        """Return what decides about a test of which so many runs are selected, by cell."""
        return LivePlan(runs, self.settings.make_test(), auto=not self.settings.replay_runs)

    def plan(self, item: pytest.Item) -> LivePlan:
        """Return what decides about the test of the item."""
        return self.make_plan(self.selected[get_nodeid(item)])

    def add(
        self, item: pytest.Item, live_run: Mapping[str, Any], changes: Sequence[str] = ()
    ) -> tuple[LiveVerdict | None, list[LiveResult]]:
        """Add what a run gave; as `Ledger.add`."""
        cell, number = item.stash[keys.LIVE]
        plain = {"at": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), "drifts": (), **live_run}
        plain |= {"test": get_nodeid(item), "cell": cell, "run": number, "session": self.session}
        result = LiveResult.of(plain)
        item.stash[WORD] = "passed" if result.same else "stopped" if result.stopped else "drifted"
        return self.ledger.add(result, self.plan(item), changes)

    def conclude(
        self, item: pytest.Item, run_session: RunSession, finding: Finding | None, failure: BaseException | None
    ) -> tuple[Finding | None, BaseException | None]:
        """Add what a run gave; return what its item fails with: a live one only if it decides."""
        replayed = run_session.summarize().replay or ReplaySummary()
        skipped = isinstance(failure, pytest.skip.Exception)
        passed = finding is None and (failure is None or replayed.fails_as_recorded)
        why = finding.headline if finding else str(failure or "")
        plain: Any = {"passed": passed, "failure": why, "stopped": SKIPPED if skipped else ""}
        live_run: Any = run_session.redaction.hide_tree(plain if replayed.live_run is None else replayed.live_run)
        verdict, results = self.add(item, live_run, replayed.live_changes)
        if item.stash[keys.LIVE][0] == "FF" or skipped or isinstance(failure, INTERRUPTS):
            return finding, failure
        if verdict is None or verdict["word"] == "same":
            return None, failure if results[-1].same else None  # which is the recorded one
        return describe_live_verdict(verdict, results, getattr(run_session, "collect_facts", dict)(), finding), failure

    def repeat_case(self, item: CaseItem) -> list[CaseItem]:
        """Return a case as its live runs; as it is where it asks no live model."""
        if self.settings.model != "live" or not is_asking_live(item):
            return [item]
        items = [make_live_run(item, number) for number in range(1, self.most + 1)]
        return [run for run in items if self.is_named(item, run)]

    def conclude_case(self, item: CaseItem, verdict: Verdict) -> Verdict:
        """Add what a live run of a case gave; return the verdict of its item, which fails only if it decides."""
        failed, decisive = verdict.outcome == "failed", verdict.decisive
        # What fails on the recording itself fails whatever the model says.
        if keys.LIVE not in item.stash or not verdict.live or (failed and decisive and not decisive.live):
            return verdict
        drifts = [asdict(drift) for drift in list_drifts(verdict)] if failed and not verdict.live["stopped"] else []
        changed = dict(text.split("=", 1) for text in self.settings.replay_set)
        plain: Any = {"passed": not failed, "failure": verdict.headline * failed, "drifts": drifts, "changed": changed}
        live_run: Any = get_redaction(self.config).hide_tree(plain | verdict.live)
        decided, results = self.add(item, live_run)
        if decided is None or decided["word"] == "same":
            return replace(verdict, outcome="passed") if failed else verdict
        if len(results) > 1:
            headline = describe_live_verdict(decided, results, {}, None).headline
            notes = format_runs(decided["cells"]["LF"]), format_cost([decided])
            verdict = replace(verdict, outcome="failed", headline=headline, notes=(*verdict.notes, *notes))
        return verdict

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Skip a run that is not needed."""
        if keys.LIVE not in item.stash or will_be_skipped(item):
            return
        cell, worker = item.stash[keys.LIVE][0], hasattr(self.config, "workerinput")
        if why := self.ledger.needless(get_nodeid(item), cell, self.plan(item), waits=worker):
            item.add_marker(pytest.mark.skip(reason=why))
            item.keywords[NOT_NEEDED] = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Have the report of a run say that it drifted, and count one that could not begin."""
        report = yield
        if WORD in item.stash and call.when == "call":
            report.__dict__[ATTRIBUTE] = item.stash[WORD]
        elif keys.LIVE in item.stash and call.when == "setup" and report.failed and not self.error:
            stopped = "" if item.stash[keys.LIVE][0] == "FF" else "its set-up failed"
            self.add(item, {"passed": False, "stopped": stopped})
        return report

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Show a run that drifted, or was stopped, and decides nothing, as what it is."""
        word, bar = getattr(report, ATTRIBUTE, ""), self.bar_reporter() is not None
        if report.skipped and NOT_NEEDED in report.keywords:
            return "", "", (NOT_NEEDED.upper(), {})
        if not word or not report.passed or (word == "passed" and not bar):
            return None
        return word, "" if bar else word[0].upper(), (word.upper(), {"yellow": True})

    def bar_reporter(self) -> Any:
        """Return the reporter whose terminal can show a bar; None for a file, a worker, and with -v or -q."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        return reporter if reporter is not None and reporter.isatty and not self.config.get_verbosity() else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Move the bar."""
        self.done += report.when == "teardown"
        if report.when == "teardown" and (reporter := self.bar_reporter()) is not None:
            # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/terminal.py
            total = max(self.done, reporter._numcollected)
            spent = spent_of(self.ledger.entries()).text
            bar = "#" * (20 * self.done // total)
            reporter.rewrite(f"live [{bar:20}] {self.done}/{total} runs, {spent}", erase=True)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep results and verdicts in the history; a test that nothing was decided about fails the session."""
        if self.running is None:
            return
        self.running.close()
        entries = self.ledger.entries()
        results = [result for result in results_of(entries) if result.stopped != SKIPPED]
        decided = {entry["verdict"]["test"]: entry["verdict"] for entry in entries if "verdict" in entry}
        verdicts = []
        for test in dict.fromkeys(result.test for result in results):
            part = results_of(entries, test)
            plan = self.make_plan(Counter(result.cell for result in part))
            unfinished = (judge(part, plan) or {}) | {"word": "inconclusive", "layer": "", "evidence": [ENDED]}
            verdicts.append(decided.get(test, unfinished))
        if session.exitstatus == pytest.ExitCode.OK and any(verdict["word"] != "same" for verdict in verdicts):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.settings.released is None:
            history.append(self.config.rootpath, results, verdicts)
        if into := self.config.option.agentreplay_live_into:
            states = [*session.config.stash[keys.REPORT].states]
            plain = {"verdicts": verdicts, "results": [result.plain() for result in results], "states": states}
            files.write_whole(Path(into), json.dumps(plain))
        notes = dict.fromkeys(entry["note"] for entry in entries if "note" in entry)
        notes |= dict.fromkeys(result.served_otherwise for result in results if result.served_otherwise)
        self.lines = [*(f"live  {note}" for note in notes), *format_verdicts(verdicts)]
        files.remove(self.ledger.path.parent)
        history.take_over(self.config.rootpath)
