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

from pytest_agentreplay.compare.align.local import answer, lanes, minted, renamed
from pytest_agentreplay.compare.align.pairing import align, moves, unordered
from pytest_agentreplay.compare.diagnose.progress import CachingReader, ReplayProgress, explain_arguments, format_line
from pytest_agentreplay.compare.diagnose.results import describe_moved_chunks
from pytest_agentreplay.compare.diagnose.sections import find_message_indexes, find_owner, find_role, is_below
from pytest_agentreplay.compare.diff import diff, texts
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Body, ToolCall
from pytest_agentreplay.model.reading import arguments_of, scalars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.compare.align.local import Item
    from pytest_agentreplay.compare.align.pairing import Pair
    from pytest_agentreplay.compare.diagnose.classify import ContentChange
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Exchange, Run
    from pytest_agentreplay.model.reading import Reader


def first_divergence(a: Run, b: Run, reader: Reader, *, matching: Matching | None = None) -> Divergence | None:
    """Return the first place where run `b` diverges from run `a`, `a` as recorded and `b` as now; None for none."""
    return next(iter(divergences(a, b, reader, matching=matching)), None)


def divergences(a: Run, b: Run, reader: Reader, *, matching: Matching | None = None) -> tuple[Divergence, ...]:
    """Return every place where run `b` parts anew from run `a`, in the order of `a`; the end of the test comes last.

    With `matching`, places that are not compared do not count. Raises what `Body.data` raises.
    """
    if a.exchanges == b.exchanges:
        return tuple(_outcome(a, b))
    comparison = _RunComparison(a, b, reader, matching)
    found = [one for pair in comparison.lanes() for one in comparison.walk(*pair)]
    found.sort(key=lambda one: one[0])
    told = [divergence for _, divergence in found]
    return (*_with_others(told), *_outcome(a, b))


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
        self.minted = minted(self.recorded.turns, reader), minted(self.now.turns, reader)
        ids = {*self.minted[0], *self.minted[1]}
        self.read = lanes(self.recorded.turns, reader, ids), lanes(self.now.turns, reader, ids)

    def lanes(self) -> Iterator[tuple[list[Item], list[Item]]]:
        """Yield each lane with the one that did most of the same; which task or thread got which number is chance."""
        here, there = ({lane: one.items for lane, one in side.items()} for side in self.read)
        sets = [{lane: {item.added for item in one} for lane, one in side.items()} for side in (here, there)]
        ranked = sorted(
            ((-len(sets[0][x] & sets[1][y]), x != y, sorted((x, y)), x, y) for x in here for y in there),
            key=lambda one: one[:3],
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
        moved = moves(pairs)
        models = [pair for pair in pairs if any(item is not None and item.sort == "model" for item in pair)]
        state.final = models[-1] if models else (None, None)
        for at, (x, y) in enumerate(pairs):
            if at in moved:
                found = self.moved(*moved[at], state, pairs)
            elif x is not None and y is not None:
                found = self.pair(x, y, state)
            else:
                found = (self.alone(x, y, state, lane),)
            if x is not None:
                state.at = x.exchange.start
                state.last = x.exchange
            yield from ((state.at + (x is None) / 2, one) for one in found if one is not None)

    def pair(self, x: Item, y: Item, state: _State) -> tuple[Divergence | None, ...]:
        """Return where the calls of two exchanges that stand for each other differ, and where their answers do."""
        if x.sort in {"tool", "retrieval"} and x.name != y.name:
            state.results = True
            return () if state.reply else (self.other(x, y),)
        if x.sort != "model":
            return self.tool(x, y, state)
        found = None
        if x.whole != y.whole and (x.added != y.added or not state.parted):
            found = self.request(x, y, state)
        same = x.whole == y.whole or (found is None and not state.parted)
        state.parted = not same
        old, new = answer(x.exchange, self.reader), answer(y.exchange, self.reader)
        state.reply, state.results = canonical(old) != canonical(new), False
        if found is not None:
            state.replied = False
        told = state.reply and (same or not state.replied or state.final == (x, y))
        state.parted, state.replied = state.parted or told, state.replied or told
        return found, self.answer(x, y, diff(old, new), Kind.REPLY, asked_otherwise=not same) if told else None

    def request(self, x: Item, y: Item, state: _State) -> Divergence | None:
        """Return the new difference of two model calls; None when they only carry earlier ones along."""
        if state.reply and _follows(x, y):
            return None
        call = self.translated(x, y)
        found = self.recorded.compare(x.exchange.call, call)
        mine = tuple(one for one in found if not _inherited(one, x, y, state))
        return self.told(self.recorded.explain_change(x.exchange, call, mine), x, y) if mine else None

    def tool(self, x: Item, y: Item, state: _State) -> tuple[Divergence | None, ...]:
        """Return how two calls of one tool differ, or two requests that no dialect knows."""
        found = None
        changes: tuple[Difference, ...] = ()
        if x.added != y.added:
            changes = self.recorded.compare(x.exchange.call, y.exchange.call)
            state.results = state.results or bool(changes)
            if changes and state.reply and (x.sort != "tool" or self.asked_for(x, y)):
                return ()
            if changes:
                found = self.told(self.recorded.explain_change(x.exchange, y.exchange.call, changes), x, y)
        answers = diff(answer(x.exchange, self.reader), answer(y.exchange, self.reader))
        if not answers:
            return (found,)
        state.results = True
        return found, self.answer(x, y, answers, Kind.RESULT, asked_otherwise=bool(changes))

    def asked_for(self, x: Item, y: Item) -> bool:
        """Return whether what two calls of a tool have of their own is what the replies before them asked for."""
        sides = ((self.recorded, x.exchange), (self.now, y.exchange))
        values = [Counter(scalars(tool.arguments)) for side, x in sides if (tool := side.find_tool(x.call)) is not None]
        own = (values[0] - values[1], values[1] - values[0])
        asked = (
            [[use.arguments, arguments_of(use)] for use in side.list_tool_uses(exchange)] for side, exchange in sides
        )
        return all(mine <= Counter(scalars([*map(list, uses)])) for mine, uses in zip(own, asked, strict=True))

    def answer(
        self, x: Item, y: Item, changes: tuple[Difference, ...], kind: Kind, *, asked_otherwise: bool
    ) -> Divergence:
        """Return the divergence of two calls that were answered otherwise."""
        what = "reply" if kind is Kind.REPLY or x.sort == "http" else "result"
        first = changes[0]
        note = first.note or " -> ".join(
            "absent" if side is ABSENT else texts.shorten(canonical(side), 24) for side in (first.recorded, first.now)
        )
        told = f"{what} changed, {first.path} {note}"
        chunks = [self.reader.read_chunks(one.exchange.outcome) for one in (x, y)] if x.sort == "retrieval" else []
        moved = describe_moved_chunks(*chunks) if chunks and all(chunks) else ()
        cause = "the same request was answered otherwise: the model samples, or another version of it answers"
        if kind is Kind.RESULT:
            cause = "the same call was answered otherwise: the world behind it changed between the two runs"
        if asked_otherwise:
            cause = "the call was another one too (see above), which may well be why"
        return self.recorded.make_divergence(
            kind,
            f"{self.recorded.name(x.exchange.call)}: {moved[0] if moved else told}",
            x.exchange,
            recorded=x.exchange,
            now=y.exchange.call,
            differences=changes,
            cause=cause,
            detail=moved[1:],
        )

    def other(self, x: Item, y: Item) -> Divergence:
        """Return the divergence of one call in the place of another."""
        lines = [format_line(item.exchange.call, self.reader) for item in (x, y)]
        return self.recorded.make_divergence(
            Kind.TOOL,
            f"{self.now.name(y.exchange.call)} called instead of {self.recorded.name(x.exchange.call)}",
            x.exchange,
            recorded=x.exchange,
            now=y.exchange.call,
            differences=(Difference("call", *lines),),
            cause="the model's reply before it is the same, so the code after that reply chose otherwise",
        )

    def alone(self, x: Item | None, y: Item | None, state: _State, lane: str) -> Divergence | None:
        """Return the divergence of a call that only one of the runs made; None when another reply asked for it."""
        state.results = True
        state.parted = state.parted or "model" in {one.sort for one in (x, y) if one is not None}
        if state.reply:
            return None
        if x is not None:
            kind, what, cause = Kind.MISSING, "was not called", "the other run went on without this call"
        else:
            kind, what, cause = Kind.EXTRA, "called, which is not recorded here", "the other run made one call more"
        recorded, now = (None if item is None else item.exchange for item in (x, y))
        old, new = (ABSENT if side is None else format_line(side.call, self.reader) for side in (recorded, now))
        call = next(side.call for side in (recorded, now) if side is not None)
        return self.recorded.make_divergence(
            kind,
            f"{self.recorded.name(call)} {what}",
            recorded or state.last,
            lane=lane,
            recorded=recorded,
            now=None if now is None else call,
            differences=(Difference("call", old, new),),
            cause=cause,
        )

    def moved(self, x: Item, y: Item, state: _State, pairs: list[Pair]) -> tuple[Divergence | None, ...]:
        """Return the divergence of a call that came at another place; nothing at its second place (`y` is `x`)."""
        if y is x or state.reply:
            return ()
        if unordered(x, y, pairs):
            return self.tool(x, y, state)
        later = pairs.index((x, None)) < pairs.index((None, y))
        name = self.recorded.name(x.exchange.call)
        divergence = self.recorded.make_divergence(
            Kind.ORDER,
            f"{name} came {'later' if later else 'earlier'} than recorded",
            x.exchange,
            recorded=x.exchange,
            now=y.exchange.call,
            cause="the code makes its calls in another order; nothing else about this call differs",
        )
        return (divergence,)

    def told(self, change: ContentChange, x: Item, y: Item) -> Divergence:
        cause = change.cause
        if not cause and y.sort == "tool":
            cause = explain_arguments(self.recorded, x.exchange, y.exchange.call)
        source = self.recorded.find_source(change, x.exchange)
        return self.recorded.make_divergence(
            change.kind,
            change.what,
            x.exchange,
            recorded=x.exchange,
            now=y.exchange.call,
            differences=change.differences,
            cause=cause,
            hints=change.hints,
            detail=(source,) if source else (),
        )

    def translated(self, x: Item, y: Item) -> Call:
        """Return the call of `y`, with the ids that its replies minted under the names that they have beside `x`."""
        call = y.exchange.call
        by_name = {told: word for word, told in self.read[0][x.lane].names.items()}
        by_reply = {(ordinal, place): word for word, (lane, ordinal, place) in self.minted[0].items() if lane == x.lane}
        names = {}
        for word, told in self.read[1][y.lane].names.items():
            lane, ordinal, place = self.minted[1].get(word, ("", 0, 0))
            after = by_reply.get((ordinal + x.ordinal - y.ordinal, place)) if lane == y.lane else None
            if instead := by_name.get(told) or (after if word not in self.minted[0] else None):
                names[word] = instead
        names = {word: instead for word, instead in names.items() if word != instead}
        if not names:
            return call
        if isinstance(call, ToolCall):
            return replace(call, arguments=json.loads(renamed(json.dumps(call.arguments, ensure_ascii=False), names)))
        text = call.body.data.decode("utf-8", "surrogateescape")
        return replace(call, body=Body(renamed(text, names).encode("utf-8", "surrogateescape")))


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


def _inherited(one: Difference, x: Item, y: Item, state: _State) -> bool:
    """Return whether a difference of two model calls only carries an earlier one along."""
    assert x.reading is not None
    assert y.reading is not None
    readings = (x.reading, y.reading)
    reading = readings[1] if one.recorded is ABSENT else readings[0]
    if reading.messages_at and is_below(one.path, reading.messages_at):
        who = find_owner(one, readings)
        if (state.reply and who in {"assistant", "tool"}) or (state.results and who == "tool"):
            return True
        at = find_message_indexes(one, reading)
        if at is None or (one.now is ABSENT and x.dropped != y.dropped):
            return False
        sides = ((one.recorded, x.new), (one.now, y.new))
        return not any(index in at for side, new in sides if side is not ABSENT for index in new)
    if any(is_below(one.path, name) for name in (*x.sections, *y.sections)):
        return not any(is_below(one.path, name) for name in x.changed | y.changed)
    return state.parted


def _with_others(told: list[Divergence]) -> list[Divergence]:
    """Return the divergences; the first also says where other lanes diverge: nothing fixes an order between them."""
    if not told:
        return told
    first = told[0]
    elsewhere = {one.lane: one for one in reversed(told) if one.lane != first.lane}
    lines = sorted(one.also() for one in elsewhere.values())
    return [replace(first, detail=(*first.detail, *lines)), *told[1:]]


def _outcome(a: Run, b: Run) -> Iterator[Divergence]:
    """Yield how the tests ended, where both say so."""
    old, new = dict(a.header.outcome), dict(b.header.outcome)
    if not old or not new:
        return
    for side in (old, new):
        if isinstance(text := side.get("message"), str):
            side["message"] = text.partition("\n")[0]
    found = diff(old, new)
    if found:
        said_by = [
            str(side.get("status", "?")) + (f" ({side['type']})" if side.get("type") else "") for side in (old, new)
        ]
        yield Divergence(
            Kind.OUTCOME,
            f"the test ended {said_by[1]}, recorded {said_by[0]}",
            differences=found,
            cause="look at the divergences before it; without any, the test or its fixtures changed",
        )
