"""What many live runs of a test prove, for people: the finding of the run that decides, and the lines at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.live.statistics import pass_k
from pytest_agentreplay.report.finding import Finding, Line
from pytest_agentreplay.report.live_findings import live_finding
from pytest_agentreplay.report.session import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.core.live.live_verdict import LiveVerdict
    from pytest_agentreplay.core.live.result import LiveResult
    from pytest_agentreplay.core.model import Json

CELLS = {"FF": "all frozen", "FL": "tools live", "LF": "model live", "LL": "both live"}
MANY = 8
"""The k of pass^k: an agent that is asked eight times must do it right each time."""


def verdict_finding(
    verdict: LiveVerdict, results: Sequence[LiveResult], facts: Mapping[str, Json], finding: Finding | None
) -> Finding:
    """Return what the item whose run decides fails with: the verdict, and a run that shows it.

    `finding` is that of the deciding run, which is all there is to report where it is the only one.
    """
    cell, live = verdict.deciding, [result for result in results if result.cell != "FF"]
    if finding is not None and len(live) == 1:
        return finding
    shows = [result for result in live if result.drifts or result.stopped]
    if verdict.word == "inconclusive":
        shows.sort(key=lambda result: not result.stopped)
        finding = None
    if finding is None and shows:
        finding = live_finding(shows[0], facts, verdict.evidence)
    what = finding.headline.partition(": ")[2] if finding is not None else "more runs are needed"
    if verdict.word == "drifted":
        layer = "tolerance too tight" if verdict.layer == "tolerance" else f"{verdict.layer} drift"
        code, word = Kind.DRIFT.code, f"{layer.upper()} in {cell.runs - cell.passes} of {cell.runs} live runs"
    else:
        code, word = Kind.LIVE.code, f"INCONCLUSIVE, {cell.passes} of {cell.runs} live runs are the same"
    numbers = [Line("text", runs_text(each), CELLS[name]) for name, each in verdict.plain()["cells"].items()]
    spent = Line("text", cost_text([verdict.plain()]), "spent")
    properties = {"code": code, "verdict": verdict.word, "layer": verdict.layer, "runs": f"{cell.passes}/{cell.runs}"}
    lines = (*numbers, spent, *(finding.lines if finding is not None else ()))
    return Finding(verdict.test, code, f"[{code}] {word}: {what}", lines, properties)


def runs_text(cell: Mapping[str, Any]) -> str:
    """Return what the runs of a cell gave: "17 of 20 same, pass rate 0.59 to 0.97, pass^8 0.22"."""
    low, high = cell["interval"]
    power = pass_k(cell["passes"], cell["runs"], MANY)
    more = f", pass^{MANY} {power:.2f}" if power is not None else ""
    stopped = f", {cell['stopped']} stopped" if cell["stopped"] else ""
    return f"{cell['passes']} of {cell['runs']} same, pass rate {low:.2f} to {high:.2f}{more}{stopped}"


def cost_text(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return what live runs took: "28 calls, 1,200 tokens, $0.0150"; the money where prices are known."""
    costs = [verdict["cost"] for verdict in verdicts if verdict["cost"] is not None]
    calls, tokens = (sum(verdict[name] for verdict in verdicts) for name in ("calls", "tokens"))
    return f"{plural(calls, 'call')}, {tokens:,} tokens" + (f", ${sum(costs):.4f}" if costs else "")


def verdict_lines(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each test, and the totals."""
    lines = []
    for verdict in verdicts:
        cells = [cell for name, cell in verdict["cells"].items() if name != "FF"] or [*verdict["cells"].values()]
        runs = "+".join(f"{cell['passes']}/{cell['runs']}" for cell in cells)
        rate = "{:.2f}-{:.2f}".format(*cells[-1]["interval"])
        head = f"live  {verdict['word']:12} {verdict['layer']:11} {runs:>7}  {rate}  "
        room = 80 - len(head)
        lines.append(head + (verdict["test"] if len(verdict["test"]) <= room else f"...{verdict['test'][3 - room :]}"))
    words = ", ".join(f"{count} {word}" for word, count in Counter(verdict["word"] for verdict in verdicts).items())
    return [*lines, f"live  {words}; {cost_text(verdicts)}"] if lines else []
