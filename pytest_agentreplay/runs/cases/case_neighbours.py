"""The neighbours of a case: today's agent on the frozen run with a change, compared with the same agent without one.

An agent that was fixed does other things than the recording shows. So what counts as recorded is what today's agent
does on the frozen run as it is. `evaluate_case` returns the verdict on any case file: on a case, with the neighbours of
a fix, or on a neighbour that is kept as a case, which names a test or a case and what is changed of its recording.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.perturbation import SERVED, weakest_label
from pytest_agentreplay.cases.case import DEFAULT_SERVING, RUN
from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.errors import CaseError, RunnerError
from pytest_agentreplay.intercept.environment.machine import find_places
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.report.verdict import Verdict
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.cases.case_backend import CaseInputs, fixtures_of
from pytest_agentreplay.runs.cases.in_process_run import InProcessRun, join_settings
from pytest_agentreplay.runs.fuzz.content_changes import change_words
from pytest_agentreplay.runs.fuzz.invariants import Violation
from pytest_agentreplay.runs.fuzz.neighbours import REPLIES, WORDS, draw_neighbours, list_candidates, perturb
from pytest_agentreplay.runs.fuzz.plan import TRIES, Trial, TrialResult, run_trials
from pytest_agentreplay.runs.fuzz.trial_verdict import AgentAttempt, NeighbourBackend, judge
from pytest_agentreplay.runs.run_session import Location
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.backends.replay import ReplayBackend
    from pytest_agentreplay.cases.case import Case, ListName
    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Json, Run
    from pytest_agentreplay.report.verdict import State, Word
    from pytest_agentreplay.runs.cases.command_agent import Command
    from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator

SEED = 0
"""By which the neighbours of a fix are drawn: each run of CI tries the same ones."""


class NeighbourRun(InProcessRun):
    """One go of an agent at a neighbour of a case."""

    casting: NeighbourBackend
    failure: BaseException | None = None
    """What the agent raised."""

    def __init__(self, *arguments: Any, stop: bool, **options: Any) -> None:
        """As `InProcessRun`; `stop` ends the run at its first request of a model."""
        self._stops = stop
        super().__init__(*arguments, **options)

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend that answers from the neighbour."""
        self.matching = matching
        fixtures = CaseInputs(self.case, self._fixtures) if self._fixtures is not None else None
        self.casting = NeighbourBackend(recorded, matching, strict=False, stop=self._stops, fixtures=fixtures)
        return self.casting

    def _play(self, runner: Any, case_input: Json) -> Any:
        try:
            return super()._play(runner, case_input)
        except BaseException as error:
            self.failure = error
            raise


