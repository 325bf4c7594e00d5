"""The verdict on an agent that was tried on a neighbour: which invariants do not hold, ours and the project's."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.perturbation import OPERATORS, weakest_label
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.errors import ReplayDiverged, SettingsError
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER
from pytest_agentreplay.runs.fuzz.invariants import Violation, find_crash, find_violations
from pytest_agentreplay.runs.fuzz.neighbour_backend import ENDLESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import CodeType

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Run
    from pytest_agentreplay.runs.fuzz.neighbour_backend import NeighbourBackend
    from pytest_agentreplay.runs.fuzz.trials import Trial


@dataclass(frozen=True, slots=True)
class AgentAttempt:
    """What an agent did on a neighbour.

    `base` are the run and `before` the calls that it is held against, `failure` is what it raised, `own` the code of
    the test function, whose own errors are no crash of the agent. `compare_ends` says how it ended otherwise.
    """

    backend: NeighbourBackend
    matching: Matching
    has_effects: Callable[[Call], bool]
    run: Run
    base: Run
    before: Sequence[Call]
    failure: BaseException | None
    root: Path
    own: CodeType | None
    compare_ends: Callable[[], Iterator[Violation]]


def judge(trial: Trial, attempt: AgentAttempt) -> tuple[Violation, ...]:
    """Return the invariants that do not hold, without those that the operators of the trial cannot be held to."""
    exempt = {name for each in trial.neighbour for name in OPERATORS[each.operator].exempt}
    return tuple(each for each in dict.fromkeys(list_violations(trial, attempt)) if each.invariant not in exempt)


def list_violations(trial: Trial, attempt: AgentAttempt) -> Iterator[Violation]:
    """Yield every invariant that does not hold."""
    label, backend = weakest_label(trial.neighbour), attempt.backend
    if backend.endless:
        yield Violation("ends", f"{ENDLESS}: it was stopped after {backend.most} calls")
    made = backend.attempts
    runs = attempt.base, attempt.run
    yield from find_violations(attempt.before, made, trial.neighbour, attempt.matching, attempt.has_effects, runs=runs)
    if label == "transparent" and not backend.endless:
        yield from attempt.compare_ends()
    elif not isinstance(attempt.failure, ReplayDiverged) and backend.find_divergence() is None:
        crash = find_crash(attempt.failure, attempt.root, attempt.own)
        yield from [crash] if crash is not None else []
    run = truncate(attempt.run, attempt.base) if label == "opaque" else attempt.run
    yield from ask_invariants(trial.invariants, RunView.of(run))


def truncate(now: Run, base: Run) -> Run:
    """Return the run up to the first request of a model after the changed answer: later replies do not know of it."""
    recorded = [exchange.outcome for exchange in base.exchanges]
    kept, changed = [], False
    for exchange in now.exchanges:
        if changed and is_model(exchange.call, READER):
            kept.append(replace(exchange, outcome=None))
            break
        kept.append(exchange)
        changed |= exchange.outcome not in recorded
    return replace(now, exchanges=tuple(kept))


def ask_invariants(names: Iterable[str], view: RunView) -> Iterator[Violation]:
    """Yield the user's invariants that do not hold of a run: those that raise. Raises SettingsError as below."""
    for name, invariant in [(name, find_invariant(name)) for name in names]:
        try:
            invariant(view)
        except Exception as error:
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            yield Violation(name, text)


def find_invariant(name: str) -> Callable[[RunView], object]:
    """Return the function "module:function" of the user. Raises SettingsError where there is none."""
    module, _, function = name.partition(":")
    if not (module and function):
        raise SettingsError(f"the invariant {name} is no function: write module:function in agentreplay_invariants")
    try:
        invariant: Callable[[RunView], object] = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the user's module does when it is loaded
        raise SettingsError(f"the invariant {name} cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(invariant):
        raise SettingsError(f"the invariant {name} is {type(invariant).__name__}, and no function")
    return invariant
