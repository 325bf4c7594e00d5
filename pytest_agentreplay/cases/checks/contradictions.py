"""The word about any exchange: a value at a path of what was asked, or of what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases import turn
from pytest_agentreplay.cases.checks.answers import AnswerCheck, every, unknown
from pytest_agentreplay.cases.checks.values import compared, found_at, landing
from pytest_agentreplay.core.matching.address import content
from pytest_agentreplay.core.model import HttpReply, ToolCall
from pytest_agentreplay.dialects import READER, genai

if TYPE_CHECKING:
    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.turn import ToolCallView, TurnView


def exchange(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """A value of a turn of lane main, by its number, or of a tool's calls, by its name: one that fits is enough."""
    at, side = wanted["at"], wanted["side"]
    trees: list[tuple[str, Any]]
    if isinstance(at, str):
        calls = [call for call in evidence.tool_calls if call.name == at]
        trees = [(f"{side} of {at} in turn {call.turn}", of_tool(call, side)) for call in calls]
    else:
        trees = [(f"{side} of turn {it.number}", of_turn(it, side)) for it in numbered(evidence, at)]
    if not trees:
        return unknown(f"there is no {f'call of {at}' if isinstance(at, str) else f'turn {at}'}")
    path = wanted.get("path", "$")
    told = [_held(what, tree, path, wanted) for what, tree in trees]
    if "not_contains" in wanted or wanted.get("exists") is False:
        return every(told)
    return next((one for one in told if one.held), every(told))


def _held(what: str, tree: Any, path: str, wanted: Any) -> AnswerCheck:
    if tree is None:
        return unknown(f"the {what} cannot be read")
    return compared(f"{path} in the {what}", found_at(path, tree), wanted, landing(path, tree), there=True)


def numbered(evidence: CaseEvidence, number: int) -> list[TurnView]:
    """The turn of lane main with that number; negative ones count from the end."""
    if evidence.run is None:
        return []
    mine = [it for it in turn.read(evidence.run, READER) if it.lane == "main" and it.exchange is not None]
    if number < 0:
        return mine[number:][:1] if -number <= len(mine) else []
    return mine[number - 1 : number] if number else []


def of_tool(call: ToolCallView, side: str) -> Any:
    """The arguments of a tool call, or what it gave; a text that is JSON as what it says."""
    return call.arguments if side == "request" else genai.parsed(call.result)  # type: ignore[arg-type]


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
    uses = [{"id": use.id, "name": use.name, "arguments": genai.parsed(use.arguments)} for use in it.reply.tool_uses]
    reasons = list(it.reply.finish_reasons)
    return {"model": it.reply.model, "text": it.reply.text, "tool_calls": uses, "finish_reasons": reasons}
