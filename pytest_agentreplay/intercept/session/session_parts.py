"""The parts of an interception: its clock, how far it has come to its end, which calls are its own, its tools.

Its lanes and the activity of its threads are in `lanes`, the calls under way in `pending_call`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType

    from pytest_agentreplay.backends.backend import Moment, Replayed
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, HttpCall, Json, Outcome, RawCall
    from pytest_agentreplay.values import Codec


OPEN_CASSETTES: list[Any] = []
"""What vcrpy plays from in this process, as `intercept.http.vcrpy` keeps it, the innermost last."""


class Redactor(Protocol):
    """What the interception needs of `redaction.redaction`."""

    def redact_call(self, raw: RawCall, is_recorded: Callable[[Call], bool] | None = None) -> Call:
        """Return the call as it may be stored. One that `is_recorded` byte for byte is redacted already."""

    def redact_content(self, call: Call) -> Call:
        """Return a call of which no header is stored as it may be shown."""

    def redact_outcome(self, call: Call, outcome: Outcome) -> Outcome:
        """Return the outcome as it may be stored."""

    def reveal(self, outcome: Outcome) -> Outcome:
        """A stored outcome as it is served: today's places in the marks' stead."""

    def redact_text(self, text: str) -> str:
        """Any other text as it may be stored."""

    def hide(self, text: str) -> str:
        """A text as it may be shown."""

    def learn(self, category: str, value: str) -> bool:
        """Keep `value` out from now on; False for one that is too short or too common."""


class RunSteps(Protocol):
    """The clock and the seeds: they move when a call is done, and only then."""

    def step(self, at: int, lane: str, count: int) -> None:
        """A call of `lane` (its `count`-th) was done, `at` nanoseconds after the run began."""


class RunClock:
    """The time of a run, and what moves when a call is done.

    Attributes:
        now: Return the nanoseconds since the run began.
        count: Read the counter that numbers starts and finishes, where the backend keeps one.
        steps: The clock and the seeds that the agent sees; None where they are the real ones.
    """

    def __init__(self, steps: RunSteps | None, now: Callable[[], int] | None, count: Callable[[], int]) -> None:
        began = clocks.monotonic_ns()
        self.steps = steps
        self.now = now or (lambda: clocks.monotonic_ns() - began)
        self.count = count
        self._done: dict[str, int] = {}  # by lane, how many of its calls are done

    def advance(self, lane: str, at: int) -> None:
        """Step the clock and the seeds: an outermost call of `lane` is done."""
        if self.steps is not None:
            count = self._done[lane] = self._done.get(lane, 0) + 1
            self.steps.step(at, lane, count)

    def clear(self) -> None:
        """Forget how many calls of each lane were done."""
        self._done.clear()


class Ending:
    """How far a test has come to its end, and what came too late.

    Attributes:
        over: Set once the test has ended.
        body_over: Whether its body has; fixtures may still make calls.
        late: Calls that came after the end, each with its place in the code.
        refused: The first divergence: once there is one, nobody needs to wait for another call.
        on_refusal: Called with the first divergence, for those who wait.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self.body_over = False
        self.late: list[str] = []
        self.refused: Divergence | None = None
        self.on_refusal: Callable[[Divergence], None] | None = None

    def clear(self) -> None:
        """Forget the end of another run."""
        self.body_over = False
        self.refused = self.on_refusal = None
        self.late.clear()


class CallScope:
    """Which calls are recorded or replayed, and what is changed in them.

    Attributes:
        takes: Return whether an HTTP call is this test's own; None for all. The others go through.
        hosts: Hosts that the test may reach.
        changes: What a live run changes in requests to models.
        answers: What answers a call that is recorded while vcrpy plays; it may have no answer.
    """

    def __init__(self) -> None:
        self.takes: Callable[[HttpCall], bool] | None = None
        self.hosts = DeclaredHosts(())
        self.changes: Mapping[str, Json] = {}
        self.answers: Callable[[RawCall, Call, Moment], Replayed | None] | None = None


class ToolRegistry:
    """The tools of a test.

    Attributes:
        codecs: Those that the test has registered.
        uncompared: What of recorded arguments is compared by class alone: by tool, path and class, why.
        seen: Names of tools that a patch intercepts, whether they were called or not.
        functions: Names of tools that were called as functions: no framework intercepts them.
        live: Shown names of tools that run for real, in a replay too.
        read_tools: Shown names of tools that change nothing; "*" stands for any letters.
        running: By the functions of a tool and the number of a call, the function that was called, and the call.
    """

    def __init__(self) -> None:
        self.codecs: list[Codec] = []
        self.uncompared: dict[tuple[str, str, str], str] = {}
        self.seen: set[str] = set()
        self.functions: set[str] = set()
        self.live: set[str] = set()
        self.read_tools: tuple[str, ...] = ()
        self.running: dict[tuple[object, int], tuple[Any, Any]] = {}

    def reads(self, name: str) -> bool:
        """Return whether a tool of this name was declared to change nothing."""
        if not self.read_tools:
            return False
        from pytest_agentreplay.compare.tolerance import is_named

        return any(is_named(name, pattern) for pattern in self.read_tools)

    def clear(self) -> None:
        """Forget what another run has seen."""
        self.seen.clear()
        self.functions.clear()
        self.uncompared.clear()
        self.running.clear()


class Observations:
    """What a session sees beside its calls.

    Attributes:
        servers: Recorded exchanges in which a server of this process made calls.
        serving: Numbers of the exchanges in which such a server has made calls of its own.
        importing: Modules of the project that made requests while they were imported.
        callers: Functions from which a call was let through.
        trace: Ids of the first span that was open around a recorded call.
        problems: Why this run cannot be written.
    """

    def __init__(self) -> None:
        self.servers: frozenset[int] = frozenset()
        self.serving: set[int] = set()
        self.importing: set[str] = set()
        self.callers: set[CodeType] = set()
        self.trace: dict[str, str] = {}
        self.problems: list[Exception] = []

    def note_problem(self, why: Exception | None) -> None:
        """Note why this run cannot be written, each reason once; None is no reason."""
        if why is not None and str(why) not in map(str, self.problems):
            self.problems.append(why)
