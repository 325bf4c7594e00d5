"""Which frames of a recorded connection may come when: never an answer before its question.

The agent's messages and what came back stand in one order. What came after a message is released as soon as all
messages up to it were made, in whatever legal order they are made now. A message that the recording made inside another
exchange (a request within a frozen tool) is never made in a replay: nobody waits for it, and what answered it is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_agentreplay.model.exchanges import FrameCall, FramesReply

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Exchange, Frame, Run

    class FrameTopic(Protocol):
        """Tells which question a message is about."""

        def __call__(self, data: bytes, *, by_agent: bool) -> Hashable | None:
            """What a message of the agent, or one of the other side, is about; None: nothing that was asked."""


def connections(run: Run) -> dict[int, tuple[Exchange, ...]]:
    """The exchanges of each connection in order of start, by the `start` of its opening, which is the first of them."""
    by_opening: dict[int, list[Exchange]] = {}
    for x in run.exchanges:
        if isinstance(x.call, FrameCall):
            by_opening.setdefault(x.start if x.call.connection is None else x.call.connection, []).append(x)
    return {opening: tuple(theirs) for opening, theirs in by_opening.items()}


class Release:
    """The exchanges of one connection, its opening among them; constant work per message."""

    def __init__(
        self, exchanges: Sequence[Exchange], about: FrameTopic | None = None, *, at_once: bool = False
    ) -> None:
        """`exchanges` in order of start. `about` tells which message of the agent a frame answers, and vice versa.

        Without `about`, what was taken inside another exchange is kept, and nothing else. `at_once` releases what came
        after a message with it, whether those before it were made or not.
        """
        self._exchanges = exchanges
        self._at_once = at_once
        self._about = about
        self._front = 0
        self._made: set[int] = set()
        inner = [x for x in exchanges if x.parent is not None]
        self._kept = (
            frozenset(about(x.call.body.data, by_agent=True) for x in inner if isinstance(x.call, FrameCall))
            if about
            else ()
        )

    def mark_made(self, start: int) -> tuple[Exchange, ...]:
        """Return the exchanges that are released now that the message recorded as `start` was made, in order."""
        if self._at_once and start not in self._made:
            self._made.add(start)
            self._front = len(self._exchanges) if len(self._made) == len(self._exchanges) else 0
            return tuple(x for x in self._exchanges if x.start == start)
        self._made.add(start)
        first = self._front
        while self._front < len(self._exchanges):
            x = self._exchanges[self._front]
            if x.parent is None and x.start not in self._made:
                break
            self._front += 1
        return tuple(self._exchanges[first : self._front])

    def frames(self, reply: FramesReply) -> Iterator[Frame]:
        """The frames of `reply`, an outcome as it is served, that are for the agent of a replay."""
        for frame in reply.frames():
            if self._about is None:
                if not frame.inner:
                    yield frame
            elif (subject := self._about(frame.data, by_agent=False)) is None or subject not in self._kept:
                yield frame

    @property
    def complete(self) -> bool:
        """Whether all messages were made, so that nothing more will be released."""
        return self._front == len(self._exchanges)
