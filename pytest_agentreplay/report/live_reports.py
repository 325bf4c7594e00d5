"""What live runs show: what drifted, by which tolerance; what many prove; settings compared, and runs over time."""

from __future__ import annotations

import csv
import io
import textwrap
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.backends.statistics import PairedSummary, anytime_interval, pass_k
from pytest_agentreplay.compare.diff.texts import excerpt
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.report.escape import escape_html, escape_line
from pytest_agentreplay.report.finding import Finding, Line, find_file
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.report.terminal import draw_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.backends.statistics import LiveVerdict
    from pytest_agentreplay.compare.live_result import Drift, LiveResult
    from pytest_agentreplay.model.exchanges import Json

CELLS = {
    "FF": ("model and tools frozen", "--replay=model"),
    "FL": ("model frozen, read tools LIVE", "--replay-tools=live"),
    "LF": ("model LIVE, tools frozen", "--replay=live"),
    "LL": ("model LIVE, read tools LIVE", "--replay=live --replay-tools=live"),
}
LAYERS = {"agent": "the agent drifted", "model": "the model drifted", "tool": "a tool drifted"}
SHORT = {"FF": "all frozen", "FL": "tools live", "LF": "model live", "LL": "both live"}
# The k of pass^k: how likely an agent does it right each time that it is asked so often.
MANY = 8
KEPT = 2000  # characters of one side
# What one setting did in one test, or in all of them together ("test" is ""), as plain data.
#
# "wins", "losses" and "ties" count pairs of runs, of the same test and number, against the first setting; "p" is that
# of the exact sign test. "cost" (None where a price is not known), "tokens" and "seconds" are those of a run, on
# average. "verdict" is "" for the first setting. "stopped" says why runs are missing.
ComparisonRow: TypeAlias = dict[str, Any]
ALPHA = 0.05
# Pairs of runs from which on a difference can be shown at all: 2 / 2**6 is below `ALPHA`.
FEWEST = 6
FROZEN = "left out: it is not as recorded even with a frozen model"
HEADER = ("date", "model", "passed", "rate [interval]", "tokens", "cost", "seconds")
PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font:14px sans-serif}}td{{padding:2px 8px;border-bottom:1px solid #ccc;white-space:nowrap}}</style>
<h1>{title}</h1><table>
{table}
</table>{rest}</html>
"""


def describe_live_run(result: LiveResult, facts: Mapping[str, Json], changes: Iterable[str] = ()) -> Finding:
    """Return what to report about a run that drifted, or was stopped.

    `facts` are about its snapshot, `changes` what is not as it was around the model.
    """
    cell, flags = CELLS[result.cell]
    rest = [Line("text", text, "changed") for text in changes]
    again = Line("next", f"pytest {flags} {selecting(result.test)}", "run it again")
    if result.stopped or not result.drifts:
        why = Line("text", "nothing was compared, and nothing was written: the run counts neither for nor against")
        headline = f"[{Kind.LIVE.code}] the live run proves nothing: {result.stopped}"
        return Finding(result.test, Kind.LIVE.code, headline, (why, *rest, again), {"code": Kind.LIVE.code})
    first = result.drifts[0]
    tokens = " + ".join(str(result.tokens.get(side, 0)) for side in ("input", "output"))
    texts = {
        "tolerance": first.tolerance + ", a shipped default: no tolerance of yours names this place" * first.default,
        "off script": ", ".join(dict.fromkeys(result.off_script)),
        "ran": f"{cell}; {result.calls} model call{'s' * (result.calls != 1)}, {tokens} tokens, {result.seconds:.1f} s",
        "snapshot": f"{find_file(facts)} (recorded {str(facts.get('recorded') or '')[:10]})",
    }
    hints = dict.fromkeys(hint for drift in result.drifts for hint in drift.hints)
    lines = (
        *map(_make_difference_line, result.drifts),
        *(Line("text", text, label) for label, text in texts.items() if text),
        *rest,
        *(Line("next", text, name) for name, _, text in (hint.partition(": ") for hint in hints)),
        again,
        Line("next", f"pytest --snapshot-record {selecting(result.test)}", "keep the new behaviour"),
    )
    more = f" (and {len(result.drifts) - 1} more)" if len(result.drifts) > 1 else ""
    layer = f"{result.released} drifted" if result.released else LAYERS[first.layer]
    headline = f"[{Kind.DRIFT.code}] {layer}: {first.summary}{more}"
    properties = {"code": Kind.DRIFT.code, "layer": first.layer, "path": first.path, "cell": result.cell}
    return Finding(result.test, Kind.DRIFT.code, headline, lines, properties)


def _make_difference_line(drift: Drift) -> Line:
    recorded, now = (side if isinstance(side, str) else canonical(side) for side in (drift.recorded, drift.now))
    return Line("difference", drift.path, drift.summary, *excerpt(recorded, now, KEPT))


def describe_live_verdict(
    verdict: LiveVerdict, results: Sequence[LiveResult], facts: Mapping[str, Json], finding: Finding | None
) -> Finding:
    """Return what the item whose run decides fails with: the verdict, and a run that shows it.

    `finding` is that of the deciding run, which is all there is to report where it is the only one.
    """
    live = [result for result in results if result.cell != "FF"]
    if finding is not None and len(live) == 1:
        return finding
    drifted, cells = verdict["word"] == "drifted", verdict["cells"]
    shows = [result for result in live if (result.drifts if drifted else result.stopped)]
    if shows and (finding is None or not drifted):
        finding = describe_live_run(shows[0], facts, verdict["evidence"])
    what = finding.headline.partition(": ")[2] if finding is not None else "more runs are needed"
    cell = next(cell for cell in reversed(cells.values()) if cell["word"] == verdict["word"])
    moved = f"{results[0].released or verdict['layer']} drift"
    layer = {"tolerance": "tolerance too tight"}.get(verdict["layer"], moved).upper()
    word = f"{layer} in {cell['runs'] - cell['passes']}" if drifted else f"INCONCLUSIVE, the same in {cell['passes']}"
    code = (Kind.DRIFT if drifted else Kind.LIVE).code
    lines = [Line("text", format_runs(each), SHORT[name]) for name, each in cells.items()]
    lines += [Line("text", format_cost([verdict]), "spent"), *(finding.lines if finding is not None else ())]
    properties = {"code": code, "verdict": verdict["word"], "layer": verdict["layer"]}
    headline = f"[{code}] {word} of {cell['runs']} live runs: {what}"
    return Finding(verdict["test"], code, headline, tuple(lines), properties)


def format_runs(cell: LiveVerdict) -> str:
    """Return what the runs of a cell gave: "17 of 20 same, pass rate 0.59 to 0.97, pass^8 0.22"."""
    power = pass_k(cell["passes"], cell["runs"], MANY)
    more = f", pass^{MANY} {power:.2f}" if power is not None else ""
    more += f", {cell['stopped']} stopped" if cell["stopped"] else ""
    return "{passes} of {runs} same, pass rate {interval[0]:.2f} to {interval[1]:.2f}".format(**cell) + more


def format_cost(verdicts: Sequence[LiveVerdict]) -> str:
    """Return what live runs took: "28 calls, 1,200 tokens, $0.0150"; the money where prices are known."""
    calls, tokens = (sum(verdict[name] for verdict in verdicts) for name in ("calls", "tokens"))
    costs = [verdict["cost"] for verdict in verdicts if verdict["cost"] is not None]
    return f"{format_count(calls, 'call')}, {tokens:,} tokens" + (f", ${sum(costs):.4f}" if costs else "")


def format_verdicts(verdicts: Iterable[LiveVerdict]) -> list[str]:
    """Return a line of 80 columns for each test, and the totals."""
    lines, every = [], [*verdicts]
    for verdict in every:
        cells = [cell for name, cell in verdict["cells"].items() if name != "FF"] or [*verdict["cells"].values()]
        runs, rate = "+".join(f"{cell['passes']}/{cell['runs']}" for cell in cells), cells[-1]["interval"]
        head = f"live  {verdict['word']:12} {verdict['layer']:11} {runs:>7}  {rate[0]:.2f}-{rate[1]:.2f}  "
        room, test = 80 - len(head), verdict["test"]
        lines.append(head + (test if len(test) <= room else f"...{test[3 - room :]}"))
    words = Counter(verdict["word"] for verdict in every)
    totals = ", ".join(f"{count} {word}" for word, count in words.items())
    return [*lines, f"live  {totals}; {format_cost(every)}"] if every else []


def compare_settings(results: Mapping[str, Sequence[LiveResult]]) -> list[ComparisonRow]:
    """Return a row for each test and setting, in order, and at the end one for all tests and each setting."""
    first = {(run.test, run.run): run.same for run in next(iter(results.values())) if is_counted(run)}
    tests = dict.fromkeys(run.test for runs in results.values() for run in runs)
    return [
        {"test": test, "setting": setting}
        | _compare_runs([run for run in runs if test in {"", run.test}], first if at else None)
        for test in [*tests, ""]
        for at, (setting, runs) in enumerate(results.items())
    ]


def is_counted(run: LiveResult) -> bool:
    """Return whether a run says something of its setting: it was finished, with a live model."""
    return run.cell[:1] == "L" and not run.stopped


def _average_runs(runs: Sequence[LiveResult]) -> dict[str, Any]:
    """Return what a run took, on average; "cost" is None where one has no price."""
    costs = [run.cost for run in runs if run.cost is not None]
    return {
        "cost": fmean(costs) if costs and len(costs) == len(runs) else None,
        "tokens": fmean([sum(run.tokens.values()) for run in runs] or [0]),
        "seconds": fmean([run.seconds for run in runs] or [0]),
    }


def _compare_runs(runs: Sequence[LiveResult], first: Mapping[tuple[str, int], bool] | None) -> ComparisonRow:
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
    return row | _average_runs(done) | {"verdict": verdict, "stopped": stopped}


def format_comparison(rows: Sequence[ComparisonRow]) -> str:
    """Return the rows of each test under its name."""
    cells = []
    for row in rows:
        cost = "" if row["cost"] is None else f"${row['cost']:.5f}"
        pairs = ("{wins} {losses} {ties}".format_map(row), f"{row['p']:.3f}") if row["verdict"] else ("", "")
        amounts = cost, f"{row['tokens']:.0f}", f"{row['seconds']:.2f}s"
        cells.append([f"  {row['setting'][:22]}", "{passes}/{runs}".format_map(row), *pairs, *amounts])
    head, *drawn = draw_rows(("  setting", "passed", "+ - =", "p", "cost", "tokens", "time"), cells)
    lines, test = [head], None
    for row, line in zip(rows, drawn, strict=True):
        lines += [escape_line(row["test"]) or "all tests"] if row["test"] != test else []
        test = row["test"]
        lines += [line, *(f"    {escape_line(row[why])}" for why in ("verdict", "stopped") if row[why])]
    return "\n".join(lines)


def format_comparison_csv(rows: Sequence[ComparisonRow]) -> str:
    """Return the rows as CSV; no spreadsheet takes a text of it for a formula."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    for cells in (rows[0], *(row.values() for row in rows)):
        table.writerow([f"'{cell}" if isinstance(cell, str) and cell[:1] in {*"=+-@\t\r"} else cell for cell in cells])
    return out.getvalue()


def format_comparison_html(rows: Sequence[ComparisonRow], notes: Sequence[str]) -> str:
    """Return the rows as a page that needs nothing else."""
    table = [[escape_html(str(cell)) for cell in cells] for cells in (rows[0], *(row.values() for row in rows))]
    return format_html_page("agentreplay live compare", table, *(f"<p>{escape_html(note)}</p>" for note in notes))


def format_html_page(title: str, table: Iterable[Iterable[str]], *rest: str) -> str:
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
                gone, new = (", ".join(sorted(names)) or "(none)" for names in (old - values, values - old))
                changes.append(f"{field.rstrip('s').replace('_', ' ')} {gone} -> {new}")
            before[model, field] = values or old
        otherwise, old = {run.served_otherwise for run in group} - {""}, before.get((model, ""), set())
        changes += sorted(otherwise - old)
        before[model, ""] = otherwise
        row = {"date": date, "model": model, "runs": len(group), "passes": passes, "rate": passes / len(group)}
        rows.append(
            row | {"interval": anytime_interval(passes, len(group)), **_average_runs(group), "changes": changes}
        )
    return rows


def _format_cells(row: dict[str, Any]) -> list[str]:
    """Return the texts of a row of the table."""
    rate, cost = "{:.2f} [{:.2f}, {:.2f}]".format(row["rate"], *row["interval"]), row["cost"]
    figures = f"{row['tokens']:,.0f}", "-" if cost is None else f"{cost:.4f}", f"{row['seconds']:.2f}"
    return [escape_line(row["date"][:10]), escape_line(row["model"]), f"{row['passes']}/{row['runs']}", rate, *figures]


def format_trend(rows: list[dict[str, Any]], width: int, encoding: str) -> list[str]:
    """Return the table, and below it, behind an empty line, a plot of the pass rates in their intervals."""
    inside, point = "░█" if encoding.lower().startswith("utf") else "-#"
    table = [[*HEADER], *map(_format_cells, rows)]
    dates, longest, *others = [max(map(len, column)) for column in zip(*table, strict=True)]
    column = max(5, min(longest, width - dates - sum(others) - 2 * len(table[0]) + 2))
    for cells in table:
        cells[1] = cells[1] if len(cells[1]) <= column else f"{cells[1][: column - 1]}~"
    size = max(20, width - column - dates - 6)
    head, *drawn = draw_rows(table[0], table[1:], left=2)
    lines, plot = [head], ["", f"{'pass rate':{column + dates + 2}}  0{'1':>{size}}"]
    for row, cells, line in zip(rows, table[1:], drawn, strict=True):
        lines.append(line)
        for change in row["changes"]:
            lines += textwrap.wrap(escape_line(change), width, initial_indent="  ^ ", subsequent_indent="    ")
        low, high = (edge * size for edge in row["interval"])
        bar = [inside if low - 1 < cell < high else " " for cell in range(size)]
        bar[min(size - 1, int(row["rate"] * size))] = point
        plot.append(f"{cells[0]:{dates}}  {cells[1]:{column}}  |{''.join(bar)}|")
    return lines + plot


def format_page(rows: list[dict[str, Any]]) -> str:
    """Return the table as a page, with tokens, cost and seconds drawn beside their figures, and the plot below."""
    table = [[*HEADER, "changed"]]
    for row in rows:
        cells = [*map(escape_html, _format_cells(row)), "<br>".join(map(escape_html, row["changes"]))]
        for at, name in enumerate(HEADER[4:], 4):
            top = max(row[name] or 0 for row in rows) or 1
            if row[name] is not None:
                cells[at] += f' <meter max="{top}" value="{row[name]}"></meter>'
        table.append(cells)
    lines = format_trend(rows, 100, "utf-8")
    plot = "\n".join(map(escape_html, lines[lines.index("") :]))
    return format_html_page("Live runs", table, "<p>The mean of a run for each day and model.", f"<pre>{plot}</pre>")
