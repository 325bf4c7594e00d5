"""One test, or one fixture that is wider than a test, recorded: everything runs for real, and is kept at the end.

What replaces what: with no snapshot yet, any finished run is written, its outcome with it, unless it is the run of an
outage (no model call was answered), which is kept as pending. A failing run never replaces a passing snapshot, and
nothing replaces a failure that its test keeps (`expect="reproduces"`): such a run is kept as pending, too. A run that
was cut short is never promoted; its journal stays for `agentreplay verify --recover`.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.backend import Moment, RecordBackend, Replayed
from pytest_agentreplay.compare.matching.credentials import without_lone
from pytest_agentreplay.errors import AgentReplayError, CannotWrite, Leak, SnapshotError, SnapshotMissing
from pytest_agentreplay.intercept.environment.machine import read_locale, read_zone
from pytest_agentreplay.intercept.environment.randomness import GENERATORS
from pytest_agentreplay.intercept.ordering.holding import Holding
from pytest_agentreplay.intercept.ordering.virtual_time import Pacing
from pytest_agentreplay.intercept.session.courses import Courses
from pytest_agentreplay.intercept.session.hosts import is_model_host
from pytest_agentreplay.model.exchanges import Call, Exchange, Header, JsonObject, RawCall, Run
from pytest_agentreplay.model.recorded_order import late_lanes, order_between_lanes, renumber, separate_lanes
from pytest_agentreplay.model.release_order import ReleaseSchedule, Started, lanes_above
from pytest_agentreplay.model.turns import outage, top_level
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import other_findings
from pytest_agentreplay.report.summary import RecordingSummary, UncomparedArgument, UnfrozenTool, restore_plain
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.redact.final_scan import cut_leaks, next_step, rest, scan_run
from pytest_agentreplay.runs.run_session import EndedRun, Location, RunSession
from pytest_agentreplay.snapshots.codec.v1 import bodies_of
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot
    from pytest_agentreplay.snapshots.store.snapshots import Store


DAY = 24 * 3600 * 1_000_000_000  # nanoseconds


class RecordingSession(RunSession):
    """Forwards every call, and writes the snapshot at the end. An unreadable snapshot is never recorded over."""

    mode = "record"
    backend_class: type[RecordBackend] = RecordBackend
    keeps_unchanged = True
    """Whether the previous snapshot stays as it is where a new recording says the same."""

    def __init__(self, place: Location, settings: Settings, store: Store) -> None:
        """Raises SnapshotError for a snapshot that is there and unreadable, CannotWrite when nothing can be written."""
        self.store = store
        self.previous: Snapshot | None = None
        with suppress(SnapshotMissing):
            self.previous = store.load(place.snapshot, place.test)
        now = time.time_ns()
        test = store.snapshot_id(place.test)
        self.header = Header(
            test=test,
            recorded=datetime.fromtimestamp(now / 1e9, UTC).isoformat(timespec="seconds"),
            clock=now,
            seed=settings.seed if settings.seed is not None else derive_seed(test),
        )
        self.journal = store.journal_for(place.snapshot, self.header)
        self.recorder = recorder = self.backend_class(self.journal.write)
        super().__init__(place, settings, recorder, self.header, count=recorder.count)
        self.courses = self.interception.lanes.courses = Courses()
        if self.previous is not None:
            # Lanes keep their names, whichever calls first today: else the diff would be of all that they say.
            labels = self.previous.run.header.kit.get("starts")
            self.interception.lanes.started = Started(labels, records=True)
        self.interception.order = self.order = Holding(recorder, self.interception)
        if settings.clock == "virtual":
            self.interception.order = self.order = pacing = Pacing(recorder, self.interception)
            self.keep_time(pacing, pacing.read_ns, pacing.read_passed, clocks=False)
        if self.backend_class is RecordBackend:  # a fork asks its recording first
            self.interception.scope.answers = self._answer_from_vcrpy
        self.recording = RecordingSummary()
        self.details: JsonObject = {}  # what else the header says
        self._locale = read_locale(place.environ)
        self._ended: EndedRun | None = None
        self._body = 0
        self._replaced: bytes | None = None
        self._saved = ""

    def _answer_from_vcrpy(self, raw: RawCall, call: Call, moment: Moment) -> Replayed | None:
        """Return the reply of vcrpy, as it plays here; None where the network is asked."""
        from pytest_agentreplay.runs.cassettes.cassette_answers import answer

        return answer(self.interception, self.recorder, raw, call, moment)

    def run(self) -> Run:
        """Return what has been recorded so far."""
        return Run(self.header, self.tools.names.rename_calls(self.recorder.list_exchanges()))

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Return the finding of a late call, or of a value that cannot be frozen where the test did not fail itself."""
        self._ended = ended
        self._body = self.recorder.count()  # a replay makes these calls before its own body ends
        self.children.find_unjoined()
        if (late := self.find_late_calls()) is not None:
            return late
        problems = self.interception.observed.problems
        if problems and ended.failure is None:
            return other_findings.describe_unfreezable(self.place.test, problems)
        return None

    def end(self) -> Finding | None:
        """Seal the run: write it, keep it as pending, or leave the journal. Raises Leak, CannotWrite."""
        self.close()
        ended, keeps_journal = self._ended, False
        try:
            if ended is None or ended.interrupted:
                self.note(why="its set-up failed" if ended is None else "it was cut short")
                keeps_journal = ended is not None
            elif self.interception.observed.problems:
                # A run with a value that cannot be frozen cannot be replayed: there is nothing to recover.
                self.note(why=str(self.interception.observed.problems[0]))
            elif not self.recorder.list_exchanges():
                gaps = tuple(entry.line() for entry in self.watch.ledger)
                self.note(verdict="without calls", gaps=gaps, outcome=str(ended.outcome()["status"]))
            else:
                keeps_journal = True
                run = self._seal_run(ended)
                self._write_run(run, self._find_outage(run) or self._explain_kept(ended))
                keeps_journal = False
        except AgentReplayError as error:
            self.note(why=str(error).partition("\n")[0])
            keeps_journal = isinstance(error, CannotWrite)
            raise
        except KeyboardInterrupt:
            keeps_journal = self.recording.verdict == "not written"
            raise
        finally:
            self._keep_journal(keeps_journal)
        return self.find_late_calls()

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

    def _write_run(self, run: Run, keep_old: str) -> None:
        """Put `run` in its place, or keep it as pending where `keep_old` says why the old one stays."""
        # A snapshot is at least as large as its largest body: refused before it is encoded and scanned.
        largest = max((len(body) for x in run.exchanges for _, body in bodies_of(x)), default=0)
        self.store.check_size(self.place.snapshot, largest)
        run = replace(run, header=self.redaction.redact_header(run.header))
        # A value that became known as a secret late may stand in calls that were redacted before.
        if self.redaction.text.has_learnt:
            run = self.redaction.rescan(run)
        self._replaced = None if keep_old or self.previous is None else self.store.data(self.place.snapshot)
        # A text that is there already needs no other one, and was looked through.
        text = self._find_unchanged_text(run)
        try:
            text = text or scan_run(self.redaction, run, format_path(self.place.snapshot))
        except Leak as leak:
            raise self._keep_rest(leak, run) from None
        if keep_old:
            pending = str(self.store.save_pending(self.place.snapshot, text))
            keeps = self.previous is not None
            self.note(verdict="pending", pending=pending, why=keep_old, keeps_previous=keeps)
        else:
            self._saved = self.store.save(self.place.snapshot, text)
            self.note(verdict="created" if self.previous is None else "replaced")
        size = len(text.encode())
        large = size if 0 < self.settings.max_bytes < size else 0
        self.note(exchanges=len(run.exchanges), outcome=str(run.header.outcome["status"]), large=large)

    def _find_unchanged_text(self, run: Run) -> str:
        """Return the text of the previous snapshot where `run` differs from it in ids, dates and durations alone."""
        is_refused = self.redaction.broken or self.redaction.touched  # the last scan says what is wrong
        if self.previous is None or self._replaced is None or not self.keeps_unchanged or is_refused:
            return ""
        from pytest_agentreplay.runs.accept import is_unchanged

        # Its day is what makes an old recording stale, so that one is written anew.
        days = self.settings.stale_days
        if days and self.header.clock - self.previous.run.header.clock > days * DAY:
            return ""
        # The old file may hold what is known as a secret only now.
        if not is_unchanged(self.previous, self._replaced, run) or self.redaction.text.leaks(self._replaced):
            return ""
        self.note(unchanged=True)
        return self._replaced.decode()

    def _keep_rest(self, leak: Leak, run: Run) -> Leak:
        """Keep what may be kept of a run that was refused. Return the error that says so."""
        if not (text := rest(self.redaction, run)):
            return leak
        kept = self.store.save_pending(self.place.snapshot, text)
        self.note(rest=str(kept))
        return Leak(f"{leak}\n{next_step(format_path(kept))}")

    def _keep_journal(self, keep: bool) -> None:
        """End the journal. One that is kept holds nothing that became known as a secret after it was written."""
        # The name of a journal cannot be redacted, so one whose name holds a secret goes.
        names = f"{self.journal.path.name} {self.header.test}".encode()
        keep = (
            keep
            and any(x.outcome is not None for x in self.recorder.list_exchanges())
            and not self.redaction.text.leaks(names)
        )
        self.journal.close(keep=keep)
        if not keep:
            return
        try:
            if self.redaction.text.leaks(files.read_file(self.journal.path)):
                run, _ = cut_leaks(
                    self.redaction, self.redaction.rescan(Run(self.header, self.recorder.list_exchanges()))
                )
                self.journal.restate(run)
        except AgentReplayError:  # what cannot be looked through is not kept
            files.remove(self.journal.path)
            return
        self.note(journal=str(self.journal.path))

    def _explain_kept(self, ended: EndedRun) -> str:
        """Return why the present snapshot stays, or "" where this run may replace it."""
        if self.previous is None:
            return ""
        if self.settings.expect == "reproduces":
            return "the test keeps its recorded failure"
        if self.previous.run.header.outcome.get("status") != "passed":
            return ""
        if ended.failure is not None or self.interception.ending.late:
            return "this run failed, the recorded one passed"
        return "this run skipped itself, the recorded one passed" if ended.skipped else ""

    def _find_outage(self, run: Run) -> str:
        """Return why `run` waits for a person: no model answered, and the snapshot is not of an outage; "" else."""
        reason = outage(run, READER)
        if not reason or (self.previous is not None and outage(self.previous.run, READER)):
            return ""
        self.note(outage=True)
        return f"no model call was answered ({self.redaction.redact_text(reason)})"

    def _seal_run(self, ended: EndedRun) -> Run:
        """Return the run as it is written: its exchanges, and what was around it."""
        interception, watch = self.interception, self.watch
        observed, lanes, tools = interception.observed, interception.lanes, interception.tools
        exchanges, now = renumber(self.tools.names.rename_calls(self.recorder.list_exchanges()))
        # A credential that is the only one of its kind and host tells no calls apart.
        exchanges = without_lone(separate_lanes(exchanges, self.children.gateway_lanes))
        begun = {lane: now(reading) for lane, reading in lanes.begun.items()}
        gaps = [entry.line() for entry in watch.ledger]
        missed = replay_kit.find_unfrozen(exchanges, str(self.place.root), tools.seen, self.children.gateway_lanes)
        imported = [*sorted(observed.importing)]
        paths = {name: path for path, tool in self.tools.frozen for name in (tool.name, path)}
        uncompared = replay_kit.describe_uncompared(tools.uncompared, self.redaction.redact_text)
        recorded = {up for x in exchanges for up in (x.lane, *lanes_above(x.lane))}
        apart = (*self.children.gateway_lanes, *(lane for lane in self.children.lanes if lane in recorded))
        order = describe_order(exchanges, apart, self.order)
        self.note(
            racy=int(str(order.get("racy", 0))),
            gaps=(*gaps,),
            unfrozen=tuple(restore_plain(UnfrozenTool, tool) for tool in missed),
            inside=(*replay_kit.find_asking_tools(exchanges),),
            uncompared=tuple(restore_plain(UncomparedArgument, gap) for gap in uncompared),
            own_imports=(*imported,),
        )
        root, environ, policy = self.place.root, self.place.environ, self.settings.redacted
        details = replay_kit.describe_run(root, exchanges, self.redaction, policy, environ) | {
            "body": now(self._body),
            "order": order,
            "clock": {"mode": self.settings.clock} | ({"ran_on": True} if self.clock.ran_on else {}),
            "zone": read_zone(self.header.clock),
            "locale": self._locale,
            "generators": [*sorted(GENERATORS.keys() - {"random"})],
            "fixtures": dict(self.fixtures),
            "servers": [*sorted(now(start) for start in observed.serving)],
            "served": {str(now(start)): now(request) for start, request in self.children.served.items()},
            "trace": dict(observed.trace),
            "starts": lanes.started.list_labels(recorded),
            "after": order_between_lanes(exchanges, self.courses.after, now),
            "lanes": dict(late_lanes(top_level(Run(self.header, exchanges)), begun)),
            "environment": self.settings.environment(environ),
            "annotations": self.annotations,
            "gaps": list(gaps),
            "late": self.summary.late or None,
            "unfrozen": missed,
            "around": {path: code in observed.callers for path, code in watch.functions.values() if path},
            "live": [*sorted(tools.live)],
            "signatures": self.tools.describe_signatures(),
            "functions": {name: paths.get(name, "") for name in sorted(tools.functions)},
            "importing": [*imported],
            "uncompared": list(uncompared),
        }
        details |= self.details
        kept: JsonObject = {name: value for name, value in details.items() if value not in ([], {}, None)}
        return Run(replace(self.header, outcome=ended.outcome(), kit=kept), exchanges)


