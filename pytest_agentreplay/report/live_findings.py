"""The findings of live runs: what drifted, by which tolerance, and why a run proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.diff.texts import excerpt
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.paths import selecting
from pytest_agentreplay.report.finding import Finding, Line, file_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.core.live.result import Drift, LiveResult
    from pytest_agentreplay.core.model import Json

CELLS = {
    "FF": ("model and tools frozen", "--replay=model"),
    "FL": ("model frozen, read tools LIVE", "--replay-tools=live"),
    "LF": ("model LIVE, tools frozen", "--replay=live"),
    "LL": ("model LIVE, read tools LIVE", "--replay=live --replay-tools=live"),
}
LAYERS = {"agent": "the agent drifted", "model": "the model drifted", "tool": "a tool drifted"}
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
        "ran": f"{cell}; {result.calls} model calls, {tokens} tokens, {result.seconds:.1f} s",
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
