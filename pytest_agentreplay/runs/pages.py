"""Pages that show runs: from the files of a project to the text of an HTML page."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from pytest_agentreplay.backends.budget import PricedReader
from pytest_agentreplay.cases.case import RUN
from pytest_agentreplay.compare.align import divergences, pair_exchanges
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import CannotWrite, SnapshotError
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report import findings, live_reports, page_data
from pytest_agentreplay.report.change_blocks import share_changes
from pytest_agentreplay.report.terminal import show_progress
from pytest_agentreplay.report.transcript import list_edit_notes
from pytest_agentreplay.report.viewer import FOLDER, GENERATOR, digest_page, render_page
from pytest_agentreplay.runs import pause_garbage_collection
from pytest_agentreplay.runs.inventory import Entry, read_inventory, read_prices, read_use
from pytest_agentreplay.runs.live import history
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, format_path, layout, projects, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject, Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.settings.parsers import Prices

    Outcomes = Sequence["TestOutcome"] | None

FEW = 50
"""Pages that are written before anybody wants to see a bar."""
SHOWN = ("name", "kind", "state", "outcome", "calls", "bytes", "problem")
"""What the index shows of an entry as it is."""
FAILED = "FAILED"
"""In place of a code: the test failed by an assertion or exception of its own."""
PLOTS = (
    ("pass rate", "rate", "rate"),
    ("tokens of a run", "tokens", "tokens"),
    ("dollars of a run", "cost", "cost"),
    ("seconds of a run", "seconds", "seconds"),
)
"""Of the rows of `live_reports.build_rows`: the title of a plot, its figure, and how that is written."""


def render_run(file: Path, outcome: TestOutcome | None = None) -> str:
    """Return the page of the snapshot in `file`, and of how its test ended. Raises SnapshotError, SettingsError."""
    return _render_snapshot(file, reading.load(file), _read_prices_of(file), outcome)


def _render_snapshot(
    file: Path, snapshot: codec.Snapshot, prices: Prices, outcome: TestOutcome | None, **marks: str
) -> str:
    """Return the page of a snapshot, and of how its test ended in a session; `marks` are those of `render_page`."""
    finding = None if outcome is None else outcome.finding
    data: JsonObject = {
        "kind": "run",
        "now": "" if outcome is None else outcome.status,
        "files": [format_path(file)],
        "notes": list(list_notes(file, snapshot)),
        "runs": [page_data.describe_run(snapshot.run, _list_costs(snapshot.run, prices))],
        "findings": [] if finding is None else [page_data.describe_finding(finding, snapshot.run)],
    }
    return render_page(snapshot.run.header.test, data, **marks)


def render_pair(first: Path, second: Path) -> str:
    """Return the page that shows two snapshots side by side. Raises SnapshotError."""
    snapshots = reading.load(first), reading.load(second)
    a, b = (snapshot.run for snapshot in snapshots)
    matching = Matching(READER, (*RULES, *list_accepted_rules(projects.root_above(first.absolute().parent))))
    names = format_path(first), format_path(second)
    parted = [
        (divergence, findings.describe_comparison(divergence, *names))
        for divergence in divergences(a, b, READER, matching=matching)
    ]
    costs = [_list_costs(run, _read_prices_of(file)) for run, file in ((a, first), (b, second))]
    data = page_data.describe_pair(a, b, pair_exchanges(a, b, READER, matching=matching), parted, costs)
    notes = [note for pair in zip((first, second), snapshots, strict=True) for note in list_notes(*pair)]
    return render_page(f"{names[0]} and {names[1]}", {**data, "files": list(names), "notes": list(notes)})


def _read_prices_of(file: Path) -> Prices:
    """Return the prices of the project that a snapshot is in. Raises SettingsError."""
    return read_prices(projects.root_above(file.absolute().parent))


def _list_costs(run: Run, prices: Prices) -> dict[int, float]:
    """Return the costs of the calls of a run in dollars, by start, as far as they are known."""
    reader = PricedReader(READER, {}, prices)
    uses = ((x.start, read_use(x, reader)) for x in run.exchanges if prices)
    return {start: use.cost for start, use in uses if use is not None and use.cost is not None}


def list_notes(file: Path, snapshot: codec.Snapshot) -> Iterator[str]:
    """Yield what a reader of a snapshot should know of its file."""
    yield from snapshot.notes
    yield from (f"{format_path(file)}: {note}" for note in list_edit_notes(snapshot, format_path(file)))


class TestOutcome(NamedTuple):
    """How a test ended in a session: `status` is "passed", "failed", "diverged" or "skipped".

    `file` is its snapshot, or the case.yaml that it is an item of. `finding` says why it failed.
    """

    test: str
    status: str
    file: Path | None = None
    finding: Finding | None = None


def render_index(
    root: Path, paths: Sequence[Path], rows: Sequence[Entry], pages: Mapping[Path | str, str], outcomes: Outcomes
) -> str:
    """Return the page over all that the project at `root` has recorded, or only that at or below `paths`: its `rows`.

    `pages` are addresses of pages by the file that each shows, or by the id of a test without one. `outcomes` are those
    of a session; None for a page that no session writes.
    """
    today = dt.datetime.now(dt.UTC).date()
    lacking = Counter(field for entry in rows for field in entry.cold)
    title = ", ".join(format_path(path) for path in paths if path.absolute() != root) or root.name
    notes: list[Json] = []
    try:
        live = _describe_live(root)
    except SnapshotError as error:  # one damaged line of the history takes its plots, and nothing else
        live, notes = [], [str(error)]
    now = {each.file: each.status for each in outcomes or () if each.file is not None}
    absent = "" if outcomes is None else "not run"
    described: list[Json] = [
        _describe_entry(row, today, pages.get(row.path, ""), now.get(row.path, absent)) for row in rows
    ]
    for each in outcomes or ():
        if each.finding is not None and each.finding.code == Kind.NEW.code:
            row = Entry(Path(), "no snapshot", each.test)
            described.append(_describe_entry(row, today, pages.get(each.test, ""), each.status))
    data: JsonObject = {
        "kind": "index",
        "title": title,
        "about": f"What agentreplay has recorded here, as of {today}",
        "notes": notes,
        "statuses": dict(Counter(each.status for each in outcomes or ())),
        "entries": described,
        "live": live,
        "cold": [list(pair) for pair in lacking.most_common()],
        "failures": list(_describe_failures(outcomes or (), pages)),
    }
    return render_page(title, data, origin="folder")


def _describe_failures(outcomes: Sequence[TestOutcome], pages: Mapping[Path | str, str]) -> Iterator[JsonObject]:
    """Yield what tests have failed by, with the tests: each cause once, as the terminal groups them."""
    changes = share_changes((each.finding, each.test) for each in outcomes if each.finding is not None)
    # What diverged comes first: a test that fails by its own assertion may do so because of it.
    for change in sorted(changes, key=lambda change: change.finding.code == FAILED):
        tests: list[Json] = [[test, pages.get(test, "")] for test in change.tests]
        yield {"code": change.finding.code, "headline": change.finding.headline, "tests": tests}


def write_folder(
    folder: Path, root: Path, paths: Sequence[Path] = (), outcomes: Outcomes = None, *, force: bool = False
) -> Path:
    """Write a page for each run and each test that failed, and the index; return the path of that.

    A page that shows the same as before stays as it is. Pages of an earlier call that are no longer needed are removed.
    `force` writes over an index of somebody else's. Raises CannotWrite, SettingsError.
    """
    index = folder / "index.html"
    if not force and files.exists(index) and not is_page(index, FOLDER):
        raise CannotWrite(f"{format_path(index)} is there and no page of a folder; name another one")
    written: dict[Path | str, str] = {}
    entries = read_inventory(root, paths, briefly=True)
    rows = _write_run_pages(folder, root, entries, outcomes or (), written)
    _write_failures(folder, outcomes or (), written)
    addresses = {key: quote(name) for key, name in written.items()}
    files.write_whole(index, render_index(root, paths, rows, addresses, outcomes))
    for name in files.list_names(folder):
        is_current = name == index.name or name in written.values()
        if name.endswith(".html") and not is_current and is_page(folder / name, FOLDER):
            files.remove(folder / name)
    return index


def _write_run_pages(
    folder: Path, root: Path, entries: Sequence[Entry], outcomes: Sequence[TestOutcome], written: dict[Path | str, str]
) -> list[Entry]:
    """Write a page for each run, and put its name into `written`; return the entries with what hinders a page."""
    by_file = {each.file: each for each in outcomes if each.file is not None}
    largest, prices, rows = reading.find_limit(root), read_prices(root), [*entries]
    with show_progress(len(rows), few=FEW) as advance, pause_garbage_collection():
        for number, entry in enumerate(entries):
            advance(number, f"{number:,} of {len(rows):,} runs")
            run = entry.path.with_name(RUN) if entry.kind == "case" else entry.path
            name = name_page(entry.name, f"{entry.kind} {entry.path}")
            try:
                if not entry.problem and files.exists(run):
                    write_run_page(folder / name, run, by_file.get(entry.path), prices, largest)
                    written[entry.path] = name
            except SnapshotError as error:
                rows[number] = replace(entry, problem=str(error).removeprefix(f"{error.file}:").lstrip())
    return rows


def _write_failures(folder: Path, outcomes: Sequence[TestOutcome], written: dict[Path | str, str]) -> None:
    """Put the names of the pages of tests that failed into `written`; write those of tests that have no run to show."""
    for each in outcomes:
        if each.finding is None:
            continue
        name = written.get(each.file or "")
        if name is None:
            name = name_page(each.test, each.test)
            data: JsonObject = {"kind": "failure", "findings": [page_data.plain_finding(each.finding)]}
            files.write_derived(folder / name, render_page(each.test, data, origin="folder"))
        written[each.test] = name


def name_page(name: str, identity: str) -> str:
    """Return the name of the page of a run or test: its module and its own name, and a hash."""
    path, _, rest = name.partition("::")
    return f"{layout.make_slug('-'.join(filter(None, (Path(path).name, rest))), identity, 80, is_safe=False)}.html"


def write_run_page(page: Path, file: Path, outcome: TestOutcome | None, prices: Prices, largest: int | None) -> None:
    """Write the page of a run, unless the one that is there shows the same. Raises SnapshotError, CannotWrite."""
    data = files.read_file(file, largest)
    now = None if outcome is None else [outcome.status, outcome.finding and outcome.finding.plain()]
    digest = digest_page(data, json.dumps([now, prices]).encode())
    if not (files.exists(page) and is_page(page, f'{FOLDER} {digest}">')):
        snapshot = codec.loads(data, file=format_path(file))
        files.write_derived(page, _render_snapshot(file, snapshot, prices, outcome, origin=f"folder {digest}"))


def is_page(path: Path, mark: str = GENERATOR) -> bool:
    """Return whether a file is a page that this module has written, with this mark."""
    return mark.encode() in files.head(path, 2048)


def _describe_entry(entry: Entry, today: dt.date, page: str, now: str) -> JsonObject:
    recorded = entry.recorded[:10]
    try:
        age = (today - dt.date.fromisoformat(recorded)).days
    except ValueError:
        age = None
    described: JsonObject = {name: getattr(entry, name) for name in SHOWN}
    lists: JsonObject = {"unfrozen": list(entry.unfrozen), "models": list(entry.models)}
    return described | lists | {"age": age, "page": page, "now": now}


def _describe_live(root: Path) -> list[Json]:
    """Return a plot for each figure of the live runs in the project's history; none without any."""
    file = root / history.FILE
    runs = history.read_runs([file]) if files.exists(file) else []
    rows = live_reports.build_rows(filter(live_reports.is_counted, runs))
    plots: list[Json] = []
    for title, name, form in PLOTS if rows else ():
        series: dict[str, list[Any]] = {}
        for row in rows:
            if row[name] is not None:
                low, high = row["interval"]
                note = "; ".join(row["changes"])
                point = {"date": row["date"], "value": row[name], "low": low, "high": high, "note": note}
                series.setdefault(row["model"], []).append(point)
        if series:
            plots.append({"title": title, "format": form, "series": [list(pair) for pair in series.items()]})
    return plots
