"""The findings of live runs: what drifted, by which tolerance, why a run proves nothing, and what many prove."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.diff.texts import excerpt
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.live.statistics import pass_k
from pytest_agentreplay.core.paths import selecting
from pytest_agentreplay.report.finding import Finding, Line, file_of
from pytest_agentreplay.report.session import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.core.live.result import Drift, LiveResult
    from pytest_agentreplay.core.live.statistics import LiveVerdict
    from pytest_agentreplay.core.model import Json

CELLS = {
    "FF": ("model and tools frozen", "--replay=model"),
    "FL": ("model frozen, read tools LIVE", "--replay-tools=live"),
    "LF": ("model LIVE, tools frozen", "--replay=live"),
    "LL": ("model LIVE, read tools LIVE", "--replay=live --replay-tools=live"),
}
LAYERS = {"agent": "the agent drifted", "model": "the model drifted", "tool": "a tool drifted"}
SHORT = {"FF": "all frozen", "FL": "tools live", "LF": "model live", "LL": "both live"}
MANY = 8
"""The k of pass^k: how likely an agent does it right each time that it is asked so often."""
KEPT = 2000  # characters of one side


def live_finding(result: LiveResult, facts: Mapping[str, Json], changes: Iterable[str] = ()) -> Finding:
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
        "snapshot": f"{file_of(facts)} (recorded {str(facts.get('recorded') or '')[:10]})",
    }
    hints = dict.fromkeys(hint for drift in result.drifts for hint in drift.hints)
    lines = (
        *map(_sides, result.drifts),
        *(Line("text", text, label) for label, text in texts.items() if text),
        *rest,
        *(Line("next", text, name) for name, _, text in (hint.partition(": ") for hint in hints)),
        again,
        Line("next", f"pytest --snapshot-record {selecting(result.test)}", "keep the new behaviour"),
    )
    more = f" (and {len(result.drifts) - 1} more)" if len(result.drifts) > 1 else ""
    headline = f"[{Kind.DRIFT.code}] {LAYERS[first.layer]}: {first.summary}{more}"
    properties = {"code": Kind.DRIFT.code, "layer": first.layer, "path": first.path, "cell": result.cell}
    return Finding(result.test, Kind.DRIFT.code, headline, lines, properties)


def _sides(drift: Drift) -> Line:
    recorded, now = (side if isinstance(side, str) else canonical(side) for side in (drift.recorded, drift.now))
    return Line("difference", drift.path, drift.summary, *excerpt(recorded, now, KEPT))


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
    lines = [Line("text", runs_text(each), SHORT[name]) for name, each in cells.items()]
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
