"""Live runs as tables: settings compared over the same tests, and runs over time; as text, as CSV, as a page."""

from __future__ import annotations

import csv
import io
import textwrap
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.core.live.statistics import PairedSummary, anytime_interval
from pytest_agentreplay.report.escape import line, markup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.core.live.result import LiveResult

ComparisonRow: TypeAlias = dict[str, Any]
"""What one setting did in one test, or in all of them together ("test" is ""), as plain data.

"wins", "losses" and "ties" count pairs of runs, of the same test and number, against the first setting; "p" is that of
the exact sign test. "cost" (None where a price is not known), "tokens" and "seconds" are those of a run, on average.
"verdict" is "" for the first setting. "stopped" says why runs are missing.
"""
ALPHA = 0.05
FEWEST = 6
"""Pairs of runs from which on a difference can be shown at all: 2 / 2**6 is below `ALPHA`."""
FROZEN = "left out: it is not as recorded even with a frozen model"
_LAYOUT = "  {:22.22} {:>8} {:>9} {:>6} {:>9} {:>7} {:>6}"
HEADER = ("date", "model", "passed", "rate [interval]", "tokens", "cost", "seconds")
ROW = "{:10}  {:{width}} {:>7}  {:>17} {:>7} {:>7} {:>7}"
COLUMNS = 63
"""Columns of a row of runs over time beside the model."""
PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font:14px sans-serif}}td{{padding:2px 8px;border-bottom:1px solid #ccc;white-space:nowrap}}</style>
<h1>{title}</h1><table>
{table}
</table>{rest}</html>
"""


def compare_settings(results: Mapping[str, Sequence[LiveResult]]) -> list[ComparisonRow]:
    """Return a row for each test and setting, in order, and at the end one for all tests and each setting."""
    first = {(run.test, run.run): run.same for run in next(iter(results.values())) if is_counted(run)}
    tests = dict.fromkeys(run.test for runs in results.values() for run in runs)
    return [
        {"test": test, "setting": setting}
        | _compare([run for run in runs if test in {"", run.test}], first if at else None)
        for test in [*tests, ""]
        for at, (setting, runs) in enumerate(results.items())
    ]


def is_counted(run: LiveResult) -> bool:
    """Return whether a run says something of its setting: it was finished, with a live model."""
    return run.cell[:1] == "L" and not run.stopped


def _average(runs: Sequence[LiveResult]) -> dict[str, Any]:
    """Return what a run took, on average; "cost" is None where one has no price."""
    costs = [run.cost for run in runs if run.cost is not None]
    return {
        "cost": fmean(costs) if costs and len(costs) == len(runs) else None,
        "tokens": fmean([sum(run.tokens.values()) for run in runs] or [0]),
        "seconds": fmean([run.seconds for run in runs] or [0]),
    }


def _compare(runs: Sequence[LiveResult], first: Mapping[tuple[str, int], bool] | None) -> ComparisonRow:
    """Return the figures of one setting; `first` has what the first one gave, None for that one itself."""
    done = [run for run in runs if is_counted(run)]
    missing = (run.stopped or FROZEN for run in runs if run.stopped or (run.cell == "FF" and not run.same))
    stopped = next(missing, "" if done else "no run was made")
    keys = [((run.test, run.run), run.same) for run in done]
    pairs = PairedSummary.of((first[key], same) for key, same in keys if first and key in first)
    verdict = "" if first is None else "no difference shown"
    if pairs.p_value < ALPHA:
        verdict = "worse" if pairs.losses > pairs.wins else "better"
    elif verdict and (stopped or sum(pairs) < FEWEST):
        verdict = "inconclusive"
    row = {"passes": sum(run.same for run in done), "runs": len(done), **pairs._asdict(), "p": pairs.p_value}
    return row | _average(done) | {"verdict": verdict, "stopped": stopped}


def comparison_text(rows: Sequence[ComparisonRow]) -> str:
    """Return the rows in 80 columns, each test's under its name."""
    lines, test = [_LAYOUT.format("setting", "passed", "+ - =", "p", "cost", "tokens", "time")], None
    for row in rows:
        lines += [line(row["test"]) or "all tests"] if row["test"] != test else []
        test, cost = row["test"], "" if row["cost"] is None else f"${row['cost']:.5f}"
        pairs = ("{wins} {losses} {ties}".format_map(row), f"{row['p']:.3f}") if row["verdict"] else ("", "")
        amounts = cost, f"{row['tokens']:.0f}", f"{row['seconds']:.2f}s"
        lines.append(_LAYOUT.format(line(row["setting"]), "{passes}/{runs}".format_map(row), *pairs, *amounts))
        lines += [f"    {line(row[why])}" for why in ("verdict", "stopped") if row[why]]
    return "\n".join(lines)


def comparison_csv(rows: Sequence[ComparisonRow]) -> str:
    """Return the rows as CSV; no spreadsheet takes a text of it for a formula."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    for cells in (rows[0], *(row.values() for row in rows)):
        table.writerow([f"'{cell}" if isinstance(cell, str) and cell[:1] in {*"=+-@\t\r"} else cell for cell in cells])
    return out.getvalue()


def comparison_html(rows: Sequence[ComparisonRow], notes: Sequence[str]) -> str:
    """Return the rows as a page that needs nothing else."""
    table = [[markup(str(cell)) for cell in cells] for cells in (rows[0], *(row.values() for row in rows))]
    return html_page("agentreplay compare", table, *(f"<p>{markup(note)}</p>" for note in notes))


def html_page(title: str, table: Iterable[Iterable[str]], *rest: str) -> str:
    """Return a page with a table, whose cells are HTML, and what follows it; it loads nothing."""
    lines = [f"<tr><td>{'</td><td>'.join(cells)}</td></tr>" for cells in table]
    return PAGE.format(title=title, table="\n".join(lines), rest="\n".join(rest))


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
        passes, changes = sum(run.same for run in group), []
        for field in ("served_models", "fingerprints", "providers"):
            values = {str(value) for run in group for value in getattr(run, field)}
            old = before.get((model, field), values)
            if values and old != values:
                gone, new = (", ".join(sorted(each)) or "(none)" for each in (old - values, values - old))
                changes.append(f"{field.rstrip('s').replace('_', ' ')} {gone} -> {new}")
            before[model, field] = values or old
        row = {"date": date, "model": model, "runs": len(group), "passes": passes, "rate": passes / len(group)}
        rows.append(row | {"interval": anytime_interval(passes, len(group)), **_average(group), "changes": changes})
    return rows


def _format_cells(row: dict[str, Any]) -> list[str]:
    """Return the texts of a row of the table."""
    rate, cost = "{:.2f} [{:.2f}, {:.2f}]".format(row["rate"], *row["interval"]), row["cost"]
    figures = f"{row['tokens']:,.0f}", "-" if cost is None else f"{cost:.4f}", f"{row['seconds']:.2f}"
    return [line(row["date"][:10]), line(row["model"]), f"{row['passes']}/{row['runs']}", rate, *figures]


def format_trend(rows: list[dict[str, Any]], width: int, encoding: str) -> list[str]:
    """Return the table, and below it, behind an empty line, a plot of the pass rates in their intervals."""
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
    """Return the table as a page, with tokens, cost and seconds drawn beside their figures, and the plot below."""
    table = [[*HEADER, "changed"]]
    for row in rows:
        cells = [*map(markup, _format_cells(row)), "<br>".join(map(markup, row["changes"]))]
        for at, name in enumerate(HEADER[4:], 4):
            top = max(each[name] or 0 for each in rows) or 1
            cells[at] += f' <meter max="{top}" value="{row[name] or 0}"></meter>'
        table.append(cells)
    lines = format_trend(rows, 120, "utf-8")
    plot = "\n".join(map(markup, lines[lines.index("") :]))
    return html_page("Live runs", table, "<p>The mean of a run for each day and model.", f"<pre>{plot}</pre>")
