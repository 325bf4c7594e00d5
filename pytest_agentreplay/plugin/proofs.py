"""The proof of new recordings: each is replayed offline, in one fresh process once the session is over.

Where no fresh process can do it (`can_prove_afresh`), a test is replayed in this process right after it was recorded.
The fresh process replays the tests of a plan, and reports to a file alone. It gets the command line of the session that
recorded, so that it has the same plugins, settings and options; what would select, stop, ask or write is put back here
(`NEUTRAL`), before any plugin is configured.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.plugin import keys, reports
from pytest_agentreplay.plugin.keys import get_late_calls, get_nodeid, is_opted_in, take_out
from pytest_agentreplay.plugin.session_report import is_tried_again
from pytest_agentreplay.report.notices import RAN_ON, TIMED, judge_proof
from pytest_agentreplay.report.summary import Proof, restore_plain, to_plain
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.command import ProofResults

# Why a test with a tool that is not frozen is not replayed: the tool may have been a payment.
WOULD_RUN_AGAIN = "a tool would run again"
NO_PROCESSES = {"emscripten", "wasi"}
# The key by which the controller tells the workers of xdist that it proves what they record.
WORKERS = "agentreplay_proof"
# Options of pytest-cov and pytest-xdist, and the flag that switches each off before its plugin looks at it.
SWITCH_OFF_FLAGS = {"no_cov": "--no-cov", "numprocesses": "-n0"}
# Markers by which a test declares that it depends on tests before it: of pytest's page on incremental classes, of
# pytest-dependency, pytest-depends and pytest-order.
ORDER_MARKS = {"incremental", "dependency", "depends", "order"}
# How often a test is replayed whose timers race with the answers: once says little of what is chance.
MOST_REPLAYS = 5
# Options by their `dest`, and the value that each has in the process that proves.
NEUTRAL: dict[str, Any] = {
    "agentreplay_record": False,
    "agentreplay_record_missing": False,
    "agentreplay_replay": None,
    "agentreplay_record_from": None,
    "agentreplay_mode": "model",
    "agentreplay_vcr": None,
    "agentreplay_accept_stale": False,
    "agentreplay_apply": False,
    "agentreplay_sandbox": None,
    # What selects tests.
    "keyword": "",
    "markexpr": "",
    "deselect": None,
    "pyargs": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "replay_files": [],  # pytest-replay
    # What stops the session, or asks.
    "maxfail": 0,
    "continue_on_collection_errors": True,
    "usepdb": False,
    "trace": False,
    # What writes.
    "basetemp": None,  # pytest empties it: the session that recorded has its files there
    "xmlpath": None,
    "pastebin": None,
    "log_file": None,
    "pytestdebug": None,
    "update_snapshots": False,  # syrupy
    "snapshot_update": False,  # pytest-snapshot
    "inline_snapshot": "short-report",  # compares as ever; `disable` would refuse a value that is not there yet
    "replay_record_dir": None,  # pytest-replay
    "report_log": None,  # pytest-reportlog
    "htmlpath": None,  # pytest-html
    "json_report": False,  # pytest-json-report
    "allure_report_dir": None,  # allure-pytest
}


class ProofInProcess:
    """Counts the tests without the plugin that look for a model, and with `proves` replays each new recording."""

    def __init__(self, *, proves: bool) -> None:
        """No test has run."""
        self.proves = proves
        self.running: tuple[pytest.Item, pytest.Item | None] | None = None
        self.reports: list[pytest.TestReport] = []
        self.run_again = False
        self.timer: Any = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """Run the test, whoever does it, once or several times; listen around one that did not opt in."""
        if not is_opted_in(item):
            with get_late_calls(item.config).watch_bystander():
                return (yield)
        self.running, self.timer = (item, nextitem), None
        try:
            return (yield)
        finally:
            self.running = None
            take_out(item.stash, keys.UNDO)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        """The last report of a try: replay the recording at once, offline, unless the test is tried again."""
        summary = reports.get_summary(report)
        if self.running is not None and report.nodeid == self.running[0].nodeid:
            self.reports = [*(self.reports if report.when != "setup" else ()), report]
            self.run_again |= is_tried_again(report)
            if summary is not None:
                if not self.run_again:
                    self.add_proofs(report, summary, reports.get_fixture_summaries(report))
                self.run_again = False
        yield

    def add_proofs(self, report: pytest.TestReport, test: SessionSummary, fixtures: Sequence[SessionSummary]) -> None:
        """Add the proof to the summary of a test, and to those of the fixtures that were torn down with it."""
        new = [summary for summary in (test, *fixtures) if summary.is_new]
        if not new or not self.proves:
            return
        proofs = self.prove(new, test)
        reports.attach_summary(report, reports.add_proof(test, proofs))
        reports.attach_fixture_summaries(report, [reports.add_proof(fixture, proofs) for fixture in fixtures])

    def prove(self, new: Sequence[SessionSummary], test: SessionSummary) -> dict[str, Proof]:
        """Return the proof of each new recording, by the id of its test or fixture."""
        assert self.running is not None
        assert test.recording is not None
        item, nextitem = self.running
        why = WOULD_RUN_AGAIN if any(map(is_running_tools_again, new)) else ""
        if not why and item.config.getoption("trace", None):  # pytest has put its debugger around the function for good
            why = "--trace would stop again"
        if why:
            return {summary.test: Proof(skipped=why) for summary in new}
        if self.timer is not None:
            hooks = item.config.pluginmanager.hook
            hooks.pytest_timeout_cancel_timer(item=item)
            hooks.pytest_timeout_set_timer(item=item, settings=self.timer)
        if hasattr(item, "_request"):
            # The run that is proved is not quite over: without this its fixtures would serve again. pytest makes a new
            # request where it finds none: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/runner.py
            item._request = False
        broken = {str(report.when) for report in self.reports if report.failed and report.when != "call"}
        proof, parted = replay_recording(item, nextitem, test.recording.outcome, broken)
        failing = {test.test} if parted is None else {test.test, parted.test}
        return {summary.test: proof if summary.test in failing else Proof() for summary in new}

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Remember how long pytest-timeout gives the test: its proof gets as long again, and not what is left."""
        self.timer = None if settings.func_only else settings


