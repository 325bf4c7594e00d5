"""The protocol of a backend: a patch asks it about each call, and it returns one of three decisions.

The backend that lets through and remembers.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from pytest_agentreplay.model.exchanges import Exchange, Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, Outcome


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when a call happens: lane, nanoseconds since the run began, attempt, enclosing exchange.

    `reads` says that somebody has declared what is called to change nothing, `agent` names the agent that calls.
    """

    lane: str
    at: int
    attempt: int = 1
    parent: int | None = None
    reads: bool = False
    agent: str = ""


@dataclass(frozen=True, slots=True)
class PassThrough:
    """Go to the world, then have `recorder` settle `ticket` (the exchange's `start`)."""

    ticket: int
    recorder: Recorder


@dataclass(frozen=True, slots=True)
class Replayed:
    """Return the agent this recorded exchange's outcome; `ticket` is the arrival's own number.

    With `compare` the call is also made for real, and what came of it is handed there, redacted, with the agent's line
    and what was recorded, where the exchange alone does not tell that. `handed` is to be called when a task has got the
    answer: others have had their chance before. `early` is there where the call came too early, and is to be given the
    agent's line. `hold` returns whether the answer waits until nothing else can make a call.
    """

    exchange: Exchange
    ticket: int
    compare: Callable[[Outcome, str, Outcome | None], None] | None = None
    handed: Callable[[], object] | None = None
    early: Callable[[str], object] | None = None
    hold: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no answer; the backend stays refused from now on."""

    divergence: Divergence


Verdict: TypeAlias = PassThrough | Replayed | Refused


class Backend(Protocol):
    """What decides on the calls of a test. Safe to ask from any thread."""

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Decide on a call that is about to happen."""

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first divergence, with the agent's line that made the call; return the one that is kept."""


class Recorder(Protocol):
    """What keeps the outcomes of the calls that a backend lets through."""

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Keep the outcome of the call `ticket`."""


@runtime_checkable
class RecordingBackend(Backend, Recorder, Protocol):
    """A backend that records: it also keeps in which order answers come."""

    def part(self, ticket: int, chunks: int, *, at_once: bool = False) -> None:
        """Note how far the answer of a call that was forwarded has come, in chunks; 0: it has begun.

        `at_once` says that its caller has not given way to anybody so far.
        """

    def hand_over(self, recorded: int) -> None:
        """Note that the answer recorded as `recorded`, which was served, has come."""


@runtime_checkable
class RecordedRun(Protocol):
    """What a session asks of a backend that answers from a recording."""

    @property
    def at_once(self) -> bool:
        """Whether answers over a connection wait for none but their own question."""

    def recognise(self, call: Call) -> bool:
        """Return whether these exact bytes are in the recording: they are redacted already, and need no scan."""

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return what is recorded of the lasting connection that the exchange `opening` opened, that one included."""


class RecordBackend:
    """Forwards every call and keeps it with its outcome. `note` gets each exchange as soon as it has ended."""

    def __init__(self, note: Callable[[Exchange], None] | None = None) -> None:
        """Begin with nothing recorded; `note` is called under no lock, from the thread that settles."""
        self._note = note
        self._lock = threading.Lock()
        self._count = 0
        self._exchanges: dict[int, Exchange] = {}
        self._parts: dict[int, list[tuple[int, int]]] = {}
        self._at_once: dict[int, int] = {}
        self.served: dict[int, int] = {}  # by `start` in a recording, that of now, of calls whose reply was there

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Always forward; the ticket is the exchange's `start`."""
        return PassThrough(self.begin(call, moment), self)

    def begin(self, call: Call, moment: Moment) -> int:
        """Keep a call without its outcome; return the exchange's `start`."""
        with self._lock:
            self._count += 1
            start = self._count
            self._exchanges[start] = Exchange(  # not by `replace`, which takes three times as long, in every call
                call,
                None,
                start,
                None,
                moment.lane,
                moment.attempt,
                parent=moment.parent,
                timing=Timing(moment.at),
                agent=moment.agent,
            )
        return start

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
            x = self._exchanges[ticket]
            timing, parts = Timing(x.timing.start, first, at), tuple(self._parts.pop(ticket, ()))
            at_once = self._at_once.pop(ticket, -1) if suspended else -1
            self._exchanges[ticket] = done = Exchange(
                x.call, outcome, x.start, self._count, x.lane, x.attempt, suspended, x.parent, timing, parts, at_once,
                x.agent,
            )  # fmt: skip
        if self._note is not None:
            self._note(done)

    def latch(self, divergence: Divergence, origin: str) -> Divergence:  # noqa: ARG002  the protocol of a backend
        """Return the divergence: a recorder never refuses, so there is nothing to keep."""
        return divergence

    def serve_outcome(self, call: Call, outcome: Outcome, moment: Moment) -> Replayed:
        """Record `call` with an outcome that is there already, and took no time; it ends when that was handed over."""
        start = self.begin(call, moment)
        with self._lock:
            self.served[start] = start
            timing = Timing(moment.at, moment.at, moment.at)
            self._exchanges[start] = replace(self._exchanges[start], outcome=outcome, timing=timing)
        self.hand_over(start)
        if self._note is not None:
            self._note(self._exchanges[start])
        return Replayed(self._exchanges[start], start, handed=partial(self.hand_over, start))

    def hand_over(self, recorded: int) -> None:
        """Note that the answer recorded as `recorded` has come, as far as it has."""
        with self._lock:
            self._count += 1
            start = self.served[recorded]
            parts = tuple(self._parts.get(start, ()))
            self._exchanges[start] = replace(self._exchanges[start], finish=self._count, parts=parts)

    def count(self) -> int:
        """Return the last reading of the counter that numbers starts and finishes."""
        with self._lock:
            return self._count

    def list_exchanges(self) -> tuple[Exchange, ...]:
        """Return what has been recorded so far, in order of `start`; calls still under way have no outcome."""
        with self._lock:
            return tuple(self._exchanges.values())
