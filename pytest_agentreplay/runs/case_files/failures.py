"""The failures that are kept: what those that cannot be replayed lack, and by what signature each is told from others.

`agentreplay ls --cold` counts cases. Events are alike when they show the same signature: the words of `observed`
with the tools and errors in them. A field is worth capturing when it is missing often, and worth more where no case of
the same signature can be replayed.

`agentreplay case cluster` groups cases that are not fixed, and snapshots and pending runs of tests that failed. Their
signature comes from what looks wrong in the run (`check_inference`). Where no tool and no model call failed, a pending
run is compared with the snapshot of its test, if that is of a run that passed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cases.check_inference import find_symptoms, went_wrong
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.clusters import FailureSignature, RecordedFailure, group_failures, mask
from pytest_agentreplay.compare.kit_fields import Grade, make_kit
from pytest_agentreplay.errors import AgentReplayError, SnapshotError
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Header, Run, ToolCall
from pytest_agentreplay.model.turns import Turn, label, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.runs.case_files.case_linting import cases_in
from pytest_agentreplay.runs.case_files.scaffold import PARTLY
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.snapshot_selection import select_pending
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.kit import plural, table
from pytest_agentreplay.snapshots.store import files, format_path, layout, locks, reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.cases.case import Case, Check
    from pytest_agentreplay.model.exchanges import JsonObject

NUMBERED = re.compile(r"^\d+ |,? call \d+|(?<=model call)(?= \d)| \d+$")
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ColdCase:
    """One case as it is counted: where, whether it is cold, its signature, what is missing, and whose it is."""

    place: str
    cold: bool
    grade: Grade
    signature: str
    missing: tuple[str, ...]
    settings: tuple[str, ...]
    of: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class MissingInput:
    """A field that is missing: in how many cold cases, of which signatures nothing can be replayed, what brings it."""

    what: str
    cases: tuple[str, ...]
    alone: tuple[str, ...]
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What all cases together lack. `unread` are those that cannot be looked at, and why."""

    rows: tuple[ColdCase, ...]
    by: str = ""
    unread: tuple[str, ...] = field(default=())

    @property
    def cold(self) -> tuple[ColdCase, ...]:
        """The cases that cannot be replayed."""
        return tuple(row for row in self.rows if row.cold)

    @property
    def wants(self) -> list[MissingInput]:
        """What to capture next, what helps most first."""
        warm = {row.signature for row in self.rows if not row.cold}
        inputs = []
        for what in dict.fromkeys(what for row in self.cold for what in row.missing):
            rows = [row for row in self.cold if what in row.missing]
            alone = tuple(dict.fromkeys(row.signature for row in rows if row.signature not in warm))
            settings = tuple(dict.fromkeys(setting for row in rows for setting in row.settings))
            inputs.append(MissingInput(what, tuple(row.place for row in rows), alone, settings))
        return sorted(inputs, key=lambda want: (-len(want.alone), -len(want.cases), want.what))

    @property
    def groups(self) -> list[tuple[str, int, int]]:
        """By what was asked for: how many cases, how many of them cold."""
        every = Counter(value for row in self.rows for value in row.of.get(self.by, ()))
        cold = Counter(value for row in self.cold for value in row.of.get(self.by, ()))
        return sorted(
            ((group, count, cold[group]) for group, count in every.items()), key=lambda row: (-row[2], -row[1], row[0])
        )

    def lines(self) -> Iterator[str]:
        """Yield the survey for people."""
        yield f"{len(self.cold)} of {plural(len(self.rows), 'case')} cannot be replayed"
        for row in self.cold:
            yield f"  {row.place}: {row.grade.value}"
        if self.wants:
            yield "\ncapture next"
        for nth, want in enumerate(self.wants, 1):
            only = ", of which kind no other replays"
            yield f"  {nth}. {want.what}: missing in {plural(len(want.cases), 'case')}{only if want.alone else ''}"
            yield from (f"     {setting}" for setting in want.settings)
        if self.by:
            yield f"\nby {self.by}"
            for value, count, cold in self.groups:
                yield f"  {value}: {cold} of {plural(count, 'case')} cannot be replayed"

    def plain(self) -> JsonObject:
        """Return the survey as data."""
        return {
            "cases": len(self.rows),
            "cold": [
                {"case": row.place, "grade": row.grade.name, "signature": row.signature, "missing": [*row.missing]}
                for row in self.cold
            ],
            "capture": [
                {"what": want.what, "cases": [*want.cases], "alone": [*want.alone], "settings": [*want.settings]}
                for want in self.wants
            ],
            "by": {value: {"cases": count, "cold": cold} for value, count, cold in self.groups},
            "unread": [*self.unread],
        }


