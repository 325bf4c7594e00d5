"""What many live runs of a test prove, for people: the finding of the run that decides, and the lines at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.live.statistics import pass_k
from pytest_agentreplay.report.finding import Finding, Line
from pytest_agentreplay.report.live_findings import live_finding
from pytest_agentreplay.report.session import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.core.live.live_verdict import LiveVerdict
    from pytest_agentreplay.core.live.result import LiveResult
    from pytest_agentreplay.core.model import Json

CELLS = {"FF": "all frozen", "FL": "tools live", "LF": "model live", "LL": "both live"}
MANY = 8
"""The k of pass^k: how likely an agent does it right each time that it is asked so often."""


def verdict_finding(
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
        finding = live_finding(shows[0], facts, verdict["evidence"])
    what = finding.headline.partition(": ")[2] if finding is not None else "more runs are needed"
    cell = next(cell for cell in reversed(cells.values()) if cell["word"] == verdict["word"])
    layer = {"tolerance": "tolerance too tight"}.get(verdict["layer"], f"{verdict['layer']} drift").upper()
    word = f"{layer} in {cell['runs'] - cell['passes']}" if drifted else f"INCONCLUSIVE, the same in {cell['passes']}"
    code = (Kind.DRIFT if drifted else Kind.LIVE).code
    lines = [Line("text", runs_text(each), CELLS[name]) for name, each in cells.items()]
    lines += [Line("text", cost_text([verdict]), "spent"), *(finding.lines if finding is not None else ())]
    properties = {"code": code, "verdict": verdict["word"], "layer": verdict["layer"]}
    return Finding(
        verdict["test"], code, f"[{code}] {word} of {cell['runs']} live runs: {what}", tuple(lines), properties
    )


def runs_text(cell: LiveVerdict) -> str:
    """Return what the runs of a cell gave: "17 of 20 same, pass rate 0.59 to 0.97, pass^8 0.22"."""
    power = pass_k(cell["passes"], cell["runs"], MANY)
    more = f", pass^{MANY} {power:.2f}" if power is not None else ""
    more += f", {cell['stopped']} stopped" if cell["stopped"] else ""
    return "{passes} of {runs} same, pass rate {interval[0]:.2f} to {interval[1]:.2f}".format(**cell) + more


def cost_text(verdicts: Sequence[LiveVerdict]) -> str:
    """Return what live runs took: "28 calls, 1,200 tokens, $0.0150"; the money where prices are known."""
    calls, tokens = (sum(verdict[name] for verdict in verdicts) for name in ("calls", "tokens"))
    costs = [verdict["cost"] for verdict in verdicts if verdict["cost"] is not None]
    return f"{plural(calls, 'call')}, {tokens:,} tokens" + (f", ${sum(costs):.4f}" if costs else "")


def verdict_lines(verdicts: Iterable[LiveVerdict]) -> list[str]:
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
    return [*lines, f"live  {totals}; {cost_text(every)}"] if every else []
