"""One test forked: recorded replies before a turn, the real model from there on, into a pending run.

`pytest --snapshot-record --replay-until=TURN`. The snapshot stays as it is, whatever comes of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.backends.fork import ForkBackend, RecordedAnswers, before_turn
from pytest_agentreplay.core.redaction.placeholders import variables_in
from pytest_agentreplay.core.release_order import Started
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.runs.recording_session import RecordingSession
from pytest_agentreplay.runs.replay_session import matching_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.backends.backend import RecordBackend
    from pytest_agentreplay.core.model import Exchange, Run
    from pytest_agentreplay.report.findings import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store


class ForkSession(RecordingSession):
    """Records a test whose first turns are served from its snapshot, which is there and readable."""

    def __init__(self, place: Location, settings: Settings, store: Store) -> None:
        """Raises SettingsError for a turn at which the snapshot cannot be forked."""
        super().__init__(place, settings, store)
        assert self.previous is not None
        kit = self.previous.run.header.kit
        self.redaction.recall(kit)
        reserved = self.redaction.reserve(variables_in(kit))
        self.backend.answers.keep_apart(reserved, self.redaction)
        self.interception.started = Started(kit.get("starts", {}))

    def recording(self, note: Callable[[Exchange], None]) -> RecordBackend:
        """Return the backend that serves the turns before the fork."""
        assert self.previous is not None
        run, self.turn = before_turn(self.previous.run, READER, self.settings.replay_until)
        answers = RecordedAnswers(run, matching_of(self.place, self.settings), READER)
        live_tools = self.settings.replay_tools == "live"
        self.backend = ForkBackend(answers, READER, note, live_tools=live_tools)
        return self.backend

    def end_body(self, ended: EndedRun) -> Finding | None:
        """A call that nobody has recorded, and that may not be made, fails the test."""
        finding = super().end_body(ended)
        if self.backend.divergence is None:
            return finding
        assert self.previous is not None
        facts = {"file": str(self.place.snapshot), "recorded": self.previous.run.header.recorded}
        return self.parted(self.backend.divergence, {**facts})

    def _sealed(self, ended: EndedRun) -> Run:
        assert self.previous is not None
        served, before = self.backend.served, self.previous.run
        count = sum(x.start in served for x in before.exchanges if x.parent is None)
        self.details = {"forked": {"turn": self.turn, "from": before.header.recorded, "served": count}}
        asked = self.backend.asked
        self.told["forked"] = f"forked at turn {self.turn} (calls served: {count}, model calls made: {asked})"
        return super()._sealed(ended)

    def _keeps_old(self, ended: EndedRun) -> str:
        """Every fork waits for a person."""
        del ended
        return str(self.told["forked"])
