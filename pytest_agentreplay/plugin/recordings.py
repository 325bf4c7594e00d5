"""While recording: tests that look for a model unrecorded are counted, and recordings are proved in this process.

They are proved here only where no fresh process can do it (`fresh.possible`).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.plugin.report_data import (
    attach_fixture_summaries,
    attach_summary,
    fixture_summaries_of,
    summary_of,
    with_proof,
)
from pytest_agentreplay.plugin.session import tried_again
from pytest_agentreplay.plugin.stash import FINDING, PROVING, UNDO, afterwards_of, is_opted_in
from pytest_agentreplay.report.summary import Proof

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary


WOULD_RUN_AGAIN = "a tool would run again"
"""Why a test with a tool that is not frozen is not replayed: the tool may have been a payment."""


class Recordings:
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
            with afterwards_of(item.config).bystander():
                return (yield)
        self.running, self.timer = (item, nextitem), None
        try:
            return (yield)
        finally:
            self.running = None
            if UNDO in item.stash:
                del item.stash[UNDO]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        """The last report of a try: replay the recording at once, offline, unless the test is tried again."""
        summary = summary_of(report)
        if self.running is not None and report.nodeid == self.running[0].nodeid:
            self.reports = [*(self.reports if report.when != "setup" else ()), report]
            self.run_again |= tried_again(report)
            if summary is not None:
                if not self.run_again:
                    self.prove(report, summary, fixture_summaries_of(report))
                self.run_again = False
        yield

    def prove(self, report: pytest.TestReport, test: SessionSummary, fixtures: Sequence[SessionSummary]) -> None:
        """Add the proof to the summary of a test, and to those of the fixtures that were torn down with it."""
        assert self.running is not None
        item, nextitem = self.running
        new = [summary for summary in (test, *fixtures) if summary.is_new]
        if not new or not self.proves:
            return
        proofs = self.proofs(item, nextitem, new, test)
        attach_summary(report, with_proof(test, proofs))
        attach_fixture_summaries(report, [with_proof(fixture, proofs) for fixture in fixtures])

    def proofs(
        self, item: pytest.Item, nextitem: pytest.Item | None, new: Sequence[SessionSummary], test: SessionSummary
    ) -> dict[str, Proof]:
        """Return the proof of each new recording, by the id of its test or fixture."""
        if why := next(filter(None, (why_unproved(item, summary) for summary in new)), ""):
            return {summary.test: Proof(skipped=why) for summary in new}
        if self.timer is not None:
            hooks = item.config.pluginmanager.hook
            hooks.pytest_timeout_cancel_timer(item=item)
            hooks.pytest_timeout_set_timer(item=item, settings=self.timer)
        proof, parted = prove(item, nextitem, self.reports)
        failing = {test.test} if parted is None else {test.test, parted.test}
        return {summary.test: proof if summary.test in failing else Proof() for summary in new}

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Remember how long pytest-timeout gives the test: its proof gets as long again, and not what is left."""
        self.timer = None if settings.func_only else settings


def why_unproved(item: pytest.Item, summary: SessionSummary) -> str:
    """Return why a recording is not replayed at once; "" when it is."""
    if runs_tools_again(summary):
        return WOULD_RUN_AGAIN
    # pytest has put its debugger around the function for good.
    return "--trace would stop again" if item.config.getoption("trace", None) else ""


def runs_tools_again(summary: SessionSummary) -> bool:
    """Return whether a replay would run a tool that is not frozen."""
    return summary.late or (summary.recording is not None and bool(summary.recording.unfrozen))


def prove(
    item: pytest.Item, nextitem: pytest.Item | None, recorded: list[pytest.TestReport]
) -> tuple[Proof, Finding | None]:
    """Replay the recording just made, offline, in the process that has made it; return what `replay` returns."""
    if hasattr(item, "_request"):
        item._request = False  # the run that is proven is not quite over: without this its fixtures would serve again
    broken = {str(report.when) for report in recorded if report.failed and report.when != "call"}
    summary = summary_of(recorded[-1])
    assert summary is not None
    assert summary.recording is not None
    return replay(item, nextitem, summary.recording.outcome, broken)


def replay(
    item: pytest.Item, nextitem: pytest.Item | None, outcome: str, broken: Collection[str]
) -> tuple[Proof, Finding | None]:
    """Replay a test that was recorded with `outcome`. Return its proof, and the finding if it has diverged.

    The finding may be about a fixture that the test shares. No report is logged. `broken` names the phases (setup,
    teardown) that failed while recording: they may fail again, and the recording has no part in that.
    """
    from _pytest.runner import runtestprotocol

    item.stash[PROVING] = True
    try:
        with without_prompts(item.config):
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
    finally:
        del item.stash[PROVING]
    finding = item.stash.get(FINDING, None)
    failing = next((report for report in reports if failed_in_fact(report) and report.when not in broken), None)
    skipping = next((report for report in reports if report.skipped and not hasattr(report, "wasxfail")), None)
    from pytest_agentreplay.plugin.outcome import hide_of
    from pytest_agentreplay.report.notices import judge_proof

    failure = None
    if failing is not None:
        crash = getattr(failing.longrepr, "reprcrash", None)
        failure = crash.message if crash is not None else failing.longreprtext
    proof = judge_proof(outcome, summary_of(reports[-1]), finding.headline if finding is not None else "", failure)
    if proof.replays and skipping is not None and outcome != "skipped":
        proof = Proof(skipped=f"the test is skipped in its replay: {reason_of(skipping)}")
    hide = hide_of(item)
    return replace(proof, why=hide(proof.why), skipped=hide(proof.skipped)), finding


def reason_of(skipping: pytest.TestReport) -> str:
    """Return the reason of a skip."""
    longrepr = skipping.longrepr
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")


@contextmanager
def without_prompts(config: pytest.Config) -> Iterator[None]:
    """No prompt of a debugger (`breakpoint()`, `pdb.set_trace()`, `--pdb`): the recording has asked already."""
    import pdb  # noqa: T100  to keep it from asking

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


def failed_in_fact(report: pytest.TestReport) -> bool:
    """Whether something failed, as it may have been expected; a pass that nobody expected is none."""
    if hasattr(report, "wasxfail"):
        return report.skipped
    return report.failed and not report.longreprtext.startswith("[XPASS(strict)]")
