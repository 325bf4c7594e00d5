"""The proof of a session's recordings: once it is over, they are replayed in one fresh process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.plugin.recordings import WOULD_RUN_AGAIN, is_new
from pytest_agentreplay.plugin.session import LINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.runs.proof_process import ProofResults

    Told = dict[str, Any]

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


class Proof:
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
        if (told := getattr(report, "agentreplay", None)) is not None and report.nodeid in self.broken:
            self.phases[told["test"]] = sorted(self.broken.pop(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, exitstatus: int) -> None:
        """Add the proof to each new recording, before our footer is made.

        Other plugins have written their expected values by now: they do so when the session finishes.
        """
        told = [each for each in self.config.stash[LINES].told if each["mode"] == "record"]
        new = [each for each in told if is_new(each)]
        if not new:
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            for each in new:
                each["proof"] = {"skipped": "the session was interrupted"}
            return
        unwilling = {each["test"] for each in told if each.get("unfrozen") or each.get("late")}
        willing = [each for each in told if "fixture" not in each and unwilling.isdisjoint({each["test"], *uses(each)})]
        chosen = [*chosen_of(willing, new)]
        results = self.results(chosen)
        for each in new:
            if each["test"] in unwilling or not unwilling.isdisjoint(uses(each)):
                each["proof"] = {"skipped": WOULD_RUN_AGAIN}
            elif "fixture" not in each:
                each["proof"] = proof_of(each["test"], results)
            elif (proof := proof_of_fixture(each["test"], chosen, results)) is not None:
                each["proof"] = proof

    def results(self, chosen: list[Told]) -> ProofResults:
        """Replay these tests."""
        from pytest_agentreplay.runs import proof_process

        config = self.config
        tests = [
            {
                "test": each["test"],
                "outcome": each.get("outcome", "passed"),
                "broken": self.phases.get(each["test"], []),
            }
            for each in chosen
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
            return proof_process.ProofResults(missing={row["test"]: "it was interrupted" for row in tests})


def uses(told: Told) -> Iterable[str]:
    """Return the ids of the recorded fixtures that a test has built on."""
    return told.get("uses") or ()


def chosen_of(willing: list[Told], new: list[Told]) -> Iterator[Told]:
    """Yield each test with a new recording, and for each new recording of a fixture one test that uses it."""
    fixtures = {each["test"] for each in new if "fixture" in each}
    for each in willing:
        if is_new(each):
            fixtures -= {*uses(each)}
            yield each
    for each in willing:
        if not is_new(each) and not fixtures.isdisjoint(uses(each)):
            fixtures -= {*uses(each)}
            yield each


def proof_of(test: str, results: ProofResults) -> Told:
    """Return the proof of a test."""
    if (row := results.by_test.get(test)) is not None:
        proof: Told = row["proof"]
        return proof
    return {"skipped": results.missing.get(test, "no process replayed it")}


def proof_of_fixture(fixture: str, chosen: list[Told], results: ProofResults) -> Told | None:
    """Return the proof of a fixture: where it has diverged, else that a test that uses it has run; None without one."""
    using = [each["test"] for each in chosen if fixture in uses(each)]
    for row in results.by_test.values():
        if row["parted"] == fixture:
            proof: Told = row["proof"]
            return proof
    if any(test in results.by_test for test in using):
        return {"replays": True, "why": ""}
    return proof_of(using[0], results) if using else None