class CaseNeighbours:
    """A case whose neighbours are tried, by the runner of the list of checks that its `expect` is about."""

    def __init__(self, evaluator: CaseEvaluator, case: Case) -> None:
        """Raises RunnerError where nobody runs the case, and what reading its run and running it raise."""
        self.case = case
        self.list_name: ListName = "desired" if case.expect == "fixed" else "observed"
        self._evaluator = evaluator
        self._recorded = stored_case.frozen(case, strict=evaluator.settings.strict).run
        if not (key := case.runners.get(self.list_name, "")):
            raise RunnerError(f"{case.file}: its neighbours need a runner, and the case names none: runner: KEY")
        self._runner = evaluator.runners[key]
        self.plain, evidence = self._attempt(Trial(0, ()))
        self._base = self.plain.run()
        self._holds = evaluator.make_judge(case)(self.list_name, evidence).holds
        self._status = evidence.status

    def draw(self, count: int, seed: int) -> list[Trial]:
        """Return drawn neighbours for a fix, with the project's invariants.

        What a model may say wrong is left to `agentreplay check fuzz`: a fix is of the agent, and few agents are proof
        against every reply.
        """
        settings, words = self._evaluator.settings, self.case.input is not None
        every = list_candidates(self._recorded, words=words, tools=map(" = ".join, settings.tools))
        candidates = [candidate for candidate in every if candidate.operator not in REPLIES]
        neighbours = draw_neighbours(candidates, seed=seed, budget=count)
        return [Trial(number, each, "fuzz", settings.invariants) for number, each in enumerate(neighbours, 1)]

    def attempt(self, trial: Trial) -> TrialResult:
        """Return what came of a trial. Raises CaseError for a perturbation that does not fit."""
        session, evidence = (self.plain, None) if not trial.neighbour else self._attempt(trial)
        divergence = session.casting.find_divergence()
        holds = (
            self._holds if evidence is None else self._evaluator.make_judge(self.case)(self.list_name, evidence).holds
        )
        end = "stopped" if divergence is not None else "passed" if holds or trial.kind == "fuzz" else "checks"
        if trial.kind != "fuzz":
            return TrialResult(trial, (), end)
        attempt = AgentAttempt(
            backend=session.casting,
            matching=session.matching,
            has_effects=session.tools.has_effects,
            run=session.run(),
            base=self._base,
            before=self.plain.casting.attempts,
            failure=session.failure,
            root=self._evaluator.root,
            own=None,
            compare_ends=lambda: self._compare_ends(evidence, holds=holds),
        )
        return TrialResult(trial, judge(trial, attempt), end)

    def compare_runs(self) -> str:
        """Return how a second run without a change differs from the first; "" where it does not."""
        (again, evidence), matching = self._attempt(Trial(0, ())), self.plain.matching
        for divergence in divergences(self._base, again.run(), READER, matching=matching):
            return divergence.summary
        return "" if evidence.status == self._status else f"it ends with {evidence.status}"

    def _compare_ends(self, evidence: CaseEvidence | None, *, holds: bool) -> Iterator[Violation]:
        if evidence is not None and (holds, evidence.status) != (self._holds, self._status):
            what = "checks of the case hold" if self._holds else "checks of the case do not hold"
            yield Violation("ends as recorded", f"without the change the {what} and it ends with {self._status}")

    def _attempt(self, trial: Trial) -> tuple[NeighbourRun, CaseEvidence]:
        """Run the agent on a neighbour."""
        evaluator, case = self._evaluator, self.case
        run = perturb(self._recorded, trial.neighbour, case.file)
        settings = join_settings(evaluator.settings._replace(mode="replay"), case)
        marks = find_places(evaluator.root) if settings.places else {}
        test, file = f"{case.file}::{case.id}", case.folder / RUN
        place = Location(test, file, evaluator.root, marks, evaluator.environ, evaluator.redactors)
        serving = case.serving[self.list_name]
        fixtures = fixtures_of(case) if serving.tools == "arguments" else None
        stop = any(each.operator in WORDS for each in trial.neighbour)
        session = NeighbourRun(place, settings, run, case, serving=serving, fixtures=fixtures, stop=stop)
        session.open()
        try:
            case_input = change_words(copy.deepcopy(case.input), trial.neighbour)
            return session, session.evidence(self._runner, case_input, evaluator.despair)
        finally:
            session.close()


def verify_fix(evaluator: CaseEvaluator, case: Case, verdict: Verdict, count: int) -> Verdict:
    """Return the verdict on a fix, now that its agent was tried on neighbours of the case: it holds on all of them."""
    neighbours = CaseNeighbours(evaluator, case)
    results = [neighbours.attempt(trial) for trial in neighbours.draw(count, SEED)]
    broken = [result for result in results if result.violations]
    verified = f"{format_count(len(results), 'neighbour')}, {len(results) - len(broken)} hold"
    verdict = replace(verdict, neighbours=(len(results), len(results) - len(broken)))
    if not broken:
        return replace(verdict, headline=f"{verdict.headline}; {verified}")
    violation = broken[0].violations[0]
    steps = (("keep the smallest as cases", f"agentreplay check fuzz {quote_word(case.file)} --budget {count}"),)
    return replace(
        verdict,
        outcome="failed",
        word="changed",
        state="not fixed",
        headline=f"not fixed on neighbours of the case: {verified}; {violation.invariant}: {violation.text}",
        notes=(*verdict.notes, *(each.describe() for each in broken[0].trial.neighbour)),
        next=steps,
    )


