"""The backend of a case: a recorded world for an agent that may ask otherwise than it did.

Each sort of call (of a model, of a tool, of anything else) is served in one of four ways:

    strict       to the recorded call only, as `ReplayBackend` does
    position     the next recorded reply of its lane to a model, tool or endpoint, whatever is asked of that
    arguments    tools alone: what their fixtures say to these arguments, else what was recorded for the very same
    live         the real one is asked; never a tool

Whatever serves, each recorded reply is given once. Unless all is strict the recorded order binds nobody, and a call
that is no longer made is no failure: an agent that was fixed does both. Over a lasting connection nothing is live, and
its opening is always strict.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import PassThrough, Refused, Replayed
from pytest_agentreplay.backends.call_index import make_queues
from pytest_agentreplay.backends.case_positions import (
    SORTS,
    AnswerPolicy,
    CaseFixtures,
    Meaning,
    Positions,
    ServeMode,
    Sort,
    Tolerant,
    find_sort,
    list_spellings,
)
from pytest_agentreplay.backends.replay import ReplayBackend, ReplayPolicy
from pytest_agentreplay.compare import diagnose
from pytest_agentreplay.compare.diagnose import refusals
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Exchange, FrameCall, Timing, ToolCall
from pytest_agentreplay.model.turns import function_of, home, is_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.backends.backend import Moment, Verdict
    from pytest_agentreplay.backends.budget import ModelBudget
    from pytest_agentreplay.backends.call_index import Queues
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Outcome, Run
    from pytest_agentreplay.model.reading import Reader

__all__ = ["SORTS", "AnswerPolicy", "CaseBackend", "CaseFixtures", "Meaning", "ServeMode", "Sort", "find_sort"]

RECORDED, WRITTEN = "arguments (recorded)", "arguments (written)"
WITHIN = "within the tolerance"


class CaseBackend(ReplayBackend):
    """Serves `run` as `cast` says. `counts` holds how many calls of which sort were answered by what.

    `budget` is asked before each live call of a model.
    """

    def __init__(self, run: Run, matching: Matching, reader: Reader, cast: AnswerPolicy) -> None:
        """Index `run`; where only the recorded calls are answered, without restoring a body."""
        # What a trace tells of its order is when something was written down, not what had to wait for what.
        policy = ReplayPolicy(any_order=not cast.strict or cast.meaning is not None, at_once=not cast.strict)
        super().__init__(run, matching, reader, policy)
        self.cast = cast
        self.budget: ModelBudget | None = None
        self.counts: Counter[tuple[Sort, str]] = Counter()
        self._meant: Queues | None = None
        self._places: Positions | None = None
        self._latest = Timing()
        self._forwarded: dict[int, Exchange] = {}
        self._answered_calls: list[Exchange] = []
        self._near: set[int] = set()
        self._tolerant = Tolerant(cast.tolerances)
        self._openings: dict[int, int] = {}
        self._readings = 0

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Serve a call as its sort is served, or refuse."""
        sort = find_sort(call, self._reader)
        way = self.cast.way(sort)
        # What happens inside a call that is made live has no recorded answer.
        if sort != "tools" and moment.parent in self._forwarded:
            way = "live"
        # A connection cannot be opened for real in the middle of a frozen run, nor a message sent over a frozen one.
        if isinstance(call, FrameCall) and (call.connection is None or way == "live"):
            way = "strict"
        if way == "strict":
            return self._note_served(super().decide(call, moment), call, moment, sort, way)
        asks = way == "live" and sort == "model" and self.divergence is None
        if asks and self.budget is not None and (why := self.budget.reserve(call)):
            return Refused(Divergence(Kind.LIVE, why, now=call))
        with self._lock:
            if self.divergence is not None:
                return Refused(self.divergence)
            if way == "live":
                return self._forward(call, moment)
            match, how = (self._answer_by_arguments if way == "arguments" else self._answer_by_position)(call, moment)
            if not isinstance(match, Exchange):
                return Refused(match)
            # A reply that only a fixture knows stands for no recorded call, and has no number.
            if match.start >= 0:
                self.served[match.start] = call
            self._tickets += 1
            verdict = Replayed(match, self._tickets)
        return self._note_served(verdict, call, moment, sort, how)

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Keep what came of a call that was made live."""
        with self._lock:
            x = self._forwarded.pop(ticket, None)
            if x is not None:
                timing = Timing(x.timing.start, first, at)
                made = replace(x, outcome=outcome, finish=self._count_reading(), suspended=suspended, timing=timing)
                self._answered_calls.append(made)
        if x is not None and self.budget is not None and is_model(x.call, self._reader):
            self.budget.settle(x.call, outcome)

    def finish(self, until: int | None = None, writes: Callable[[Call], bool] | None = None) -> Divergence | None:
        """Return the first divergence; what was not asked for again is one only where all is strict."""
        return super().finish(until, writes) if self.cast.strict else self.find_divergence()

    def list_served(self) -> list[tuple[Exchange, Call]]:
        """Return the exchanges of `list_made`, each with its call."""
        return [(x, x.call) for x in self.list_made()]

    def list_made(self) -> tuple[Exchange, ...]:
        """Return the calls as they were made now, each with what it was given.

        In the recorded order where all is strict, else in the order in which they were made.
        """
        with self._lock:
            return tuple(sorted(self._answered_calls, key=lambda x: x.start))

    @property
    def summary(self) -> str:
        """How many answers were given by what: "model 3 position, tools 1 arguments (written)"."""
        return ", ".join(f"{sort} {self.counts[sort, how]} {how}" for sort, how in sorted(self.counts))

    def _find(self, call: Call, moment: Moment) -> Exchange | None:
        match = super()._find(call, moment) if self.cast.meaning is None else self._find_meant(call, moment)
        if match is None and (match := self._find_near_enough(call)) is not None:
            self._near.add(match.start)
        return match

    def _find_meant(self, call: Call, moment: Moment) -> Exchange | None:
        meaning = self.cast.meaning
        assert meaning is not None
        if self._meant is None:
            self._meant = make_queues(
                [(self._index.recorded_ids.key(meaning.text(x.call)), x) for x in self._index.top]
            )
        # With all arguments first, then as a trace has them: without those that the function takes by itself.
        match = self._index.take(self._meant, self._index.live_ids.key(meaning.text(call)), moment)
        if match is None and isinstance(call, ToolCall) and call.defaults:
            spelled = replace(call, arguments=list_spellings(call)[-1])
            match = self._index.take(self._meant, self._index.live_ids.key(meaning.text(spelled)), moment)
        return match

    def _find_near_enough(self, call: Call) -> Exchange | None:
        return self._tolerant.find_recorded(
            self._positions.list_of_tool(call, self.served), function_of(call, self._reader)
        )

    def _settle_call(self, call: Call) -> Call:
        """Return a call without what may differ in it, to tell people what may not."""
        return self._tolerant.nearest_call(
            self._positions.list_of_tool(call, self.served), call, self._make_current_progress()
        )

    def _explain_miss(self, call: Call, moment: Moment) -> Divergence:
        if self.cast.model == "live" and function_of(call, self._reader) is not None:
            # Whether the model was answered as recorded tells nothing here: it is live.
            return self._refuse_unmatched(call, moment, ())
        meaning = self.cast.meaning
        if meaning is None:
            return super()._explain_miss(call, moment)
        # Reports name what differs of what is compared, in the words of one API.
        run = replace(self.run, exchanges=tuple(self._answer_plain(x, meaning) for x in self.run.exchanges))
        now = meaning.plainly(replace(call, arguments=list_spellings(call)[-1]) if isinstance(call, ToolCall) else call)
        progress = ReplayProgress(run, self._reader, self.served.keys(), self._matching)
        return diagnose.explain_miss(progress, now, moment.lane, agent=moment.agent)

    def _answer_plain(self, x: Exchange, meaning: Meaning) -> Exchange:
        call = meaning.plainly(x.call)
        reply = self.cast.retell(call, x.call, x.outcome) if self.cast.retell and x.outcome is not None else None
        return replace(x, call=call, outcome=reply or x.outcome)

    def _answer_by_position(self, call: Call, moment: Moment) -> tuple[Exchange | Divergence, str]:
        places = self._positions
        match = places.take_next(call, moment, self.served)
        return (match, "position") if match is not None else (self._refuse_exhausted(call, moment), "")

    def _answer_by_arguments(self, call: Call, moment: Moment) -> tuple[Exchange | Divergence, str]:
        tool, fixtures = function_of(call, self._reader), self.cast.fixtures
        if tool is None:
            return self._answer_by_position(call, moment)
        try:
            match = self._match_arguments(call, moment, tool)
        except CaseError as error:  # raised, it would be the agent's to tell
            return self._refuse_unmatched(call, moment, (str(error),)), ""
        if match is not None:
            return match
        advice = fixtures.advice(tool.name, list_spellings(tool)[-1]) if fixtures is not None else ()
        return self._refuse_unmatched(call, moment, advice), ""

    def _match_arguments(self, call: Call, moment: Moment, tool: ToolCall) -> tuple[Exchange | Divergence, str] | None:
        """Return what a tool gives to these very arguments, else to known ones that they are near enough to."""
        fixtures = self.cast.fixtures
        if fixtures is not None:
            answer = next(
                filter(None, (fixtures.answer(tool.name, arguments) for arguments in list_spellings(tool))), None
            )
            if answer is not None:
                return self._carry_over(call, moment, answer[0]), WRITTEN if answer[1] else RECORDED
        if (match := self._positions.take_by_arguments(call, self.served)) is not None:
            return match, RECORDED
        if fixtures is not None and (answer := self._tolerant.answer(fixtures, tool)) is not None:
            return self._carry_over(call, moment, answer[0]), f"arguments ({WITHIN})"
        if (match := self._find_near_enough(call)) is not None:
            return match, f"arguments ({WITHIN})"
        return None

    def _carry_over(self, call: Call, moment: Moment, outcome: Outcome) -> Exchange | Divergence:
        """Return what a fixture gives, in the place of a recorded exchange of the tool where there is one."""
        carrier = self._positions.take_by_arguments(call, self.served)
        if not isinstance(call, ToolCall):
            carrier = carrier or self._positions.take_next(call, moment, self.served)
            spelled = self._spell_arguments(call, carrier, outcome)
            if spelled is None:
                return self._refuse_exhausted(call, moment)
            outcome = spelled
        return replace(carrier or Exchange(call, None, -1, None, timing=self._latest), outcome=outcome)

    def _spell_arguments(self, call: Call, carrier: Exchange | None, outcome: Outcome) -> Outcome | None:
        """Over a connection an answer is told by the id of its question: that of a recorded one."""
        if self.cast.spell is None or (isinstance(call, FrameCall) and carrier is None):
            return None
        if carrier is None:
            return self.cast.spell(call, outcome, None)
        return self.cast.spell(carrier.call if isinstance(call, FrameCall) else call, outcome, carrier.outcome)

    def _refuse_unmatched(self, call: Call, moment: Moment, advice: Iterable[str]) -> Divergence:
        call = self._settle_call(call)
        bare = (
            (replace(call, arguments=list_spellings(call)[-1]),) if isinstance(call, ToolCall) and call.defaults else ()
        )
        return refusals.explain_unmatched(self._make_current_progress(), (call, *bare), self._lane(moment), advice)

    def _refuse_exhausted(self, call: Call, moment: Moment) -> Divergence:
        return refusals.explain_exhausted(
            self._make_current_progress(), call, self._lane(moment), self._positions.count_recorded(call, moment)
        )

    def _note_served(self, verdict: Verdict, call: Call, moment: Moment, sort: Sort, how: str) -> Verdict:
        """Return the answer in the form that `call` asks for, and keep that it was given."""
        if not isinstance(verdict, Replayed):
            return verdict
        x = verdict.exchange
        how = f"{how} ({WITHIN})" if how == "strict" and x.start in self._near else how
        if self.cast.retell is not None and (how == "position" or self.cast.meaning is not None):
            outcome = None if x.outcome is None else self.cast.retell(call, x.call, x.outcome)
            if outcome is None and x.outcome is not None:
                return Refused(refusals.explain_dialect(self._make_current_progress(), call, x))
            x = replace(x, outcome=outcome)
        with self._lock:
            self.counts[sort, how] += 1
            self._latest = x.timing
            self._answered_calls.append(replace(x, call=call) if self.cast.strict else self._renumber(x, call, moment))
        return replace(verdict, exchange=x)

    def _renumber(self, x: Exchange, call: Call, moment: Moment) -> Exchange:
        """Return a served exchange as one of the run of now."""
        start, finish = self._count_reading(), self._count_reading()
        # Messages name their connection by the number of its opening, which is another one now.
        if isinstance(call, FrameCall) and call.connection is None:
            self._openings[x.start] = start
        elif isinstance(call, FrameCall):
            call = replace(call, connection=self._openings.get(call.connection or 0))
        made = replace(x, call=call, start=start, finish=finish, parts=())
        return replace(made, lane=moment.lane, agent=moment.agent, attempt=moment.attempt)

    def _forward(self, call: Call, moment: Moment) -> PassThrough:
        self._tickets += 1
        self.counts[find_sort(call, self._reader), "live"] += 1
        outer = self._forwarded.get(-1 if moment.parent is None else moment.parent)
        x = Exchange(call, None, self._count_reading(), None, moment.lane, moment.attempt, agent=moment.agent)
        parent = None if outer is None else outer.start
        self._forwarded[self._tickets] = replace(x, parent=parent, timing=Timing(moment.at))
        return PassThrough(self._tickets, self)

    def _make_current_progress(self) -> ReplayProgress:
        return self._make_progress(self.served.keys(), self._matching)

    def _lane(self, moment: Moment) -> str:
        return home(self._positions.homes, moment.lane)

    def _count_reading(self) -> int:
        self._readings += 1
        return self._readings

    @property
    def _positions(self) -> Positions:
        if self._places is None:
            self._places = Positions(self._index.top, self._reader)
        return self._places
