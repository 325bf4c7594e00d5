"""The recording of one fixture that is wider than a test."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import Run
from pytest_agentreplay.errors import CannotWrite, SnapshotError
from pytest_agentreplay.intercept.session.hosts import is_model_host
from pytest_agentreplay.runs.recording_session import RecordingSession, recording_of_missing

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store


def begin_recording(
    place: Location, settings: Settings, store: Store, facts: JsonObject, since: int
) -> RecordingSession:
    """Return the recording of a fixture, not yet open; in a replay it is one of a snapshot that is missing."""
    session = FixtureRecording(place, settings, store, facts, since)
    return session if settings.mode == "record" else recording_of_missing(session)


class FixtureRecording(RecordingSession):
    """Records a fixture. Where several processes record it in one session, the first complete run is kept.

    A run that passed still replaces one that failed.
    """

    keeps_unchanged = False  # the time of a recording says which session's it is

    def __init__(self, place: Location, settings: Settings, store: Store, facts: JsonObject, since: int) -> None:
        """Raises SnapshotError and CannotWrite as `RecordingSession` does."""
        super().__init__(place, settings, store)
        self.details = {"fixture": facts}
        self._since = since
        self.summary = replace(self.summary, instance=self.header.clock)

    def end(self) -> Finding | None:
        """Seal the run, unless another process of this session was first."""
        if self._kept_by_another():
            return self.stragglers()
        try:
            finding = super().end()
        except CannotWrite:
            if not self._kept_by_another():
                raise
            return self.stragglers()
        if self.recording.verdict == "nothing crossed":
            models = [entry.line() for entry in self.watch.ledger if is_model_host(entry.target.partition(":")[0])]
            self.note(gaps=(*models,))
            self.summary = replace(self.summary, silent=not models)
        return finding

    def _kept_by_another(self) -> bool:
        """Whether the snapshot is of this session already; this run is dropped then."""
        ended = self._ended
        if not self.recorder.count() or ended is None or ended.interrupted:
            return False
        try:
            present = self.store.load(self.place.snapshot, self.place.test)
        except SnapshotError:
            return False
        passed = present.run.header.outcome.get("status") == "passed"
        if present.run.header.clock < self._since or (not passed and ended.failure is None):
            self.previous = present
            return False
        self.close()
        self.journal.close(keep=False)
        differs = answers(present.run) != answers(Run(self.header, self.recorder.exchanges()))
        self.note(verdict="kept", differs=differs)
        return True


def answers(run: Run) -> list[object]:
    """What came back, call by call."""
    return [(exchange.call, exchange.outcome) for exchange in sorted(run.exchanges, key=lambda x: (x.lane, x.start))]