def is_running_tools_again(summary: SessionSummary) -> bool:
    """Return whether a replay would run a tool that is not frozen."""
    return summary.recording is not None and bool(summary.recording.unfrozen)


def replay_recording(
    item: pytest.Item, nextitem: pytest.Item | None, outcome: str, broken: Collection[str]
) -> tuple[Proof, Finding | None]:
    """Replay a test that was recorded with `outcome`. Return its proof, and the finding if it has diverged.

    The finding may be about a fixture that the test shares. No report is logged. `broken` names the phases (setup,
    teardown) that failed while recording: they may fail again, and the recording has no part in that.
    """
    # Private, and what plugins that run a test again call: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/runner.py
    from _pytest.runner import runtestprotocol

    item.stash[keys.PROVING] = True
    try:
        with disable_prompts(item.config):
            phases = runtestprotocol(item, nextitem=nextitem, log=False)
    finally:
        del item.stash[keys.PROVING]
    finding, failure = item.stash.get(keys.FINDING, None), None
    if failing := [report for report in phases if has_really_failed(report) and report.when not in broken]:
        crash = getattr(failing[0].longrepr, "reprcrash", None)
        failure = crash.message if crash is not None else failing[0].longreprtext
    headline = finding.headline if finding is not None else ""
    proof = judge_proof(outcome, reports.get_summary(phases[-1]), headline, failure)
    skips = [report.longrepr for report in phases if report.skipped and not hasattr(report, "wasxfail")]
    if proof.replays and skips and outcome != "skipped":
        reason = str(skips[0][2] if isinstance(skips[0], tuple) else skips[0]).removeprefix("Skipped: ")
        proof = Proof(skipped=f"the test is skipped in its replay: {reason}")
    hide = reports.find_hider(item)
    return replace(proof, why=hide(proof.why), skipped=hide(proof.skipped)), finding


