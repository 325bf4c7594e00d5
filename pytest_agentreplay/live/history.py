"""The history of live runs: what each run gave and what each verification proved, a line each.

    <rootdir>/.agentreplay/live/history.jsonl      {"format": 1, "result": {...}}, {"format": 1, "verdict": {...}}

Lines are only ever added. The histories of several shards, or of several machines, are read as one.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.live.result import LiveResult
from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FOLDER = ".agentreplay"
FILE = Path(FOLDER, "live", "history.jsonl")
FORMAT = 1


def append(root: Path, results: Iterable[LiveResult], verdicts: Iterable[Mapping[str, Any]] = ()) -> None:
    """Add runs and verdicts to the history of the project at `root`. Raises CannotWrite, SnapshotError for a link."""
    records = [*({"result": run.plain()} for run in results), *({"verdict": dict(verdict)} for verdict in verdicts)]
    if records:
        files.refuse_links(root / FILE, root)
        files.private(root / FOLDER)
        with files.shared_lines(root / FILE) as (_, add):
            add("\n".join(json.dumps({"format": FORMAT, **record}) for record in records).encode())


def read(places: Iterable[Path]) -> list[LiveResult]:
    """Return the runs in these files and folders in the order of their times; one that stands twice counts once.

    Raises SnapshotMissing for a place that is not there, and SnapshotUnreadable for a damaged line.
    """
    runs: dict[tuple[object, ...], LiveResult] = {}
    for place in places:
        for file in files.below(place, FILE.name, strict=True) if place.is_dir() else [place]:
            for run in _read_runs(file):
                changed = str(sorted(run.changed.items()))
                runs.setdefault((run.session or run.at, run.test, run.cell, run.run, changed), run)
    return sorted(runs.values(), key=lambda run: run.at)


def _read_runs(file: Path) -> Iterator[LiveResult]:
    """Yield the runs of a file. What follows its last line end was left by a killed writer, and does not count."""
    for number, text in enumerate(files.read(file).split(b"\n")[:-1], 1):
        try:
            record = json.loads(text)
            readable = record["format"] == FORMAT
            if readable and "verdict" not in record:
                run = LiveResult.of(record["result"])
                cost = 0 if run.cost is None else run.cost
                math.ceil(run.seconds + cost + sum(run.tokens.values()))  # refuses what is no finite number
                yield run
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            readable = False
        if not readable:
            why = f"is no line of format {FORMAT} of a history of live runs; remove it, or update pytest_agentreplay"
            raise SnapshotUnreadable(why, file=shown(file), place=f"line {number}")
