"""A test replayed on a neighbour of its recording: judged by invariants, whatever the test itself says."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.perturbation import weakest_label
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.model.exchanges import Header, Run
from pytest_agentreplay.report.other_findings import describe_neighbour
from pytest_agentreplay.runs.fuzz.invariants import Violation
from pytest_agentreplay.runs.fuzz.neighbours import list_calls, perturb
from pytest_agentreplay.runs.fuzz.trial_verdict import AgentAttempt, NeighbourBackend, judge
from pytest_agentreplay.runs.fuzz.trials import TrialResult
from pytest_agentreplay.runs.offline_session import make_schedule
from pytest_agentreplay.runs.partial_replay import list_orders, reorder_answers
from pytest_agentreplay.runs.replay_session import ReplaySession
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from pytest_agentreplay.backends.order_permutations import Order
    from pytest_agentreplay.backends.replay import ReplayBackend
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.fuzz.trials import Trial
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot


class TrialSession(ReplaySession):
    """Answers from a neighbour of `snapshot`. `own` is the code of the test function."""

    def __init__(
        self, place: Location, settings: Settings, snapshot: Snapshot, trial: Trial, *, own: CodeType | None = None
    ) -> None:
        """Raises CaseError for a perturbation that does not fit the recording."""
        self.trial = trial
        self.base = snapshot.run
        self.own = own
        self.label = weakest_label(trial.neighbour)
        run = perturb(snapshot.run, trial.neighbour, format_path(place.snapshot))
        self.completion = find_completion(run, trial)
        if self.completion:
            run = reorder_answers(run, self.completion)
        super().__init__(place, settings._replace(adopt="", expect="", waits=False), replace(snapshot, run=run))
        self.replayer.policy = replace(self.replayer.policy, any_order=True, looks_ahead=False)

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend that answers from the neighbour."""
        self.matching = matching
        self.neighbour = NeighbourBackend(recorded, matching, strict=self.label == "transparent")
        return self.neighbour

    def make_order(self) -> ReleaseQueue | None:
        """Return what releases answers as recorded or in another order; None where they come at once.

        They come at once where a reply may change what is called: an order would wait for calls that never come.
        Otherwise the recorded order is held wherever it matters, also where no other one is legal: two threads that
        race in a trial would make a failure that no replay shows.
        """
        # The base and not its neighbour: an exchange that is added has no place in the recorded order.
        schedule = make_schedule(self.base, self.completion or None)
        if self.label != "transparent" or not (self.completion or schedule.matters):
            return None
        from pytest_agentreplay.intercept.ordering.release import ReleaseQueue

        return ReleaseQueue(schedule, self.interception, self.replayer.explain_stall, loose=True)

    def run(self) -> Run:
        """Return the calls as they were made now, each with what it was given."""
        return Run(Header(self.place.test), self.neighbour.list_made())

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Return the finding of an invariant that does not hold; how the test ended is none by itself."""
        stopped = self.replayer.find_divergence() is not None or isinstance(ended.failure, ReplayDiverged)
        end = str(ended.outcome()["status"]) if ended.failure is None else type(ended.failure).__name__
        result = TrialResult(self.trial, (), "stopped" if stopped else end)
        if self.trial.kind == "fuzz" and not ended.interrupted:
            result = result._replace(violations=judge(self.trial, self.describe_attempt(ended)))
        self.summary = replace(self.summary, result=result.plain())
        if not result.violations:
            return None
        finding = describe_neighbour(self.place.test, result.violations, self.trial.neighbour, self.trial.served)
        self.summary = replace(self.summary, code=finding.code)
        return finding

    def end(self) -> Finding | None:
        """Return nothing: what a teardown leaves undone in a neighbour is open."""
        self.close()
        return None

    def describe_attempt(self, ended: EndedRun) -> AgentAttempt:
        """Return what the agent of the test did, to be held against the recording."""
        return AgentAttempt(
            backend=self.neighbour,
            matching=self.matching,
            has_effects=self.tools.has_effects,
            run=self.run(),
            base=self.base,
            before=[exchange.call for exchange in list_calls(self.base)],
            failure=ended.failure,
            root=self.place.root,
            own=self.own,
            compare_ends=functools.partial(self.compare_ends, ended),
        )

    def compare_ends(self, ended: EndedRun) -> Iterator[Violation]:
        """Yield how a test ends otherwise than recorded, though every recorded reply is still true."""
        divergence = self.neighbour.find_divergence() or self.neighbour.finish(self._body)
        if divergence is not None:
            yield Violation("ends as recorded", divergence.summary)
            return
        now, before = self.redact_outcome(ended), self.base.header.outcome
        if (now.get("status"), now.get("type")) != (before.get("status"), before.get("type")):
            yield Violation("ends as recorded", f"the test {describe_end(now)}, recorded: {describe_end(before)}")


def find_completion(run: Run, trial: Trial) -> Order:
    """Return the order of answers that a trial asks for; none for the recorded one."""
    numbers = [p.argument for p in trial.neighbour if p.operator == "completion-order"]
    if not numbers or not isinstance(number := numbers[0], int):
        return ()
    orders = list_orders(run, limit=number)
    return orders[number - 1] if 0 < number <= len(orders) else ()


def describe_end(outcome: JsonObject) -> str:
    """Return how a test ended in a few words."""
    if outcome.get("status") != "failed":
        return str(outcome.get("status"))
    return f"failed with {outcome.get('type')}: {outcome.get('message')}"
