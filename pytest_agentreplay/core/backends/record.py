"""The backend that lets through and remembers."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.backends.backend import Moment, PassThrough
from pytest_agentreplay.core.model import Exchange, Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.model import Call, Outcome


class RecordBackend:
    """Forwards every call and keeps it with its outcome. `note` is told each exchange as soon as it has ended."""

    def __init__(self, note: Callable[[Exchange], None] | None = None) -> None:
        """Begin with nothing recorded; `note` is called under no lock, from the thread that settles."""
        self._note = note
        self._lock = threading.Lock()
        self._count = 0
        self._exchanges: dict[int, Exchange] = {}
        self._parts: dict[int, list[tuple[int, int]]] = {}
        self._at_once: dict[int, int] = {}

    def recognise(self, call: Call) -> bool:  # noqa: ARG002  the Gate protocol: nothing is recorded yet, so nothing is known
        """Never: each call has to be scanned for secrets before it is kept."""
        return False

    def connection(self, opening: int) -> tuple[Exchange, ...]:  # noqa: ARG002  the Gate protocol
        """Nothing: a recorder has no recording."""
        return ()

    def decide(self, call: Call, moment: Moment) -> PassThrough:
        """Always forward; the ticket is the exchange's `start`."""
        with self._lock:
            self._count += 1
            start = self._count
            self._exchanges[start] = Exchange(
                call,
                None,
                start,
                None,
                lane=moment.lane,
                attempt=moment.attempt,
                parent=moment.parent,
                agent=moment.agent,
                timing=Timing(start=moment.at),
            )
        return PassThrough(start)

    def part(self, ticket: int, chunks: int, *, at_once: bool = False) -> None:
        """The answer of `ticket` has come as far as `chunks` chunks or items (0: it has begun)."""
        with self._lock:
            self._count += 1
            self._parts.setdefault(ticket, []).append((self._count, chunks))
            if at_once:
                self._at_once[ticket] = chunks

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Complete the exchange `ticket`."""
        with self._lock:
            self._count += 1
            begun = self._exchanges[ticket]
            timing = Timing(begun.timing.start, first, at)
            at_once = self._at_once.pop(ticket, -1)
            done = replace(
                begun,
                outcome=outcome,
                finish=self._count,
                suspended=suspended,
                timing=timing,
                parts=tuple(self._parts.pop(ticket, ())),
                at_once=at_once if suspended else -1,
            )
            self._exchanges[ticket] = done
        if self._note is not None:
            self._note(done)

    def latch(self, divergence: Divergence, origin: str) -> Divergence:  # noqa: ARG002  the Gate protocol
        """A recorder never refuses; there is nothing to keep."""
        return divergence

    def count(self) -> int:
        """The last reading of the counter that numbers starts and finishes."""
        with self._lock:
            return self._count

    def exchanges(self) -> tuple[Exchange, ...]:
        """What has been recorded so far, in order of `start`; calls still under way have no outcome."""
        with self._lock:
            return tuple(self._exchanges.values())
