"""The history of live runs, and the ledger of one session: JSON lines in files that processes share.

The history has what each run gave and what each verification proved:

    <rootdir>/.agentreplay/live/history.jsonl      {"format": 1, "result": {...}}, {"format": 1, "verdict": {...}}

Lines are only ever added. The histories of several shards, or of several machines, are read as one. The ledger has:

    {"spent": [calls, tokens, billionths of a dollar]}    reserved before a call; settled by the difference after it
    {"result": LiveResult}                                one run
    {"verdict": LiveVerdict}                              of a test, by the run that decides
    {"note": str}                                         a line for the end of the session
"""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.budget import NANO, PricedReader, Spending
from pytest_agentreplay.backends.statistics import BUDGET, NEEDS, LivePlan, LiveVerdict, judge, judge_cell
from pytest_agentreplay.compare.live_result import LiveResult
from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Call, Outcome
    from pytest_agentreplay.settings import Settings

    Entries = list[dict[str, Any]]
    Judged = tuple[LiveVerdict | None, list[LiveResult]]

FOLDER = ".agentreplay"
FILE = Path(FOLDER, "live", "history.jsonl")
LEDGER, RUNNING = "ledger.jsonl", "running"
FORMAT = 1


def append(root: Path, results: Iterable[LiveResult], verdicts: Iterable[Mapping[str, Any]] = ()) -> None:
    """Add runs and verdicts to the history of the project at `root`. Raises CannotWrite, SnapshotError for a link."""
    records = [*({"result": run.plain()} for run in results), *({"verdict": dict(verdict)} for verdict in verdicts)]
    if records:
        files.refuse_links(root / FILE, root)
        files.make_private_folder(root / FOLDER)
        with files.shared_lines(root / FILE) as (_, add):
            add("\n".join(json.dumps({"format": FORMAT, **record}) for record in records).encode())


def take_over(root: Path) -> None:
    """Move the finished runs of killed sessions into the history; a session that runs holds its file `RUNNING`.

    Raises CannotWrite, SnapshotError for a link.
    """
    for ledger in files.list_below(root / FILE.parent, LEDGER):
        running = ledger.with_name(RUNNING)
        if not files.exists(running) or files.is_growing(running) is False:
            with files.shared_lines(ledger) as (lines, _):
                entries = [*map(json.loads, lines)]
                append(root, results_of(entries), (entry["verdict"] for entry in entries if "verdict" in entry))
                files.remove(ledger.parent)


def read_runs(places: Iterable[Path]) -> list[LiveResult]:
    """Return the runs in these files and folders in the order of their times; one that stands twice counts once.

    Raises SnapshotMissing for a place that is not there, and SnapshotUnreadable for a damaged line.
    """
    runs: dict[tuple[object, ...], LiveResult] = {}
    for place in places:
        for file in files.list_below(place, FILE.name, strict=True) if place.is_dir() else [place]:
            for run in _read_runs(file):
                changed = str(sorted(run.changed.items()))
                runs.setdefault((run.session or run.at, run.test, run.cell, run.run, changed), run)
    return sorted(runs.values(), key=lambda run: run.at)


def _read_runs(file: Path) -> Iterator[LiveResult]:
    """Yield the runs of a file. What follows its last line end was left by a killed writer, and does not count."""
    for number, text in enumerate(files.read_file(file).split(b"\n")[:-1], 1):
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
            raise SnapshotUnreadable(why, file=format_path(file), place=f"line {number}")


PAUSE, PATIENCE = 0.1, 60.0
"""Seconds between two looks at the ledger, and without anything new after which no process is waited for any more."""


