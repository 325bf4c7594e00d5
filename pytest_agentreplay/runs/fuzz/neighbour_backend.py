"""The backend of a neighbour: it answers whatever can be answered, keeps each call, and ends who does not end.

A call that equals a recorded one is answered by it. Where nothing else is left, an equal call gets the answer that it
got before, then (unless all is strict) the next answer of its kind, and last the last one again: an agent that repeats
a request, or starts again, does not run dry.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import Refused, Replayed
from pytest_agentreplay.backends.case_backend import AnswerPolicy, CaseBackend, find_sort
from pytest_agentreplay.backends.replay import ReplayPolicy
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import FrameCall, ToolCall
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER, encode

if TYPE_CHECKING:
    from pytest_agentreplay.backends.backend import Moment, Verdict
    from pytest_agentreplay.backends.case_backend import CaseFixtures
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Exchange, Run

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
