"""One test on cassettes of vcrpy while it is converted: recorded offline, with the cassettes as its network."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import HttpCall
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.runs.recording_session import RecordingSession

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.cassettes.watching import CassetteWatch
    from pytest_agentreplay.runs.run_session import EndedRun

ACCEPTED = "converted from vcrpy with the requests of today, under --accept-stale"


class CassetteRecording(RecordingSession):
    """Records what a test plays, and changes nothing about how the test ends.

    `unconverted` says why nothing was written; "" where it was, None where the test has opened no cassette.
    """

    def __init__(self, *args: Any, watch: CassetteWatch, accepts_stale: bool) -> None:
        """`watch` has what the test plays; `accepts_stale` converts a test whose requests have changed."""
        super().__init__(*args)
        self._watch, self._accepts_stale = watch, accepts_stale
        self.unconverted: str | None = None
        self._finding: Finding | None = None

    def end_body(self, ended: EndedRun) -> None:
        """Keep what a recording would fail the test with."""
        self._finding = super().end_body(ended)

    def end(self) -> None:
        """Write the snapshot, or keep why there is none."""
        self.close()
        stale = [play for play in self._watch.plays if play.verdict in {"stale", "wrong interaction"}]
        self.unconverted = self._explain_unconverted([play.summary for play in stale])
        if self.unconverted != "":
            self.discard()
            return
        self.details = {"vcrpy": [*dict.fromkeys(play.cassette for play in self._watch.plays)]}
        if stale:
            mark: Any = {"reason": ACCEPTED, "requests": len(stale), "at": f"{datetime.now(UTC):%Y-%m-%d}"}
            self.details["adopted"] = [mark]
        self.unconverted = "its snapshot could not be written"  # where that raises
        super().end()
        self.unconverted = "" if self.recording.is_new else self.recording.why

    def summarize(self) -> SessionSummary:
        """Return the summary; of a test that is not converted the report of the conversion says why."""
        return super().summarize() if self.recording.is_new else self.summary

    def _explain_unconverted(self, stale: list[str]) -> str | None:
        """Return why the test is not converted, or ""; None where it has opened no cassette."""
        ended, exchanges = self._ended, self.recorder.list_exchanges()
        beyond = [x for x in exchanges if isinstance(x.call, HttpCall) and x.start not in self.recorder.served]
        if not (self._watch.opened or self.recorder.served):
            return None
        if ended is None or not ended.passed:
            return "it was skipped" if ended is not None and ended.skipped else "it failed while it was recorded"
        if self.interception.observed.problems:
            return str(self.interception.observed.problems[0])
        if self._finding is not None:
            return self._finding.headline
        if beyond:
            return f"it made {format_count(len(beyond), 'request')} that no cassette answered"
        if not self.recorder.served:
            return "it played no request"
        if stale and not self._accepts_stale:
            return f"stale in {format_count(len(stale), 'request')}: {stale[0]}"
        return ""

    def _find_outage(self, run: Run) -> str:
        """Return "": a cassette of errors is what such a test is about."""
        del run
        return ""
