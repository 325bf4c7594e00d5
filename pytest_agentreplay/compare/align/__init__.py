"""Two runs side by side: where they part for the first time, and every later place where they part anew.

Rules of this module:
- Lanes are aligned one by one, on what each exchange added (`compare.align.local`).
- What merely carries an earlier difference along is not told: a resent message, the arguments that another reply asked
  for, the result of another call. A request that differs by itself and the first other reply from there on are two
  differences; the last reply of a lane is always told.
- Turning the two runs round gives the mirror image: missing calls are extra ones, everything else stays.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.align.local import Item, describe_answer, find_minted_ids, read_lanes, rename_ids
from pytest_agentreplay.compare.align.pairing import Pair, align, find_moves, is_unordered
from pytest_agentreplay.compare.diagnose import describe_change
from pytest_agentreplay.compare.diagnose.progress import CachingReader, ReplayProgress, explain_arguments
from pytest_agentreplay.compare.diagnose.results import describe_moved_chunks, describe_result
from pytest_agentreplay.compare.diagnose.sections import find_message_indexes, find_owner, find_role, is_below
from pytest_agentreplay.compare.diff import diff
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Body, Call, Exchange, Run, ToolCall
from pytest_agentreplay.model.reading import Reader, arguments_of, scalars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.compare.diagnose.classify import ContentChange
    from pytest_agentreplay.compare.matching import Matching


def first_divergence(a: Run, b: Run, reader: Reader, *, matching: Matching | None = None) -> Divergence | None:
    """Return the first place where run `b` diverges from run `a`, `a` as recorded and `b` as now; None for none."""
    return next(iter(divergences(a, b, reader, matching=matching)), None)


def divergences(a: Run, b: Run, reader: Reader, *, matching: Matching | None = None) -> tuple[Divergence, ...]:
    """Return every place where run `b` parts anew from run `a`, in the order of `a`; the end of the test comes last.

    With `matching`, places that are not compared do not count. Raises what `Body.data` raises.
    """
    if a.exchanges == b.exchanges:
        return tuple(_compare_outcomes(a, b))
    comparison = _RunComparison(a, b, reader, matching)
    placed = [item for pair in comparison.lanes() for item in comparison.walk(*pair)]
    placed.sort(key=lambda item: item[0])
    ordered = [divergence for _, divergence in placed]
    return (*_with_others(ordered), *_compare_outcomes(a, b))


def pair_exchanges(
    a: Run, b: Run, reader: Reader, *, matching: Matching | None = None
) -> list[tuple[Exchange | None, Exchange | None]]:
    """Return each top-level exchange of `a` beside that of `b` which stands for it, lane by lane.

    None stands beside an exchange that only one of the runs has. Raises what `Body.data` raises.
    """
    lanes_of_both = _RunComparison(a, b, reader, matching).lanes()
    pairs = (pair for recorded, now in lanes_of_both for pair in align(recorded, now))
    return [(None if x is None else x.exchange, None if y is None else y.exchange) for x, y in pairs]


class _RunComparison:
    """Two runs under comparison: recorded and now."""

    def __init__(self, a: Run, b: Run, reader: Reader, matching: Matching | None) -> None:
        reader = self.reader = CachingReader(reader, a, b)
        self.recorded = ReplayProgress(a, reader, (), matching)
        self.now = ReplayProgress(b, reader, (), matching)
        self.minted = find_minted_ids(self.recorded.turns, reader), find_minted_ids(self.now.turns, reader)
        ids = {*self.minted[0], *self.minted[1]}
        self.read = read_lanes(self.recorded.turns, reader, ids), read_lanes(self.now.turns, reader, ids)

    def lanes(self) -> Iterator[tuple[list[Item], list[Item]]]:
        """Yield each lane with the one that did most of the same; which task or thread got which number is chance."""
        here, there = ({lane: lane_read.items for lane, lane_read in side.items()} for side in self.read)
        sets = [{lane: {item.added for item in items} for lane, items in side.items()} for side in (here, there)]
        # The last terms make no choice between the two runs, so that turning them round pairs the same lanes.
        ranked = sorted(
            ((-len(sets[0][x] & sets[1][y]), x != y, sorted((x, y)), x, y) for x in here for y in there),
            key=lambda rank: rank[:3],
        )
        taken_x, taken_y = set(), set()
        for shared, other_name, _, x, y in ranked:
            if x not in taken_x and y not in taken_y and (shared or not other_name):
                taken_x.add(x)
                taken_y.add(y)
                yield here[x], there[y]
        left = [x for x in here if x not in taken_x], [y for y in there if y not in taken_y]
        for at in range(max(map(len, left))):
            x, y = (side[at] if at < len(side) else "" for side in left)
            yield here.get(x, []), there.get(y, [])

    def walk(self, recorded: list[Item], now: list[Item]) -> Iterator[tuple[float, Divergence]]:
        """Yield the new divergences of one lane, each with the recorded place that it sorts by."""
        state = _State()
        lane = recorded[0].lane if recorded else now[0].lane
        pairs = align(recorded, now)
        moved = find_moves(pairs)
        models = [pair for pair in pairs if any(item is not None and item.sort == "model" for item in pair)]
        state.final = models[-1] if models else (None, None)
        for at, (x, y) in enumerate(pairs):
            if at in moved:
                candidates = self.explain_moved_call(*moved[at], state, pairs)
            elif x is not None and y is not None:
                candidates = self.compare_pair(x, y, state)
            else:
                candidates = (self.explain_lone_call(x, y, state, lane),)
            if x is not None:
                state.at = x.exchange.start
                state.last = x.exchange
            yield from ((state.at + (x is None) / 2, divergence) for divergence in candidates if divergence is not None)

    def compare_pair(self, x: Item, y: Item, state: _State) -> tuple[Divergence | None, ...]:
        """Return where the calls of two exchanges that stand for each other differ, and where their answers do."""
        if x.sort in {"tool", "retrieval"} and x.name != y.name:
            state.results = True
            return () if state.reply else (self.explain_other_call(x, y),)
        if x.sort != "model":
            return self.compare_tool_calls(x, y, state)
        change = None
        if x.full_key != y.full_key and (x.added != y.added or not state.parted):
            change = self.compare_requests(x, y, state)
        same = x.full_key == y.full_key or (change is None and not state.parted)
        state.parted = not same
        old, new = describe_answer(x.exchange, self.reader), describe_answer(y.exchange, self.reader)
        state.reply, state.results = canonical(old) != canonical(new), False
        # Behind a request that differs by itself another reply is news again.
        if change is not None:
            state.replied = False
        is_reported = state.reply and (same or not state.replied or state.final == (x, y))
        state.parted, state.replied = state.parted or is_reported, state.replied or is_reported
        return change, self.explain_answer(
            x, y, diff(old, new), Kind.REPLY, asked_otherwise=not same
        ) if is_reported else None

    def compare_requests(self, x: Item, y: Item, state: _State) -> Divergence | None:
        """Return the new difference of two model calls; None when they only carry earlier ones along."""
        if state.reply and _follows(x, y):
            return None
        call = self.translate_ids(x, y)
        differences = self.recorded.compare(x.exchange.call, call)
        mine = tuple(difference for difference in differences if not _is_inherited(difference, x, y, state))
        return self.explain_request(self.recorded.explain_change(x.exchange, call, mine), x, y) if mine else None

    def compare_tool_calls(self, x: Item, y: Item, state: _State) -> tuple[Divergence | None, ...]:
        """Return how two calls of one tool differ, or two requests that no dialect knows."""
        divergence = None
        changes: tuple[Difference, ...] = ()
        if x.added != y.added:
            changes = self.recorded.compare(x.exchange.call, y.exchange.call)
            state.results = state.results or bool(changes)
            if changes and state.reply and (x.sort != "tool" or self.is_requested(x, y)):
                return ()
            if changes:
                divergence = self.explain_request(
                    self.recorded.explain_change(x.exchange, y.exchange.call, changes), x, y
                )
        answers = diff(describe_answer(x.exchange, self.reader), describe_answer(y.exchange, self.reader))
        if not answers:
            return (divergence,)
        state.results = True
        return divergence, self.explain_answer(x, y, answers, Kind.RESULT, asked_otherwise=bool(changes))

    def is_requested(self, x: Item, y: Item) -> bool:
        """Return whether what two calls of a tool have of their own is what the replies before them asked for."""
        sides = ((self.recorded, x.exchange), (self.now, y.exchange))
        values = [Counter(scalars(tool.arguments)) for side, x in sides if (tool := side.find_tool(x.call)) is not None]
        # What both calls have may stand in no reply: a constant of the code, say.
        own = (values[0] - values[1], values[1] - values[0])
        requested = (
            [[use.arguments, arguments_of(use)] for use in side.list_tool_uses(exchange)] for side, exchange in sides
        )
        return all(mine <= Counter(scalars([*map(list, uses)])) for mine, uses in zip(own, requested, strict=True))

    def explain_answer(
        self, x: Item, y: Item, changes: tuple[Difference, ...], kind: Kind, *, asked_otherwise: bool
    ) -> Divergence:
        """Return the divergence of two calls that were answered otherwise."""
        what = "reply" if kind is Kind.REPLY or x.sort == "http" else "result"
        chunks = [self.reader.read_chunks(item.exchange.outcome) for item in (x, y)] if x.sort == "retrieval" else []
        moved = describe_moved_chunks(*chunks) if chunks and all(chunks) else ()
        cause = "the same request was answered otherwise: the model samples, or another version of it answers"
        if kind is Kind.RESULT:
            cause = "the same call was answered otherwise: the world behind it changed between the two runs"
        if asked_otherwise:
            cause = "the call was another one too (see above), which may well be why"
        summary = f"{self.recorded.name(x.exchange.call)}: {moved[0] if moved else describe_result(changes[0], what)}"
        return self.recorded.make_divergence(
            kind, summary, x.exchange, y.exchange.call, changes, cause=cause, detail=moved[1:]
        )

    def explain_other_call(self, x: Item, y: Item) -> Divergence:
        """Return the divergence of one call in the place of another."""
        summary = f"{self.now.name(y.exchange.call)} called instead of {self.recorded.name(x.exchange.call)}"
        cause = "the model's reply before it is the same, so the code after that reply chose otherwise"
        return self.recorded.make_divergence(Kind.TOOL, summary, x.exchange, y.exchange.call, cause=cause)

    def explain_lone_call(self, x: Item | None, y: Item | None, state: _State, lane: str) -> Divergence | None:
        """Return the divergence of a call that only one of the runs made; None when another reply asked for it."""
        state.results = True
        state.parted = state.parted or "model" in {item.sort for item in (x, y) if item is not None}
        if state.reply:
            return None
        if x is not None:
            recorded, now, call = x.exchange, None, x.exchange.call
            kind, what, cause = Kind.MISSING, "was not called", "the other run went on without this call"
        else:
            assert y is not None
            recorded, now, call = None, y.exchange.call, y.exchange.call
            kind, what, cause = Kind.EXTRA, "called, which is not recorded here", "the other run made one call more"
        summary, at = f"{self.recorded.name(call)} {what}", recorded or state.last
        return self.recorded.make_divergence(kind, summary, recorded, now, at=at, lane=lane, cause=cause)

    def explain_moved_call(self, x: Item, y: Item, state: _State, pairs: list[Pair]) -> tuple[Divergence | None, ...]:
        """Return the divergence of a call that came at another place; nothing at its second place (`y` is `x`)."""
        if y is x or state.reply:
            return ()
        if is_unordered(x, y, pairs):
            return self.compare_tool_calls(x, y, state)
        later = pairs.index((x, None)) < pairs.index((None, y))
        name = self.recorded.name(x.exchange.call)
        summary = f"{name} came {'later' if later else 'earlier'} than recorded"
        cause = "the code makes its calls in another order; nothing else about this call differs"
        return (self.recorded.make_divergence(Kind.ORDER, summary, x.exchange, y.exchange.call, (), cause=cause),)

    def explain_request(self, change: ContentChange, x: Item, y: Item) -> Divergence:
        """Return the divergence of a call that `change` has made another one."""
        cause = change.cause
        if not cause and y.sort == "tool":
            cause = explain_arguments(self.recorded, x.exchange, y.exchange.call)
        return describe_change(self.recorded, change, x.exchange, y.exchange.call, cause)

    def translate_ids(self, x: Item, y: Item) -> Call:
        """Return the call of `y`, with the ids that its replies minted under the names that they have beside `x`."""
        call = y.exchange.call
        by_name = {label: word for word, label in self.read[0][x.lane].names.items()}
        by_reply = {(ordinal, place): word for word, (lane, ordinal, place) in self.minted[0].items() if lane == x.lane}
        names = {}
        for word, label in self.read[1][y.lane].names.items():
            lane, ordinal, place = self.minted[1].get(word, ("", 0, 0))
            after = by_reply.get((ordinal + x.ordinal - y.ordinal, place)) if lane == y.lane else None
            if instead := by_name.get(label) or (after if word not in self.minted[0] else None):
                names[word] = instead
        # A body is written anew only where an id has another name, which is seldom: it costs a search of all its text.
        names = {word: instead for word, instead in names.items() if word != instead}
        if not names:
            return call
        if isinstance(call, ToolCall):
            return replace(
                call, arguments=json.loads(rename_ids(json.dumps(call.arguments, ensure_ascii=False), names))
            )
        text = call.body.data.decode("utf-8", "surrogateescape")
        return replace(call, body=Body(rename_ids(text, names).encode("utf-8", "surrogateescape")))


@dataclass(slots=True)
class _State:
    """How far a lane has been walked: whether the last replies or results differ, and whether requests ever did.

    `replied` says whether another reply was reported since a request differed by itself; `final` are the last model
    calls.
    """

    at: float = -1
    last: Exchange | None = None
    reply: bool = False
    results: bool = False
    parted: bool = False
    replied: bool = False
    final: Pair = (None, None)


def _follows(x: Item, y: Item) -> bool:
    """Whether two model calls differ only in words of the model and results of tools: the quick way to see it."""
    assert x.reading is not None
    assert y.reading is not None
    if x.dropped or y.dropped or len(x.new) != len(y.new):
        return False
    if any(x.sections.get(name) != y.sections.get(name) for name in x.changed | y.changed):
        return False
    changed = [(i, j) for i, j in zip(x.new, y.new, strict=True) if x.messages[i] != y.messages[j]]
    sent = [x.reading.messages[i] for i, _ in changed] + [y.reading.messages[j] for _, j in changed]
    return bool(changed) and all(find_role(message) in {"assistant", "tool"} for message in sent)


def _is_inherited(difference: Difference, x: Item, y: Item, state: _State) -> bool:
    """Return whether a difference of two model calls only carries an earlier one along."""
    assert x.reading is not None
    assert y.reading is not None
    readings = (x.reading, y.reading)
    reading = readings[1] if difference.recorded is ABSENT else readings[0]
    if reading.messages_at and is_below(difference.path, reading.messages_at):
        who = find_owner(difference, readings)
        if (state.reply and who in {"assistant", "tool"}) or (state.results and who == "tool"):
            return True
        at = find_message_indexes(difference, reading)
        if at is None or (difference.now is ABSENT and x.dropped != y.dropped):
            return False
        sides = ((difference.recorded, x.new), (difference.now, y.new))
        return not any(index in at for side, new in sides if side is not ABSENT for index in new)
    if any(is_below(difference.path, name) for name in (*x.sections, *y.sections)):
        return not any(is_below(difference.path, name) for name in x.changed | y.changed)
    return state.parted


def _with_others(ordered: list[Divergence]) -> list[Divergence]:
    """Return the divergences; the first also says where other lanes diverge: nothing fixes an order between them."""
    if not ordered:
        return ordered
    first = ordered[0]
    elsewhere = {divergence.lane: divergence for divergence in reversed(ordered) if divergence.lane != first.lane}
    lines = sorted(divergence.also() for divergence in elsewhere.values())
    return [replace(first, detail=(*first.detail, *lines)), *ordered[1:]]


def _compare_outcomes(a: Run, b: Run) -> Iterator[Divergence]:
    """Yield how the tests ended, where both say so."""
    old, new = dict(a.header.outcome), dict(b.header.outcome)
    if not old or not new:
        return
    # The first line of an error says what it is; those behind it show the values of that run.
    for side in (old, new):
        if isinstance(text := side.get("message"), str):
            side["message"] = text.partition("\n")[0]
    differences = diff(old, new)
    if differences:
        ends = [
            str(side.get("status", "?")) + (f" ({side['type']})" if side.get("type") else "") for side in (old, new)
        ]
        yield Divergence(
            Kind.OUTCOME,
            f"the test ended {ends[1]}, recorded {ends[0]}",
            differences=differences,
            cause="look at the divergences before it; without any, the test or its fixtures changed",
        )
