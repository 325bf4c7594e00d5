"""A replay that stops in the debugger at one turn (`--replay-break`), before the answer to its model call is given."""

from __future__ import annotations

import pdb  # noqa: F401, T100  loaded before the session opens, which stops the clock only at prompts that it knows
import warnings
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import Refused, Replayed
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.exchanges import ToolCall
from pytest_agentreplay.model.turns import is_model, seat, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.runs.replay_session import ReplaySession

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.backends.backend import Moment, Verdict
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot


class BreakingBackend(ReplayBackend):
    """Calls `stop` at the first model call of one turn: with the call, its recorded exchange, and both bodies."""

    def __init__(self, run: Run, matching: Matching, turn: int, stop: Callable[..., None]) -> None:
        """`stop` is called once, in the thread or task that makes the call, and under no lock."""
        super().__init__(run, matching, READER)
        self._turns = turns(run, READER)
        self._turn = turn
        self._stop: Callable[..., None] | None = stop

    @property
    def reached(self) -> bool:
        """Whether the turn has come."""
        return self._stop is None

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Decide as always, and stop before the decision is carried out."""
        verdict = super().decide(call, moment)
        stop = self._stop
        if stop is not None and is_model(call, READER) and self._find_turn(verdict) == self._turn:
            self._stop = None
            recorded = verdict.exchange if isinstance(verdict, Replayed) else None
            request = call.tree if isinstance(call, ToolCall) else content(call.headers, call.body).tree
            reply = READER.read_reply(call, recorded.outcome) if recorded is not None else verdict
            stop(call, recorded, request, reply)
        return verdict

    def _find_turn(self, verdict: Verdict) -> int:
        if isinstance(verdict, Replayed):
            return seat(self._turns, verdict.exchange).turn.number
        return verdict.divergence.turn if isinstance(verdict, Refused) else 0

    @property
    def last(self) -> int:
        """The number of the last turn."""
        return max((turn.number for turn in self._turns), default=0)


class BreakingSession(ReplaySession):
    """An ordinary replay, with one stop."""

    def __init__(
        self, place: Location, settings: Settings, snapshot: Snapshot, edited: Sequence[str], stop: Callable[..., None]
    ) -> None:
        """`stop` stands in the debugger: whoever knows the debugger gives it."""
        self._break = settings.replay_break, stop
        super().__init__(place, settings, snapshot, edited)

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend that stops."""
        self.breaking = BreakingBackend(recorded, matching, *self._break)
        return self.breaking

    def end_body(self, ended: EndedRun) -> Finding | None:
        """As a replay; a turn that did not come is a warning."""
        if not self.breaking.reached:
            warnings.warn(f"--replay-break={self._break[0]}: the run has {self.breaking.last} turns", stacklevel=1)
        return super().end_body(ended)
