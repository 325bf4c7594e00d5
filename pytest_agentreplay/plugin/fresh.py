"""The proof of a session's recordings: once it is over, they are replayed in one fresh process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.plugin.recordings import WOULD_RUN_AGAIN, runs_tools_again
from pytest_agentreplay.plugin.report_data import summary_of, with_proof
from pytest_agentreplay.plugin.session import LINES
from pytest_agentreplay.report.summary import Proof, from_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.proof_process import ProofResults

NO_PROCESSES = {"emscripten", "wasi"}
WORKERS = "agentreplay_proof"
"""The key by which the controller tells the workers of xdist that it proves what they record."""

FLAGS = {"no_cov": "--no-cov", "numprocesses": "-n0"}
"""Options of pytest-cov and pytest-xdist, and the flag that switches each off before its plugin looks at it."""


def possible(config: pytest.Config) -> bool:
    """Whether a fresh process can do what this one does.

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
        if (summary := summary_of(report)) is not None and report.nodeid in self.broken:
            self.phases[summary.test] = sorted(self.broken.pop(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, exitstatus: int) -> None:
        """Add the proof to each new recording, before our footer is made.

        Other plugins have written their expected values by now: they do so when the session finishes.
        """
        summaries = self.config.stash[LINES].summaries
        recorded = [summary for summary in summaries if summary.recording is not None]
        new = [summary for summary in recorded if summary.is_new]
        if not new:
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            proofs = {summary.test: Proof(skipped="the session was interrupted") for summary in new}
        else:
            proofs = self.proofs(recorded, new)
        summaries[:] = [with_proof(each, proofs) if each.is_new else each for each in summaries]

    def proofs(self, recorded: list[SessionSummary], new: list[SessionSummary]) -> dict[str, Proof]:
        """Return the proofs of the new recordings, by test or fixture."""
        unwilling = {summary.test for summary in recorded if runs_tools_again(summary)}
        tests = [summary for summary in recorded if summary.fixture is None]
        chosen = [*choose_tests([each for each in tests if unwilling.isdisjoint({each.test, *each.uses})], new)]
        results = self.results(chosen)
        proofs = {}
        for summary in new:
            if not unwilling.isdisjoint({summary.test, *summary.uses}):
                proof: Proof | None = Proof(skipped=WOULD_RUN_AGAIN)
            elif summary.fixture is None:
                proof = proof_of(summary.test, results)
            else:
                proof = proof_of_fixture(summary.test, chosen, results)
            if proof is not None:
                proofs[summary.test] = proof
        return proofs

    def results(self, chosen: list[SessionSummary]) -> ProofResults:
        """Replay these tests."""
        from pytest_agentreplay.runs import proof_process

        config = self.config
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
            "flags": [flag for name, flag in FLAGS.items() if name in config.option],
            "has": [name for name in ("cacheprovider", "logging-plugin") if config.pluginmanager.hasplugin(name)],
        }
        try:
            return proof_process.replay(
                tests, plan, words[:end], environ=self.environ, folder=config.invocation_params.dir
            )
        except KeyboardInterrupt:
            return proof_process.ProofResults(missing={str(row["test"]): "it was interrupted" for row in tests})


def choose_tests(willing: list[SessionSummary], new: list[SessionSummary]) -> Iterator[SessionSummary]:
    """Yield each test with a new recording, and for each new recording of a fixture one test that uses it."""
    fixtures = {summary.test for summary in new if summary.fixture is not None}
    for summary in willing:
        if summary.is_new:
            fixtures -= summary.uses.keys()
            yield summary
    for summary in willing:
        if not summary.is_new and not fixtures.isdisjoint(summary.uses):
            fixtures -= summary.uses.keys()
            yield summary


def proof_of(test: str, results: ProofResults) -> Proof:
    """Return the proof of a test."""
    if (row := results.by_test.get(test)) is not None:
        return from_plain(Proof, row["proof"])
    return Proof(skipped=results.missing.get(test, "no process replayed it"))


def proof_of_fixture(fixture: str, chosen: list[SessionSummary], results: ProofResults) -> Proof | None:
    """Return the proof of a fixture: where it has diverged, else that a test that uses it has run; None without one."""
    using = [summary.test for summary in chosen if fixture in summary.uses]
    for row in results.by_test.values():
        if row["parted"] == fixture:
            return from_plain(Proof, row["proof"])
    if any(test in results.by_test for test in using):
        return Proof()
    return proof_of(using[0], results) if using else None