def survey(places: Iterable[Path], by: str = "") -> Survey:
    """Return all cases in these files and folders."""
    rows, unread = [], []
    for place in places:
        for file in files.list_below(place, FILE) if place.is_dir() else [place]:
            if file.name != FILE:
                continue
            try:
                rows.append(looked_at(file))
            except AgentReplayError as error:
                unread.append(str(error))
    return Survey(tuple(rows), by or "", tuple(unread))


def looked_at(file: Path) -> ColdCase:
    """One case as it is counted. Raises CaseError, SnapshotError."""
    case = parse.read_case(files.read_file(file), file=format_path(file), folder=file.parent, words=None)
    run, grade = None, Grade.COLD
    if files.exists(file.parent / RUN):
        snapshot = codec.loads(files.read_file(file.parent / RUN), file=format_path(file.parent / RUN))
        run, grade = snapshot.run, make_kit(snapshot.run, READER, digest=snapshot.digest, sealed=snapshot.sealed).grade
    return ColdCase(
        format_path(file.parent),
        case.expect == "cold",
        grade,
        checks_of(case),
        tuple(dict.fromkeys(NUMBERED.sub("", what) for what in case.missing)),
        (case.reason,) if case.reason and case.reason != PARTLY else (),
        group_values(case, run),
    )


def checks_of(case: Case) -> str:
    """Return what went wrong, without the words of this one run."""
    return ", ".join(sorted(dict.fromkeys(map(word, case.observed))))


def word(check: Check) -> str:
    """One check of a signature: its word, with the tool or error that it names."""
    expectation = check.wanted
    if isinstance(expectation, dict):
        expectation = expectation.get("name") or expectation.get("class") or next(iter(expectation), "")
    return f"{check.word} {expectation}".strip()


def group_values(case: Case, run: Run | None) -> dict[str, tuple[str, ...]]:
    """Whose a case is, each way of counting."""
    kit = run.header.kit if run is not None else {}
    stated = table(kit, "case")
    readings = [READER.read_call(x.call) for x in run.exchanges] if run is not None else []
    models = [reading.model for reading in readings if reading.kind == "model"]
    tools = [x.call.name for x in run.exchanges if isinstance(x.call, ToolCall)] if run is not None else []
    tools += [match[1] for what in case.missing if (match := re.match(r"result of ([^,]+)", what))]
    when = run.header.recorded[11:13] if run is not None else ""
    return {
        "model": list_known(models),
        "hour": list_known([f"{when}:00 UTC"] if when else []),
        "tenant": list_known([str(stated.get("tenant") or table(kit, "annotations").get("tenant") or "")]),
        "tool": list_known(tools),
    }


def list_known(values: Sequence[str]) -> tuple[str, ...]:
    """Return each value once; of none, that it is not known."""
    return tuple(dict.fromkeys(value for value in values if value)) or (UNKNOWN,)


NO_RUN, NO_TURN = Run(Header("")), Turn(0, "main", None, ())
USUAL = (Kind.REPLY, Kind.NOISE, Kind.OUTCOME)
"""How two recordings differ without a failure, too: other words of the model, a clock."""
SENTENCES = 2
"""How many sentences about a run, of those that weigh most, are its message."""


def failure_files(path: Path) -> Iterator[Path]:
    """Yield the cases, snapshots, captured and pending runs that `path` names."""
    if path.is_dir():
        yield from (file for file in locks.snapshots(path, layout.RECORDED) if not files.exists(file.parent / FILE))
        yield from select_pending([str(path)], Path.cwd())
    elif path.name != FILE:
        yield path
    yield from (folder / FILE for folder in cases_in([path]))


