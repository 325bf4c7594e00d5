"""In which order the answers of a run came: what a replay hands over next, and what must have been asked before.

An answer comes in parts: its beginning, its chunks, its end. Most have one event, their end; a stream has more where
something else happened while it flowed. All work is constant per call.

Messages over lasting connections and calls of child processes stand outside: the first are released by the agent's own
messages, the others are made by a program that nobody here can wait for.

Lanes of threads, jobs and tasks, known by what was started: a replay finds them whichever of them calls first.

A label is the name of the function that runs, and how many its starter had begun of it before. Threads of libraries
that only one of two runs needs (a resolver, a reader) have names of their own and move nobody else's number.

What must have been answered before a recorded call may come: the order of a run as a replay has to keep it.

Inside a lane the order is strict. A lane that another one began comes after whatever that one had been answered by
then. Between lanes nothing else binds but what the recording says of it (`after`: whoever started the lane had waited
for that call). That one call was over when another began may else be chance (a pool of few workers, two agents side by
side), and a replay, which waits for no network, throws those dice anew.

A call is answered when it was asked for, and handed over when its caller goes on. The first is enough inside a lane:
nobody asks twice at once there, and which thread of a pool takes what is chance. The second is needed where the
caller's lane began below the recorded one, so that the program now does in several strands what it did in one, and for
`after`.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.model.exchanges import FrameCall, HttpReply, ToolReply

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Exchange, JsonObject


class Label(NamedTuple):
    """The `nth` start of the function `name` in one lane, counted from 1."""

    name: str
    nth: int


class Started:
    """The labels of the lanes of a run, and the recorded lanes by label. Not safe from several threads by itself."""

    def __init__(self, recorded: object = None, *, records: bool = False) -> None:
        """Take what `list_labels` returned of the recorded run; it comes from a file: only the expected form is used.

        `records` is for a run that is recorded anew: it may have other lanes too.
        """
        self._records = records
        self._labels: dict[str, Label] = {}
        self._lanes: dict[tuple[str, Label], str] = {}
        self._recorded: dict[str, dict[str, None]] = {}
        self._instead: dict[tuple[str, str], str] = {}
        for path, label in recorded.items() if isinstance(recorded, dict) else ():
            match label:
                case [str(name), int(nth)]:
                    above = path.rpartition(".")[0]
                    self._lanes[above, Label(name, nth)] = path
                    self._recorded.setdefault(above, {})[name] = None
        self._taken = frozenset(self._lanes.values())
        self._names = {label.name for _, label in self._lanes}

    def lane(self, above: str, label: Label | None, starts: Mapping[str, int]) -> str | None:
        """Return the recorded lane of what the lane `above` has started as `label`; None where there is none.

        A function that the recording does not know may have been renamed. It then stands for the first one that is
        not started any more. `starts` are the functions that were started so far.
        """
        if label is None or not self._lanes:
            return None
        names = self._recorded.get(above, {})
        if label.name not in names and (above, label.name) not in self._instead:
            replaced = {name for (lane, _), name in self._instead.items() if lane == above}
            gone = (name for name in names if not starts.get(name) and name not in replaced)
            self._instead[above, label.name] = next(gone, "")
        name = self._instead.get((above, label.name), label.name)
        return self._lanes.get((above, Label(name, label.nth)))

    def has(self, name: str) -> bool:
        """Return whether lanes may be labelled `name`: in a recording, and in a replay of one that has such lanes."""
        return self._records or not self._lanes or name in self._names

    def is_recorded(self, path: str) -> bool:
        """Return whether `path` is the recorded lane of a thread, job or task."""
        return path in self._taken

    def note(self, path: str, label: Label) -> None:
        """Keep that the lane `path` was started as `label`."""
        self._labels[path] = label

    def list_labels(self, lanes: Collection[str]) -> JsonObject:
        """Return the labels of those of `lanes` that a thread, job or task has, as a snapshot keeps them."""
        return {path: [*self._labels[path]] for path in sorted(lanes) if path in self._labels}


BEGUN = 0
"""The answer has begun, and none of its chunks has come."""

END = 1 << 60
"""The answer is there, to its end."""


COLLISION = 1_000_000
"""Nanoseconds within which two threads' answers count as simultaneous."""


class ReleaseEvent(NamedTuple):
    """At `reading` of the counter, `at` nanoseconds after the run began, the answer to `start` came up to `chunks`."""

    reading: int
    start: int
    chunks: int
    at: int


