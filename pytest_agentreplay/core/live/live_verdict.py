"""What the live runs of one test prove together: same, drifted or inconclusive, and which layer moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.core.live.statistics import SequentialTest, anytime_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.core.live.result import LiveResult, Word

BUDGET = "budget: "
"""How the reason begins why a call was not made that could exceed it: no later run would come further."""
STOPS = 2
"""Runs of one cell that could not be finished, after which no other is tried."""
NEEDS = {"FF": (), "FL": ("FF",), "LF": ("FF",), "LL": ("FF", "FL", "LF")}
"""Which cells come before a cell: only what they leave open is its own."""


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


@dataclass(frozen=True, slots=True)
class CellVerdict:
    """What the runs of one cell prove. Runs that were `stopped` count neither for nor against."""

    word: Word
    passes: int
    runs: int
    stopped: int
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class LiveVerdict:
    """What all runs of one test prove.

    `layer` is "agent", "model", "tool", "interaction" (of the two) or "tolerance" where it drifted, and may name two.
    `evidence` are changes at the provider and in SDKs, `cost` is in dollars.
    """

    test: str
    word: Word
    layer: str = ""
    cells: Mapping[str, CellVerdict] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0
    cost: float | None = None
    evidence: tuple[str, ...] = ()

    @property
    def deciding(self) -> CellVerdict:
        """The last cell of the same word, which is what the verdict is about."""
        cells = [*self.cells.values()]
        return next((cell for cell in reversed(cells) if cell.word == self.word), cells[-1])

    def plain(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)


def judge_cell(results: Sequence[LiveResult], cell: str, plan: LivePlan) -> CellVerdict | None:
    """Return what the runs of a cell prove; None where others are still to come."""
    runs = [result for result in results if result.cell == cell]
    counted = [result.same for result in runs if not result.stopped]
    passes, stopped = sum(counted), len(runs) - len(counted)
    word = plan.decide(cell, passes, len(counted))
    over = stopped >= STOPS or any(result.stopped.startswith(BUDGET) for result in runs)
    if word is None and not over and len(runs) < plan.runs[cell]:
        return None
    return CellVerdict(
        word or "inconclusive", passes, len(counted), stopped, anytime_interval(passes, len(counted), plan.test.alpha)
    )


def judge(results: Sequence[LiveResult], plan: LivePlan) -> LiveVerdict | None:
    """Return what the runs of one test prove; None where others are still to come."""
    cells = {cell: judge_cell(results, cell, plan) for cell in plan.runs}
    if (frozen := cells.get("FF")) is not None and frozen.word != "same":
        cells = {"FF": frozen}  # nothing else can be attributed
    decided = {cell: verdict for cell, verdict in cells.items() if verdict is not None}
    if len(decided) < len(cells):
        return None
    word, layer = attribute({cell: verdict.word for cell, verdict in decided.items()})
    costs = [result.cost for result in results if result.cost is not None]
    tokens = sum(count for result in results for count in result.tokens.values())
    calls = sum(result.calls for result in results)
    return LiveVerdict(results[0].test, word, layer, decided, calls, tokens, sum(costs) if costs else None)


def attribute(words: Mapping[str, Word]) -> tuple[Word, str]:
    """Return the word of a test, and the layer that moved, from the words of its cells.

    Where nothing drifts with model and tools live at once, a drift of one alone tells of too tight a tolerance.
    """
    alone = {"FF": "agent", "FL": "tool", "LF": "model"}
    drifted = [cell for cell, word in words.items() if word == "drifted"]
    if not drifted:
        return ("inconclusive" if "inconclusive" in words.values() else "same"), ""
    if words.get("LL") == "same":
        return "drifted", "tolerance"
    layers = [alone[cell] for cell in drifted if cell in alone]
    apart = words.get("FL") == words.get("LF") == "same"
    return "drifted", " and ".join(layers) or ("interaction" if apart else "model or tool")