def read_failure(file: Path) -> RecordedFailure | None:
    """Return the failure that a case, snapshot or pending run keeps; None for none. Raises CaseError, SnapshotError."""
    case = stored_case.read_case(file.absolute(), words=None) if file.name == FILE else None
    snapshot, checks = (file.parent / RUN, checks_of(case) or case.reason) if case else (file, "")
    run = NO_RUN if case and not files.exists(snapshot) else reading.load(snapshot).run
    if case.expect == "fixed" if case else run.header.outcome.get("status") != "failed":
        return None
    home = layout.home_path(file.absolute())
    before = reading.load(home).run if home is not None and files.exists(home) else NO_RUN
    signature, turn = signature_of(run, before, checks)
    warm = home is None and not table(run.header.kit, "capture").get("cold")
    place, replays = (file.parent, case.expect == "reproduces") if case else (file, warm)
    size, recorded = len(run.exchanges), run.header.recorded
    return RecordedFailure(format_path(place), signature, replays, turn.number, turn.lane, size, recorded)


def choose_failures(runs: Iterable[Path], cases: Path) -> tuple[list[Path], Counter[str]]:
    """Return the captured run to make a case of for each failure, and how many runs make none, by the reason.

    Of runs that failed alike, the one that is the easiest to replay is taken. A run that cannot be read is, too.
    """
    failures = [read_failure(folder / RUN) for folder in cases_in([cases]) if files.exists(folder / RUN)]
    paths: dict[str, Path] = {}
    chosen, left_out = [], Counter[str]()
    for path in runs:
        try:
            if failure := read_failure(path):
                paths[failure.file] = path
                failures.append(failure)
            elif str(table(reading.load(path).run.header.kit, "capture").get("reason")).startswith("kept"):
                chosen.append(path)  # somebody called it a failure later: each for a reason of its own
            else:
                left_out["of runs that passed"] += 1
        except SnapshotError:
            chosen.append(path)
    for alike in group_failures([failure for failure in failures if failure is not None]):
        new = [paths[failure.file] for failure in alike if failure.file in paths]
        if len(new) < len(alike):
            left_out["of a failure that is a case"] += len(new)
        else:
            chosen.append(new[0])
            left_out["of a failure like another"] += len(new) - 1
    return chosen, +left_out


def signature_of(run: Run, before: Run, checks: str = "") -> tuple[FailureSignature, Turn]:
    """Return the signature of the failure of `run`, and its turn.

    `before` is the snapshot of its test, `checks` are those of its case, which count where nothing looks wrong.
    """
    evidence, kind, target, path = frozen(run), Kind.OUTCOME, "", ""
    every = sorted(turns(run, READER), key=lambda each: each.exchanges[0].start) or [NO_TURN]
    place = every[-1].number, every[-1].lane
    calls = {call.name: call for call in evidence.tool_calls}
    error = evidence.errors[-1][0] if evidence.status == "error" and evidence.errors else ""
    passed = before.header.outcome.get("status") == "passed"
    if failed := [call for call in calls.values() if went_wrong(call)]:
        kind, target, place = Kind.RESULT, failed[-1].name, (failed[-1].turn, failed[-1].lane)
    elif error.startswith("HTTP "):
        kind, target = Kind.REPLY, "model"
    elif passed and (parted := sorted(divergences(before, run, READER), key=lambda each: each.kind in USUAL)):
        first = parted[0]
        kind, place, call = first.kind, (first.turn, first.lane), first.now or (first.recorded and first.recorded.call)
        target = mask(label(call, READER)) if call else ""
        path = re.sub(r"\[\d+\]", "[*]", "".join(each.path for each in first.differences[:1]))
    else:
        target = next(reversed(calls), "")
    turn = next((each for each in every if (each.number, each.lane) == place), every[-1])
    signs = sorted(find_symptoms(evidence), key=lambda symptom: symptom.observed is None)[:SENTENCES]
    message = "; ".join(mask(symptom.sentence) for symptom in signs) or mask(checks)
    return FailureSignature(kind.layer, kind.code, turn.agent, target, path, error, message), turn
