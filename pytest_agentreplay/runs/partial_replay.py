"""Sessions that replay in part: under changed requests, up to a turn, in another order of answers, or with a stop.

`agentreplay accept FILE --requests` runs a test on its old replies and keeps its changed requests (AdoptingSession).
`pytest --record-from=TURN` serves the recorded replies before a turn and calls the real model from there on, into a
pending run; the snapshot stays as it is (ForkSession). `agentreplay check fuzz --orders` replays a test in another
order of answers: whether that changes how it ends, what it asks or does; nothing is written (OrderExploration).
`--replay-break=TURN` stops in the debugger at a turn, before the answer to its model call is given (BreakingSession).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.adopt import AdoptBackend, ForkBackend, RecordedAnswers, list_turns_from
from pytest_agentreplay.backends.backend import Moment, Refused, Replayed, Verdict
from pytest_agentreplay.backends.order_permutations import LIMIT, Order, answers, list_root_swaps, list_swapped, orders
from pytest_agentreplay.backends.replay import ReplayBackend, ReplayPolicy
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress, format_line
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.compare.matching.credentials import without_lone
from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
from pytest_agentreplay.model.exchanges import Call, JsonObject, Run, ToolCall
from pytest_agentreplay.model.release_order import Started
from pytest_agentreplay.model.turns import is_model, seat, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.redaction.placeholders import tags_in, variables_in
from pytest_agentreplay.report import other_findings
from pytest_agentreplay.report.summary import AdoptionSummary, AdoptionVerdict, OrderResult, SessionSummary
from pytest_agentreplay.runs.accept import are_all_chosen, count_codes
from pytest_agentreplay.runs.offline_session import make_matching, make_schedule
from pytest_agentreplay.runs.recording_session import RecordingSession
from pytest_agentreplay.runs.redact.final_scan import scan_run
from pytest_agentreplay.runs.replay_session import ReplaySession
from pytest_agentreplay.runs.run_session import EndedRun, Location, RunSession
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.kit import entries
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot
    from pytest_agentreplay.snapshots.store.snapshots import Store


class AdoptingSession(RunSession):
    """Serves the recorded replies and writes the new requests under them, marked so in the header."""

    mode = "adopt"

    def __init__(self, place: Location, settings: Settings, store: Store, snapshot: Snapshot) -> None:
        """`settings.adopt` is the reason that a person has given."""
        self.store, self.snapshot = store, snapshot
        policy = ReplayPolicy(reads_in_any_order=settings.order == "loose")
        self.adopter = AdoptBackend(snapshot.run, make_matching(place, settings), READER, policy)
        header = snapshot.run.header
        super().__init__(place, settings, self.adopter, header)
        placeholders = self.redaction.run.placeholders
        self.adopter.keep_apart(placeholders.reserve(variables_in(header.kit)), placeholders)
        if (schedule := make_schedule(snapshot.run)).matters:
            # What the agent asks may depend on which answer came first, and a replay will keep that order.
            loose = settings.order in {"loose", "free"}
            self.interception.order = ReleaseQueue(schedule, self.interception, self.adopter.explain_stall, loose=loose)
        self.adoption = AdoptionSummary()
        self._ended: EndedRun | None = None
        self.beside: dict[Path, bytes] = {}
        """The transcripts of the test that differ: they are written with the snapshot, or not at all."""

    def summarize(self) -> SessionSummary:
        """Return what became of the changed requests."""
        return replace(self.summary, adoption=self.adoption)

    def run(self) -> Run:
        """Return the run as it would be written now."""
        return self.adopter.list_adopted()[0]

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Return the divergence of a call too many, which has no old reply; then nothing is written."""
        self._ended = ended
        self.summary = replace(self.summary, failed=ended.failure is not None)
        if self.adopter.divergence is not None:
            return self.describe_divergence(self.adopter.divergence, {"file": self.summary.file})
        return None

    def end(self) -> Finding | None:
        """Write the snapshot, unless a recorded call is missing or the test failed on its old replies."""
        self.close()
        ended = self._ended
        if ended is None or not ended.passed:
            return None
        if (divergence := self.adopter.finish()) is not None:
            return self.describe_divergence(divergence, {"file": self.summary.file})
        if (late := self.find_late_calls()) is not None:
            return late
        run, changed = self.adopter.list_adopted()
        run = replace(run, exchanges=without_lone(run.exchanges))
        codes = count_codes(self.adopter.run, run, self.place.root, self.settings.rules) if changed else {}
        self.adoption = AdoptionSummary(
            alignment=(*self.adopter.describe_alignment(),), requests=len(changed), codes=(*codes,)
        )
        is_dry = self.settings.adopt_dry
        if not changed:
            verdict: AdoptionVerdict = "nothing changed"
        elif not are_all_chosen(codes, self.settings.adopt_codes):
            verdict = "left"
        else:
            verdict = "to be adopted" if is_dry else "adopted"
        transcripts = 0
        if verdict == "adopted":
            text = self._mark_adopted(run, len(changed))
            files.write_all_whole(self.beside, lambda: self.store.save(self.place.snapshot, text))
            transcripts = len(self.beside)
        elif not changed and not is_dry:
            files.write_all_whole(self.beside)
            transcripts = len(self.beside)
        self.adoption = replace(self.adoption, verdict=verdict, transcripts=transcripts)
        return None

    def _mark_adopted(self, run: Run, requests: int) -> str:
        """Return the text of the adopted run, whose header says when and why. Raises Leak."""
        mark: JsonObject = {"reason": self.settings.adopt, "requests": requests, "at": f"{datetime.now(UTC):%Y-%m-%d}"}
        kit: JsonObject = run.header.kit | {"adopted": [*entries(run.header.kit, "adopted"), mark]}
        if isinstance(record := kit.get("redactions"), dict):
            tags = tags_in(kit) | tags_in({"redactions": self.redaction.record})
            kit["redactions"] = record | ({"tags": {**tags}} if tags else {})
        run = self.redaction.rescan(replace(run, header=replace(run.header, kit=kit)))
        text = scan_run(self.redaction, run, format_path(self.place.snapshot))
        if self.snapshot.revisions:  # of edits that were accepted: they stay to be seen
            return codec.revise(run, self.snapshot, self.settings.adopt, at=str(mark["at"]))
        return text