class ReleaseSchedule:
    """The events of a run, and how far a replay has come with them. Not safe from several threads by itself."""

    def __init__(
        self, exchanges: Iterable[Exchange], apart: Iterable[str] = (), completion: Sequence[int] | None = None
    ) -> None:
        """`apart` are the lanes of children. `completion` is another order of ends than the recorded, by `start`."""
        lanes = tuple(apart)
        self.exchanges = {x.start: x for x in exchanges if _in_order(x, lanes)}
        self.events = _events(self.exchanges.values())
        if completion is not None:
            self.events = _in_another_order(self.events, completion)
        self.last: ReleaseEvent | None = None
        """The event that came last."""
        self._at = 0
        self._starts = sorted(self.exchanges)
        self._front = 0
        self._made_calls: set[int] = set()
        self._released: dict[int, int] = {}
        self._dropped: set[int] = set()

    @property
    def matters(self) -> bool:
        """Whether two calls were under way at once or made by different lanes, or one never ended."""
        if len({x.lane for x in self.exchanges.values()}) > 1 or any(x.abandoned for x in self.exchanges.values()):
            return True
        latest = -1
        for start in self._starts:
            if start < latest:
                return True
            latest = max(latest, self.exchanges[start].finish or END)
        return False

    @property
    def collisions(self) -> int:
        """How many answers to threads came within a millisecond of another thread's, while both were waited for.

        Which of two such came first is chance, and what the threads then do may depend on it.
        """
        made = [x for x in self.exchanges.values() if x.timing.end != x.timing.start]  # not served by vcrpy at once
        ends = [(x.timing.end, x) for x in made if not x.suspended and x.timing.end is not None]
        ends.sort(key=lambda end: end[0])
        return sum(
            later - earlier < COLLISION and x.lane != y.lane and x.start < (y.finish or 0) and y.start < (x.finish or 0)
            for (earlier, x), (later, y) in pairwise(ends)
        )

    @property
    def came(self) -> tuple[int, ...]:
        """The exchanges whose answers have come so far, in the order in which they did."""
        return tuple(self._released)

    def holds(self, start: int) -> bool:
        """Whether the exchange is one of the order."""
        return start in self.exchanges

    def ask(self, start: int) -> None:
        """The call was made."""
        self._made_calls.add(start)

    def next_event(self) -> ReleaseEvent | None:
        """Return what comes next; None when all has come."""
        while (
            self._at < len(self.events)
            and self.count_released(self.events[self._at].start) >= self.events[self._at].chunks
        ):
            self._at += 1
        return self.events[self._at] if self._at < len(self.events) else None

    def mark_released(self, event: ReleaseEvent) -> None:
        """Note that `event` has come. One that was not the next is passed over later."""
        self._released[event.start] = max(event.chunks, self._released.get(event.start, -1))
        self.last = event

    def count_released(self, start: int) -> int:
        """Return how many chunks of an answer have come: -1 before it has begun, END at its end."""
        return END if start in self._dropped else self._released.get(start, -1)

    def drop(self, start: int) -> None:
        """Nobody waits for the rest of this answer any more, or it has come out of turn."""
        if start in self.exchanges:
            self._dropped.add(start)

    def to_be_asked(self, reading: int) -> Exchange | None:
        """The first call that was made before `reading`, and has not been made yet."""
        while self._front < len(self._starts) and self._starts[self._front] in self._made_calls:
            self._front += 1
        if self._front < len(self._starts) and self._starts[self._front] < reading:
            return self.exchanges[self._starts[self._front]]
        return None

    def expect_no_more(self, start: int) -> None:
        """Do not wait for this call to be made."""
        self._made_calls.add(start)

    def is_asked(self, start: int) -> bool:
        """Return whether the call was made, or is not waited for."""
        return start in self._made_calls

    def find_early(self, start: int) -> ReleaseEvent | None:
        """Return what had come before this call was made, and has not come yet."""
        event = self.next_event()
        return event if event is not None and event.reading < start else None


def _in_order(x: Exchange, apart: tuple[str, ...]) -> bool:
    return (
        x.parent is None
        and not isinstance(x.call, FrameCall)
        and not any(x.lane == lane or x.lane.startswith(f"{lane}.") for lane in apart)
    )


def _events(exchanges: Iterable[Exchange]) -> list[ReleaseEvent]:
    events: list[ReleaseEvent] = []
    for x in exchanges:
        events += [ReleaseEvent(reading, x.start, chunks, _estimate_time(x, chunks)) for reading, chunks in x.parts]
        if x.finish is not None and x.outcome is not None and not x.abandoned:
            chunks = _chunks(x)
            events.append(ReleaseEvent(x.finish, x.start, chunks, _estimate_time(x, chunks)))
    events.sort()
    return events


