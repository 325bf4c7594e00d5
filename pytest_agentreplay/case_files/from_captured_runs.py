"""`agentreplay scaffold STORE --all`: the captured runs that become cases, one of each failure that is not yet one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_agentreplay.case_files.case_linting import cases_in
from pytest_agentreplay.case_files.failures import read_failure
from pytest_agentreplay.cases.case import RUN
from pytest_agentreplay.core.clusters import group_failures
from pytest_agentreplay.core.kit import table
from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.store import files, reading

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_agentreplay.core.clusters import RecordedFailure


def choose_failures(runs: Iterable[Path], cases: Path) -> tuple[list[Path], Counter[str]]:
    """Return the run to make a case of for each failure, and how many runs make none, by the reason.

    Of runs that failed alike, the one that is the easiest to replay is taken. A run that cannot be read is, too.
    """
    paths, chosen, left_out = {}, [], Counter[str]()
    failures: list[RecordedFailure] = []
    for folder in cases_in([cases]):
        if files.exists(folder / RUN):
            failures += filter(None, [read_failure(folder / RUN)])
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
    for alike in group_failures(failures):
        new = [paths[failure.file] for failure in alike if failure.file in paths]
        is_case = len(new) < len(alike)
        chosen += () if is_case else new[:1]
        left_out["of a failure that is a case"] += len(new) if is_case else 0
        left_out["of a failure like another"] += 0 if is_case else len(new) - 1
    return chosen, +left_out
