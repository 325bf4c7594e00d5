"""The backend that answers from a run, and refuses at the first divergence, for good.

A call is looked up three times at most: by its exact bytes in its lane, by them in any lane, and by its canonical key
(what the rules drop removed, client-made ids renumbered); where the test says which pictures are near enough, a fourth
time without them. Of several that are the same, one of the lane in which the last call of this lane was recorded goes
first, then one of the lane of the same name, then one of the same agent: these are preferences, no call is refused for
them, and one that must not come yet gives way to one that may. Queues are first in, first out by `start`; each
exchange is served once. A call that is recorded but comes before one that must precede it (`release_order`) is out of
order.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

from pytest_agentreplay.core.backends.backend import Moment, Refused, Replayed
from pytest_agentreplay.core.divergence import Divergence
from pytest_agentreplay.core.frames import connections
from pytest_agentreplay.core.matching import NearMatches
from pytest_agentreplay.core.matching.address import Authorities, authority
from pytest_agentreplay.core.matching.wiring import KnownToday, PlaceholderMatch, Tokens
from pytest_agentreplay.core.model import FrameCall, HttpCall, ToolCall
from pytest_agentreplay.core.redaction.placeholders import OPAQUE, has_header_digests, lacks_body_digests
from pytest_agentreplay.core.release_order import Precedence, above, requests_served
from pytest_agentreplay.core.turns import SAFE_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence
    from collections.abc import Set as AbstractSet

    from pytest_agentreplay.core.backends.backend import Verdict
    from pytest_agentreplay.core.diagnose.progress import ReplayProgress
    from pytest_agentreplay.core.divergence import Difference
    from pytest_agentreplay.core.matching import Matching, Near
    from pytest_agentreplay.core.matching.address import Authority
    from pytest_agentreplay.core.model import Call, Exchange, Run
    from pytest_agentreplay.core.reading import Reader

Queues = dict["Hashable", list["Exchange"]]

BESIDE = 16
"""Lanes that are looked at once one has parted."""

TWINS = 64
"""Equal calls that are looked at where the first one must not come yet."""


_AGENT = object()
"""Begins the names of the queues that hold one agent's own."""


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """In which order calls are answered.

    Attributes:
        reads_in_any_order: Calls that only read may come in another order.
        any_order: All calls may: for a run whose answers come in another order than recorded.
        answers_when_handed_over: An answer to a task counts once it has been handed over: others had their chance.
        looks_ahead: A call that comes too early is answered, so that the run shows what became of those before it.
        at_once: Answers over a connection wait for none but their own question.
    """

    reads_in_any_order: bool = False
    any_order: bool = False
    answers_when_handed_over: bool = False
    looks_ahead: bool = False
    at_once: bool = False