class Ledger:
    """The file at `path`, and the budget of the session. What cannot be written of it raises CannotWrite."""

    def __init__(self, path: Path, settings: Settings) -> None:
        """`settings` have limits and prices."""
        self.path, self.priced = path, PricedReader(READER, settings.replay_budget, settings.prices)
        self.patience, self.size = PATIENCE, 0
        self._read: Entries = []

    def reserve(self, call: Call) -> str:
        """Take `call` into account, or return why it must not be made."""
        bound = self.priced.upper_bound(call)
        if isinstance(bound, str):
            return BUDGET + bound
        with self.open_entries() as (entries, append):
            spent = spent_of(entries)
            if over := Spending.total((spent, bound)).find_exceeded(self.priced.limits):
                why = f"{spent.text} is spent, the next call may take {bound.text}"
                return f"{BUDGET}{over} allows no further call: {why}"
            append({"spent": bound})
        return ""

    def settle(self, call: Call, outcome: Outcome | None) -> None:
        """Put what a reserved `call` has used in the place of its upper bound."""
        bound = self.priced.upper_bound(call)
        if isinstance(bound, Spending) and (used := self.priced.usage(call, outcome, bound)) != bound:
            with self.open_entries() as (_, append):
                append({"spent": [now - before for now, before in zip(used, bound, strict=True)]})

    def add(self, result: LiveResult, plan: LivePlan, evidence: Sequence[str]) -> Judged:
        """Add a result; return the verdict of its test, if it is this result that decides, and all results of it."""
        nano = self.priced.cost(result.model, result.tokens.get("input", 0), result.tokens.get("output", 0))
        result = replace(result, cost=None if nano is None else nano / NANO)
        with self.open_entries() as (entries, append):
            results = [*results_of(entries, result.test), result]
            append({"result": result.plain()})
            verdict = judge(results, plan) if judge(results[:-1], plan) is None else None
            if verdict is not None:
                verdict["evidence"] = [*evidence]
                append({"verdict": verdict})
        return verdict, results

    def needless(self, test: str, cell: str, plan: LivePlan, *, waits: bool) -> str:
        """Return why another run of a cell is not needed, or not possible; "" where it is.

        With `waits` other processes are waited for, which may be running what comes before it.
        """
        while True:
            entries = self.entries()
            results = results_of(entries, test)
            cells = {each: judge_cell(results, each, plan) for each in plan.runs}
            if (frozen := cells.get("FF")) is not None and frozen["word"] != "same":
                return "the frozen run is not as recorded: nothing goes live"
            if (decided := cells[cell]) is not None:
                return f"decided after {decided['runs'] + decided['stopped']} runs"
            missing = [each for each in NEEDS[cell] if each in cells and cells[each] is None]
            if not missing:
                return ""
            self.patience = PATIENCE if len(entries) > self.size else self.patience - PAUSE
            if self.patience <= 0 or not waits:
                return f"no result of what comes before it: {', '.join(missing)}"
            self.size = len(entries)
            clocks.sleep(PAUSE)

    def note(self, lines: Iterable[str]) -> None:
        """Keep lines for the end of the session."""
        with self.open_entries() as (_, append):
            for line in lines:
                append({"note": line})

    @contextmanager
    def open_entries(self) -> Iterator[tuple[Entries, Callable[[Mapping[str, Any]], None]]]:
        """Hold it: its entries, and what adds one."""
        with files.shared_lines(self.path) as (lines, append):
            self._read += map(json.loads, lines[len(self._read) :])  # lines are only ever added
            yield self._read, lambda entry: append(json.dumps(entry).encode())

    def entries(self) -> Entries:
        """Return its entries."""
        with self.open_entries() as (entries, _):
            return entries


def spent_of(entries: Entries) -> Spending:
    """Return what is spent and reserved."""
    return Spending.total([Spending(), *(entry["spent"] for entry in entries if "spent" in entry)])


def results_of(entries: Entries, test: str = "") -> list[LiveResult]:
    """Return the results of a test, or of all, in the order in which they came."""
    results = (entry["result"] for entry in entries if "result" in entry)
    return [LiveResult.of(result) for result in results if test in {"", result["test"]}]
