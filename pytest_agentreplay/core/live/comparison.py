"""Settings compared over the same tests: each with the first one, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_agentreplay.core.live.statistics import PairedSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.core.live.result import LiveResult

ALPHA = 0.05
FEWEST = 6
"""Pairs of runs from which on a difference can be shown at all: 2 / 2**6 is below `ALPHA`."""


@dataclass(frozen=True, slots=True)
class ComparedSetting:
    """What one setting did in one test, or in all of them together (`test` is "").

    `wins`, `losses` and `ties` count pairs of runs, of the same test and number, against the first setting; `p` is that
    of the exact sign test. `cost` (None where a price is not known), `tokens` and `seconds` are those of a run, on
    average. `verdict` is "" for the first setting. `stopped` says why runs could not be finished.
    """

    test: str
    setting: str
    passes: int
    runs: int
    wins: int
    losses: int
    ties: int
    p: float
    cost: float | None
    tokens: float
    seconds: float
    verdict: str
    stopped: str = ""


def compare_settings(results: Mapping[str, Sequence[LiveResult]]) -> list[ComparedSetting]:
    """Return a row for each test and setting, in order, and at the end one for all tests and each setting."""
    live = {setting: [run for run in runs if run.cell[:1] == "L"] for setting, runs in results.items()}
    first = {(run.test, run.run): run.same for run in next(iter(live.values())) if not run.stopped}
    tests = dict.fromkeys(run.test for runs in live.values() for run in runs)
    return [
        _compared(test, setting, [run for run in runs if test in {"", run.test}], None if at == 0 else first)
        for test in [*tests, ""]
        for at, (setting, runs) in enumerate(live.items())
    ]


def _compared(
    test: str, setting: str, runs: Sequence[LiveResult], first: Mapping[tuple[str, int], bool] | None
) -> ComparedSetting:
    done = [run for run in runs if not run.stopped]
    stopped = next((run.stopped for run in runs if run.stopped), "" if done else "no run was made")
    keys = [((run.test, run.run), run.same) for run in done]
    pairs = PairedSummary.of((first[key], same) for key, same in keys if first and key in first)
    costs = [run.cost for run in done if run.cost is not None]
    verdict = "no difference shown"
    if first is None:
        verdict = ""
    elif pairs.p_value < ALPHA:
        verdict = "worse" if pairs.losses > pairs.wins else "better"
    elif stopped or pairs.wins + pairs.losses + pairs.ties < FEWEST:
        verdict = "inconclusive"
    return ComparedSetting(
        test,
        setting,
        sum(run.same for run in done),
        len(done),
        *(pairs.wins, pairs.losses, pairs.ties, pairs.p_value),
        fmean(costs) if done and len(costs) == len(done) else None,
        fmean([sum(run.tokens.values()) for run in done] or [0]),
        fmean([run.seconds for run in done] or [0]),
        verdict,
        stopped,
    )
