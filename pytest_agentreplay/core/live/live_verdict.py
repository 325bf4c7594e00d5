"""What the live runs of one test prove together: same, drifted or inconclusive, and which layer moved.

A verdict is plain data: "test", "word" (`result.Word`), "layer", "calls", "tokens", "cost" (dollars, or None),
"evidence" (changes at the provider and in SDKs), and by the name of a cell in "cells" what its runs prove: "word",
"passes", "runs", "stopped" and the "interval" of the pass rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_agentreplay.core.live.statistics import SequentialTest, anytime_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.core.live.result import LiveResult, Word

LiveVerdict: TypeAlias = dict[str, Any]

BUDGET = "budget: "
"""How the reason begins why a call was not made that could exceed it: no later run would come further."""
STOPS = 2
"""Runs of one cell that could not be finished, after which no other is tried."""
NEEDS = {"FF": (), "FL": ("FF",), "LF": ("FF",), "LL": ("FF", "FL", "LF")}
"""Which cells come before a cell: only what they leave open is its own."""
ALONE = {"FF": "agent", "FL": "tool", "LF": "model"}
"""Which layer a cell shows to have moved."""


class LivePlan(NamedTuple):
    """How many runs of which cell are selected, and what decides: `test` after each run (`auto`), or all of them."""

    runs: Mapping[str, int]
    test: SequentialTest = SequentialTest()
    auto: bool = False

    def decide(self, cell: str, passes: int, runs: int) -> Word | None:
        """Return what so many passes of so many runs of a cell prove; None where another run may decide."""
        if cell == "FF" and runs:
            return "same" if passes == runs else "drifted"
        if self.auto:
            return self.test.verdict(passes, runs)
        if runs < max(1, self.runs[cell]):
            return None
        rate = passes / runs
        return "same" if rate >= self.test.p0 else "drifted" if rate <= self.test.p1 else "inconclusive"


def judge_cell(results: Sequence[LiveResult], cell: str, plan: LivePlan) -> LiveVerdict | None:
    """Return what the runs of a cell prove; None where others are still to come.

    Runs that were stopped count neither for nor against.
    """
    runs = [result for result in results if result.cell == cell]
    counted = [result.same for result in runs if not result.stopped]
    passes, stopped = sum(counted), len(runs) - len(counted)
    word = plan.decide(cell, passes, len(counted))
    over = stopped >= STOPS or any(result.stopped.startswith(BUDGET) for result in runs)
    if word is None and not over and len(runs) < plan.runs[cell]:
        return None
    interval = anytime_interval(passes, len(counted), plan.test.alpha)
    counts = {"passes": passes, "runs": len(counted), "stopped": stopped}
    return {"word": word or "inconclusive", **counts, "interval": interval}


def judge(results: Sequence[LiveResult], plan: LivePlan) -> LiveVerdict | None:
    """Return what the runs of one test prove; None where others are still to come."""
    cells = {cell: judge_cell(results, cell, plan) for cell in plan.runs}
    if (frozen := cells.get("FF")) is not None and frozen["word"] != "same":
        cells = {"FF": frozen}  # nothing else can be attributed
    decided = {cell: verdict for cell, verdict in cells.items() if verdict is not None}
    if len(decided) < len(cells):
        return None
    word, layer = attribute({cell: verdict["word"] for cell, verdict in decided.items()})
    costs = [result.cost for result in results if result.cost is not None]
    spent = {
        "calls": sum(result.calls for result in results),
        "tokens": sum(sum(result.tokens.values()) for result in results),
        "cost": sum(costs) if costs else None,
    }
    return {"test": results[0].test, "word": word, "layer": layer, "cells": decided, **spent}


def attribute(words: Mapping[str, Word]) -> tuple[Word, str]:
    """Return the word of a test, and the layer that moved, from the words of its cells.

    Where nothing drifts with model and tools live at once, a drift of one alone tells of too tight a tolerance.
    """
    drifted = [cell for cell, word in words.items() if word == "drifted"]
    if not drifted:
        return ("inconclusive" if "inconclusive" in words.values() else "same"), ""
    if words.get("LL") == "same":
        return "drifted", "tolerance"
    apart = words.get("FL") == words.get("LF") == "same"
    layers = [ALONE[cell] for cell in drifted if cell in ALONE]
    return "drifted", " and ".join(layers) or ("interaction" if apart else "model or tool")