def _chunks(x: Exchange) -> int:
    """How many chunks had come when the call ended; END where the other side ended it."""
    reply = x.outcome
    if not isinstance(reply, HttpReply | ToolReply):
        return END
    if not reply.closed and (reply.failure is None or not reply.failure.cancelled):
        return END
    return len(reply.cuts) if isinstance(reply, HttpReply) else len(reply.items or ())


def _estimate_time(x: Exchange, chunks: int) -> int:
    """Return about when so many chunks had come."""
    timing, reply = x.timing, x.outcome
    end = timing.end if timing.end is not None else timing.start
    first = timing.first if timing.first is not None else end
    all_chunks = len(reply.cuts) if isinstance(reply, HttpReply) else len(getattr(reply, "items", None) or ())
    if chunks >= all_chunks:
        return end
    return first + (end - first) * chunks // all_chunks


def _in_another_order(events: Sequence[ReleaseEvent], completion: Sequence[int]) -> list[ReleaseEvent]:
    """The answers in the order of `completion`, each in one event, at the times at which the recorded ones came.

    The reading of an event is the first of those that are still to come: no call that was made after one of these is
    waited for.
    """
    rank: Mapping[int, int] = {start: place for place, start in enumerate(completion)}
    ends = {event.start: event._replace(chunks=END) for event in events}
    began = {event.start: event.reading for event in reversed(events)}
    times = sorted(event.at for event in ends.values())
    ordered = sorted(ends.values(), key=lambda event: (rank.get(event.start, len(rank)), event.reading))
    reordered, ahead = [], END
    for event, at in zip(reversed(ordered), reversed(times), strict=True):
        ahead = min(ahead, began[event.start])
        reordered.append(event._replace(reading=ahead, at=at))
    return reordered[::-1]


