"""The protocol of a backend: a patch asks it about each call, and it returns one of three decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.model import Call, Exchange, Outcome


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
    """Go to the world, then settle `ticket` (the exchange's `start`)."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """Return the agent this recorded exchange's outcome; `ticket` is the arrival's own number.

    With `compare` the call is also made for real, and what came of it is handed there, redacted, with the agent's line
    and what was recorded, where the exchange alone does not tell that. `handed` is to be called when a task has got the
    answer: others have had their chance before. `early` is there where the call came too early, and is to be given the
    agent's line.
    """

    exchange: Exchange
    ticket: int
    compare: Callable[[Outcome, str, Outcome | None], None] | None = None
    handed: Callable[[], object] | None = None
    early: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no answer; the backend stays refused from now on."""

    divergence: Divergence


Verdict: TypeAlias = PassThrough | Replayed | Refused


class Backend(Protocol):
    """Recorder or Replayer. Both are safe to ask from any thread."""

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """What is recorded of the lasting connection that the exchange `opening` opened, that one included."""

    def recognise(self, call: Call) -> bool:
        """Whether these exact bytes are in the recording: they then are redacted already, and need no scan."""

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Decide on a call that is about to happen."""

    def part(self, ticket: int, chunks: int, *, at_once: bool = False) -> None:
        """Note how far the answer of a call that was forwarded has come, in chunks; 0: it has begun.

        `at_once` says that its caller has not given way to anybody so far.
        """

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Take the outcome of a call that was forwarded."""

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first divergence, with the agent's line that made the call; returns the one that is kept."""
