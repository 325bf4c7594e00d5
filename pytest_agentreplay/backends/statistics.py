"""What a number of live runs proves: when to stop, how sure a pass rate is, and which of two settings did better.

A live run passes when it did what the recorded run did, within its tolerances. Runs are taken to be independent.

A verdict says what the live runs of one test prove together, and which layer moved. It is plain data: "test", "word"
(`live_result.Word`), "layer", "calls", "tokens", "cost" (dollars or None), "evidence" (changes at the provider and in
SDKs), and by the name of a cell in "cells" what its runs prove: "word", "passes", "runs", "stopped" and the
"interval" of the pass rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.compare.live_result import LiveResult, Word

LiveVerdict: TypeAlias = dict[str, Any]

BUDGET = "budget: "
"""How the reason begins why a call was not made that could exceed it: no later run would come further."""
STOPS = 2
"""Runs of one cell that could not be finished, after which no other is tried."""
NEEDS = {"FF": (), "FL": ("FF",), "LF": ("FF",), "LL": ("FF", "FL", "LF")}
"""Which cells come before a cell: only what they leave open is its own."""
ALONE = {"FF": "agent", "FL": "tool", "LF": "model"}
"""Which layer a cell shows to have moved."""


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """Wald's sequential probability ratio test of a pass rate, truncated at twice the fixed sample size.

    `p0` is the pass rate of a model that has not drifted, `p1` that of one that has. `alpha` is the share of false
    alarms at `p0`, `beta` that of missed drifts at `p1`; truncation turns some of both into "inconclusive".
    """

    p0: float = 0.95
    p1: float = 0.80
    alpha: float = 0.05
    beta: float = 0.10

    def __post_init__(self) -> None:
        """Refuse parameters that make no test. Raises SettingsError."""
        if not 0 < self.p1 < self.p0 < 1:
            raise SettingsError(
                f"p0 = {self.p0} and p1 = {self.p1} make no test: p0, the pass rate without drift, must be above p1, "
                "the one with drift, and both between 0 and 1; for example agentreplay_live = p0=0.95 p1=0.80"
            )
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 0.5:
                raise SettingsError(f"{name} = {value} is no share of errors: it must be above 0 and below 0.5")

    @property
    def cap(self) -> int:
        """Return the number of runs after which nothing is decided any more.

        It is twice what a test with the same errors takes that looks only once, at its end.
        """
        deviation = NormalDist().inv_cdf(1 - self.alpha) * math.sqrt(self.p0 * (1 - self.p0))
        deviation += NormalDist().inv_cdf(1 - self.beta) * math.sqrt(self.p1 * (1 - self.p1))
        return 2 * math.ceil((deviation / (self.p0 - self.p1)) ** 2)

    def verdict(self, passes: int, runs: int) -> Word | None:
        """Return what so many passes of so many runs prove; None where one more run may decide."""
        failure = math.log((1 - self.p1) / (1 - self.p0))
        evidence = passes * math.log(self.p1 / self.p0) + (runs - passes) * failure
        if evidence >= math.log((1 - self.beta) / self.alpha):
            return "drifted"
        if evidence <= math.log(self.beta / (1 - self.alpha)):
            return "same"
        return "inconclusive" if runs >= self.cap else None


def anytime_interval(passes: int, runs: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return a confidence interval of the pass rate that stays valid however often it is looked at.

    It holds each rate at which the likelihood of the runs, averaged over all rates alike (the beta-binomial mixture),
    is less than 1/alpha times their likelihood at that rate.
    """
    failures = runs - passes
    mixture = math.lgamma(passes + 1) + math.lgamma(failures + 1) - math.lgamma(runs + 2)

    def excludes(rate: float) -> bool:
        likelihood = (passes and passes * math.log(rate)) + (failures and failures * math.log1p(-rate))
        return mixture - likelihood >= -math.log(alpha)

    def edge(outside: float) -> float:
        inside = passes / (runs or 1)
        for _ in range(40):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if excludes(middle) else (middle, outside)
        return outside

    return (edge(0.0) if passes else 0.0), (edge(1.0) if failures else 1.0)


def pass_k(passes: int, runs: int, k: int) -> float | None:
    """Return pass^k, the unbiased estimate that k more runs all pass; None where there were fewer than k runs."""
    return math.comb(passes, k) / math.comb(runs, k) if 0 < k <= runs else None


def clean_runs_needed(failure_rate: float, confidence: float = 0.95) -> int:
    """Return after how many runs a failure of this rate would have been seen at least once, with this confidence."""
    return math.ceil(math.log(1 - confidence) / math.log1p(-failure_rate))


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of the exact sign test, which on pairs of pass and fail is McNemar's exact test."""
    pairs = wins + losses
    return min(1.0, 2 * sum(math.comb(pairs, k) for k in range(min(wins, losses) + 1)) / (1 << pairs))


class PairedSummary(NamedTuple):
    """How often the second of two settings did better (wins), worse (losses) or alike (ties) on the same case."""

    wins: int
    losses: int
    ties: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, float]]) -> Self:
        """Return the summary of pairs of pass rates, or of pass (True) and fail, each the first setting's before."""
        signs = [(second > first) - (second < first) for first, second in pairs]
        return cls(signs.count(1), signs.count(-1), signs.count(0))

    @property
    def p_value(self) -> float:
        """Return that of `sign_test`, which leaves ties out."""
        return sign_test(self.wins, self.losses)


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
    calls, tokens = (
        sum(each) for each in zip(*((run.calls, sum(run.tokens.values())) for run in results), strict=True)
    )
    spent = {"calls": calls, "tokens": tokens, "cost": sum(costs) if costs else None}
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