class Precedence:
    """Keeps track of what was answered; constant work per call. Calls that their caller gave up bind nobody."""

    def __init__(self, exchanges: Iterable[Exchange], begun: object = None, after: object = None) -> None:
        """Take the top-level exchanges of a run, what `late_lanes` gave, and the calls that each one was made after.

        The last two come from a file: of them nothing is believed but numbers of calls that can have been so.
        """
        self._exchanges = tuple(exchanges)
        self._open: dict[str, dict[int, tuple[Exchange, str]]] = {}
        self._holding: set[int] = set()
        by_start = {x.start: x for x in self._exchanges if not x.abandoned and x.made is not None}
        self._after: dict[int, tuple[Exchange, ...]] = {}
        for start, others in after.items() if isinstance(after, dict) else ():
            earlier = (
                [by_start[y] for y in others if isinstance(y, int) and y in by_start]
                if isinstance(others, list)
                else []
            )
            if start.isdecimal():
                self._after[int(start)] = tuple(y for y in earlier if (y.made or 0) < int(start))
        ended: dict[str, list[Exchange]] = {}
        self._began: dict[str, int] = {}
        for x in self._exchanges:
            for lane in (x.lane, *lanes_above(x.lane)):
                self._began[lane] = min(self._began.get(lane, x.start), x.start)
            if x.made is not None and not x.abandoned:
                ended.setdefault(x.lane, []).append(x)
        for lane, reading in begun.items() if isinstance(begun, dict) else ():
            if lane in self._began and isinstance(reading, int):
                self._began[lane] = min(self._began[lane], reading + 1)
        self._lanes = {lane: _Lane(theirs) for lane, theirs in ended.items()}
        self._from_above = {
            lane: tuple((up, self._began[branch]) for branch, up in pairwise((lane, *lanes_above(lane))))
            for lane in self._began
        }

    def answer(self, x: Exchange) -> None:
        """`x` is answered now."""
        if x.lane in self._lanes:
            self._lanes[x.lane].answer(x)

    def ask(self, x: Exchange, lane: str) -> None:
        """Note that `x` was asked for in `lane`: until `hand` its caller waits."""
        if x.made is not None and not x.abandoned:
            self._open.setdefault(x.lane, {})[x.start] = x, lane

    def hold(self, x: Exchange) -> None:
        """Note that `x` is answered, but handed over only when nothing else can make a call: writes alone wait."""
        self.answer(x)
        self._holding.add(x.start)

    def hand(self, x: Exchange) -> None:
        """Note that the caller of `x` goes on."""
        self._open.get(x.lane, {}).pop(x.start, None)

    def is_handed(self, x: Exchange) -> bool:
        """Return whether `x` was answered, and its caller has gone on."""
        return self.is_answered(x) and x.start not in self._open.get(x.lane, {})

    def is_answered(self, x: Exchange) -> bool:
        """Return whether `x` was answered."""
        return x.lane in self._lanes and self._lanes[x.lane].is_answered(x)

    def is_early(self, x: Exchange, lane: str = "") -> bool:
        """Return whether a call that must come before `x`, which is made in `lane` now, was not answered yet."""
        after = self._after.get(x.start)
        if after and not all(map(self.is_handed, after)):
            return True
        if x.lane in lanes_above(lane) and any(y.start not in self._holding for y, _ in self._list_open(x)):
            return True
        own = self._lanes.get(x.lane)
        if own is not None and not own.answered_until(x.start):
            return True
        for bound, moment in self._from_above.get(x.lane, ()):
            ended = self._lanes.get(bound)
            if ended is not None and not ended.answered_until(moment):
                return True
        return False

    def list_overtaken(self, x: Exchange, lane: str) -> list[Exchange]:
        """Return the calls due before `x` whose callers wait elsewhere, though one lane recorded them all.

        That lane is now split: into lanes below it, or new ones of tasks. Which thread of a pool takes what is chance.
        """
        waiting = [(y, other) for y, other in self._list_open(x) if other != lane]
        return [y for y, other in waiting if all(self._is_part(of, x.lane, y.suspended) for of in (lane, other))]

    def _is_part(self, other: str, lane: str, task: bool) -> bool:
        return lane in (other, *lanes_above(other)) or (task and other not in self._began)

    def _list_open(self, x: Exchange) -> list[tuple[Exchange, str]]:
        return [(y, lane) for y, lane in self._open.get(x.lane, {}).values() if (y.made or 0) < x.start]

    def ran_beside(self, lane: str, reading: int) -> bool:
        """Return whether the lane above `lane` had more answered after `reading`, before the first call of `lane`."""
        beginner = next((self._lanes[starter] for starter in lanes_above(lane)[:1] if starter in self._lanes), None)
        return lane in self._began and beginner is not None and beginner.ended_between(reading + 1, self._began[lane])

    def binding(self, x: Exchange) -> list[Exchange]:
        """All calls that must come before `x`, answered or not."""
        bounds = dict(self._bounds(x))
        after = self._after.get(x.start, ())
        return [
            y
            for y in self._exchanges
            if y in after or (y.made is not None and not y.abandoned and y.made < bounds.get(y.lane, 0))
        ]

    def _bounds(self, x: Exchange) -> tuple[tuple[str, int], ...]:
        """Lane by lane, the moment before which its ended calls must have been answered when `x` comes."""
        return ((x.lane, x.start), *self._from_above.get(x.lane, ()))


def requests_served(kit: JsonObject) -> dict[int, int]:
    """Return, for each call that a child process made to serve a recorded request, that request (0: of another run).

    The request is answered from the snapshot, so these calls need not come again, and no other waits for them.
    """
    served = kit.get("served")
    pairs = served.items() if isinstance(served, dict) else ()
    return {int(start): request for start, request in pairs if start.isdecimal() and isinstance(request, int)}


@lru_cache(maxsize=1024)
def lanes_above(lane: str) -> tuple[str, ...]:
    """Return the lanes that led to this one, the nearest first: "main.2.1" -> "main.2", "main"."""
    parts = lane.split(".")
    return tuple(".".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1))


class _Lane:
    """The ended calls of one lane, and how many of them were answered without a gap."""

    __slots__ = ("_done", "_finishes", "_front", "_rank")

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        ended = sorted((x.made or 0, x.start) for x in exchanges)
        self._finishes = [finish for finish, _ in ended]
        self._rank = {start: rank for rank, (_, start) in enumerate(ended)}
        self._done = [False] * len(ended)
        self._front = 0

    def answer(self, x: Exchange) -> None:
        rank = self._rank.get(x.start)
        if rank is not None:
            self._done[rank] = True
            while self._front < len(self._done) and self._done[self._front]:
                self._front += 1

    def is_answered(self, x: Exchange) -> bool:
        rank = self._rank.get(x.start)
        return rank is not None and self._done[rank]

    def answered_until(self, moment: int) -> bool:
        return self._front >= bisect_left(self._finishes, moment)

    def ended_between(self, earlier: int, later: int) -> bool:
        return bisect_left(self._finishes, earlier) < bisect_left(self._finishes, later)
