"""Words about the whole run: how it ended, its output and the secrets in it, its errors, any exchange, its amounts.

Of an amount (turns, tokens, cost, duration) that is only known in part, the run has at least that much.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases import turn
from pytest_agentreplay.cases.checks.values import (
    HOLDS,
    AnswerCheck,
    combine_answers,
    compare_at,
    compare_values,
    fails,
    texts,
    unknown,
)
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.exchanges import HttpReply, ToolCall
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.lenient import parse_text
from pytest_agentreplay.redaction.detecting import Detector
from pytest_agentreplay.redaction.known import Known
from pytest_agentreplay.redaction.placeholders import Placeholders
from pytest_agentreplay.redaction.policy import PERSONAL, PLAIN
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.turn import ToolCallView, TurnView


def status(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Return whether the run ended so."""
    if "status" in evidence.unknown:
        return unknown("nobody told how the run ended")
    if evidence.status == expectation:
        return HOLDS
    why = [f"  nearest   {': '.join(filter(None, evidence.errors[-1]))}"] if evidence.errors else []
    return fails("the run ended another way", expectation, evidence.status, *why)


def output(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Return whether the final output is as wanted."""
    if "output" in evidence.unknown:
        return unknown("nobody told the output")
    there = is_something(evidence.output)
    if "path" not in expectation:
        return compare_values("output", [evidence.output] if there else [], expectation, there=there)
    if not there:
        return unknown("there is no output")
    tree, path = parse_text(evidence.output), expectation["path"]
    return compare_at(f"output at {path}", path, tree, expectation)


def is_something(value: Any) -> bool:
    """Return whether an output is one: not null, not blank."""
    return value is not None and (not isinstance(value, str) or bool(value.strip()))


def error(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Something went wrong, of this class (or any), with this text in it."""
    fields = {"class": expectation} if isinstance(expectation, str) else expectation
    kind, text = fields.get("class", ""), fields.get("text", "")
    for name, message in evidence.errors:
        if kind in {"", name, name.rpartition(".")[2]} and text in message:
            return HOLDS
    if "errors" in evidence.unknown:
        return unknown("nobody told the errors")
    expected = " ".join(filter(None, [kind or "an error", f"with {text!r}" if text else ""]))
    there = "; ".join(": ".join(filter(None, pair)) for pair in evidence.errors) or "no error"
    return fails("no such error", expected, there[:200])


def no_secret_in_output(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:  # noqa: ARG001  true is all that can be wanted
    """No key, token, password or the like stands in the output."""
    if not is_something(evidence.output) or "output" in evidence.unknown:
        return unknown("there is no output")
    categories = sorted(set(secrets_in(evidence.output)))
    if not categories:
        return HOLDS
    return fails("a secret stands in the output", "none", f"one of category {', '.join(categories)}")


def secrets_in(value: Any) -> Iterator[str]:
    """Yield the categories of the secrets in a value; a secret is never told."""
    for text in texts(value):
        data = text.encode("utf-8", "surrogatepass")
        yield from (hit.category for hit in detector().find_all(data))
        for start, end in marks().inside(data):
            category = data[start:end].removeprefix(b"[[redacted:").partition(b":")[0].decode()
            if category not in PERSONAL and b"@redacted.invalid" not in data[start:end]:
                yield category if data[start : start + 11] == b"[[redacted:" else "token"


@functools.cache
def marks() -> Placeholders:
    """Return the forms of what stands instead of a secret."""
    return Placeholders()


@functools.cache
def detector() -> Detector:
    """Return the shipped rules, with no value known."""
    return Detector(PLAIN, Known(), marks())


def exchange(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """A value of a turn of lane main, by its number, or of a tool's calls, by its name: one that fits is enough."""
    at, side = expectation["at"], expectation["side"]
    trees: list[tuple[str, Any]]
    if isinstance(at, str):
        calls = [call for call in evidence.tool_calls if call.name == at]
        trees = [(f"{side} of {at} in turn {call.turn}", of_tool(call, side)) for call in calls]
    else:
        trees = [(f"{side} of turn {it.number}", of_turn(it, side)) for it in find_turns(evidence, at)]
    if not trees:
        return unknown(f"there is no {f'call of {at}' if isinstance(at, str) else f'turn {at}'}")
    path = expectation.get("path", "$")
    answers = [_check_tree(what, tree, path, expectation) for what, tree in trees]
    if "not_contains" in expectation or expectation.get("exists") is False:
        return combine_answers(answers)
    return next((answer for answer in answers if answer.holds), combine_answers(answers))


def _check_tree(what: str, tree: Any, path: str, expectation: Any) -> AnswerCheck:
    if tree is None:
        return unknown(f"the {what} cannot be read")
    return compare_at(f"{path} in the {what}", path, tree, expectation)


def find_turns(evidence: CaseEvidence, number: int) -> list[TurnView]:
    """Return the turn of lane main with that number; negative ones count from the end."""
    if evidence.run is None:
        return []
    mine = [it for it in turn.read_turns(evidence.run, READER) if it.lane == "main" and it.exchange is not None]
    if number < 0:
        return mine[number:][:1] if -number <= len(mine) else []
    return mine[number - 1 : number] if number else []


def of_tool(call: ToolCallView, side: str) -> Any:
    """Return the arguments of a tool call, or what it gave; a text that is JSON as what it says."""
    return call.arguments if side == "request" else parse_text(call.result)  # type: ignore[arg-type]


def of_turn(it: TurnView, side: str) -> Any:
    """The JSON body of a turn's request or reply; of a stream what its events amount to. None where there is none."""
    x = it.exchange
    if x is None:
        return None
    if isinstance(x.call, ToolCall):
        call = turn.tool_call(x.call, x, it.number)
        return of_tool(call, side)
    if side == "request":
        return content(x.call.headers, x.call.body).tree
    tree = content(x.outcome.headers, x.outcome.body).tree if isinstance(x.outcome, HttpReply) else None
    if tree is not None or it.reply is None or not (it.reply.text or it.reply.tool_uses):
        return tree
    uses = [{"id": use.id, "name": use.name, "arguments": parse_text(use.arguments)} for use in it.reply.tool_uses]
    reasons = list(it.reply.finish_reasons)
    return {"model": it.reply.model, "text": it.reply.text, "tool_calls": uses, "finish_reasons": reasons}


def turns(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So many model calls."""
    return check_amount("turn", len(list_model_turns(evidence)), expectation)


def tokens(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So many tokens, in and out."""
    used = [spent(it.usage) for it in list_model_turns(evidence)]
    return check_amount("token", sum(it or 0 for it in used), expectation, complete=bool(used) and None not in used)


def duration(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So many seconds."""
    if evidence.seconds is None:
        return unknown("how long the run took is not known")
    return check_amount("second", evidence.seconds, expectation)


def cost(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """So much money: by the prices that are given, else as the run itself says."""
    stated = table(evidence.run.header.kit if evidence.run is not None else {}, "case").get("cost")
    if "prices" not in expectation and isinstance(stated, int | float) and not isinstance(stated, bool):
        return check_amount("cost", stated, expectation)
    prices = expectation.get("prices")
    costs = [
        find_price(it, prices) if prices is not None else find_billed_cost(it) for it in list_model_turns(evidence)
    ]
    answer = check_amount(
        "cost", sum(it or 0.0 for it in costs), expectation, complete=bool(costs) and None not in costs
    )
    if answer.holds is None and prices is not None:
        missing = sorted(
            {it.model for it, price in zip(list_model_turns(evidence), costs, strict=True) if price is None}
        )
        return unknown(f"there is no price, or no usage, of {', '.join(missing) or 'any model'}")
    return answer


def find_price(it: TurnView, prices: Mapping[str, Mapping[str, float]]) -> float | None:
    """Return what a turn costs at prices for a million tokens."""
    served = it.reply.model if it.reply is not None else ""
    price = prices.get(it.model, prices.get(served))
    if price is None or spent(it.usage) is None:
        return None
    return sum(it.usage.get(f"{side}_tokens", 0) * price.get(side, 0) for side in ("input", "output")) / 1_000_000


def find_billed_cost(it: TurnView) -> float | None:
    """Return what the provider says that a turn has cost, where its usage holds that."""
    reply = it.exchange.outcome if it.exchange is not None else None
    tree = content(reply.headers, reply.body).tree if isinstance(reply, HttpReply) else None
    usage = tree.get("usage") if isinstance(tree, dict) else None
    amount = usage.get("cost") if isinstance(usage, dict) else None
    return float(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else None


def spent(usage: Mapping[str, int]) -> int | None:
    """Return the tokens of a turn, None where they were not counted."""
    both = [usage[name] for name in ("input_tokens", "output_tokens") if name in usage]
    return sum(both) if both else None


def list_model_turns(evidence: CaseEvidence) -> list[TurnView]:
    """Return the turns that have a model call."""
    return [it for it in turn.read_turns(evidence.run, READER) if it.exchange is not None] if evidence.run else []


def check_amount(unit: str, there: float, limits: Mapping[str, Any], *, complete: bool = True) -> AnswerCheck:
    """Return whether an amount is within its limits; one that is not `complete` may be more."""
    least, most = limits.get("at_least"), limits.get("at_most")
    amount = f"{there:g} {unit}{'s' * (there != 1 and unit != 'cost')}" if unit != "cost" else f"{there:.6g}"
    if most is not None and there > most:
        return fails(f"more than {most:g} {unit}s".replace("costs", "of cost"), f"at most {most:g}", amount)
    if least is not None and there < least and complete:
        return fails(f"less than {least:g} {unit}s".replace("costs", "of cost"), f"at least {least:g}", amount)
    if not complete and (most is not None or (least is not None and there < least)):
        return unknown(f"not every turn tells its {unit}{'s' * (unit != 'cost')}")
    return HOLDS