class ForkSession(RecordingSession):
    """Records a test whose first turns are served from its snapshot, which is there and readable."""

    backend_class = ForkBackend
    recorder: ForkBackend

    def __init__(self, place: Location, settings: Settings, store: Store) -> None:
        """Raises SettingsError for a turn at which the snapshot cannot be forked."""
        run = store.load(place.snapshot, place.test).run
        later = list_turns_from(run, READER, settings.record_from)
        super().__init__(place, settings, store)
        self.answers = RecordedAnswers(run, make_matching(place, settings), READER)
        anew = {x.start for turn in later for x in turn.exchanges if is_model(x.call, READER)}
        self.recorder.serve(self.answers, anew, READER, live=settings.replay_tools == "live")
        self.redaction.run.recall(run.header.kit)
        placeholders = self.redaction.run.placeholders
        self.answers.keep_apart(placeholders.reserve(variables_in(run.header.kit)), placeholders)
        self.interception.lanes.started = Started(run.header.kit.get("starts", {}))
        self.turn = later[0].number

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Return the divergence of a call that is not recorded and may not be made."""
        finding, divergence = super().end_body(ended), self.recorder.divergence
        if divergence is None:
            return finding
        recorded = self.answers.run.header.recorded
        return self.describe_divergence(divergence, {"file": str(self.place.snapshot), "recorded": recorded})

    def _seal_run(self, ended: EndedRun) -> Run:
        recorded, served = self.answers.run.header.recorded, self.recorder.served
        made = sum(x.parent is None for x in self.recorder.list_exchanges()) - len(served)
        self.details = {"forked": {"turn": self.turn, "from": recorded, "served": len(served)}}
        self.note(forked=f"forked at turn {self.turn} (calls served: {len(served)}, made: {made})")
        return super()._seal_run(ended)

    def _explain_kept(self, _ended: EndedRun) -> str:
        """Return why the run is pending: every fork waits for a person."""
        return self.recording.forked


class OrderExploration(ReplaySession):
    """Answers from `snapshot` in the order of its trial; the recorded order, number 0, is an ordinary replay."""

    def __init__(self, place: Location, settings: Settings, snapshot: Snapshot, edited: Sequence[str]) -> None:
        """As `ReplaySession`; `settings.trial` is the order."""
        assert settings.trial is not None
        self.trial = trial = settings.trial
        if trial.number:
            snapshot = replace(snapshot, run=reorder_answers(snapshot.run, trial.completion))
        super().__init__(place, settings, snapshot, edited)
        self.replayer.policy = replace(self.replayer.policy, any_order=trial.number > 0)

    def make_order(self) -> ReleaseQueue | None:
        """Return what releases the answers in the order of the trial."""
        if not self.trial.number:
            return super().make_order()
        schedule = make_schedule(self.snapshot.run, self.trial.completion)
        return ReleaseQueue(
            schedule, self.interception, self.replayer.explain_stall, loose=True, waits=self.settings.waits
        )

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Return what this order has changed; a failure that the recorded order has too is none."""
        trial = self.trial
        result = OrderResult(number=trial.number, total=trial.total, kept=self._is_order_kept())
        self.summary = replace(self.summary, trial=result)
        if ended.interrupted:
            return None
        if not trial.number:
            finding = super().end_body(ended)
        else:
            finding = self._find_race(ended)
            self.summary = replace(
                self.summary, trial=replace(result, race=None if finding is None else finding.plain())
            )
        if finding is None and ended.failure is not None and self.redact_outcome(ended) == self._read_recorded_end():
            self.note(expect="fails as recorded")
        return finding

    def end(self) -> Finding | None:
        """Return what the teardown called too late; it need not be complete."""
        self._complete = False
        return super().end() or self.find_late_calls()

    def _is_order_kept(self) -> bool:
        """Return whether all answers that were to come the other way round did, as far as they came."""
        order = self.order
        if order is None or not self.trial.number:
            return True
        place = {start: at for at, start in enumerate(order.schedule.came)}
        pairs = list_swapped(answer_order(self.snapshot.run), self.trial.completion)
        return all(place[a] < place[b] for a, b in pairs if a in place and b in place)

    def _read_recorded_end(self) -> JsonObject:
        """Return how the test ends in the recorded order."""
        return self.snapshot.run.header.outcome if self.trial.ended is None else self.trial.ended

    def _find_race(self, ended: EndedRun) -> Finding | None:
        change = self._find_effect(ended)
        if change is None:
            return None
        run, trial = self.snapshot.run, self.trial
        progress = ReplayProgress(run, READER, self.replayer.served.keys())

        labels_by_start = {
            x.start: other_findings.CallLabel(
                progress.name(x.call),
                format_line(x.call, READER),
                seat(progress.turns, x).turn.number,
                x.agent or x.lane,
            )
            for x in run.exchanges
            if x.start in trial.completion
        }
        pairs = islice(list_root_swaps(answers(make_schedule(run)), trial.completion), other_findings.PAIRS + 1)
        labels = [(labels_by_start[first], labels_by_start[second]) for first, second in pairs]
        return self.fail_with(
            other_findings.describe_race(self.place.test, trial, change, labels, self.collect_facts())
        )

    def _find_effect(self, ended: EndedRun) -> other_findings.OrderEffect | None:
        """Return what is not as in the recorded order. From another request of the agent all else follows."""
        divergence, late = self.replayer.divergence, self.find_late_calls()
        if divergence is not None:
            effect = divergence.now is not None and self.tools.has_effects(divergence.now)
            return other_findings.describe_request(divergence, effect=effect)
        if late is not None:
            return other_findings.describe_late_call(late)
        now, before = self.redact_outcome(ended), self._read_recorded_end()
        if now != before:
            return other_findings.describe_end(before, now)
        exchanges, served = self.snapshot.run.exchanges, self.replayer.served
        not_made = [x.call for x in exchanges if x.parent is None and x.start not in served]
        missing = [format_line(call, READER) for call in not_made if self.tools.has_effects(call)]
        return other_findings.describe_missing_calls(missing) if missing else None


