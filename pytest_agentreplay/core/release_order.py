"""In which order the answers of a run came: what a replay hands over next, and what must have been asked before.

An answer comes in parts: its beginning, its chunks, its end. Most have one event, their end; a stream has more where
something else happened while it flowed. All work is constant per call.

Messages over lasting connections and calls of child processes stand outside: the first are released by the agent's own
messages, the others are made by a program that nobody here can wait for.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.core.model import FrameCall, HttpReply, ToolReply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.core.model import Exchange

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
        self._asked: set[int] = set()
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
        ends = [(x.timing.end, x) for x in self.exchanges.values() if not x.suspended and x.timing.end is not None]
        ends.sort(key=lambda one: one[0])
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
        self._asked.add(start)

    def next(self) -> ReleaseEvent | None:
        """What comes next; None when all has come."""
        while (
            self._at < len(self.events) and self.released(self.events[self._at].start) >= self.events[self._at].chunks
        ):
            self._at += 1
        return self.events[self._at] if self._at < len(self.events) else None

    def come(self, event: ReleaseEvent) -> None:
        """`event` has come. One that was not the next is passed over later."""
        self._released[event.start] = max(event.chunks, self._released.get(event.start, -1))
        self.last = event

    def released(self, start: int) -> int:
        """How many chunks of an answer have come: -1 before it has begun, END at its end."""
        return END if start in self._dropped else self._released.get(start, -1)

    def drop(self, start: int) -> None:
        """Nobody waits for the rest of this answer any more, or it has come out of turn."""
        if start in self.exchanges:
            self._dropped.add(start)

    def to_be_asked(self, reading: int) -> Exchange | None:
        """The first call that was made before `reading`, and has not been made yet."""
        while self._front < len(self._starts) and self._starts[self._front] in self._asked:
            self._front += 1
        if self._front < len(self._starts) and self._starts[self._front] < reading:
            return self.exchanges[self._starts[self._front]]
        return None

    def before(self, start: int) -> Exchange | None:
        """The call that was made before the one recorded as `start`; None for the first."""
        place = bisect_left(self._starts, start)
        return self.exchanges[self._starts[place - 1]] if place else None

    def expect_no_more(self, start: int) -> None:
        """Do not wait for this call to be made."""
        self._asked.add(start)

    def asked(self, start: int) -> bool:
        """Whether the call was made, or is not waited for."""
        return start in self._asked

    def early(self, start: int) -> ReleaseEvent | None:
        """What had come before this call was made, and has not come yet."""
        event = self.next()
        return event if event is not None and event.reading < start else None


def _in_order(x: Exchange, apart: tuple[str, ...]) -> bool:
    return (
        x.parent is None
        and not isinstance(x.call, FrameCall)
        and not any(x.lane == lane or x.lane.startswith(f"{lane}.") for lane in apart)
    )


def _events(exchanges: Iterable[Exchange]) -> list[ReleaseEvent]:
    found: list[ReleaseEvent] = []
    for x in exchanges:
        found += [ReleaseEvent(reading, x.start, chunks, _when(x, chunks)) for reading, chunks in x.parts]
        if x.finish is not None and x.outcome is not None and not x.abandoned:
            chunks = _chunks(x)
            found.append(ReleaseEvent(x.finish, x.start, chunks, _when(x, chunks)))
    found.sort()
    return found


def _chunks(x: Exchange) -> int:
    """How many chunks had come when the call ended; END where the other side ended it."""
    reply = x.outcome
    if not isinstance(reply, HttpReply | ToolReply):
        return END
    if not reply.closed and (reply.failure is None or not reply.failure.cancelled):
        return END
    return len(reply.cuts) if isinstance(reply, HttpReply) else len(reply.items or ())


def _when(x: Exchange, chunks: int) -> int:
    """About when so many chunks had come."""
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
    found, ahead = [], END
    for event, at in zip(reversed(ordered), reversed(times), strict=True):
        ahead = min(ahead, began[event.start])
        found.append(event._replace(reading=ahead, at=at))
    return found[::-1]