class ReplayBackend:
    """Serves the exchanges of `run`. Once refused it stays refused; `divergence` tells the first one."""

    def __init__(self, run: Run, matching: Matching, reader: Reader, policy: ReplayPolicy | None = None) -> None:
        """Index `run` without restoring a single body."""
        self.run = run
        self.policy = policy or ReplayPolicy()
        self.served: dict[int, Call] = {}
        self.divergence: Divergence | None = None
        self.drift: list[tuple[Exchange, tuple[Difference, ...]]] = []
        self._matching = matching
        if lacks_body_digests(run.header.kit):
            matching.personal -= {OPAQUE}
        self._reader = reader
        self._lock = threading.Lock()
        self._tickets = 0
        self._connections: dict[int, tuple[Exchange, ...]] | None = None
        self._requests = requests_served(run.header.kit)
        outermost = [x for x in run.exchanges if x.parent is None]
        self._top = tuple(x for x in outermost if x.start not in self._requests)
        self._answerable = (*self._top, *(x for x in outermost if x.start in self._requests))
        self._services = Authorities(x.call for x in self._answerable)
        self._exact = make_queues([((authority(x.call), matching.fingerprint(x.call)), x) for x in self._answerable])
        self._tokens = Tokens(matching.text, wired=has_header_digests(run.header.kit))
        matching.digests = has_header_digests(run.header.kit)
        self._keyed: Queues | None = None
        self._other: tuple[Exchange, str] | None = None  # what the last call is but for a credential, and for which
        self._alike: NearMatches | None = None
        self._veiled: PlaceholderMatch | None = None
        self._recorded_ids, self._live_ids = matching.ids(), matching.ids()
        self.without_content: list[Exchange] = []
        """The exchanges served whose arguments an older release had recorded by class alone."""
        self._tools: Queues | None = None
        self._changing: frozenset[str] = frozenset()
        self._precedence = Precedence(self._top, run.header.kit.get("lanes"), run.header.kit.get("after"))
        self._beside: dict[str, Divergence | None] = {}
        self._ahead: Ahead | None = None
        self._continued: dict[str, str] = {}  # by lane now, the recorded lane of its last call

    def media(self, near: Near) -> None:
        """Take calls for one that differ in their media alone, where `near` says that these are near enough."""
        self._matching.near = near

    def keep_apart(self, placeholders: frozenset[str], of_today: KnownToday) -> None:
        """Take no call that sends one of these secrets for one that sent another of them; as `Tokens.keep_apart`."""
        self._tokens.keep_apart(placeholders, of_today)

    @property
    def at_once(self) -> bool:
        """Whether answers over a connection wait for none but their own question."""
        return self.policy.at_once

    def recognise(self, call: Call) -> bool:
        """Whether these exact bytes were recorded; then they hold no secret, because nothing stored does."""
        exact = self._matching.fingerprint(call)
        services = self._services.options(authority(call))
        if len(services) == 1:
            return (services[0], exact) in self._exact
        return any((service, exact) in self._exact for service in services)

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """The exchanges of the connection that `opening` opened, those inside other exchanges too."""
        if self._connections is None:
            self._connections = connections(self.run)
        return self._connections.get(opening, ())

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Serve the recorded exchange that is this call, or refuse."""
        with self._lock:
            if self.divergence is not None:
                self._look_beside(call, moment, self.divergence)
                return Refused(self.divergence)
            answer = self._find(call, moment) or self._fallback(call, moment)
            if self._ahead is not None and (isinstance(answer, Divergence) or answer.start in self._ahead.skipped):
                return Refused(self._explain_ahead(answer if not isinstance(answer, Divergence) else None))
            if isinstance(answer, Divergence):
                return Refused(answer)
            early: Callable[[str], object] | None = None
            policy = self.policy
            free = policy.any_order or (policy.reads_in_any_order and only_reads(call, moment))
            if self._precedence.early(answer, moment.lane) and not free and self._ahead is None:
                left = {x.start: x for x in self._precedence.binding(answer) if not self._precedence.handed(x)}
                done = {x.start for x in self._top} - left.keys() - {answer.start}
                if not self._may_look_ahead(answer, left):
                    from pytest_agentreplay.core import diagnose

                    return Refused(diagnose.explain_order(self._progress(done), call, answer))
                self._ahead = Ahead(call, answer, left, done)
                early = self._ahead.called_from
            self.served[answer.start] = call
            self._continued[moment.lane] = answer.lane
            self._tokens.served(answer, call)
            if watched := self._matching.watched(answer.call, call):
                self.drift.append((answer, watched))
            self._tickets += 1
            if not isinstance(call, FrameCall):  # whoever sends a message goes on at once
                self._precedence.ask(answer)
            if not (
                self.policy.answers_when_handed_over and answer.suspended and isinstance(call, HttpCall | ToolCall)
            ):
                # Else it is a task, which gives way to others while it waits: it has no answer yet when these ask.
                self._precedence.answer(answer)
            return Replayed(answer, self._tickets, handed=partial(self._note_handed_over, answer), early=early)

    def _progress(self, served: Collection[int], matching: Matching | None = None) -> ReplayProgress:
        """Return how far the run has come. Loaded at the first miss: a run that is replayed as recorded needs none."""
        from pytest_agentreplay.core.diagnose.progress import ReplayProgress

        return ReplayProgress(self.run, self._reader, served, matching)

    def _may_look_ahead(self, match: Exchange, left: dict[int, Exchange]) -> bool:
        """Whether the run may go on although `left` comes before `match`: in one strand, and none of it is under way.

        Which of several strands is heard from next would be chance, and so would the report.
        """
        from pytest_agentreplay.core import diagnose

        return (
            self.policy.looks_ahead
            and left.keys().isdisjoint(self.served)
            and diagnose.is_one_lane(self._progress(()), [*left.values(), match])
        )

    def _explain_ahead(self, came: Exchange | None) -> Divergence:
        """What a call was that came too early, now that `came` was called after it, or (None) nothing of that kind."""
        from pytest_agentreplay.core import diagnose

        ahead, self._ahead = self._ahead, None
        assert ahead is not None
        divergence = diagnose.explain_order(
            self._progress(ahead.done), ahead.call, ahead.match, came=came, left_out=came is None
        )
        return replace(divergence, origin=ahead.origin)

    def _settle_ahead(self) -> None:
        """Nothing more will come: what was due before an early call was left out."""
        if self._ahead is not None and self.divergence is None:
            self.divergence = self._explain_ahead(None)

    def explain_stall(self, call: Call, match: Exchange, expected: Exchange | None) -> Divergence:
        """Why `call`, recorded as `match`, is not answered: what had been answered before, `expected`, was not.

        None: its own answer never came.
        """
        from pytest_agentreplay.core import diagnose

        with self._lock:
            if expected is None:
                return diagnose.explain_unanswered(self._progress(self._answered), call, match)
            return diagnose.explain_stall(self._progress(self._answered), call, match=match, expected=expected)

    def _note_handed_over(self, exchange: Exchange) -> None:
        """The answer has been handed over; what comes after it may be asked from now on."""
        with self._lock:
            self._precedence.answer(exchange)
            self._precedence.hand(exchange)

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first divergence, with the agent's line that led to it."""
        with self._lock:
            self._settle_ahead()
            if self.divergence is None:
                self.divergence = replace(divergence, origin=divergence.origin or origin)
            return self.divergence

    def finish(self, until: int | None = None, writes: Callable[[Call], bool] | None = None) -> Divergence | None:
        """The first divergence, now that nothing more will come of what had begun before `until` (None: of all).

        A call that was given up when recorded need not come again, unless `writes` says that it changes something.
        """
        with self._lock:
            self._settle_ahead()
            if self.divergence is None:
                awaited = {x.start for x in self._top if until is not None and x.start > until}
                answered = self._answered | awaited
                given_up = [x for x in self._find_unserved() if x.abandoned] if writes is not None else []
                required = {x.start for x in given_up if writes is not None and writes(x.call)} - answered
                # Telling what is missing reads every body; a run that was made whole must not pay for it.
                if required or any(x.start not in answered and not x.abandoned for x in self._top):
                    from pytest_agentreplay.core import diagnose

                    self.divergence = diagnose.explain_missing(self._progress(answered), required)
        return self.find_divergence()

    def explain_stop(self, until: int | None = None) -> Divergence | None:
        """How far a test came that an error of its own has ended; nothing is latched. `until` as in `finish`."""
        from pytest_agentreplay.core import diagnose

        with self._lock:
            awaited = {x.start for x in self._top if until is not None and x.start > until}
            return diagnose.explain_stop(self._progress(self._answered | awaited))

    def missing(self) -> Divergence | None:
        """Return the divergence for the calls that were not made so far; None where all were made, or given up."""
        from pytest_agentreplay.core import diagnose

        with self._lock:
            answered = self._answered
            if all(x.start in answered or x.abandoned for x in self._top):
                return None
            return diagnose.explain_missing(self._progress(answered), set())

    def list_unserved(self) -> tuple[Exchange, ...]:
        """Return the top-level exchanges that were not asked for so far."""
        with self._lock:
            return self._find_unserved()

    @property
    def _answered(self) -> AbstractSet[int]:
        """The calls that are not expected any more, by `start`."""
        return self.served.keys() | self._requests.keys()

    def _find_unserved(self) -> tuple[Exchange, ...]:
        return tuple(x for x in self._top if x.start not in self.served)

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
        """The exchanges served so far, children included, in recorded order."""
        with self._lock:
            requests = self._requests
            top = ((x, x.start if x.parent is None else x.parent) for x in self.run.exchanges)
            return tuple(x for x, start in top if start in self.served or requests.get(start) in self.served)

    def list_made(self) -> tuple[Exchange, ...]:
        """The top-level exchanges served so far, each with the call as it was made now: no body has to be restored."""
        with self._lock:
            return tuple(replace(x, call=self.served[x.start]) for x in self._top if x.start in self.served)

    def _find(self, call: Call, moment: Moment) -> Exchange | None:
        if isinstance(call, ToolCall) and self._is_changing(call):
            # In order of start: a call may equal a later one that was made on another object.
            match = self._fitting(call, moment.lane)
            if match is not None:
                if self._keyed is not None:
                    self._matching.key(call, self._live_ids)
                return match
        self._other = None
        now = authority(call)
        services = self._services.options(now)
        exact = self._matching.fingerprint(call)
        match = self._take_unserved(self._exact, services, exact, call, moment) if self._keyed is None else None
        if match is None:
            match = self._find_by_key(call, services, exact, moment)
        if match is not None:
            self._services.bind(now, authority(match.call))
        return match

    def _find_by_key(
        self, call: Call, services: tuple[Authority, ...], exact: Hashable, moment: Moment
    ) -> Exchange | None:
        keyed = self._keyed or self._index_keys()
        key = self._matching.key(call, self._live_ids)
        match = self._take_unserved(self._exact, services, exact, call, moment)
        if match is None:
            match = self._take_unserved(keyed, services, key, call, moment)
        if match is None:
            match = (
                self._lookalike(call, moment.lane)
                or self._behind_veil(call, moment.lane)
                or self._recorded_without_content(call, moment.lane)
            )
            elsewhere = match is not None and authority(match.call) not in services
            if elsewhere or (match is not None and self._is_swapped(match, call)):
                return None
        return match

    def _look_beside(self, call: Call, moment: Moment, first: Divergence) -> None:
        """Keep whether another lane has parted, too: its next call tells that, whatever it does then is refused."""
        if moment.lane in self._beside or len(self._beside) == BESIDE:
            return
        divergence = self._miss(call, moment) if self._find(call, moment) is None else None
        # What led to the lane that parted, or began in it, does what it does because of that.
        led = divergence is not None and (
            divergence.lane in {first.lane, *above(first.lane)} or first.lane in above(divergence.lane)
        )
        self._beside[moment.lane] = None if led else divergence

    def _fallback(self, call: Call, moment: Moment) -> Exchange | Divergence:
        """What is done about a call that is none of the recorded ones: it is refused."""
        return self._with_another_token(call) or self._at_another_service(call) or self._miss(call, moment)

    def _with_another_token(self, call: Call) -> Divergence | None:
        """Why a call is refused that is recorded here with another credential."""
        if self._other is None:
            return None
        from pytest_agentreplay.core import diagnose

        match, other = self._other
        return diagnose.explain_token(self._progress(self.served), call, match, other=other)

    def _is_swapped(self, match: Exchange, call: Call, *, same_bytes: bool = False) -> bool:
        """Whether `call` is `match` but for a credential; the first such exchange is what a refusal names."""
        other = self._tokens.swapped(match.call, call, unread=same_bytes)
        if other and self._other is None:
            self._other = match, other
        return bool(other)

    def _at_another_service(self, call: Call) -> Divergence | None:
        """Why a call is refused that is recorded at another local service than the one that it goes to."""
        now, key = authority(call), self._matching.key(call, self._matching.ids())
        here = self._services.options(now)
        for service in self._services.recorded if now is not None else ():
            x = None if service in here else self._first(self._keyed or {}, (service, key))
            if x is not None:
                from pytest_agentreplay.core import diagnose

                meant, instead = self._services.standing_for(now) or now, self._services.now(service)
                return diagnose.explain_service(self._progress(self.served), call, x, meant=meant, instead=instead)
        return None

    def _miss(self, call: Call, moment: Moment) -> Divergence:
        from pytest_agentreplay.core import diagnose

        progress = self._progress(self._answered, self._matching)
        return diagnose.explain_miss(progress, call, moment.lane, agent=moment.agent)

    def _lookalike(self, call: Call, lane: str) -> Exchange | None:
        """The first exchange that differs in media alone, where the test says that they are near enough."""
        if self._matching.near is None:
            return None
        if self._alike is None:
            self._alike = NearMatches(self._matching, self._top)
        return self._alike.find(call, lane, self.served.keys())

    def _behind_veil(self, call: Call, lane: str) -> Exchange | None:
        """The first exchange that held a secret where `call` has a stand-in for one."""
        if self._veiled is None:
            self._veiled = PlaceholderMatch(
                ((x, self._matching.text(x.call)) for x in self._top), self._matching.personal
            )
        return self._veiled.find(self._matching.text(call), lane, self.served.keys()) if self._veiled else None

    def _fitting(self, call: ToolCall, lane: str) -> Exchange | None:
        """The first exchange of a tool that differs in nothing but what its recording, or `call`, does not compare."""
        tools = self._of_tools
        for name in ((lane, call.name), call.name):
            self._first(tools, name)  # drops what was served
            for x in reversed(tools.get(name, [])):
                if x.start not in self.served and self._is_fitting(cast("ToolCall", x.call), call):
                    return x
        return None

    def _is_fitting(self, recorded: ToolCall, call: ToolCall) -> bool:
        from pytest_agentreplay.core.serialize.fitting import fitted

        same = fitted(recorded, call, older=self._older)
        alike = self._matching.key_alone(same) == self._matching.key_alone(recorded)
        return alike and not self._tokens.swapped(recorded, call)

    def _recorded_without_content(self, call: Call, lane: str) -> Exchange | None:
        """The first exchange that an older release recorded by the classes of its arguments."""
        if not self._older or not isinstance(call, ToolCall):
            return None
        match = self._fitting(call, lane)
        if match is not None and "clock" in self.run.header.kit:  # a trace of another tool has no such entry
            self.without_content.append(match)
        return match

    @cached_property
    def _older(self) -> bool:
        """Whether arguments were recorded by class alone."""
        from pytest_agentreplay.core.serialize.fitting import BY_CONTENT

        return self.run.header.kit.get("arguments") != BY_CONTENT

    @property
    def _of_tools(self) -> Queues:
        if self._tools is None:
            from pytest_agentreplay.core.serialize.fitting import has_changes

            made = [(x.call, x) for x in self._top if isinstance(x.call, ToolCall)]
            self._tools = make_queues([(call.name, x) for call, x in made])
            self._changing = frozenset(call.name for call, _ in made if has_changes(call))
        return self._tools

    def _is_changing(self, call: ToolCall) -> bool:
        """Whether something of the calls of a tool is not compared, since the tool changes it."""
        from pytest_agentreplay.core.serialize.fitting import has_changes

        return bool(self._of_tools) and (call.name in self._changing or has_changes(call))

    def _index_keys(self) -> Queues:
        """Bodies are restored and parsed only now that a call's bytes were not met as they were."""
        identified = [
            ((authority(x.call), self._matching.key(x.call, self._recorded_ids)), x) for x in self._answerable
        ]
        self._keyed = make_queues(identified)
        for call in self.served.values():
            self._matching.key(call, self._live_ids)
        return self._keyed

    def _take_unserved(
        self, queues: Queues, services: tuple[Authority, ...], identity: Hashable, call: Call, moment: Moment
    ) -> Exchange | None:
        """Return the exchange that `call` is, at a service that may be meant, if it sends the same credentials.

        Of several services the one due in this lane goes first; where its exchange sends another credential, the next
        one of its queue is taken that does not.
        """
        if len(services) == 1:
            match = self._take(queues, (services[0], identity), moment)
        else:
            matches = (self._take(queues, (service, identity), moment) for service in services)
            match = min(
                (x for x in matches if x is not None),
                key=lambda x: (self._precedence.early(x), x.lane != moment.lane, x.start),
                default=None,
            )
        if match is None:
            return None
        same_bytes = queues is self._exact
        # Lazily: nearly always the match itself is taken, and a queue may be as long as the run.
        for x in chain((match,), reversed(queues[authority(match.call), identity])):
            if x.start not in self.served and not self._is_swapped(x, call, same_bytes=same_bytes):
                return x
        return None

    def _take(self, queues: Queues, identity: Hashable, moment: Moment) -> Exchange | None:
        """The first unserved exchange of the lane, else of any; of each the agent's own first, unless it is early."""
        here = self._continued.get(moment.lane, moment.lane)
        for name in ((here, identity), (moment.lane, identity), identity):
            first = self._first(queues, name)
            if first is None:
                continue
            if (
                self._precedence.early(first, moment.lane)
                and (twin := self._twin(queues[identity], moment)) is not None
            ):
                return twin
            if moment.agent and moment.agent != first.agent:
                own = self._first(queues, (_AGENT, moment.agent, name))
                # What must come before it may be its twin under another name: a name alone refuses nothing.
                if own is not None and not self._precedence.early(own):
                    return own
            return first
        return None

    def _twin(self, queue: Sequence[Exchange], moment: Moment) -> Exchange | None:
        """Return an exchange for the same call that may come now, where the first one of its lane may not yet."""
        unserved = (x for x in islice(reversed(queue), TWINS) if x.start not in self.served)
        return next((x for x in unserved if not self._precedence.early(x, moment.lane)), None)

    def _first(self, queues: Queues, name: Hashable) -> Exchange | None:
        """The first unserved exchange of a queue; what was served by another one's name is dropped, each once."""
        queue = queues.get(name)
        while queue and queue[-1].start in self.served:
            queue.pop()
        return queue[-1] if queue else None


@dataclass(slots=True)
class Ahead:
    """A call that was answered too early: recorded as `match`, after `skipped`; `done` was answered before it."""

    call: Call
    match: Exchange
    skipped: Collection[int]
    done: Collection[int]
    origin: str = ""

    def called_from(self, origin: str) -> None:
        """Keep the agent's line that made the call."""
        self.origin = origin


def only_reads(call: Call, moment: Moment) -> bool:
    """Whether a call is known to change nothing."""
    if isinstance(call, ToolCall):
        return moment.reads or call.boundary == "retrieval"
    return isinstance(call, HttpCall) and call.method in SAFE_METHODS


def make_queues(identified: Sequence[tuple[Hashable, Exchange]]) -> Queues:
    """Queues by identity, and by lane and identity, each for single agents too; the first of each stands at its end."""
    queues: Queues = defaultdict(list)
    for identity, x in reversed(identified):
        for name in (identity, (x.lane, identity)):
            queues[name].append(x)
            if x.agent:
                queues[_AGENT, x.agent, name].append(x)
    return queues
