"""What holds for many live runs: how many, what decides, the budget and prices. Loaded for a session with live runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.backends.statistics import SequentialTest
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings.parsers import parse_pairs, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.backends.budget import ModelBudget

BUDGET = "calls=100 tokens=50000 usd=2.00 assumed_output=4096"
TEST = "p0=0.95 p1=0.80 alpha=0.05 beta=0.10"
PRICE = "gpt-5 = 1.25 in, 10 out"
NOT_ON_CI = (
    "a live run is refused because CI is set: it sends prompts to a real model, and costs money.\n"
    "A job that is meant to do so sets agentreplay_ci = live and a budget, like "
)


class LiveRuns(NamedTuple):
    """`runs` of each test (`auto`: as many as `test` needs), `budget` by unit, `prices` by pattern of model names.

    `ledger` is what a case asks before each call of a live model.
    """

    runs: int = 1
    auto: bool = False
    test: SequentialTest = SequentialTest()
    budget: Mapping[str, float] = {}
    prices: tuple[tuple[str, tuple[float, float]], ...] = ()
    ledger: ModelBudget | None = None


def read_live_runs(
    flags: Mapping[str, Any], table: Mapping[str, Any], where: str, *, needs_leave: bool, has_leave: bool
) -> LiveRuns:
    """Return what flags and ini keys say of live runs. Raises SettingsError, also on CI without leave and a budget."""
    test, budget = parse_test_and_budget(table["agentreplay_live"], f"{where}agentreplay_live")
    if (limits := flags.get("replay_budget")) is not None:
        budget = parse_amounts(limits, "--replay-budget", BUDGET)
    if needs_leave and not (budget and has_leave):
        raise SettingsError(f"{NOT_ON_CI}agentreplay_live = {BUDGET}")
    word = flags.get("replay_runs") or "1"
    if word != "auto" and not (word.isdecimal() and int(word)):
        raise SettingsError(f"--replay-runs takes auto or a number of runs above zero, not {word!r}")
    lines, name = table["agentreplay_prices"], f"{where}agentreplay_prices"
    prices = tuple((model, parse_price(text, model, name)) for model, text in parse_pairs(lines, name))
    return LiveRuns(test.cap if word == "auto" else int(word), word == "auto", test, budget, prices)


def parse_test_and_budget(text: str, name: str) -> tuple[SequentialTest, dict[str, float]]:
    """Return the test that decides about live runs, and what these may cost: "p0=0.95 p1=0.80 calls=200 usd=2.00"."""
    budget = parse_amounts(text, name, f"{TEST} {BUDGET}")
    rates = {unit: budget.pop(unit) for unit in ("p0", "p1", "alpha", "beta") if unit in budget}
    return SequentialTest(**rates), budget


def parse_amounts(text: str, name: str, example: str) -> dict[str, float]:
    """Return amounts above zero by unit, "calls=100 usd=2.00". Units, and which are whole, are those of `example`."""
    units = dict(word.split("=") for word in example.split())
    amounts = {}
    for word in text.split():
        unit, _, amount = word.partition("=")
        refuse_unknown(name, unit, [*units])
        amounts[unit] = parse_decimal(amount)
        kind = "whole " * units[unit].isdecimal()
        if not amounts[unit] or (kind and amounts[unit] % 1):
            raise SettingsError(f"{name}: {word!r}: {unit} takes a {kind}number above zero, like {unit}={units[unit]}")
    return amounts


def parse_price(text: str, model: str, name: str) -> tuple[float, float]:
    """Return the dollars for a million tokens of input and of output: "1.25 in, 10 out"."""
    match text.replace(",", " ").split():
        case [read, "in", written, "out"] if read[:1].isdigit() and written[:1].isdigit():
            return parse_decimal(read), parse_decimal(written)
    raise SettingsError(f"{name}: {model!r} has no price; write dollars per million tokens like {PRICE}")


def parse_decimal(text: str) -> float:
    """Return a decimal number; 0 for what is none."""
    return float(text) if text.replace(".", "", 1).isdecimal() else 0.0
