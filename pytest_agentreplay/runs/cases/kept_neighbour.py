"""The verdict on a case file: a case, with the neighbours of a fix; or a neighbour that is kept as a case.

A kept neighbour names a test or a case, and what is changed of its recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.backends.perturbation import SERVED, weakest_label
from pytest_agentreplay.cases.case import DEFAULT_SERVING
from pytest_agentreplay.errors import CaseError, RunnerError
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.report.verdict import Verdict
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.cases.case_neighbours import CaseNeighbours, verify_fix
from pytest_agentreplay.runs.fuzz.plan import run_trials
from pytest_agentreplay.runs.fuzz.shrinking import TRIES
from pytest_agentreplay.runs.fuzz.trials import Trial
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.report.verdict import State, Word
    from pytest_agentreplay.runs.cases.command_agent import Command
    from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator
    from pytest_agentreplay.runs.fuzz.trials import TrialResult


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
        headline = f"FAILURE REPRODUCED: {text}" if broken else f"{headline}. Set expect: fixed in {quoted(case.file)}"
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
        base = stored_case.read(file, words=evaluator.words)
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
