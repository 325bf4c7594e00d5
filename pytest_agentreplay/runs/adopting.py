"""One test run on its old replies, to keep its changed requests: `agentreplay accept FILE --requests`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_agentreplay.core.backends.adopt import AdoptBackend
from pytest_agentreplay.core.backends.replay import ReplayPolicy
from pytest_agentreplay.core.matching.wiring import without_lone
from pytest_agentreplay.core.redaction.placeholders import lacks_body_digests, tags_in, variables_in
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
from pytest_agentreplay.redact.final_scan import checked
from pytest_agentreplay.report.summary import AdoptionSummary
from pytest_agentreplay.runs.accept import all_wanted, codes_between
from pytest_agentreplay.runs.replay_session import matching_of, schedule_of
from pytest_agentreplay.runs.run_session import EndedRun, Location, RunSession
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import format_path

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.model import JsonObject, Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store


class AdoptingSession(RunSession):
    """Serves the recorded replies and writes the new requests under them, marked so in the header."""

    mode = "adopt"

    def __init__(self, place: Location, settings: Settings, store: Store, snapshot: Snapshot) -> None:
        """`settings.adopt` is the reason that a person has given."""
        self.store = store
        policy = ReplayPolicy(reads_in_any_order=settings.order == "loose")
        self.adopter = AdoptBackend(snapshot.run, matching_of(place, settings), READER, policy)
        header = snapshot.run.header
        super().__init__(place, settings, self.adopter, clock=header.clock, seed=header.seed, kit=header.kit)
        self.adopter.keep_apart(self.redaction.reserve(variables_in(header.kit)), self.redaction)
        if (schedule := schedule_of(snapshot.run)).matters:
            # What the agent asks may depend on which answer came first, and a replay will keep that order.
            loose = settings.order in {"loose", "free"}
            self.interception.order = ReleaseQueue(schedule, self.interception, self.adopter.stalled, loose=loose)
        self.adoption = AdoptionSummary()
        self._ended: EndedRun | None = None
        self.beside: dict[Path, bytes] = {}
        """The transcripts of the test that differ: they are written with the snapshot, or not at all."""

    def summarize(self) -> SessionSummary:
        """Return what became of the changed requests."""
        return replace(self.summary, adoption=self.adoption)

    def run(self) -> Run:
        """The run as it would be written now."""
        return self.adopter.adopted()[0]

    def end_body(self, ended: EndedRun) -> Finding | None:
        """A call too many has no old reply; then nothing is written."""
        self._ended = ended
        self.summary = replace(self.summary, failed=ended.failure is not None)
        if self.adopter.divergence is not None:
            return self.parted(self.adopter.divergence, {"file": self.summary.file})
        return None

    def end(self) -> Finding | None:
        """Write the snapshot, or say why not: a call less than recorded, or a test that failed on the old replies."""
        self.close()
        ended = self._ended
        if ended is None or ended.failure is not None or ended.interrupted or ended.skipped:
            return None
        if (divergence := self.adopter.finish()) is not None:
            return self.parted(divergence, {"file": self.summary.file})
        if (late := self.stragglers()) is not None:
            return late
        run, changed = self.adopter.adopted()
        run = replace(run, exchanges=without_lone(run.exchanges))
        self.adoption = AdoptionSummary(alignment=(*self.adopter.alignment(),), requests=len(changed))
        if not changed:
            transcripts = 0 if self.settings.adopt_dry else len(self.beside)
            self.adoption = replace(self.adoption, verdict="nothing changed", transcripts=transcripts)
            if not self.settings.adopt_dry:
                files.write_all_whole(self.beside)
            return None
        codes = codes_between(self.adopter.run, run, self.place.root, self.settings.rules)
        self.adoption = replace(self.adoption, codes=(*codes,))
        if not all_wanted(codes, self.settings.adopt_codes):
            self.adoption = replace(self.adoption, verdict="left")
            return None
        if self.settings.adopt_dry:
            self.adoption = replace(self.adoption, verdict="to be adopted")
            return None
        mark: JsonObject = {
            "reason": self.settings.adopt,
            "requests": len(changed),
            "at": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        earlier = run.header.kit.get("adopted", [])
        assert isinstance(earlier, list)
        kit: JsonObject = run.header.kit | {"adopted": [*earlier, mark]}
        if isinstance(record := kit.get("redactions"), dict) and not lacks_body_digests(kit):
            tags = tags_in(kit) | tags_in({"redactions": self.redaction.record})
            kit["redactions"] = record | ({"tags": {**tags}} if tags else {})
        run = self.redaction.rescan(replace(run, header=replace(run.header, kit=kit)))
        text = checked(self.redaction, run, format_path(self.place.snapshot))
        files.write_all_whole(self.beside, lambda: self.store.save(self.place.snapshot, text))
        self.adoption = replace(self.adoption, verdict="adopted", transcripts=len(self.beside))
        return None
