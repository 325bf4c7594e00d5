"""A test on the neighbours of its recording: an item for each, so that xdist and shards share them.

`--agentreplay-fuzz=N` draws N neighbours of each test; `agentreplay check fuzz` and `agentreplay check assertions` hand
over a plan that says which neighbours of which test. The items are collected from the snapshot, in replays alone, and
share it with the plain item.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import TestCase

import pytest

from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.keys import get_nodeid, get_settings, is_opted_in, store_of
from pytest_agentreplay.plugin.orders import get_progress, repeat_item
from pytest_agentreplay.plugin.reports import get_summary
from pytest_agentreplay.runs.fuzz.neighbours import draw_neighbours, list_candidates
from pytest_agentreplay.runs.fuzz.plan import Trial, read_trial
from pytest_agentreplay.runs.fuzz.trial_verdict import TrialSession, find_invariant
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Run

PLAN: pytest.StashKey[dict[str, Any] | None] = pytest.StashKey()
RECORDED: pytest.StashKey[str] = pytest.StashKey()  # how the test ended when it was recorded
IN_SETUP = "the set-up of the test failed on this neighbour: only its body is judged"
LONGEST = 2_000  # characters of an error that kept a trial from being judged


def list_items(item: Any) -> Iterator[Any]:
    """Yield the item and its neighbours; under a plan the neighbours of its test alone."""
    plan = read_plan(item.config)
    if plan is None:
        yield item
    # Of a method of unittest.TestCase pytest makes one item.
    if not isinstance(item, pytest.Function) or issubclass(item.cls or object, TestCase) or not is_opted_in(item):
        return
    test = get_nodeid(item)
    if plan is None:
        run = load_run(item, test)
        trials = [] if run is None else draw_trials(item, run)
    elif plan["test"] == store_of(item.config).snapshot_id(test):
        run, trials = None, [read_trial(plain) for plain in plan["trials"]]
    else:
        return
    check_invariants(trials)
    for trial in trials:
        other = repeat_item(item, test, trial.word)
        other.stash[keys.NEIGHBOUR] = trial
        if run is not None:  # a plan has the recording itself as its trial 0
            item.stash[keys.TRIED] = test
            other.stash[RECORDED] = str(run.header.outcome.get("status"))
        yield other


def check_invariants(trials: Sequence[Trial]) -> None:
    """Raise CollectError for an invariant that is no function: no trial could say anything about the agent."""
    try:
        for name in trials[0].invariants if trials else ():
            find_invariant(name)
    except SettingsError as error:
        raise pytest.Collector.CollectError(str(error)) from None


def load_run(item: pytest.Function, test: str) -> Run | None:
    """Return the recording of a test; None where snapshot or settings do not fit: the plain item tells why."""
    try:
        settings = get_settings(item)
        if settings.mode != "replay" or settings.axes.cell != "FF" or settings.adopt:
            return None
        store = store_of(item.config)
        return store.load(store.path_of(item.path, test), test).run
    except (SettingsError, SnapshotError):
        return None


def draw_trials(item: pytest.Function, run: Run) -> list[Trial]:
    """Return the neighbours of a run on which its test is tried too."""
    from pytest_agentreplay.runs.partial_replay import list_orders

    settings = get_settings(item)
    candidates = list_candidates(run, orders=len(list_orders(run)), tools=map(" = ".join, settings.tools))
    neighbours = draw_neighbours(candidates, seed=settings.fuzz_seed, budget=settings.fuzz)
    return [Trial(number, neighbour, "fuzz", settings.invariants) for number, neighbour in enumerate(neighbours, 1)]


def read_plan(config: pytest.Config) -> dict[str, Any] | None:
    """Return what a command asks for: the test, its trials, and the file of their results; None without a command."""
    if PLAN not in config.stash:
        file = config.option.agentreplay_neighbours
        config.stash[PLAN] = None if file is None else json.loads(Path(file).read_bytes())
    return config.stash[PLAN]


def skip_unfounded(item: pytest.Item) -> None:
    """Skip a neighbour of a test that fails on its own recording, as far as this process knows."""
    # Under xdist the plain item may run in another process: then the neighbour is tried.
    progress = get_progress(item)
    ended = progress.ended is not None and progress.ended.get("status") != item.stash.get(RECORDED, "")
    if RECORDED in item.stash and (progress.broken or ended):
        item.add_marker(pytest.mark.skip(reason="the test fails on its own recording: that comes first"))


def make_trial_session(item: pytest.Item) -> Callable[..., TrialSession]:
    """Return what makes the session of a neighbour: of the place, the settings and the snapshot of its test."""
    trial, own = item.stash[keys.NEIGHBOUR], getattr(getattr(item, "obj", None), "__code__", None)
    return lambda place, settings, snapshot, _edited: TrialSession(place, settings, snapshot, trial, own=own)


class TrialResults:
    """Writes the result of each trial as soon as it is there, so that an interrupted command has lost none."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.file = files.Appending(Path(plan["into"]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Append a line for the result of a trial, or for an item that came to none."""
        summary = get_summary(report)
        row = getattr(report, "agentreplay_result", None) if summary is None else summary.result
        # The result of a test comes with its last report, that of a case with its only one.
        if row is None and not report.passed and (report.when != "call" or "agentreplay_case" in report.keywords):
            row = {"unjudged": report.nodeid, "why": report.longreprtext[-LONGEST:]}
        if row is not None:
            self.file.append(json.dumps(row).encode() + b"\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Append a line for a file that cannot be collected."""
        if report.failed:
            row = {"unjudged": report.nodeid, "why": report.longreprtext[-LONGEST:]}
            self.file.append(json.dumps(row).encode() + b"\n")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Append what the test leaves in its process, and close the file."""
        for state in session.config.stash[keys.REPORT].states:
            self.file.append(json.dumps({"state": state}).encode() + b"\n")
        self.file.close()
