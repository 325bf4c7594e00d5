"""Live runs over time: pass rate with its interval, tokens, cost, seconds by day and model; as text and as a page."""

from __future__ import annotations

import textwrap
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.live.statistics import anytime_interval
from pytest_agentreplay.report.escape import line, markup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.live.result import LiveResult

HEADER = ("date", "model", "passed", "rate [interval]", "tokens", "cost", "seconds")
ROW = "{:10}  {:{width}} {:>7}  {:>17} {:>7} {:>7} {:>7}"
COLUMNS = 63
"""Columns of a row beside the model."""
BARS = {"tokens": "#2a6", "cost": "#c60", "seconds": "#629"}
PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Live runs</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{font:14px sans-serif}
td,th{padding:.2em .8em;text-align:left;white-space:nowrap}svg{margin:0 .5em}</style>
<h1>Live runs</h1><p>The mean of a run for each day and model. Bars begin at 0; the pass rate has its 95 % interval."""


def build_rows(runs: Iterable[LiveResult], by: str = "") -> list[dict[str, Any]]:
    """Return a row for each day and model, or with `by` for each "date" or "model"; the runs are in order of time.

    The name of the model says also which cell was live, if not the model alone, and what else was changed for a run.
    `tokens`, `cost` and `seconds` are means of a run, `cost` None where one has no price. `changes` says what answered
    that is not what answered in the row before of the same model.
    """
    groups: dict[tuple[str, str], list[LiveResult]] = {}
    for run in runs:
        name = (run.model or "/".join(run.served_models) or "?") + ("" if run.cell == "LF" else f" {run.cell}")
        model = " +".join([name, *sorted({*run.changed} - {"model"})])
        groups.setdefault(("" if by == "model" else run.at[:10], "" if by == "date" else model), []).append(run)
    rows, before = [], dict[tuple[str, str], set[str]]()
    for (date, model), group in groups.items():
        passes, costs = sum(run.same for run in group), [run.cost for run in group if run.cost is not None]
        row: dict[str, Any] = {"date": date, "model": model, "runs": len(group), "passes": passes}
        row["rate"], row["interval"] = passes / len(group), anytime_interval(passes, len(group))
        row["tokens"] = fmean(sum(run.tokens.values()) for run in group)
        row["cost"] = fmean(costs) if len(costs) == len(group) else None
        row["seconds"], row["changes"] = fmean(run.seconds for run in group), []
        for field in ("served_models", "fingerprints", "providers"):
            values = {str(value) for run in group for value in getattr(run, field)}
            old = before.get((model, field), values)
            if values and old != values:
                gone, new = (", ".join(sorted(each)) or "(none)" for each in (old - values, values - old))
                row["changes"].append(f"{field.rstrip('s').replace('_', ' ')} {gone} -> {new}")
            before[model, field] = values or old
        rows.append(row)
    return rows


def _format_cells(row: dict[str, Any]) -> list[str]:
    """Return the texts of a row of the table."""
    rate, cost = "{:.2f} [{:.2f}, {:.2f}]".format(row["rate"], *row["interval"]), row["cost"]
    figures = f"{row['tokens']:,.0f}", "-" if cost is None else f"{cost:.4f}", f"{row['seconds']:.2f}"
    return [line(row["date"][:10]), line(row["model"]), f"{row['passes']}/{row['runs']}", rate, *figures]


def format_trend(rows: list[dict[str, Any]], width: int, encoding: str) -> list[str]:
    """Return the table, and below it a plot of the pass rates in their intervals."""
    inside, point = "░█" if encoding.lower().startswith("utf") else "-#"
    table = [[*HEADER], *map(_format_cells, rows)]
    column = max(5, min(width - COLUMNS, max(len(cells[1]) for cells in table)))
    for cells in table:
        cells[1] = cells[1] if len(cells[1]) <= column else f"{cells[1][: column - 1]}~"
    size = max(20, width - column - 16)
    lines, plot = [ROW.format(*table[0], width=column)], ["", f"{'pass rate':{column + 12}}  0{'1':>{size}}"]
    for row, cells in zip(rows, table[1:], strict=True):
        lines.append(ROW.format(*cells, width=column))
        for change in row["changes"]:
            lines += textwrap.wrap(line(change), width, initial_indent="  ^ ", subsequent_indent="    ")
        low, high = (edge * size for edge in row["interval"])
        bar = [inside if low - 1 < cell < high else " " for cell in range(size)]
        bar[min(size - 1, int(row["rate"] * size))] = point
        plot.append(f"{cells[0]:10}  {cells[1]:{column}}  |{''.join(bar)}|")
    return lines + plot


def format_page(rows: list[dict[str, Any]]) -> str:
    """Return an HTML page with the table, and each figure of a row drawn beside its text; it loads nothing."""
    tops = {what: max((row[what] or 0 for row in rows), default=0) or 1 for what in BARS}
    parts = [PAGE, "<table><tr>", *(f"<th>{name}</th>" for name in HEADER), "<th>changed</th></tr>"]
    for row in rows:
        cells, (low, high) = [markup(text) for text in _format_cells(row)], (100 * edge for edge in row["interval"])
        interval = f'<path d="M{low:.1f} 6H{high:.1f}" stroke="#06c"/><path d="M0 11H100" stroke="#ccc"/>'
        cells[3] += f'<svg width="104" height="12">{interval}<circle cx="{100 * row["rate"]:.1f}" cy="6" r="3"/></svg>'
        for number, (what, color) in enumerate(BARS.items(), 4):
            size = 60 * (row[what] or 0) / tops[what]
            cells[number] += f'<svg width="64" height="12"><rect width="{size:.1f}" height="9" fill="{color}"/></svg>'
        cells.append("<br>".join(map(markup, row["changes"])))
        parts += ["<tr>", *(f"<td>{cell}</td>" for cell in cells), "</tr>"]
    return "\n".join([*parts, "</table></html>", ""])
