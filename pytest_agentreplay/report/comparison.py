"""Settings compared over the same tests, each with the first one; as text, for a spreadsheet, for a browser."""

from __future__ import annotations

import csv
import io
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.core.live.statistics import PairedSummary
from pytest_agentreplay.report.escape import line, markup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
_STYLE = "body{font:14px sans-serif}td{padding:2px 8px;border-bottom:1px solid #ccc}"


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


def _compare(runs: Sequence[LiveResult], first: Mapping[tuple[str, int], bool] | None) -> ComparisonRow:
    """Return the figures of one setting; `first` has what the first one gave, None for that one itself."""
    done = [run for run in runs if is_counted(run)]
    missing = (run.stopped or FROZEN for run in runs if run.stopped or (run.cell == "FF" and not run.same))
    stopped = next(missing, "" if done else "no run was made")
    keys = [((run.test, run.run), run.same) for run in done]
    pairs = PairedSummary.of((first[key], same) for key, same in keys if first and key in first)
    costs = [run.cost for run in done if run.cost is not None]
    verdict = "" if first is None else "no difference shown"
    if pairs.p_value < ALPHA:
        verdict = "worse" if pairs.losses > pairs.wins else "better"
    elif verdict and (stopped or sum(pairs) < FEWEST):
        verdict = "inconclusive"
    return {
        "passes": sum(run.same for run in done),
        "runs": len(done),
        **pairs._asdict(),
        "p": pairs.p_value,
        "cost": fmean(costs) if costs and len(costs) == len(done) else None,
        "tokens": fmean([sum(run.tokens.values()) for run in done] or [0]),
        "seconds": fmean([run.seconds for run in done] or [0]),
        "verdict": verdict,
        "stopped": stopped,
    }


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
    head = f'<!doctype html><meta charset="utf-8"><title>agentreplay compare</title><style>{_STYLE}</style>'
    table = [[markup(str(cell)) for cell in cells] for cells in (rows[0], *(row.values() for row in rows))]
    lines = [f"<tr><td>{'</td><td>'.join(cells)}</td></tr>" for cells in table]
    return "\n".join([head, "<table>", *lines, "</table>", *(f"<p>{markup(note)}</p>" for note in notes)])
