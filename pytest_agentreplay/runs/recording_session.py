"""One test recorded: everything runs for real, and is kept when the test is over.

What replaces what: with no snapshot yet, any finished run is written, its outcome with it, unless it is the run of an
outage (no model call was answered), which is kept as pending. A failing run never replaces a passing snapshot, and
nothing replaces a failure that its test keeps (`expect="reproduces"`): such a run is kept as pending, too. A run that
was cut short is never promoted; its journal stays for `agentreplay recover`.


The recording of one fixture that is wider than a test.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec.v1 import bodies_of
from pytest_agentreplay.core.backends.backend import RecordBackend
from pytest_agentreplay.core.matching.wiring import without_lone
from pytest_agentreplay.core.model import Header, Run
from pytest_agentreplay.core.outage import outage
from pytest_agentreplay.core.redaction.secret_names import key_variables
from pytest_agentreplay.core.release_order import ReleaseSchedule, above, late_lanes, untangled
from pytest_agentreplay.core.renumber import thinned
from pytest_agentreplay.core.serialize.fitting import BY_CONTENT
from pytest_agentreplay.core.turns import top_level
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.errors import AgentReplayError, CannotWrite, Leak, SnapshotError, SnapshotMissing
from pytest_agentreplay.intercept.environment.machine import locale_here, zone_here
from pytest_agentreplay.intercept.environment.randomness import GENERATORS
from pytest_agentreplay.intercept.ordering.holding import Holding
from pytest_agentreplay.intercept.ordering.virtual_time import Pacing
from pytest_agentreplay.intercept.session.courses import Courses
from pytest_agentreplay.intercept.session.hosts import is_model_host
from pytest_agentreplay.redact.final_scan import checked, next_step, rest
from pytest_agentreplay.redact.redaction_factory import redacted_by
from pytest_agentreplay.redact.residual import cut
from pytest_agentreplay.report import other_findings
from pytest_agentreplay.report.summary import RecordingSummary, UncomparedArgument, UnfrozenTool, from_plain
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.run_session import EndedRun, RunSession
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.model import Exchange, JsonObject
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.run_session import Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store


class RecordingSession(RunSession):
    """Forwards every call, and writes the snapshot at the end. An unreadable snapshot is never recorded over."""

    mode = "record"
    backend_class: type[RecordBackend] = RecordBackend
    keeps_unchanged = True
    """Whether a recording that says the same as the snapshot before it leaves that as it is."""

    def __init__(self, place: Location, settings: Settings, store: Store) -> None:
        """Raises SnapshotError for a snapshot that is there and unreadable, CannotWrite when nothing can be written."""
        self.store = store
        self.previous: Snapshot | None = None
        try:
            self.previous = store.load(place.snapshot, place.test)
        except SnapshotMissing:
            pass
        now = time.time_ns()
        stated = store.snapshot_id(place.test)
        self.header = Header(
            test=stated,
            recorded=datetime.fromtimestamp(now / 1e9, UTC).isoformat(timespec="seconds"),
            clock=now,
            seed=settings.seed if settings.seed is not None else seed_of(stated),
        )
        self.journal = store.journal_for(place.snapshot, self.header)
        self.recorder = recorder = self.backend_class(self.journal.write)
        super().__init__(place, settings, recorder, clock=now, seed=self.header.seed, count=recorder.count)
        self.courses = self.interception.lanes.courses = Courses()
        self.interception.order = self.order = Holding(recorder, self.interception)
        if settings.clock == "virtual":
            self.interception.order = self.order = pacing = Pacing(recorder, self.interception)
            self.keep_time(pacing, pacing.now_ns, pacing.read_passed, clocks=False)
        self.recording = RecordingSummary()
        self.details: JsonObject = {}  # what else the header says
        self._locale = locale_here(place.environ)
        self._ended: EndedRun | None = None
        self._body = 0
        self._replaced: bytes | None = None
        self._saved = ""

    def run(self) -> Run:
        """What has been recorded so far."""
        return Run(self.header, self._names.apply_names(self.recorder.exchanges()))

    def end_body(self, ended: EndedRun) -> Finding | None:
        """A straggler or a value that cannot be frozen fails the test; its own failure is its own."""
        self._ended = ended
        self._body = self.recorder.count()
        self.strangers()
        if (late := self.stragglers()) is not None:
            return late
        if self.interception.observed.problems and ended.failure is None:
            return other_findings.describe_unfreezable(self.place.test, self.interception.observed.problems)
        return None

    def end(self) -> Finding | None:
        """Seal the run: write it, keep it as pending, or leave the journal; tells which. Raises Leak, CannotWrite."""
        self.close()
        ended = self._ended
        if ended is None or ended.interrupted:
            self.note(why="its set-up failed" if ended is None else "it was cut short")
            self._keep_journal(ended is not None)
        elif self.interception.observed.problems:
            self.note(why=str(self.interception.observed.problems[0]))
            self._keep_journal(False)
        elif not self.recorder.exchanges():
            gaps = tuple(entry.line() for entry in self.watch.ledger)
            self.note(verdict="nothing crossed", gaps=gaps, outcome=str(ended.outcome()["status"]))
            self._keep_journal(False)
        else:
            try:
                run = self._seal(ended)
                self._write(run, self._outage(run) or self._keeps_old(ended))
            except AgentReplayError as error:
                self.note(why=str(error).partition("\n")[0])
                self._keep_journal(isinstance(error, CannotWrite))
                raise
            except KeyboardInterrupt:
                self._keep_journal(self.recording.verdict == "not written")
                raise
            self._keep_journal(False)
        return self.stragglers()

    def summarize(self) -> SessionSummary:
        """Return what became of the recording."""
        return replace(self.summary, recording=self.recording)

    def note(self, **facts: Any) -> None:
        """Add facts to the summary of the recording; their names and types are those of `RecordingSummary`."""
        self.recording = replace(self.recording, **facts)

    def discard(self) -> None:
        """Close it, and keep nothing."""
        self.close()
        self.journal.close(keep=False)

    def withdraw(self) -> None:
        """Undo what `end` has written: the test is run again, and this try counts for nothing."""
        match self.recording.verdict:
            case "created" | "replaced":
                self.store.restore(self.place.snapshot, self._replaced, self._saved)
            case "pending":
                files.remove(Path(self.recording.pending))
        self.journal.close(keep=False)

    def _write(self, run: Run, keep_old: str) -> None:
        """Put `run` in its place, or beside it when the old one is kept, and tell which."""
        self.store.fits(
            self.place.snapshot, max((len(body) for x in run.exchanges for _, body in bodies_of(x)), default=0)
        )
        run = replace(run, header=self.redaction.header(run.header))
        if self.redaction.has_learnt:
            run = self.redaction.rescan(run)
        try:
            text = checked(self.redaction, run, format_path(self.place.snapshot))
        except Leak as leak:
            raise self._keep_rest(leak, run) from None
        if keep_old:
            pending = str(self.store.save_pending(self.place.snapshot, text))
            keeps = self.previous is not None
            self.note(verdict="pending", pending=pending, why=keep_old, keeps_previous=keeps)
        else:
            self._replaced = None if self.previous is None else self.store.data(self.place.snapshot)
            text = self._same_as_before(run) or text
            self._saved = self.store.save(self.place.snapshot, text)
            self.note(verdict="created" if self.previous is None else "replaced")
        size = len(text.encode())
        large = size if 0 < self.settings.max_bytes < size else 0
        self.note(exchanges=len(run.exchanges), outcome=str(run.header.outcome["status"]), large=large)

    def _same_as_before(self, run: Run) -> str:
        """Return the text of the previous snapshot where `run` differs from it in ids, dates and durations alone."""
        if self.previous is None or self._replaced is None or not self.keeps_unchanged:
            return ""
        from pytest_agentreplay.runs.accept import is_unchanged

        if not is_unchanged(self.previous, run) or self.redaction.leaks(self._replaced):
            return ""
        self.note(unchanged=True)
        return self._replaced.decode()

    def _keep_rest(self, leak: Leak, run: Run) -> Leak:
        """Keep what may be kept of a run that was refused; returns the error that says so."""
        if not (text := rest(self.redaction, run)):
            return leak
        kept = self.store.save_pending(self.place.snapshot, text)
        self.note(rest=str(kept))
        return Leak(f"{leak}\n{next_step(format_path(kept))}")

    def _keep_journal(self, keep: bool) -> None:
        """End the journal. One that is kept holds nothing that became known as a secret after it was written."""
        keep = keep and any(x.outcome is not None for x in self.recorder.exchanges())
        keep = keep and not self.redaction.leaks(f"{self.journal.path.name} {self.header.test}".encode())
        self.journal.close(keep=keep)
        if not keep:
            return
        try:
            if self.redaction.leaks(files.read(self.journal.path)):
                run, _ = cut(self.redaction, self.redaction.rescan(Run(self.header, self.recorder.exchanges())))
                self.journal.restate(run)
        except AgentReplayError:  # what cannot be looked through is not kept
            files.remove(self.journal.path)
            return
        self.note(journal=str(self.journal.path))

    def _keeps_old(self, ended: EndedRun) -> str:
        """Why the present snapshot stays, or "" when this run may replace it."""
        if self.previous is None:
            return ""
        if self.settings.expect == "reproduces":
            return "the test keeps its recorded failure"
        if self.previous.run.header.outcome.get("status") != "passed":
            return ""
        if ended.failure is not None or self.interception.ending.late:
            return "this run failed, the recorded one passed"
        return "this run skipped itself, the recorded one passed" if ended.skipped else ""

    def _outage(self, run: Run) -> str:
        """Why `run` waits for a person: it holds no answer of a model, and no snapshot of an outage stands there."""
        reason = outage(run, READER)
        if not reason or (self.previous is not None and outage(self.previous.run, READER)):
            return ""
        self.note(outage=True)
        return f"no model call was answered ({self.redaction.redact_text(reason)})"

    def _seal(self, ended: EndedRun) -> Run:
        exchanges, now = thinned(self._names.apply_names(self.recorder.exchanges()))
        exchanges = without_lone(untangled(exchanges, self.child_lanes()))
        begun = {lane: now(reading) for lane, reading in self.interception.lanes.begun.items()}
        gaps = [entry.line() for entry in self.watch.ledger]
        missed = replay_kit.unfrozen(
            exchanges, READER, str(self.place.root), self.interception.tools.seen, self.child_lanes()
        )
        imported = [*sorted(self.interception.observed.importing)]
        uncompared = replay_kit.list_uncompared(self.interception.tools.uncompared, self.redaction.redact_text)
        apart = (*self.child_lanes(), *lanes_of(exchanges, self.children.lanes))
        order = order_of(exchanges, apart, self.order.collisions)
        self.note(
            racy=int(str(order.get("racy", 0))),
            gaps=(*gaps,),
            unfrozen=tuple(from_plain(UnfrozenTool, tool) for tool in missed),
            inside=(*replay_kit.asking_tools(exchanges, READER),),
            uncompared=tuple(from_plain(UncomparedArgument, gap) for gap in uncompared),
            own_imports=(*imported,),
        )
        details: JsonObject = replay_kit.surroundings(self.place.root) | {
            "models": replay_kit.models(exchanges, READER),
            "body": now(self._body),
            "order": order,
            "clock": {"mode": self.settings.clock, "ran_on": self.clock.ran_on},
            "zone": zone_here(self.header.clock),
            "locale": self._locale,
            "generators": [*sorted(GENERATORS)],
            "fixtures": dict(self.fixtures),
            "servers": [*sorted(now(start) for start in self.interception.observed.serving)],
            "served": {str(now(start)): now(request) for start, request in self.children.served.items()},
            "trace": dict(self.interception.observed.trace),
            "starts": self.interception.lanes.started.kept({up for x in exchanges for up in (x.lane, *above(x.lane))}),
            "after": orders_between_lanes(exchanges, self.courses, now),
            "lanes": dict(late_lanes(top_level(Run(self.header, exchanges)), begun)),
            "redactions": self.redaction.record | redacted_by(self.settings.redacted),
            "environment": self.settings.environment(self.place.environ),
            "keys": [[*group] for group in key_variables(self.place.environ, self.redaction.was_sent)],
            "annotations": self.annotations,
            "gaps": list(gaps),
            "unfrozen": missed,
            "around": {
                path: code in self.interception.observed.callers for path, code in self.watch.functions.values() if path
            },
            "live": [*sorted(self.interception.tools.live)],
            "importing": [*imported],
            "arguments": BY_CONTENT,
            "uncompared": list(uncompared),
        }
        details |= self.details
        kept: JsonObject = {name: value for name, value in details.items() if value not in ([], {}, None)}
        return Run(replace(self.header, outcome=ended.outcome(), kit=kept), exchanges)


def orders_between_lanes(
    exchanges: Iterable[Exchange], courses: Courses | None, now: Callable[[int], int]
) -> JsonObject:
    """Return, by the `start` of a call, the calls of other lanes that it was made after by the program's own doing.

    What a lane's own order says, or that of the lanes above it, is left out.
    """
    top = {x.start: x for x in exchanges if x.parent is None}
    kept: JsonObject = {}
    for start, before in courses.after.items() if courses is not None else ():
        x = top.get(now(start))
        earlier = [top[now(other)] for other in before if now(other) in top] if x is not None else []
        others = [y.start for y in earlier if x is not None and y.lane not in {x.lane, *above(x.lane)}]
        if others:
            kept[str(now(start))] = [*others]
    return kept


def lanes_of(exchanges: Iterable[Exchange], lanes: Iterable[str]) -> tuple[str, ...]:
    """Those of `lanes` in which something was recorded."""
    there = {x.lane for x in exchanges}
    return tuple(lane for lane in lanes if any(other == lane or other.startswith(f"{lane}.") for other in there))


def order_of(exchanges: Iterable[Exchange], children: tuple[str, ...], collisions: int) -> JsonObject:
    """What a replay has to know of the order of a run: whether it is exact, whom it does not hold, what is chance.

    `collisions` counts answers that came to two threads in one moment, as they came and before they were held.
    """
    schedule = ReleaseSchedule(exchanges, children)
    kept: JsonObject = {"held": True} if schedule.matters else {}
    if children:
        kept["apart"] = [*children]
    if racy := max(collisions, schedule.collisions):
        kept["racy"] = racy
    return kept


def seed_of(test: str) -> int:
    """The seed of a test that sets none: the same in each recording, so that a new recording differs in little."""
    return int.from_bytes(hashlib.sha256(test.encode()).digest()[:4])


def mark_missing(recording: RecordingSession) -> RecordingSession:
    """Return the recording of a test that had no snapshot: one that makes no call is not told to need none."""
    recording.recording = replace(recording.recording, missing=True)
    return recording


def begin_recording(
    place: Location, settings: Settings, store: Store, facts: JsonObject, since: int
) -> RecordingSession:
    """Return the recording of a fixture, not yet open; in a replay it is one of a snapshot that is missing."""
    session = FixtureRecording(place, settings, store, facts, since)
    return session if settings.mode == "record" else mark_missing(session)


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
