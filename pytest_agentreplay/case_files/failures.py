"""The failures that are kept: cases that are not fixed, and snapshots and pending runs of tests that failed.

The signature of a failure comes from what looks wrong in its run (`check_inference`). Where no tool and no model call
failed, a pending run is compared with the snapshot of its test, if that is of a run that passed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.case_files import cold
from pytest_agentreplay.case_files.case_linting import cases_in
from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cases.check_inference import symptoms, went_wrong
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases_run import stored_case
from pytest_agentreplay.core.align import divergences
from pytest_agentreplay.core.clusters import FailureSignature, RecordedFailure, mask
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.model import Header, Run
from pytest_agentreplay.core.turns import Turn, label, turns
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.runs.snapshot_selection import pending_meant
from pytest_agentreplay.store import files, layout, locks, reading
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_RUN, NO_TURN = Run(Header("")), Turn(0, "main", None, ())
USUAL = (Kind.REPLY, Kind.NOISE, Kind.OUTCOME)
"""How two recordings differ without a failure, too: other words of the model, a clock."""
SENTENCES = 2
"""How many sentences about a run, of those that weigh most, are its message."""


def failure_files(path: Path) -> Iterator[Path]:
    """Yield the cases, snapshots and pending runs that `path` names."""
    if path.is_dir():
        yield from (file for file in locks.snapshots(path) if not files.exists(file.parent / FILE))
        yield from pending_meant([str(path)], Path.cwd())
    elif path.name != FILE:
        yield path
    yield from (folder / FILE for folder in cases_in([path]))


def read_failure(file: Path) -> RecordedFailure | None:
    """Return the failure that a case, snapshot or pending run keeps; None for none. Raises CaseError, SnapshotError."""
    case = stored_case.read(file.absolute(), words=None) if file.name == FILE else None
    snapshot, checks = (file.parent / RUN, cold.signature(case) or case.reason) if case else (file, "")
    run = NO_RUN if case and not files.exists(snapshot) else reading.load(snapshot).run
    if case.expect == "fixed" if case else run.header.outcome.get("status") != "failed":
        return None
    home = layout.home_path(file.absolute())
    before = reading.load(home).run if home is not None and files.exists(home) else NO_RUN
    signature, turn = signature_of(run, before, checks)
    place, replays = (file.parent, case.expect == "reproduces") if case else (file, home is None)
    size, recorded = len(run.exchanges), run.header.recorded
    return RecordedFailure(shown(place), signature, replays, turn.number, turn.lane, size, recorded)


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
    signs = sorted(symptoms(evidence), key=lambda symptom: symptom.observed is None)[:SENTENCES]
    message = "; ".join(mask(symptom.told) for symptom in signs) or mask(checks)
    return FailureSignature(kind.layer, kind.code, turn.agent, target, path, error, message), turn
