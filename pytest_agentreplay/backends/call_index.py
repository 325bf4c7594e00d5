"""The recorded calls, and which of them a call of now is.

A call is looked up three times at most: by its exact bytes in its lane, by them in any lane, and by its canonical key
(what the rules drop removed, client-made ids renumbered); where the test says which pictures are near enough, a fourth
time without them. Of several that are the same, one of the lane in which the last call of this lane was recorded goes
first, then one of the lane of the same name, then one of the same agent: these are preferences, no call is refused for
them, and one that must not come yet gives way to one that may. Queues are first in, first out by `start`; each
exchange is served once.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

from pytest_agentreplay.compare.matching.address import Authorities, authority
from pytest_agentreplay.compare.matching.credentials import Tokens
from pytest_agentreplay.model.exchanges import BY_CONTENT, SELF, ToolCall
from pytest_agentreplay.model.release_order import Precedence, requests_served

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pytest_agentreplay.backends.backend import Moment
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.compare.matching.address import Authority
    from pytest_agentreplay.compare.matching.credentials import KnownToday
    from pytest_agentreplay.compare.matching.near_calls import Near, NearMatches, PlaceholderMatches
    from pytest_agentreplay.compare.matching.new_values import NewValues
    from pytest_agentreplay.model.exchanges import Call, Exchange, Run

Queues = dict["Hashable", list["Exchange"]]

# Equal calls that are looked at where the first one must not come yet.
TWINS = 64

# Begins the names of the queues that hold one agent's own.
_AGENT = object()


class CallIndex:
    """The calls of a run, each of which is served once. Its backend holds its own lock while it asks.

    Attributes:
        top: The exchanges that a test makes itself, outside any other one.
        requests: By `start`, the requests that a server of the test answered, with the exchange that sent them.
        served: By `start`, the calls of now that were served.
        services: Which local service of now stands for which recorded one.
        precedence: Which exchange must come before which.
        recorded_ids: How ids that the client makes are numbered in the recording.
        live_ids: How they are numbered now.
        swapped: What the last call is but for a credential, and the name of that; None where it is not.
        new_values: Of a captured run, what tells which values are new: a test's clock is pinned.
    """

    def __init__(self, run: Run, matching: Matching) -> None:
        """Index `run` without restoring a single body."""
        self._kit = run.header.kit
        self._matching = matching
        self.new_values: NewValues | None = None
        # A case that was made of another tool's trace has no receivers, digests of headers and placeholders in them.
        self._is_recording = matching.digests = self._kit.get("arguments") == BY_CONTENT
        self.requests = requests_served(self._kit)
        outermost = [x for x in run.exchanges if x.parent is None]
        self.top = tuple(x for x in outermost if x.start not in self.requests)
        self._answerable = (*self.top, *(x for x in outermost if x.start in self.requests))
        self.served: dict[int, Call] = {}
        self.services = Authorities(x.call for x in self._answerable)
        self.precedence = Precedence(self.top, self._kit.get("lanes"), self._kit.get("after"))
        self.recorded_ids, self.live_ids = matching.ids(), matching.ids()
        self.swapped: tuple[Exchange, str] | None = None
        self._exact = make_queues([((authority(x.call), matching.fingerprint(x.call)), x) for x in self._answerable])
        self._keyed: Queues | None = None
        self._tokens = Tokens(matching.text, wired=self._is_recording)
        self._near: NearMatches | None = None
        self._placeholders: PlaceholderMatches | None = None
        self._continued: dict[str, str] = {}  # by lane now, the recorded lane of its last call

    def accept_media(self, near: Near) -> None:
        """Take calls for one that differ in their media alone, where `near` says that these are near enough."""
        self._matching.near = near

    def keep_apart(self, placeholders: frozenset[str], of_today: KnownToday) -> None:
        """Take no call that sends one of these secrets for one that sent another of them; as `Tokens.keep_apart`."""
        self._tokens.keep_apart(placeholders, of_today)

    def note_served(self, match: Exchange, call: Call, lane: str) -> None:
        """Note that `call`, made in `lane`, is answered by `match`, which answers no other one."""
        self.served[match.start] = call
        self._continued[lane] = match.lane
        self._tokens.note_served(match, call)

    def list_unserved(self) -> tuple[Exchange, ...]:
        """Return the exchanges of the test itself that were not asked for so far."""
        return tuple(x for x in self.top if x.start not in self.served)

    def recognise(self, call: Call) -> bool:
        """Return whether these exact bytes were recorded; then they hold no secret, because nothing stored does."""
        exact = self._matching.fingerprint(call)
        services = self.services.options(authority(call))
        if len(services) == 1:
            return (services[0], exact) in self._exact
        return any((service, exact) in self._exact for service in services)

    def find(self, call: Call, moment: Moment) -> Exchange | None:
        """Return the exchange that `call` is and that was not served; None where it is none."""
        if isinstance(call, ToolCall) and self._is_changing(call):
            # In order of start: a call may equal a later one that was made on another object.
            match = self._find_fitting(call, moment.lane)
            if match is not None:
                if self._keyed is not None:
                    self._matching.key(call, self.live_ids)
                return match
        self.swapped = None
        now = authority(call)
        services = self.services.options(now)
        exact = self._matching.fingerprint(call)
        match = self._take_unserved(self._exact, services, exact, call, moment) if self._keyed is None else None
        if match is None:
            match = self._find_by_key(call, services, exact, moment)
        if match is not None:
            self.services.bind(now, authority(match.call))
        return match

    def _find_by_key(
        self, call: Call, services: tuple[Authority, ...], exact: Hashable, moment: Moment
    ) -> Exchange | None:
        keyed = self._keyed or self._index_keys()
        key = self._matching.key(call, self.live_ids)
        match = self._take_unserved(self._exact, services, exact, call, moment)
        if match is None:
            match = self._take_unserved(keyed, services, key, call, moment)
        if match is None:
            match = (
                self._find_near(call, moment.lane)
                or self._find_placeholder(call, moment.lane)
                or self._find_without_receiver(call, moment.lane)
                or self._find_renewed(call, moment)
            )
            elsewhere = match is not None and authority(match.call) not in services
            if elsewhere or (match is not None and self._is_swapped(match, call)):
                return None
        return match

    def _is_swapped(self, match: Exchange, call: Call, *, same_bytes: bool = False) -> bool:
        """Return whether `call` is `match` but for a credential; the first such exchange is what a refusal names."""
        other = self._tokens.find_swap(match.call, call, unread=same_bytes)
        if other and self.swapped is None:
            self.swapped = match, other
        return bool(other)

    def find_elsewhere(self, call: Call) -> tuple[Exchange, Authority | None, Authority | None] | None:
        """Return the exchange that is `call` at another local service, the service that `call` means, and that one."""
        now, key = authority(call), self._matching.key(call, self._matching.ids())
        here = self.services.options(now)
        for service in self.services.recorded if now is not None else ():
            x = None if service in here else self._find_first(self._keyed or {}, (service, key))
            if x is not None:
                return x, self.services.find_recorded(now) or now, self.services.find_current(service)
        return None

    def _find_near(self, call: Call, lane: str) -> Exchange | None:
        """Return the first exchange that differs in media alone, where the test says that they are near enough."""
        if self._matching.near is None:
            return None
        if self._near is None:
            from pytest_agentreplay.compare.matching.near_calls import NearMatches

            self._near = NearMatches(self._matching, self._matching.near, self.top)
        return self._near.find(call, lane, self.served.keys())

    def _find_placeholder(self, call: Call, lane: str) -> Exchange | None:
        """Return the first exchange that held a secret where `call` has a stand-in for one."""
        if self._placeholders is None:
            from pytest_agentreplay.compare.matching.near_calls import PlaceholderMatches

            self._placeholders = PlaceholderMatches(self._matching, self.top)
        return self._placeholders.find(call, lane, self.served.keys())

    def _find_renewed(self, call: Call, moment: Moment) -> Exchange | None:
        """Return the first exchange of a captured run that differs in values alone that are new in both runs."""
        if self.new_values is None:
            return None
        here = {moment.lane, self._continued.get(moment.lane, moment.lane)}
        return self.new_values.find(call, here, self.served, moment.at)

    def _find_fitting(self, call: ToolCall, lane: str) -> Exchange | None:
        """The first exchange of a tool that differs in nothing but what its recording, or `call`, does not compare."""
        tools = self._tools
        for name in ((lane, call.name), call.name):
            self._find_first(tools, name)  # drops what was served
            for x in reversed(tools.get(name, [])):
                if x.start not in self.served and self._is_fitting(cast("ToolCall", x.call), call):
                    return x
        return None

    def _is_fitting(self, recorded: ToolCall, call: ToolCall) -> bool:
        from pytest_agentreplay.values.fitting import fit_call

        same = fit_call(recorded, call, receivers=self._is_recording)
        alike = self._matching.key_alone(same) == self._matching.key_alone(recorded)
        return alike and not self._tokens.find_swap(recorded, call)

    def _find_without_receiver(self, call: Call, lane: str) -> Exchange | None:
        """Return the first exchange that was recorded without the receiver, or the closure, that the call has."""
        return self._find_fitting(call, lane) if isinstance(call, ToolCall) and SELF in call.facts else None

    @cached_property
    def _tools(self) -> Queues:
        return make_queues([(x.call.name, x) for x in self.top if isinstance(x.call, ToolCall)])

    @cached_property
    def _changing(self) -> frozenset[str]:
        """The tools that change what they are given, so that not all of their calls is compared."""
        from pytest_agentreplay.values.fitting import has_changes

        return frozenset(x.call.name for x in self.top if isinstance(x.call, ToolCall) and has_changes(x.call))

    def _is_changing(self, call: ToolCall) -> bool:
        """Return whether something of the calls of a tool is not compared, since the tool changes it."""
        from pytest_agentreplay.values.fitting import has_changes

        return bool(self._tools) and (call.name in self._changing or has_changes(call))

    def _index_keys(self) -> Queues:
        """Bodies are restored and parsed only now that a call's bytes were not met as they were."""
        identified = [((authority(x.call), self._matching.key(x.call, self.recorded_ids)), x) for x in self._answerable]
        self._keyed = make_queues(identified)
        for call in self.served.values():
            self._matching.key(call, self.live_ids)
        return self._keyed

    def _take_unserved(
        self, queues: Queues, services: tuple[Authority, ...], identity: Hashable, call: Call, moment: Moment
    ) -> Exchange | None:
        """Return the exchange that `call` is, at a service that may be meant, if it sends the same credentials.

        Of several services the one due in this lane goes first; where its exchange sends another credential, the next
        one of its queue is taken that does not.
        """
        if len(services) == 1:
            match = self.take(queues, (services[0], identity), moment)
        else:
            matches = (self.take(queues, (service, identity), moment) for service in services)
            match = min(
                (x for x in matches if x is not None),
                key=lambda x: (self.precedence.is_early(x), x.lane != moment.lane, x.start),
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

    def take(self, queues: Queues, identity: Hashable, moment: Moment) -> Exchange | None:
        """The first unserved exchange of the lane, else of any; of each the agent's own first, unless it is early."""
        here = self._continued.get(moment.lane, moment.lane)
        for name in ((here, identity), (moment.lane, identity), identity):
            first = self._find_first(queues, name)
            if first is None:
                continue
            if (
                self.precedence.is_early(first, moment.lane)
                and (twin := self._find_twin(queues[identity], moment)) is not None
            ):
                return twin
            if moment.agent and moment.agent != first.agent:
                own = self._find_first(queues, (_AGENT, moment.agent, name))
                # What must come before it may be its twin under another name: a name alone refuses nothing.
                if own is not None and not self.precedence.is_early(own):
                    return own
            return first
        return None

    def _find_twin(self, queue: Sequence[Exchange], moment: Moment) -> Exchange | None:
        """Return an exchange for the same call that may come now, where the first one of its lane may not yet."""
        unserved = (x for x in islice(reversed(queue), TWINS) if x.start not in self.served)
        return next((x for x in unserved if not self.precedence.is_early(x, moment.lane)), None)

    def _find_first(self, queues: Queues, name: Hashable) -> Exchange | None:
        """The first unserved exchange of a queue; what was served by another one's name is dropped, each once."""
        queue = queues.get(name)
        while queue and queue[-1].start in self.served:
            queue.pop()
        return queue[-1] if queue else None


def make_queues(identified: Sequence[tuple[Hashable, Exchange]]) -> Queues:
    """Queues by identity, and by lane and identity, each for single agents too; the first of each stands at its end."""
    queues: Queues = defaultdict(list)
    for identity, x in reversed(identified):
        for name in (identity, (x.lane, identity)):
            queues[name].append(x)
            if x.agent:
                queues[_AGENT, x.agent, name].append(x)
    return queues
