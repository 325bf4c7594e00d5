"""One test on cassettes of vcrpy while it is converted: recorded offline, with the cassettes as its network."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import HttpCall
from pytest_agentreplay.intercept.session.session_parts import OPEN_CASSETTES
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.runs.recording_session import RecordingSession
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from pytest_agentreplay.cassettes.watching import CassetteWatch
    from pytest_agentreplay.core.backends.backend import Moment, Replayed
    from pytest_agentreplay.core.model import Call, RawCall, Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store

WRITTEN = {"created", "replaced"}
NO_CASSETTE = "it opened no cassette"
ACCEPTED = "converted from vcrpy with the requests of today, under --accept-stale"


class ConversionSession(RecordingSession):
    """Records what a test plays, and changes nothing about how the test ends. `why` says why nothing was written."""

    def __init__(
        self, place: Location, settings: Settings, store: Store, watch: CassetteWatch, *, accepts_stale: bool
    ) -> None:
        """`watch` has what the test plays; `accepts_stale` converts a test whose requests have changed."""
        super().__init__(place, settings, store)
        self.why = ""
        self.cassettes = watch
        self._accepts_stale = accepts_stale
        self._finding: Finding | None = None

    def _answer_from_cassette(self, raw: RawCall, call: Call, moment: Moment) -> Replayed | None:
        """Return the reply of the innermost cassette, which a wider fixture may have opened."""
        loaded = self.cassettes.find_cassette(OPEN_CASSETTES[-1].cassette)
        if loaded not in self.cassettes.opened:
            self.cassettes.opened.append(loaded)
        return super()._answer_from_cassette(raw, call, moment)

    def end_body(self, ended: EndedRun) -> None:
        """Keep what a recording would fail the test with."""
        self._finding = super().end_body(ended)

    def end(self) -> None:
        """Write the snapshot, or keep why there is none."""
        self.close()
        self.why = self._explain_unconverted()
        if self.why:
            self.discard()
            return
        opened = (file for loaded in self.cassettes.opened for file in loaded.files)
        self.details = {"vcrpy": [*dict.fromkeys(file for file in opened if files.exists(self.place.root / file))]}
        if stale := self._count_stale():
            self.details["adopted"] = [{"reason": ACCEPTED, "requests": stale, "at": f"{datetime.now(UTC):%Y-%m-%d}"}]
        super().end()
        self.why = "" if self.recording.verdict in WRITTEN else self.recording.why

    def summarize(self) -> SessionSummary:
        """Return the summary; of a test that is not converted the report of the conversion says why."""
        return super().summarize() if self.recording.verdict in WRITTEN else self.summary

    def _count_stale(self) -> int:
        return sum(play.verdict in {"stale", "wrong interaction"} for play in self.cassettes.plays)

    def _explain_unconverted(self) -> str:
        """Return why the test is not converted, or ""."""
        ended, exchanges = self._ended, self.recorder.list_exchanges()
        beyond = [x for x in exchanges if isinstance(x.call, HttpCall) and x.start not in self.recorder.served]
        if not (self.cassettes.opened or self.recorder.served):
            return NO_CASSETTE
        if ended is None or not ended.passed:
            return "its set-up failed" if ended is None else "it was skipped" if ended.skipped else "it failed"
        if self.interception.observed.problems:
            return str(self.interception.observed.problems[0])
        if self._finding is not None:
            return self._finding.headline
        if beyond:
            return f"it made {format_count(len(beyond), 'request')} that no cassette answered"
        if not self.recorder.served:
            return "it played no request"
        if (stale := self._count_stale()) and not self._accepts_stale:
            changed = next(play for play in self.cassettes.plays if play.verdict in {"stale", "wrong interaction"})
            return f"stale in {format_count(stale, 'request')}: {changed.summary}"
        return ""

    def _find_outage(self, run: Run) -> str:
        """Return "": a cassette of errors is what such a test is about."""
        del run
        return ""
