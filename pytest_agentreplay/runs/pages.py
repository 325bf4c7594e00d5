"""Pages that show runs: from the files of a project to the text of an HTML page."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from pytest_agentreplay.backends.budget import PricedReader
from pytest_agentreplay.compare.align import divergences, pair_exchanges
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import CannotWrite, SnapshotError
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report import findings, live_reports, page_data
from pytest_agentreplay.report.viewer import GENERATOR, SESSION, render_page
from pytest_agentreplay.runs.inventory import read_inventory, read_prices, read_use
from pytest_agentreplay.runs.live import history
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.snapshots.store import files, layout, reading
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import root_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject, Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.inventory import Entry
    from pytest_agentreplay.snapshots.codec import Snapshot

PLOTS = (
    ("pass rate", "rate", "rate"),
    ("tokens of a run", "tokens", "tokens"),
    ("dollars of a run", "cost", "cost"),
    ("seconds of a run", "seconds", "seconds"),
)
"""Of the rows of `live_reports.build_rows`: the title of a plot, its figure, and how that is written."""


def render_run(file: Path, finding: Finding | None = None, *, now: str = "") -> str:
    """Return the page of the snapshot in `file`, and of what diverged from it in a session.

    `now` says how its test ended in that session: "diverged", "failed" or "passed"; "" for a page of the snapshot
    alone. Raises SnapshotError, SettingsError.
    """
    snapshot = reading.load(file)
    data: JsonObject = {
        "kind": "run",
        "now": now or ("" if finding is None else "diverged"),
        "files": [format_path(file)],
        "notes": list(list_notes(file, snapshot)),
        "runs": [page_data.describe_run(snapshot.run, _list_costs(file, snapshot.run))],
        "findings": [] if finding is None else [page_data.describe_finding(finding, snapshot.run)],
    }
    return render_page(snapshot.run.header.test, data, origin="command" if finding is None else "session")


def render_pair(first: Path, second: Path) -> str:
    """Return the page that shows two snapshots side by side. Raises SnapshotError."""
    snapshots = reading.load(first), reading.load(second)
    a, b = (snapshot.run for snapshot in snapshots)
    matching = Matching(READER, (*RULES, *list_accepted_rules(root_above(first.absolute().parent))))
    names = format_path(first), format_path(second)
    parted = [
        (divergence, findings.describe_comparison(divergence, *names))
        for divergence in divergences(a, b, READER, matching=matching)
    ]
    costs = _list_costs(first, a), _list_costs(second, b)
    data = page_data.describe_pair(a, b, pair_exchanges(a, b, READER, matching=matching), parted, costs)
    notes = [note for pair in zip((first, second), snapshots, strict=True) for note in list_notes(*pair)]
    return render_page(f"{names[0]} and {names[1]}", {**data, "files": list(names), "notes": list(notes)})


def _list_costs(file: Path, run: Run) -> dict[int, float]:
    """Return the costs of the calls of a run in dollars, by start, at its project's prices. Raises SettingsError."""
    prices = read_prices(root_above(file.absolute().parent))
    reader = PricedReader(READER, {}, prices)
    uses = ((x.start, read_use(x, reader)) for x in run.exchanges if prices)
    return {start: use.cost for start, use in uses if use is not None and use.cost is not None}


def list_notes(file: Path, snapshot: Snapshot) -> Iterator[str]:
    """Yield what a reader of a snapshot should know of its file."""
    yield from snapshot.notes
    if not snapshot.sealed:
        yield f"{format_path(file)} was edited after it was recorded; agentreplay verify names the place"


def render_index(
    root: Path,
    paths: Sequence[Path] = (),
    *,
    pages: Mapping[Path, str] | None = None,
    failed: Sequence[tuple[Finding, Path | None]] | None = None,
) -> str:
    """Return the page over all that the project at `root` has recorded, or only that at or below `paths`.

    `pages` are addresses of pages by the file that each shows. `failed` is what has diverged in a session, with its
    snapshot; None for a page that no session writes. Raises SettingsError.
    """
    pages = pages or {}
    today = dt.datetime.now(dt.UTC).date()
    entries = read_inventory(root, paths)
    lacking = Counter(field for entry in entries for field in entry.cold)
    title = ", ".join(format_path(path) for path in paths if path.absolute() != root) or root.name
    notes: list[Json] = []
    try:
        live = _describe_live(root)
    except SnapshotError as error:  # one damaged line of the history takes its plots, and nothing else
        live, notes = [], [str(error)]
    data: JsonObject = {
        "kind": "index",
        "title": title,
        "about": f"What agentreplay has recorded here, as of {today}",
        "notes": notes,
        "entries": [_describe_entry(entry, today, pages.get(entry.path, "")) for entry in entries],
        "live": live,
        "cold": [list(pair) for pair in lacking.most_common()],
        "findings": [
            {**page_data.plain_finding(finding), "page": pages.get(file, "") if file is not None else ""}
            for finding, file in failed or ()
        ],
    }
    return render_page(title, data, origin="command" if failed is None else "session")


def write_pages(folder: Path, root: Path, failed: Sequence[tuple[Finding, Path | None]]) -> Path:
    """Write a page for each test that has diverged from its snapshot, and the index; return the path of that.

    Pages of an earlier session are removed: a test of theirs may hold by now. Raises CannotWrite, SettingsError.
    """
    index = folder / "index.html"
    if files.exists(index) and not is_page(index, SESSION):
        raise CannotWrite(f"{format_path(index)} is there and no page of a session; name another folder")
    addresses: dict[Path, str] = {}
    for finding, file in failed:
        path, _, rest = finding.test.partition("::")
        name = f"{layout.make_slug(f'{Path(path).name}-{rest}', finding.test, 80, is_safe=False)}.html"
        try:
            page = render_run(file, finding) if file is not None and files.exists(file) else ""
        except SnapshotError:  # the index shows the finding, and why its snapshot cannot be read
            page = ""
        if page and file is not None:
            files.write_whole(folder / name, page)
            addresses[file] = quote(name)
    files.write_whole(index, render_index(root, pages=addresses, failed=failed))
    current = {index.name, *map(unquote, addresses.values())}
    for name in files.list_names(folder):
        if name.endswith(".html") and name not in current and is_page(folder / name, SESSION):
            files.remove(folder / name)
    return index


def is_page(path: Path, mark: str = GENERATOR) -> bool:
    """Return whether a file is a page that this module has written, or one with the mark of a session."""
    return mark.encode() in files.head(path, 2048)


def _describe_entry(entry: Entry, today: dt.date, page: str) -> JsonObject:
    recorded = entry.recorded[:10]
    try:
        age = (today - dt.date.fromisoformat(recorded)).days
    except ValueError:
        age = None
    return {
        "name": entry.name,
        "kind": entry.kind,
        "state": entry.state,
        "outcome": entry.outcome,
        "turns": entry.turns,
        "calls": entry.calls,
        "tokens": entry.input_tokens + entry.output_tokens,
        "cost": entry.cost,
        "bytes": entry.bytes,
        "age": age,
        "grade": entry.grade,
        "unfrozen": list(entry.unfrozen),
        "models": list(entry.models),
        "problem": entry.problem,
        "page": page,
    }


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
                point = {
                    "date": row["date"],
                    "value": row[name],
                    "low": low,
                    "high": high,
                    "note": "; ".join(row["changes"]),
                }
                series.setdefault(row["model"], []).append(point)
        if series:
            plots.append({"title": title, "format": form, "series": [list(pair) for pair in series.items()]})
    return plots
