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
    from pytest_agentreplay.core.model import Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store


class ForkSession(RecordingSession):
    """Records a test whose first turns are served from its snapshot, which is there and readable."""

    backend_class = ForkBackend
    recorder: ForkBackend

    def __init__(self, place: Location, settings: Settings, store: Store) -> None:
        """Raises SettingsError for a turn at which the snapshot cannot be forked."""
        run = store.load(place.snapshot, place.test).run
        later = turns_from(run, READER, settings.replay_until)
        super().__init__(place, settings, store)
        self.answers = RecordedAnswers(run, matching_of(place, settings), READER)
        anew = {x.start for turn in later for x in turn.exchanges if is_model(x.call, READER)}
        self.recorder.serve(self.answers, anew, READER, live=settings.replay_tools == "live")
        self.redaction.recall(run.header.kit)
        self.answers.keep_apart(self.redaction.reserve(variables_in(run.header.kit)), self.redaction)
        self.interception.lanes.started = Started(run.header.kit.get("starts", {}))
        self.turn = later[0].number

    def end_body(self, ended: EndedRun) -> Finding | None:
        """A call that nobody has recorded, and that may not be made, fails the test."""
        finding, divergence = super().end_body(ended), self.recorder.divergence
        if divergence is None:
            return finding
        recorded = self.answers.run.header.recorded
        return self.parted(divergence, {"file": str(self.place.snapshot), "recorded": recorded})

    def _seal(self, ended: EndedRun) -> Run:
        recorded, served = self.answers.run.header.recorded, self.recorder.served
        made = sum(x.parent is None for x in self.recorder.exchanges()) - len(served)
        self.details = {"forked": {"turn": self.turn, "from": recorded, "served": len(served)}}
        self.note(forked=f"forked at turn {self.turn} (calls served: {len(served)}, made: {made})")
        return super()._seal(ended)

    def _keeps_old(self, ended: EndedRun) -> str:
        """Every fork waits for a person."""
        del ended
        return self.recording.forked
