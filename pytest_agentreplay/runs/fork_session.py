"""One test forked: recorded replies before a turn, the real model from there on, into a pending run.

`pytest --snapshot-record --replay-until=TURN`. The snapshot stays as it is, whatever comes of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.backends.fork import ForkBackend, RecordedAnswers, turns_from
from pytest_agentreplay.core.redaction.placeholders import variables_in
from pytest_agentreplay.core.release_order import Started
from pytest_agentreplay.core.turns import is_model
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
        kit = self.backend.answers.run.header.kit
        self.redaction.recall(kit)
        self.backend.answers.keep_apart(self.redaction.reserve(variables_in(kit)), self.redaction)
        self.interception.started = Started(kit.get("starts", {}))

    def recording(self, note: Callable[[Exchange], None]) -> RecordBackend:
        """Return the backend that serves the turns before the fork."""
        assert self.previous is not None
        run = self.previous.run
        later = turns_from(run, READER, self.settings.replay_until)
        self.turn = later[0].number
        anew = {x.start for turn in later for x in turn.exchanges if is_model(x.call, READER)}
        answers = RecordedAnswers(run, matching_of(self.place, self.settings), READER)
        self.backend = ForkBackend(answers, anew, READER, note, live=self.settings.replay_tools == "live")
        return self.backend

    def end_body(self, ended: EndedRun) -> Finding | None:
        """A call that nobody has recorded, and that may not be made, fails the test."""
        finding = super().end_body(ended)
        if (divergence := self.backend.divergence) is None:
            return finding
        recorded = self.backend.answers.run.header.recorded
        return self.parted(divergence, {"file": str(self.place.snapshot), "recorded": recorded})

    def _sealed(self, ended: EndedRun) -> Run:
        served, asked = len(self.backend.served), self.backend.asked
        recorded = self.backend.answers.run.header.recorded
        self.details = {"forked": {"turn": self.turn, "from": recorded, "served": served}}
        self.told["forked"] = f"forked at turn {self.turn} (calls served: {served}, model calls made: {asked})"
        return super()._sealed(ended)

    def _keeps_old(self, ended: EndedRun) -> str:
        """Every fork waits for a person."""
        del ended
        return str(self.told["forked"])
