"""A trial: an agent on a neighbour of its recording, answered by a backend of its own, and the verdict on what it did.

The backend answers whatever can be answered, keeps each call, and ends who does not end. A call that equals a recorded
one is answered by it. Where nothing else is left, an equal call gets the answer that it got before, then (unless all is
strict) the next answer of its kind, and last the last one again: an agent that repeats a request, or starts again, does
not run dry. The verdict is which invariants do not hold, ours and those of the project, whatever the test itself says.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import Moment, Refused, Replayed, Verdict
from pytest_agentreplay.backends.case_backend import AnswerPolicy, CaseBackend, CaseFixtures, find_sort
from pytest_agentreplay.backends.perturbation import OPERATORS, weakest_label
from pytest_agentreplay.backends.replay import ReplayBackend, ReplayPolicy
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.errors import ReplayDiverged, SettingsError
from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Exchange, FrameCall, Header, JsonObject, Run, ToolCall
from pytest_agentreplay.model.turns import is_model, top_level
from pytest_agentreplay.providers import READER, encode
from pytest_agentreplay.report.other_findings import describe_neighbour
from pytest_agentreplay.runs.fuzz.invariants import Violation, find_crash, find_violations
from pytest_agentreplay.runs.fuzz.neighbours import perturb
from pytest_agentreplay.runs.fuzz.plan import Trial, TrialResult
from pytest_agentreplay.runs.offline_session import make_schedule
from pytest_agentreplay.runs.partial_replay import list_orders, reorder_answers
from pytest_agentreplay.runs.replay_session import ReplaySession
from pytest_agentreplay.snapshots.store import format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import CodeType

    from pytest_agentreplay.backends.order_permutations import Order
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot


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
        neighbour, served = self.trial.neighbour, self.trial.served
        return self.fail_with(describe_neighbour(self.place.test, result.violations, neighbour, served))

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
            before=[exchange.call for exchange in top_level(self.base)],
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