def list_orders(run: Run, *, limit: int = LIMIT, seed: int = 0) -> list[Order]:
    """Return the other orders of answers of `run`, nearest first; none where no two were awaited at once."""
    return orders(answers(make_schedule(run)), limit=limit, seed=seed)


def answer_order(run: Run) -> Order:
    """Return the order in which the answers of `run` came."""
    return tuple(answer.start for answer in answers(make_schedule(run)))


def reorder_answers(run: Run, completion: Order) -> Run:
    """Return `run` with the times at which its answers come in another order, for the clock."""
    times = {event.start: event.at for event in make_schedule(run, completion).events}
    retimed = (
        replace(x, timing=replace(x.timing, first=None, end=times[x.start])) if x.start in times else x
        for x in run.exchanges
    )
    return replace(run, exchanges=tuple(retimed))


class BreakingBackend(ReplayBackend):
    """Calls `stop` at the first model call of one turn: with the call, its recorded exchange, and both bodies."""

    def __init__(self, run: Run, matching: Matching, turn: int, stop: Callable[..., None]) -> None:
        """`stop` is called once, in the thread or task that makes the call, and under no lock."""
        super().__init__(run, matching, READER)
        self._turns = turns(run, READER)
        self._turn = turn
        self.stop: Callable[..., None] | None = stop  # None once the turn has come

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Decide as always, and stop before the decision is carried out."""
        verdict = super().decide(call, moment)
        stop = self.stop
        if stop is not None and is_model(call, READER) and self._find_turn(verdict) == self._turn:
            self.stop = None
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
        import pdb  # noqa: F401, T100  before the session opens: it stops the clock only at prompts that it knows

        self._break = settings.replay_break, stop
        super().__init__(place, settings, snapshot, edited)

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend that stops."""
        self.breaking = BreakingBackend(recorded, matching, *self._break)
        return self.breaking

    def end_body(self, ended: EndedRun) -> Finding | None:
        """As a replay; a turn that did not come is a warning."""
        if self.breaking.stop is not None:
            warnings.warn(f"--replay-break={self._break[0]}: the run has {self.breaking.last} turns", stacklevel=1)
        return super().end_body(ended)
