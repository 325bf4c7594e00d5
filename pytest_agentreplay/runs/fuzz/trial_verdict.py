"""An agent tried on a neighbour: the backend that answers it, and the verdict on what it did.

The backend answers whatever can be answered, keeps each call, and ends who does not end. A call that equals a recorded
one is answered by it. Where nothing else is left, an equal call gets the answer that it got before, then (unless all is
strict) the next answer of its kind, and last the last one again: an agent that repeats a request, or starts again, does
not run dry. The verdict is which invariants do not hold, ours and those of the project.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import Refused, Replayed
from pytest_agentreplay.backends.case_backend import AnswerPolicy, CaseBackend, find_sort
from pytest_agentreplay.backends.perturbation import OPERATORS, weakest_label
from pytest_agentreplay.backends.replay import ReplayPolicy
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.errors import ReplayDiverged, SettingsError
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import FrameCall, ToolCall
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER, encode
from pytest_agentreplay.runs.fuzz.invariants import Violation, find_crash, find_violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import CodeType

    from pytest_agentreplay.backends.backend import Moment, Verdict
    from pytest_agentreplay.backends.case_backend import CaseFixtures
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Exchange, Run
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


CALLS, TIMES = 200, 4
"""An agent may make that many calls, and beside them that many times the recorded ones. Step limits of frameworks are
25 (LangGraph) and below; a loop of ours or of a provider's client that knows none passes any number."""
ENDLESS = "the agent does not end"
STOPPED = "the run ends at the first request of a model"


class NeighbourBackend(CaseBackend):
    """Answers from a perturbed run. `attempts` are all calls that the agent made, refused ones too."""

    def __init__(
        self, run: Run, matching: Matching, *, strict: bool, stop: bool = False, fixtures: CaseFixtures | None = None
    ) -> None:
        """`strict` answers calls of the recording alone, `stop` refuses from the first call of a model on."""
        policy = AnswerPolicy() if strict else AnswerPolicy(model="position", tools="arguments", other="position")
        super().__init__(run, matching, READER, replace(policy, fixtures=fixtures, retell=encode.retell))
        self.policy = ReplayPolicy(any_order=True, at_once=True)
        self.attempts: list[Call] = []
        self.most = CALLS + TIMES * len(run.exchanges)
        self.endless = False
        self._strict = strict
        self._stop = stop
        self._answer_of: dict[str, Exchange] = {}
        self._last_of: dict[object, Exchange] = {}

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Answer a call, by the recorded one or by what is nearest to it; refuse what never was."""
        with self._lock:
            self.attempts.append(call)
            self.endless |= len(self.attempts) > self.most
        if self.endless:
            return Refused(Divergence(Kind.EXTRA, f"{ENDLESS}: it has made {self.most} calls", now=call))
        if self._stop and is_model(call, READER):
            return Refused(Divergence(Kind.EXTRA, STOPPED, now=call))
        if isinstance(call, FrameCall) or self.divergence is not None:
            return super().decide(call, moment)
        part, key = self._positions.part(call), self._matching.key_alone(call)
        recorded = self._take(call, moment)
        if recorded is None and (answered := self._answer_of.get(key)) is not None:
            return self._answer(answered, call, moment, "again")
        if recorded is None:
            verdict = super().decide(call, moment)
            if isinstance(verdict, Replayed):
                self._answer_of[key] = self._last_of[part] = verdict.exchange
            if isinstance(verdict, Replayed) or self._strict:
                return verdict
            recorded = self._take_next(call, moment) or self._last_of.get(part)
            if recorded is None:
                return verdict
        self._answer_of[key] = self._last_of[part] = recorded
        return self._answer(recorded, call, moment, "recorded")

    def _take(self, call: Call, moment: Moment) -> Exchange | None:
        """Take the recorded exchange that is this call."""
        with self._lock:
            exchange = self._find(call, moment)
            if exchange is not None:
                self._index.note_served(exchange, call, moment.lane)
        return exchange

    def _take_next(self, call: Call, moment: Moment) -> Exchange | None:
        """Take the next recorded exchange of the kind of a call."""
        with self._lock:
            exchange = self._positions.take_next(call, moment, self.served)
            if exchange is not None:
                self.served[exchange.start] = call
        return exchange

    def _answer(self, exchange: Exchange, call: Call, moment: Moment, how: str) -> Verdict:
        """Return a recorded answer in the form in which `call` asks for it."""
        outcome = exchange.outcome
        if outcome is not None and not isinstance(call, ToolCall):
            outcome = encode.retell(call, exchange.call, outcome)
        with self._lock:
            self._tickets += 1
            verdict = Replayed(replace(exchange, outcome=outcome), self._tickets)
        return self._note_served(verdict, call, moment, find_sort(call, READER), how)
