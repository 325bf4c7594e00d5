"""Words about amounts: turns, tokens, cost, duration. What is only known in part is at least that much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases import turn
from pytest_agentreplay.cases.checks.values import HOLDS, AnswerCheck, fails, unknown
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.exchanges import HttpReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.turn import TurnView


def turns(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So many model calls."""
    return within("turn", len(asked(evidence)), wanted)


def tokens(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So many tokens, in and out."""
    used = [spent(it.usage) for it in asked(evidence)]
    return within("token", sum(it or 0 for it in used), wanted, whole=bool(used) and None not in used)


def duration(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So many seconds."""
    if evidence.seconds is None:
        return unknown("how long the run took is not known")
    return within("second", evidence.seconds, wanted)


def cost(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So much money: by the prices that are given, else as the run itself says."""
    stated = table(evidence.run.header.kit if evidence.run is not None else {}, "case").get("cost")
    if "prices" not in wanted and isinstance(stated, int | float) and not isinstance(stated, bool):
        return within("cost", stated, wanted)
    prices = wanted.get("prices")
    costs = [priced(it, prices) if prices is not None else billed(it) for it in asked(evidence)]
    found = within("cost", sum(it or 0.0 for it in costs), wanted, whole=bool(costs) and None not in costs)
    if found.held is None and prices is not None:
        missing = sorted({it.model for it, price in zip(asked(evidence), costs, strict=True) if price is None})
        return unknown(f"there is no price, or no usage, of {', '.join(missing) or 'any model'}")
    return found


def priced(it: TurnView, prices: Mapping[str, Mapping[str, float]]) -> float | None:
    """What a turn costs at prices for a million tokens."""
    served = it.reply.model if it.reply is not None else ""
    price = prices.get(it.model, prices.get(served))
    if price is None or spent(it.usage) is None:
        return None
    return sum(it.usage.get(f"{side}_tokens", 0) * price.get(side, 0) for side in ("input", "output")) / 1_000_000


def billed(it: TurnView) -> float | None:
    """What the provider says that a turn has cost, where its usage holds that."""
    reply = it.exchange.outcome if it.exchange is not None else None
    tree = content(reply.headers, reply.body).tree if isinstance(reply, HttpReply) else None
    usage = tree.get("usage") if isinstance(tree, dict) else None
    said = usage.get("cost") if isinstance(usage, dict) else None
    return float(said) if isinstance(said, int | float) and not isinstance(said, bool) else None


def spent(usage: Mapping[str, int]) -> int | None:
    """The tokens of a turn, None where they were not counted."""
    both = [usage[name] for name in ("input_tokens", "output_tokens") if name in usage]
    return sum(both) if both else None


def asked(evidence: CaseEvidence) -> list[TurnView]:
    """The turns that have a model call."""
    return [it for it in turn.read(evidence.run, READER) if it.exchange is not None] if evidence.run else []


def within(unit: str, there: float, wanted: Mapping[str, Any], *, whole: bool = True) -> AnswerCheck:
    """Whether an amount is within its limits; one that is not `whole` may be more."""
    least, most = wanted.get("at_least"), wanted.get("at_most")
    named = f"{there:g} {unit}{'s' * (there != 1 and unit != 'cost')}" if unit != "cost" else f"{there:.6g}"
    if most is not None and there > most:
        return fails(f"more than {most:g} {unit}s".replace("costs", "of cost"), f"at most {most:g}", named)
    if least is not None and there < least and whole:
        return fails(f"less than {least:g} {unit}s".replace("costs", "of cost"), f"at least {least:g}", named)
    if not whole and (most is not None or (least is not None and there < least)):
        return unknown(f"not every turn tells its {unit}{'s' * (unit != 'cost')}")
    return HOLDS
