"""The backend that answers from a run, and refuses at the first divergence, for good.

`CallIndex` says which recorded call a call of now is. The backend decides: a call that is recorded but comes before
one that must precede it (`release_order`) is out of order, and one that is not recorded is a divergence. Where no queue
keeps the order, a call that comes too early is answered all the same (`Ahead`), so that the report can say whether what
was due before it came later or was left out.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import Moment, Refused, Replayed
from pytest_agentreplay.backends.call_index import CallIndex
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import FrameCall, HttpCall, ToolCall
from pytest_agentreplay.model.frames import connections
from pytest_agentreplay.model.release_order import lanes_above
from pytest_agentreplay.model.turns import SAFE_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from collections.abc import Set as AbstractSet

    from pytest_agentreplay.backends.backend import Verdict
    from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.compare.matching.credentials import KnownToday
    from pytest_agentreplay.compare.matching.near_calls import Near
    from pytest_agentreplay.compare.matching.new_values import NewValues
    from pytest_agentreplay.model.divergence import Difference
    from pytest_agentreplay.model.exchanges import Call, Exchange, Run
    from pytest_agentreplay.model.reading import Reader

# Lanes that are looked at once one has parted.
BESIDE = 16


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """In which order calls are answered.

    Attributes:
        reads_in_any_order: Calls that only read may come in another order.
        any_order: All calls may: for a run whose answers come in another order than recorded.
        answers_when_handed_over: An answer to a task counts once it has been handed over: others had their chance.
        looks_ahead: A call that comes too early is answered, so that the run shows what became of those before it.
        at_once: Answers over a connection wait for none but their own question.
        writes: Whether a call changes something: then no later write may come before its caller goes on.
    """

    reads_in_any_order: bool = False
    any_order: bool = False
    answers_when_handed_over: bool = False
    looks_ahead: bool = False
    at_once: bool = False
    writes: Callable[[Call], bool] = lambda _: False


class ReplayBackend:
    """Serves the exchanges of `run`. Once refused it stays refused; `divergence` tells the first one."""

    def __init__(self, run: Run, matching: Matching, reader: Reader, policy: ReplayPolicy | None = None) -> None:
        """Index `run` without restoring a single body."""
        self.run = run
        self.policy = policy or ReplayPolicy()
        self.divergence: Divergence | None = None
        self.ahead: Ahead | None = None
        self.drift: list[tuple[Exchange, tuple[Difference, ...]]] = []
        self._index = CallIndex(run, matching)
        self._matching = matching
        self._reader = reader
        self._lock = threading.Lock()
        self._tickets = 0
        self._connections: dict[int, tuple[Exchange, ...]] | None = None
        self._beside: dict[str, Divergence | None] = {}

    @property
    def served(self) -> dict[int, Call]:
        """By `start`, the calls of now that were served."""
        return self._index.served

    def accept_media(self, near: Near) -> None:
        """Take calls for one that differ in their media alone, where `near` says that these are near enough."""
        self._index.accept_media(near)

    def keep_apart(self, placeholders: frozenset[str], of_today: KnownToday) -> None:
        """Take no call that sends one of these secrets for one that sent another of them; as `Tokens.keep_apart`."""
        self._index.keep_apart(placeholders, of_today)

    def accept_new_values(self, new_values: NewValues) -> None:
        """Take calls for one that differ in values alone that are new in a captured run and in this one."""
        self._index.new_values = new_values

    @property
    def at_once(self) -> bool:
        """Whether answers over a connection wait for none but their own question."""
        return self.policy.at_once

    def recognise(self, call: Call) -> bool:
        """Return whether these exact bytes were recorded; then they hold no secret, because nothing stored does."""
        return self._index.recognise(call)

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return the exchanges of the connection that `opening` opened, those inside other exchanges too."""
        if self._connections is None:
            self._connections = connections(self.run)
        return self._connections.get(opening, ())

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Serve the recorded exchange that is this call, or refuse."""
        with self._lock:
            if self.divergence is not None:
                self._look_beside(call, moment, self.divergence)
                return Refused(self.divergence)
            answer = self._find(call, moment) or self._answer_unrecorded(call, moment)
            if self.ahead is not None and (isinstance(answer, Divergence) or answer.start in self.ahead.skipped):
                return Refused(self._explain_ahead(answer))
            if isinstance(answer, Divergence):
                return Refused(answer)
            early: Callable[[str], object] | None = None
            if self.ahead is None and self._is_early(answer, call, moment):
                left, done = self._find_left(answer)
                if not self._may_look_ahead(answer, left):
                    from pytest_agentreplay.compare import diagnose

                    return Refused(diagnose.explain_order(self._make_progress(done), call, answer))
                self.ahead = Ahead(call, answer, left, done)
                early = self.ahead.note_origin
            self._index.note_served(answer, call, moment.lane)
            if watched := self._matching.list_reported(answer.call, call):
                self.drift.append((answer, watched))
            self._tickets += 1
            if not isinstance(call, FrameCall):  # whoever sends a message goes on at once
                self._index.precedence.ask(answer, moment.lane)
            # A task gives way to others while it waits: it has no answer yet when these ask.
            gives_way = answer.suspended and isinstance(call, HttpCall | ToolCall)
            if not (gives_way and self.policy.answers_when_handed_over):
                self._index.precedence.answer(answer)
            handed, hold = partial(self._note_handed_over, answer), partial(self._hold, answer, call)
            return Replayed(answer, self._tickets, handed=handed, early=early, hold=hold)

    def _is_early(self, match: Exchange, call: Call, moment: Moment) -> bool:
        """Whether `call` comes before one that must precede its exchange `match`, where the order matters to it."""
        free = self.policy.any_order or (self.policy.reads_in_any_order and is_only_reading(call, moment))
        if free or self._index.precedence.is_early(match, moment.lane):
            return not free
        overtaken = self._index.precedence.list_overtaken(match, moment.lane)
        writes = self.policy.writes
        return bool(overtaken) and writes(call) and any(writes(self.served[x.start]) for x in overtaken)

    def _find_left(self, match: Exchange) -> tuple[dict[int, Exchange], set[int]]:
        """Return what is due before `match` and was not handed over, by `start`, and what is not due before it."""
        precedence = self._index.precedence
        left = {x.start: x for x in precedence.binding(match) if not precedence.is_handed(x)}
        return left, {x.start for x in self._index.top} - left.keys() - {match.start}

    def _make_progress(self, served: Collection[int], matching: Matching | None = None) -> ReplayProgress:
        """Return how far the run has come. Loaded at the first miss: a run that is replayed as recorded needs none."""
        from pytest_agentreplay.compare.diagnose.progress import ReplayProgress

        return ReplayProgress(self.run, self._reader, served, matching)

    def _may_look_ahead(self, match: Exchange, left: dict[int, Exchange]) -> bool:
        """Whether the run may go on although `left` comes before `match`: in one strand, and none of it is under way.

        Which of several strands is heard from next would be chance, and so would the report.
        """
        from pytest_agentreplay.compare import diagnose

        return (
            self.policy.looks_ahead
            and left.keys().isdisjoint(self.served)
            and diagnose.is_one_lane(self._make_progress(()), [*left.values(), match])
        )

    def _explain_ahead(self, came: Exchange | Divergence | None) -> Divergence:
        """What a call was that came too early, now that `came` was called after it, or (None) nothing of that kind.

        A `Divergence` is one that is not recorded here. It shows that a call under way at once was left out only where
        it stands in the place of that one, or of one that was made above its lane.
        """
        from pytest_agentreplay.compare import diagnose

        ahead, self.ahead = self.ahead, None
        assert ahead is not None
        progress = self._make_progress(ahead.done)
        if ahead.awaits is not None:
            is_late: bool | None = came is not None
            if isinstance(came, Divergence):
                place = None if came.kind is Kind.EXTRA else came.recorded
                lanes = {ahead.awaits.lane, *lanes_above(ahead.awaits.lane)}
                is_late = False if place is not None and place.lane in lanes else None
            divergence = diagnose.explain_stall(progress, ahead.call, ahead.match, ahead.awaits, came=is_late)
        else:
            later = came if not isinstance(came, Divergence) else None
            divergence = diagnose.explain_order(progress, ahead.call, ahead.match, came=later, left_out=later is None)
        return replace(divergence, origin=ahead.origin)

    def _settle_ahead(self) -> None:
        """Nothing more will come: what was due before an early call was left out, unless it was served all the same."""
        if self.ahead is not None and self.divergence is None:
            self.divergence = self._explain_ahead(
                next((x for x in self.ahead.skipped.values() if x.start in self.served), None)
            )

    def explain_stall(self, call: Call, match: Exchange, expected: Exchange | None) -> Divergence:
        """Why `call`, recorded as `match`, is not answered: what had been answered before, `expected`, was not.

        None: its own answer never came.
        """
        from pytest_agentreplay.compare import diagnose

        with self._lock:
            if expected is None:
                return diagnose.explain_unanswered(self._make_progress(self._answered), call, match)
            return diagnose.explain_stall(self._make_progress(self._answered), call, match, expected)

    def look_ahead(self, call: Call, match: Exchange, expected: Exchange, origin: str) -> bool:
        """Return whether `call` is to be answered before `expected`, which nothing brings; `origin` is its line.

        Then the test fails by what comes next: that call, or none. One that was made, or given up, is not waited for.
        """
        with self._lock:
            if expected.abandoned or expected.start in self._answered:
                return False
            done = {x.start for x in self._index.top} - {expected.start, match.start}
            self.ahead = self.ahead or Ahead(call, match, {expected.start: expected}, done, origin, expected)
            return True

    def _hold(self, exchange: Exchange, call: Call) -> bool:
        """Return whether the answer waits until nothing else can make a call: to a write that is not the last call."""
        # Behind the last call of a run nothing is left that could come too early.
        if len(self.served) >= len(self._index.top) or not self.policy.writes(call):
            return False
        with self._lock:
            self._index.precedence.hold(exchange)
        return True

    def _note_handed_over(self, exchange: Exchange) -> None:
        """The answer has been handed over; what comes after it may be asked from now on."""
        with self._lock:
            self._index.precedence.answer(exchange)
            self._index.precedence.hand(exchange)

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first divergence, with the agent's line that led to it."""
        with self._lock:
            self._settle_ahead()
            if self.divergence is None:
                self.divergence = replace(divergence, origin=divergence.origin or origin)
            return self.divergence

    def finish(self, until: int | None = None, writes: Callable[[Call], bool] | None = None) -> Divergence | None:
        """Return the first divergence, now that nothing more will come of what had begun before `until` (None: of all).

        A call that was given up when recorded need not come again, unless `writes` says that it changes something.
        """
        with self._lock:
            self._settle_ahead()
            if self.divergence is None:
                awaited = {x.start for x in self._index.top if until is not None and x.start > until}
                answered = self._answered | awaited
                given_up = [x for x in self._index.list_unserved() if x.abandoned] if writes is not None else []
                required = {x.start for x in given_up if writes is not None and writes(x.call)} - answered
                # Telling what is missing reads every body; a run that was made whole must not pay for it.
                if required or any(x.start not in answered and not x.abandoned for x in self._index.top):
                    from pytest_agentreplay.compare import diagnose

                    self.divergence = diagnose.explain_missing(self._make_progress(answered), required)
        return self.find_divergence()

    def explain_stop(self, until: int | None = None) -> Divergence | None:
        """Return how far a test came that an error of its own has ended; nothing is latched. `until` as in `finish`."""
        from pytest_agentreplay.compare import diagnose

        with self._lock:
            awaited = {x.start for x in self._index.top if until is not None and x.start > until}
            return diagnose.explain_stop(self._make_progress(self._answered | awaited))

    def find_missing(self) -> Divergence | None:
        """Return the divergence for the calls that were not made so far; None where all were made, or given up."""
        from pytest_agentreplay.compare import diagnose

        with self._lock:
            answered = self._answered
            if all(x.start in answered or x.abandoned for x in self._index.top):
                return None
            return diagnose.explain_missing(self._make_progress(answered), set())

    def list_unserved(self) -> tuple[Exchange, ...]:
        """Return the top-level exchanges that were not asked for so far."""
        with self._lock:
            return self._index.list_unserved()

    @property
    def _answered(self) -> AbstractSet[int]:
        """The calls that are not expected any more, by `start`."""
        return self.served.keys() | self._index.requests.keys()

    def find_divergence(self) -> Divergence | None:
        """Where the run parted so far: of lanes that did beside each other the one recorded first tells the others."""
        with self._lock:
            self._settle_ahead()
            divergences = [
                divergence for divergence in (self.divergence, *self._beside.values()) if divergence is not None
            ]
        if not divergences:
            return None
        first, *others = sorted(divergences, key=lambda divergence: divergence.position)
        elsewhere = {divergence.lane: divergence for divergence in reversed(others) if divergence.lane != first.lane}
        also = tuple(divergence.also() for divergence in reversed(elsewhere.values()))
        return replace(first, detail=(*first.detail, *also)) if also else first

    def list_replayed(self) -> tuple[Exchange, ...]:
        """Return the exchanges served so far, children included, in recorded order."""
        with self._lock:
            requests = self._index.requests
            top = ((x, x.start if x.parent is None else x.parent) for x in self.run.exchanges)
            return tuple(x for x, start in top if start in self.served or requests.get(start) in self.served)

    def list_served(self) -> list[tuple[Exchange, Call]]:
        """Return the top-level exchanges served so far, each with the call as it was made now."""
        with self._lock:
            return [(x, self.served[x.start]) for x in self._index.top if x.start in self.served]

    def list_made(self) -> tuple[Exchange, ...]:
        """The top-level exchanges served so far, with the calls as they were made now: no body has to be restored."""
        return tuple(replace(x, call=call) for x, call in self.list_served())

    def _find(self, call: Call, moment: Moment) -> Exchange | None:
        return self._index.find(call, moment)

    def _look_beside(self, call: Call, moment: Moment, first: Divergence) -> None:
        """Keep whether another lane has parted, too: its next call tells that, whatever it does then is refused."""
        if moment.lane in self._beside or len(self._beside) == BESIDE:
            return
        divergence = self._explain_miss(call, moment) if self._find(call, moment) is None else None
        # What led to the lane that parted, or began in it, does what it does because of that.
        led = divergence is not None and (
            divergence.lane in {first.lane, *lanes_above(first.lane)} or first.lane in lanes_above(divergence.lane)
        )
        self._beside[moment.lane] = None if led else divergence

    def _answer_unrecorded(self, call: Call, moment: Moment) -> Exchange | Divergence:
        """Return what is done about a call that is none of the recorded ones: it is refused."""
        return self._explain_token(call) or self._explain_service(call) or self._explain_miss(call, moment)

    def _explain_token(self, call: Call) -> Divergence | None:
        """Why a call is refused that is recorded here with another credential."""
        if self._index.swapped is None:
            return None
        from pytest_agentreplay.compare import diagnose

        match, other = self._index.swapped
        return diagnose.explain_token(self._make_progress(self.served), call, match, other=other)

    def _explain_service(self, call: Call) -> Divergence | None:
        """Why a call is refused that is recorded at another local service than the one that it goes to."""
        elsewhere = self._index.find_elsewhere(call)
        if elsewhere is None:
            return None
        from pytest_agentreplay.compare import diagnose

        match, meant, instead = elsewhere
        return diagnose.explain_service(self._make_progress(self.served), call, match, meant=meant, instead=instead)

    def _explain_miss(self, call: Call, moment: Moment) -> Divergence:
        from pytest_agentreplay.compare import diagnose

        progress = self._make_progress(self._answered, self._matching)
        return diagnose.explain_miss(progress, call, moment.lane, agent=moment.agent)


@dataclass(slots=True)
class Ahead:
    """A call that was answered too early: recorded as `match`, after `skipped`; `done` was answered before it.

    It was made in time where it `awaits` a call that had been under way beside it.
    """

    call: Call
    match: Exchange
    skipped: dict[int, Exchange]
    done: Collection[int]
    origin: str = ""
    awaits: Exchange | None = None

    def note_origin(self, origin: str) -> None:
        """Keep the agent's line that made the call."""
        self.origin = origin


def is_only_reading(call: Call, moment: Moment) -> bool:
    """Return whether a call is known to change nothing."""
    if isinstance(call, ToolCall):
        return moment.reads or call.boundary == "retrieval"
    return isinstance(call, HttpCall) and call.method in SAFE_METHODS