@contextmanager
def disable_prompts(config: pytest.Config) -> Iterator[None]:
    """No prompt of a debugger (`breakpoint()`, `pdb.set_trace()`, `--pdb`): the recording has asked already."""
    import pdb  # noqa: T100  to keep it from asking

    # The plugin of `--pdb` has this name: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/debugging.py
    manager, hook = config.pluginmanager, sys.breakpointhook
    postmortem = manager.unregister(name="pdbinvoke") if manager.hasplugin("pdbinvoke") else None
    trace = pdb.set_trace
    sys.breakpointhook = lambda *args, **kwargs: None  # noqa: ARG005  it takes what a debugger would
    pdb.set_trace = sys.breakpointhook
    try:
        yield
    finally:
        sys.breakpointhook, pdb.set_trace = hook, trace
        if postmortem is not None:
            manager.register(postmortem, "pdbinvoke")


def has_really_failed(report: pytest.TestReport) -> bool:
    """Return whether something failed, as it may have been expected; a pass that nobody expected is none."""
    if hasattr(report, "wasxfail"):
        return report.skipped
    return report.failed and not report.longreprtext.startswith("[XPASS(strict)]")


def can_prove_afresh(config: pytest.Config) -> bool:
    """Return whether a fresh process can do what this one does.

    It cannot have the plugin objects that were given to `pytest.main`, nor the files of another machine.
    """
    if config.invocation_params.plugins or not sys.executable or getattr(sys, "frozen", False):
        return False
    elsewhere = any(spec != "popen" for spec in getattr(config.option, "tx", None) or ())
    return sys.platform not in NO_PROCESSES and not elsewhere


