"""Pages that show runs: from the files of a project to the text of an HTML page."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_agentreplay.core.align import divergences, pair_exchanges
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.dialects import READER, RULES
from pytest_agentreplay.live import history
from pytest_agentreplay.report import findings, live_reports, page_data
from pytest_agentreplay.report.viewer import GENERATOR, render_page
from pytest_agentreplay.runs.inventory import read_inventory
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.store import files, layout, reading
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.inventory import Entry

PLOTS = (
    ("pass rate", "rate", "rate"),
    ("tokens of a run", "tokens", "tokens"),
    ("dollars of a run", "cost", "cost"),
    ("seconds of a run", "seconds", "seconds"),
)
"""Of the rows of `live_reports.build_rows`: the title of a plot, its figure, and how that is written."""


def render_run(file: Path, finding: Finding | None = None) -> str:
    """Return the page of the snapshot in `file`, and of what diverged from it. Raises SnapshotError."""
    snapshot = reading.load(file)
    notes = list(snapshot.notes)
    if not snapshot.sealed:
        notes.append(f"edited after it was recorded; agentreplay verify {format_path(file)} names the place")
    data: JsonObject = {
        "kind": "run",
        "files": [format_path(file)],
        "notes": list(notes),
        "runs": [page_data.describe_run(snapshot.run)],
        "findings": [] if finding is None else [page_data.describe_finding(finding, snapshot.run)],
    }
    return render_page(snapshot.run.header.test, data)


def render_pair(first: Path, second: Path) -> str:
    """Return the page that shows two snapshots side by side. Raises SnapshotError."""
    a, b = reading.load(first).run, reading.load(second).run
    matching = Matching(READER, (*RULES, *list_accepted_rules(root_above(first.absolute().parent))))
    names = format_path(first), format_path(second)
    parted = [
        (divergence, findings.describe_comparison(divergence, *names))
        for divergence in divergences(a, b, READER, matching=matching)
    ]
    data = page_data.describe_pair(a, b, pair_exchanges(a, b, READER, matching=matching), parted)
    return render_page(f"{names[0]} and {names[1]}", {**data, "files": list(names)})


def render_index(
    root: Path,
    paths: Sequence[Path] = (),
    *,
    pages: Mapping[Path, str] | None = None,
    failed: Sequence[tuple[Finding, Path | None]] = (),
) -> str:
    """Return the page over all that the project at `root` has recorded, or only that at or below `paths`.

    `pages` are addresses of pages by the file that each shows, `failed` what has diverged just now, with its snapshot.
    Raises SettingsError.
    """
    pages = pages or {}
    today = dt.datetime.now(dt.UTC).date()
    entries = read_inventory(root, paths)
    lacking = Counter(field for entry in entries for field in entry.cold)
    title = ", ".join(format_path(path) for path in paths if path != root) or root.name
    data: JsonObject = {
        "kind": "index",
        "title": title,
        "about": f"What agentreplay has recorded here, as of {today}",
        "entries": [_describe_entry(entry, today, pages.get(entry.path, "")) for entry in entries],
        "live": _describe_live(root),
        "cold": [list(pair) for pair in lacking.most_common()],
        "findings": [
            {**page_data.plain_finding(finding), "page": pages.get(file, "") if file is not None else ""}
            for finding, file in failed
        ],
    }
    return render_page(title, data)


def write_pages(folder: Path, root: Path, failed: Sequence[tuple[Finding, Path | None]]) -> Path:
    """Write a page for each test that has diverged from its snapshot, and the index; return the path of that.

    Pages of an earlier session are removed: a test of theirs may hold by now. Raises CannotWrite, SnapshotError.
    """
    for name in files.names_in(folder):
        if name.endswith(".html") and is_page(folder / name):
            files.remove(folder / name)
    addresses: dict[Path, str] = {}
    for finding, file in failed:
        if file is not None and files.exists(file):
            name = f"{layout.slug(finding.test.rpartition('/')[2], finding.test, 80, whole=False)}.html"
            files.write_whole(folder / name, render_run(file, finding))
            addresses[file] = quote(name)
    index = folder / "index.html"
    files.write_whole(index, render_index(root, pages=addresses, failed=failed))
    return index


def is_page(path: Path) -> bool:
    """Return whether a file is a page that this module has written."""
    return GENERATOR.encode() in files.head(path, 2048)


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
        "models": list(entry.models),
        "problem": entry.problem,
        "page": page,
    }


def _describe_live(root: Path) -> list[Json]:
    """Return a plot for each figure of the live runs in the project's history; none without any."""
    file = root / history.FILE
    runs = history.read([file]) if files.exists(file) else []
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