def evaluate_case(
    evaluator: CaseEvaluator, case: Case, *, key: str = "", command: Command | None = None, skip_live: bool = False
) -> Verdict:
    """Return the verdict on a case, or on the neighbour that it is; as `CaseEvaluator.evaluate`.

    A fix that holds is tried on as many neighbours as the settings say.
    """
    if case.base:
        return evaluate_neighbour(evaluator, case)
    verdict = evaluator.evaluate(case, key=key, command=command, skip_live=skip_live)
    count, serving = evaluator.settings.neighbours, case.serving.get("desired", DEFAULT_SERVING["desired"])
    is_fix = case.expect == "fixed" and verdict.outcome == "passed" and verdict.decided_by == "desired"
    # Who runs it is asked of the case, and a neighbour is never live.
    can_run = command is None and bool(case.runners.get("desired")) and "live" not in {serving.model, serving.other}
    return verify_fix(evaluator, case, verdict, count) if count and is_fix and can_run else verdict


def evaluate_neighbour(evaluator: CaseEvaluator, case: Case) -> Verdict:
    """Return whether the invariants hold on the neighbour. Raises CaseError, SnapshotError, RunnerError."""
    result = attempt(evaluator, case)
    fixed, broken = case.expect == "fixed", bool(result.violations)
    text = "; ".join(f"{each.invariant}: {each.text}" for each in result.violations)
    word: Word = "changed" if broken == fixed else "holds"
    state: State = "reproduces" if broken else "fixed"
    headline = f"the failure reproduces: {text}" if broken else "the invariants hold"
    if word == "changed":
        headline = (
            f"FAILURE REPRODUCED: {text}" if broken else f"{headline}. Set expect: fixed in {quote_word(case.file)}"
        )
    return Verdict(
        case=case.id,
        file=case.file,
        expect=case.expect,
        word=word,
        state=state,
        outcome="failed" if word == "changed" else "passed",
        headline=headline,
        served=SERVED[weakest_label(case.perturb)],
        notes=(f"base: {case.base}", *(each.describe() for each in case.perturb)),
        place=case.places.get(("perturb",), ""),
    )


def attempt(evaluator: CaseEvaluator, case: Case) -> TrialResult:
    """Return what the agent of the base does on the neighbour: in this process for a case, by pytest for a test."""
    trial = Trial(1, case.perturb, "fuzz", evaluator.settings.invariants)
    if "::" not in case.base:
        file = stored_case.file_of((case.folder / case.base).resolve())
        if not file.is_relative_to(evaluator.root.resolve()):
            raise CaseError(f"base {case.base} lies outside of the project", file=case.file)
        base = stored_case.read_case(file, words=evaluator.words)
        if base.base:
            raise CaseError(f"base {case.base} is a neighbour itself: name its own base", file=case.file)
        return CaseNeighbours(evaluator, base).attempt(trial)
    # A case is data: it may name a test of the project, and no flag of pytest or file elsewhere.
    module = evaluator.root / case.base.partition("::")[0]
    inside = module.resolve().is_relative_to(evaluator.root.resolve())
    if case.base.startswith("-") or not inside or module.suffix != ".py" or not files.exists(module):
        raise CaseError(f"base {case.base} is no test of the project", file=case.file)
    done = run_trials(evaluator.root, case.base, [trial])
    if not done.results:
        raise RunnerError(f"{case.file}: pytest ran no neighbour of {case.base}: {done.reason}")
    if case.expect == "reproduces" and not done.results[0].violations:  # a race does not show each time
        again = [trial._replace(number=number) for number in range(1, TRIES + 1)]
        done = run_trials(evaluator.root, case.base, again, apart=True)
    return max(done.results, key=lambda result: len(result.violations))