class FreshProof:
    """Replays what the tests of this session and of its xdist workers have recorded, once they are over."""

    def __init__(self, config: pytest.Config) -> None:
        """Keep the environment as it is before any test."""
        self.config = config
        self.environ = dict(os.environ)
        self.broken: dict[str, set[str]] = {}  # by node id, the phases beside the body that failed
        self.phases: dict[str, list[str]] = {}  # the same by the id of the test, as sorted lists

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Have a worker of xdist leave the proof to this process."""
        node.workerinput[WORKERS] = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which phases failed in the last try of a test."""
        if report.when == "setup":
            self.broken.pop(report.nodeid, None)
        if report.failed and report.when != "call":
            self.broken.setdefault(report.nodeid, set()).add(str(report.when))
        if (summary := reports.get_summary(report)) is not None and report.nodeid in self.broken:
            self.phases[summary.test] = sorted(self.broken.pop(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, exitstatus: int) -> None:
        """Add the proof to each new recording, before our footer is made.

        Other plugins have written their expected values by now: they do so when the session finishes.
        """
        summaries = self.config.stash[keys.REPORT].summaries
        recorded = [summary for summary in summaries if summary.recording is not None]
        new = [summary for summary in recorded if summary.is_new]
        if not new:
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            proofs = {summary.test: Proof(skipped="the session was interrupted") for summary in new}
        else:
            proofs = self.prove(recorded, new)
        summaries[:] = [reports.add_proof(summary, proofs) if summary.is_new else summary for summary in summaries]

    def prove(self, recorded: list[SessionSummary], new: list[SessionSummary]) -> dict[str, Proof]:
        """Return the proofs of the new recordings, by test or fixture."""
        live = {summary.test for summary in recorded if is_running_tools_again(summary)}
        willing = {summary.test for summary in recorded if live.isdisjoint({summary.test, *summary.uses})}
        tests = [summary for summary in recorded if summary.fixture is None and summary.test in willing]
        chosen = [*choose_tests(tests, new)]
        results = self.replay(chosen)
        proofs = {}
        for summary in new:
            if summary.test not in willing:
                proof: Proof | None = Proof(skipped=WOULD_RUN_AGAIN)
            elif summary.fixture is None:
                proof = prove_test(summary.test, results)
            else:
                proof = prove_fixture(summary.test, chosen, results)
            if proof is not None:
                proofs[summary.test] = proof
        return proofs

    def replay(self, chosen: list[SessionSummary]) -> ProofResults:
        """Replay these tests in a fresh process, and those that fail there in further ones, to find out why."""
        from pytest_agentreplay.runs import command, credential_files, proof_conditions

        config = self.config
        hidden = credential_files.hide_credential_files(self.environ, config.rootpath)
        fresh = {name: value for name, value in {**self.environ, **hidden}.items() if value is not None}
        tests = [
            {
                "test": summary.test,
                "outcome": (summary.recording.outcome if summary.recording else "") or "passed",
                "broken": self.phases.get(summary.test, []),
            }
            for summary in chosen
        ]
        words = [str(word) for word in config.invocation_params.args]
        end = words.index("--") if "--" in words else len(words)
        plan = {
            "rest": words[end:],
            "flags": [flag for name, flag in SWITCH_OFF_FLAGS.items() if name in config.option],
            "has": [name for name in ("cacheprovider", "logging-plugin") if config.pluginmanager.hasplugin(name)],
        }
        folder = config.invocation_params.dir

        def replay(tests: Sequence[dict[str, Any]], conditions: dict[str, Any]) -> ProofResults:
            environ = self.environ if conditions.get("without") == "credentials" else fresh
            return command.prove_recordings(tests, plan | conditions, words[:end], environ=environ, folder=folder)

        results = command.ProofResults(missing={str(row["test"]): "it was interrupted" for row in tests})
        with suppress(KeyboardInterrupt):
            results = replay(tests, {})
            proof_conditions.explain_failures(tests, results, replay)
        return results


def choose_tests(willing: list[SessionSummary], new: list[SessionSummary]) -> Iterator[SessionSummary]:
    """Yield each test with a new recording, and for each new recording of a fixture one test that uses it."""
    fixtures = {summary.test for summary in new if summary.fixture is not None}
    for summary in sorted(willing, key=lambda summary: not summary.is_new):
        if summary.is_new or not fixtures.isdisjoint(summary.uses):
            fixtures -= summary.uses.keys()
            yield summary


def prove_test(test: str, results: ProofResults) -> Proof:
    """Return the proof of a test."""
    if (row := results.by_test.get(test)) is not None:
        return restore_plain(Proof, row["proof"])
    return Proof(skipped=results.missing.get(test, "no process replayed it"))


def prove_fixture(fixture: str, chosen: list[SessionSummary], results: ProofResults) -> Proof | None:
    """Return the proof of a fixture: where it has diverged, else that a test that uses it has run; None without one."""
    using = [summary.test for summary in chosen if fixture in summary.uses]
    for row in results.by_test.values():
        if row["parted"] == fixture:
            return restore_plain(Proof, row["proof"])
    if any(test in results.by_test for test in using):
        return Proof()
    return prove_test(using[0], results) if using else None


def prepare_options(config: pytest.Config) -> None:
    """Put options back, and collect the files of the plan."""
    is_converting = config.option.agentreplay_vcr == "convert"
    # A converted test has to replay without its mark `vcr`.
    without_vcrpy = {"disable_recording": True, "disable_vcr": True} if is_converting else {}
    for name, value in (NEUTRAL | without_vcrpy).items():
        if name in config.option:
            setattr(config.option, name, value)
    tests = json.loads(Path(config.option.agentreplay_proof).read_bytes())["tests"]
    modules = dict.fromkeys(config.rootpath / row["test"].partition("::")[0] for row in tests)
    config.args = [str(module) for module in modules if module.is_file()] or config.args


def shift_clock(config: pytest.Config, plan_file: str) -> None:
    """Shift the clock of this process, before it imports anything of the project."""
    from pytest_agentreplay.intercept.environment.shifted_clock import ShiftedClock

    plan = json.loads(Path(plan_file).read_bytes())
    if plan.get("without") != "clock":
        shifted_clock = ShiftedClock(str(config.rootpath), plan.get("lines", ()))
        shifted_clock.start()
        config.stash[keys.DATE_READS] = shifted_clock.reads


class ProofPlanRunner:
    """Runs the tests of the plan, and nothing else, in another order than the session that recorded them."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the plan, and begin the file of the results."""
        plan = json.loads(Path(config.option.agentreplay_proof).read_bytes())
        self.reads = config.stash.get(keys.DATE_READS, {})
        self.reverses = plan.get("without") != "order"
        self.tests = {row["test"]: row for row in plan["tests"]}
        self.results = files.Appending(Path(plan["into"]))
        self.uncollected: dict[str, str] = {}

    def write(self, **row: Any) -> None:
        """Add a row to the results."""
        self.results.append(json.dumps(row).encode() + b"\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember which files cannot be collected."""
        if not report.passed:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = (crash.message if crash is not None else report.longreprtext).strip().splitlines() or [""]
            self.uncollected[report.nodeid] = lines[-1].removeprefix("E").strip()

    def is_planned(self, item: pytest.Item) -> bool:
        """Return whether it is a test of the plan; its other orders of answers are no part of the proof."""
        return get_nodeid(item) in self.tests and keys.TRIAL not in item.stash

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Keep the tests of the plan, whatever other plugins deselect: they did run when they were recorded."""
        before = [item for item in items if self.is_planned(item)]
        for item in before:  # one that vcrpy serves has no marker of ours yet
            item.stash[keys.OPTED_IN] = True
        if self.reverses:  # plugins that order tests have the last word
            items.reverse()
        yield
        kept = [item for item in items if self.is_planned(item)]
        names = {*map(get_nodeid, kept)}
        items[:] = [*kept, *(item for item in before if get_nodeid(item) not in names)]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Report which tests are not there."""
        for test in self.tests.keys() - {*map(get_nodeid, session.items)}:
            why = self.uncollected.get(test.partition("::")[0])
            reason = "a fresh process does not collect it" + (f": {why}" if why is not None else "")
            self.write(missing=test, why=reason, reads=self.reads)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Replay a test, before any plugin that would run it several times or in a process of its own."""
        test = get_nodeid(item)
        row = self.tests[test]
        replay_again = partial(replay_recording, item, nextitem, row["outcome"], row["broken"])
        self.write(started=test)
        try:
            proof, finding = replay_again()
            if proof.why == RAN_ON:
                # The first test of a process imports its libraries; that is no wait. A second replay has them.
                again, _ = replay_again()
                proof = again if again.replays and not again.skipped else proof
            for number in range(2, MOST_REPLAYS + 1):
                if proof.why != TIMED:
                    break
                proof, finding = replay_again()
                if not proof.replays:
                    proof = Proof(False, f"replay {number} of {MOST_REPLAYS} failed, for {TIMED}: {proof.why}")
        except pytest.exit.Exception as stop:  # the other tests get a further process
            proof = Proof(skipped=f"it ends the session of pytest: {stop}")
            self.write(test=test, proof=to_plain(proof), parted="")
            raise
        ordered = any(mark.name in ORDER_MARKS for mark in item.iter_markers())
        facts = {"parted": "" if finding is None else finding.test, "ordered": ordered}
        self.write(test=test, proof=to_plain(proof), reads={} if proof.replays else self.reads, **facts)
        return True
