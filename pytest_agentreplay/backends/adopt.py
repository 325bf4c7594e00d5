"""Two backends that give recorded replies to changed requests, because somebody says that these still hold.

Which recorded call a present one takes its reply from is decided when it comes:

1. the same call, by its bytes or its key, in its lane before any other, as in a replay;
2. else, of the recorded calls at the same endpoint or tool that are due, the one of its lane;
3. of several that were under way at once, the one that its content is evidence for (`align.pairing`).

What stays open is refused, and so is a call whose content is evidence for another recorded call than the one due.

`ForkBackend` serves the recorded replies before a turn, the real model from there on, and records all of it anew. A
call of a model is aligned with a recorded one as `AdoptBackend` does, whatever it asks: by the same request, else by
its lane, and by its words where several lanes begin. It takes the reply where that one is before the turn. Any other
call takes the recorded reply to the same call, before the turn and after it. What has none is made for real where it
asks a model, or only reads while tools are live; what writes never is. Nor is a lasting connection opened or continued.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import Moment, RecordBackend, Refused, Replayed, Verdict
from pytest_agentreplay.backends.replay import ReplayBackend, ReplayPolicy, is_only_reading
from pytest_agentreplay.compare.align.pairing import compare, features
from pytest_agentreplay.compare.diagnose import refusals
from pytest_agentreplay.compare.diagnose.progress import format_line
from pytest_agentreplay.compare.diff.texts import shorten
from pytest_agentreplay.compare.matching.address import authority, split
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.exchanges import Call, Exchange, FrameCall, Run, Timing, ToolCall
from pytest_agentreplay.model.release_order import lanes_above
from pytest_agentreplay.model.turns import Turn, function_of, is_model, turns

if TYPE_CHECKING:
    from pytest_agentreplay.backends.backend import Moment
    from pytest_agentreplay.compare.align.pairing import Features
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, Exchange, Run
    from pytest_agentreplay.model.reading import Reader

# Recorded calls on either side that a changed call is held against, to see that it is not one of these.
NEIGHBOURS = 16

ROOM = 100  # characters of a call in a line of the alignment


@dataclass(frozen=True, slots=True)
class Aligned:
    """A changed call, the recorded one whose reply it takes, and the words that decided; () where its place did."""

    recorded: Exchange
    now: Call
    parts: tuple[str, ...] = ()


def keep_port(recorded: Call, now: Call) -> Call:
    """Return a changed request with the port of this machine that is recorded: the others of its run keep theirs."""
    if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return now
    then, today = split(recorded.url), split(now.url)
    if not (then.loopback and today.loopback and then.port and today.port):
        return now
    return replace(now, url=now.url.replace(f":{today.port}", f":{then.port}", 1))


class AdoptBackend(ReplayBackend):
    """Serves `run` to an agent whose requests have changed, and keeps the new ones.

    A call more or a call less than recorded is refused: there is no reply for it, or one would be lost.
    """

    def __init__(self, run: Run, matching: Matching, reader: Reader, policy: ReplayPolicy | None = None) -> None:
        """Index `run`; `matching` says which of the new calls are the recorded ones."""
        super().__init__(run, matching, reader, policy)
        self._aligned: dict[int, Aligned] = {}
        self._lanes = {x.lane: x.lane for x in self._index.top if not lanes_above(x.lane)}  # of now -> recorded
        self._endpoints: dict[str, list[Exchange]] = defaultdict(list)
        self._place: dict[int, int] = {}
        for x in self._index.top:
            same = self._endpoints[self._name_endpoint(x.call)]
            self._place[x.start] = len(same)
            same.append(x)
        self._features: dict[int, Features] = {}

    def recognise(self, call: Call) -> bool:
        """Return False: each new call has to be scanned for secrets before it is kept."""
        del call
        return False

    def list_adopted(self) -> tuple[Run, tuple[Aligned, ...]]:
        """Return the run with the changed calls under the recorded outcomes, and how these were aligned."""
        with self._lock:
            changed = dict(sorted(self._aligned.items()))
        exchanges = (
            replace(x, call=keep_port(x.call, changed[x.start].now)) if x.start in changed else x
            for x in self.run.exchanges
        )
        return replace(self.run, exchanges=tuple(exchanges)), tuple(changed.values())

    def describe_alignment(self) -> list[str]:
        """Return a line for each changed call: whose reply it takes, and what decided that."""
        progress = self._make_progress(frozenset())
        lines = []
        for aligned in self.list_adopted()[1]:
            why = f"   [by {', '.join(map(repr, aligned.parts))}]" if aligned.parts else ""
            now = shorten(format_line(aligned.now, self._reader), ROOM)
            lines.append(f"{refusals.number_call(progress, aligned.recorded)} answers {now}{why}")
        return lines

    def _find(self, call: Call, moment: Moment) -> Exchange | None:
        match = super()._find(call, moment)
        if match is not None:
            self._lanes.setdefault(moment.lane, match.lane)
        return match

    def _answer_unrecorded(self, call: Call, moment: Moment) -> Exchange | Divergence:
        """Align a changed call with a recorded one that is due, or refuse it."""
        served = self.served.keys()
        if (twins := self._same.get(self._make_plain_key(call))) and all(x.start in served for x in twins):
            for x in twins:
                if (first := self._aligned.get(x.start)) is not None:
                    return refusals.explain_taken(self._make_progress(served), call, by=first.now, recorded=x)
            return self._explain_miss(call, moment)
        due = self._list_due(call, moment.lane)
        if not due:
            return self._explain_service(call) or self._explain_miss(call, moment)
        features_of_call = features(call)
        match, parts = self._choose(features_of_call, due, moment.lane)
        if match is None:
            return refusals.explain_undecided(self._make_progress(served), call, due)
        if (like := self._find_contradiction(features_of_call, match)) is not None:
            return refusals.explain_contradiction(self._make_progress(served), call, due=match, like=like)
        self._lanes.setdefault(moment.lane, match.lane)
        self._index.services.bind(authority(call), authority(match.call))
        self._aligned[match.start] = Aligned(match, call, parts)
        return match

    def _list_due(self, call: Call, lane: str) -> list[Exchange]:
        """The recorded calls at the endpoint of `call` that may come now: of its own lane, or of those nobody has."""
        due: dict[str, list[Exchange]] = {}
        stopped: set[str] = set()
        services = self._index.services.options(authority(call))
        for x in self._endpoints.get(self._name_endpoint(call), ()):
            if x.start in self.served or x.lane in stopped or authority(x.call) not in services:
                continue
            mine = due.get(x.lane)
            after = mine is not None and mine[0].finish is not None and mine[0].finish < x.start
            if after or self._index.precedence.is_early(x):
                stopped.add(x.lane)
            else:
                due.setdefault(x.lane, []).append(x)
        if (own := due.get(self._lanes.get(lane, ""))) is not None:
            return own
        taken = set(self._lanes.values())
        free = [x for mine, theirs in due.items() if mine not in taken for x in theirs]
        # A lane that another one began is looked for among those that the recorded counterpart of that one began.
        starter = next((self._lanes[up] for up in lanes_above(lane) if up in self._lanes), None)
        return [x for x in free if starter in lanes_above(x.lane)] or free

    def _choose(
        self, features_of_call: Features, due: list[Exchange], lane: str
    ) -> tuple[Exchange | None, tuple[str, ...]]:
        """Return the one of `due` that stands out against all others, and the words that tell."""
        best = due[0]
        for x in due[1:]:
            if compare(features_of_call, self._get_features(x), self._get_features(best)).favours == 1:
                best = x
        twins = [x for x in due if self._make_plain_key(x.call) == self._make_plain_key(best.call)]
        parts: dict[str, None] = {}
        for x in due:
            if x in twins:
                continue
            evidence = compare(features_of_call, self._get_features(best), self._get_features(x))
            if evidence.favours != 1:
                return None, ()
            parts.update(dict.fromkeys(evidence.parts))
        if len(twins) > 1 and any(x.outcome != best.outcome for x in twins):
            # Equal requests have nothing to be told apart by but where they were made.
            return next((x for x in twins if x.lane == self._lanes.get(lane, lane)), None), tuple(parts)[:3]
        return best, tuple(parts)[:3]

    def _find_contradiction(self, features_of_call: Features, match: Exchange) -> Exchange | None:
        """Return a recorded call near `match` whose own content the changed call holds, and that of `match` not."""
        row, at = self._endpoints[self._name_endpoint(match.call)], self._place[match.start]
        for x in row[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]:
            if x is not match:
                evidence = compare(features_of_call, self._get_features(match), self._get_features(x))
                if evidence.favours == -1 and evidence.positive:
                    return x
        return None

    @cached_property
    def _same(self) -> dict[str, list[Exchange]]:
        groups: dict[str, list[Exchange]] = defaultdict(list)
        for x in self._index.top:
            groups[self._make_plain_key(x.call)].append(x)
        return groups

    def _make_plain_key(self, call: Call) -> str:
        """Return the key of a call by itself, whatever ids the run has taught."""
        return self._matching.key(call, self._matching.ids())

    def _name_endpoint(self, call: Call) -> str:
        """What a call is put to, whatever it says: method, host and path without a port; a connection; a function."""
        if isinstance(call, ToolCall):
            return call.name if call.boundary == "tool" else f"{call.boundary} {call.name}"
        connection = call.connection if isinstance(call, FrameCall) else None
        return f"{call.method} {self._matching.address(call) if connection is None else connection}"

    def _get_features(self, x: Exchange) -> Features:
        if x.start not in self._features:
            self._features[x.start] = features(x.call)
        return self._features[x.start]


def explain_unfit(recorded: Call, now: Call, reader: Reader, *, moved: bool) -> str:
    """Return why the recorded reply to one call cannot answer another one, "" where it can; `moved` to elsewhere."""
    if moved or type(recorded) is not type(now):
        return "the request goes to another address or API"
    if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return ""
    streamed = reader.read_call(recorded).stream, reader.read_call(now).stream
    if streamed[0] != streamed[1]:
        return f"the request asks for {'a stream' if streamed[1] else 'a whole reply'}, and the recorded reply is none"
    return ""


CAUSE = "the run took another way than when recorded, and a fork runs no tool whose result is not there"
LET_READ = "let tools that only read run where nothing is recorded: add --replay-tools=live"
RUN_ALL = "or run all of it for real: pytest --snapshot-record"


def list_turns_from(run: Run, reader: Reader, until: int) -> list[Turn]:
    """Return the turns that are asked anew: those from number `until` on, and what follows from them.

    Each lane has its own turn of that number; what comes after it in the lanes above and below may follow from it. A
    negative number counts the turns of all lanes from the end. Raises SettingsError for a turn that is not there, and
    for one that goes over a connection which would have to be open.
    """
    ordered = sorted((turn for turn in turns(run, reader) if turn.number), key=lambda turn: turn.exchanges[0].start)
    later: list[Turn] = ordered[until:] if -len(ordered) <= until < 0 else []
    for turn in ordered if until > 0 else ():
        lanes = [(f"{turn.lane}.", f"{other.lane}.") for other in later]
        if turn.number >= until or any(mine.startswith(other) or other.startswith(mine) for mine, other in lanes):
            later.append(turn)
    last, problem = max((turn.number for turn in ordered), default=0), ""
    if not later:
        there = f"it has {last}, so give 1 to {last}, or -1 to -{len(ordered)}" if last else "it has none"
        problem = f"has no such turn in its recording: {there}"
    elif any(turn.model is not None and isinstance(turn.model.call, FrameCall) for turn in later):
        problem = "asks its model over a lasting connection, which cannot be opened in its middle: record it anew"
    if problem:
        raise SettingsError(f"--record-from={until}: {run.header.test} {problem}")
    return later


class RecordedAnswers(AdoptBackend):
    """The recorded calls, of which those of models alone may be asked otherwise, in any order."""

    def _answer_unrecorded(self, call: Call, moment: Moment) -> Exchange | Divergence:
        if not is_model(call, self._reader):
            return self._explain_miss(call, moment)
        return super()._answer_unrecorded(call, moment)


class ForkBackend(RecordBackend):
    """Records every call, and serves what `answers` has but for the exchanges `anew`."""

    def serve(self, answers: RecordedAnswers, anew: set[int], reader: Reader, *, live: bool) -> None:
        """Begin. `live` lets tools that only read run where nothing is recorded."""
        self.divergence: Divergence | None = None
        self.answers, self._anew, self._reader, self._live = answers, anew, reader, live
        answers.policy = ReplayPolicy(any_order=True)
        # No number of now is one of the recording: a message says by it over which connection it goes.
        self._count = max((reading for x in answers.run.exchanges for reading in (x.start, x.finish or 0)), default=0)

    at_once = False

    def recognise(self, call: Call) -> bool:
        """Return False: each call has to be scanned for secrets before it is kept."""
        del call
        return False

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return what is recorded of the connection that was served for `opening`."""
        return self.answers.connection(opening)

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Answer from the recording, else forward what may be made for real, and refuse the rest."""
        if self.divergence is not None:
            return Refused(self.divergence)
        connection = call.connection if isinstance(call, FrameCall) else None
        if connection in self._exchanges or (moment.parent is not None and function_of(call, self._reader) is None):
            return super().decide(call, moment)  # of a connection, or inside a call, that is made for real
        verdict = self.answers.decide(call, moment)
        if isinstance(verdict, Replayed):
            if verdict.handed is not None:
                verdict.handed()  # the answers wait for nobody: the order is that of this run
            if verdict.exchange.start not in self._anew:
                return self._serve(verdict.exchange, call, moment)
        if isinstance(verdict, Refused) and (connection is not None or not self._may_be_made(call, moment)):
            return Refused(replace(verdict.divergence, cause=CAUSE, hints=(LET_READ, RUN_ALL)))
        return super().decide(call, moment)

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first refusal, with the agent's line that led to it."""
        with self._lock:
            self.divergence = self.divergence or replace(divergence, origin=origin)
            return self.divergence

    def _may_be_made(self, call: Call, moment: Moment) -> bool:
        """Return whether a provider of models answers a call, or it only reads and tools are live."""
        provider = not isinstance(call, ToolCall) and self._reader.read_call(call).kind not in {"http", "tool", "mcp"}
        return provider or is_model(call, self._reader) or (self._live and is_only_reading(call, moment))

    def _serve(self, source: Exchange, call: Call, moment: Moment) -> Replayed:
        """Record `call` with the recorded outcome of `source`, in its place and at its time in this run."""
        if isinstance(call, FrameCall) and isinstance(source.call, FrameCall):  # with the ids of its answer
            call = replace(source.call, connection=self.served.get(call.connection or 0))
        now = replace(source, timing=Timing(moment.at, moment.at, moment.at))
        made = replace(now, call=call, lane=moment.lane, attempt=moment.attempt, parent=moment.parent, parts=())
        with self._lock:
            self._count += 1
            start = self.served[source.start] = self._count
            self._exchanges[start] = replace(made, start=start, agent=moment.agent)
        self.hand_over(source.start)
        if self._note is not None:
            self._note(self._exchanges[start])
        return Replayed(now, start, handed=partial(self.hand_over, source.start))