def describe_order(exchanges: Iterable[Exchange], children: tuple[str, ...], order: Holding) -> JsonObject:
    """Return what a replay has to know of the order of a run: whether it matters, which lanes are free, what is chance.

    What slept beside answers is left out where nothing did, and the order does not matter.
    """
    schedule = ReleaseSchedule(exchanges, children)
    kept: JsonObject = {"held": True} if schedule.matters else {}
    if kept or order.asleep:
        kept["asleep"] = [*sorted(order.asleep)]
    if children:
        kept["apart"] = [*children]
    if racy := max(order.collisions, schedule.collisions):
        kept["racy"] = racy
    return kept


def derive_seed(test: str) -> int:
    """Return the seed of a test that sets none: the same in each recording, so that recordings differ in little."""
    return int.from_bytes(hashlib.sha256(test.encode()).digest()[:4])


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
        """Seal the run, unless another process of this session was first, or a conversion has served nothing in it."""
        if self.settings.typed == "convert" and not self.recorder.served:
            self.discard()
            self.note(verdict="without calls")
            self.summary = replace(self.summary, silent=True)
            return None
        if self._is_kept_by_another():
            return self.find_late_calls()
        try:
            finding = super().end()
        except CannotWrite:  # another process may have written it since the first look
            if not self._is_kept_by_another():
                raise
            return self.find_late_calls()
        if self.recording.verdict == "without calls":
            models = [entry.line() for entry in self.watch.ledger if is_model_host(entry.target.partition(":")[0])]
            self.note(gaps=(*models,))
            self.summary = replace(self.summary, silent=not models)
        return finding

    def _is_kept_by_another(self) -> bool:
        """Return whether the snapshot is of this session of pytest already; this run is dropped then."""
        ended = self._ended
        if not self.recorder.count() or ended is None or ended.interrupted:
            return False
        try:
            present = self.store.load(self.place.snapshot, self.place.test)
        except SnapshotError:
            return False
        is_passed = present.run.header.outcome.get("status") == "passed"
        if present.run.header.clock < self._since or (not is_passed and ended.failure is None):
            self.previous = present
            return False
        self.close()
        self.journal.close(keep=False)
        differs = list_answers(present.run) != list_answers(Run(self.header, self.recorder.list_exchanges()))
        self.note(verdict="kept", differs=differs)
        return True


def list_answers(run: Run) -> list[object]:
    """Return each call of a run with what came back, lane by lane."""
    return [(exchange.call, exchange.outcome) for exchange in sorted(run.exchanges, key=lambda x: (x.lane, x.start))]
