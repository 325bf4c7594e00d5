"""A conversation that somebody kept without its requests, as the calls that it amounts to.

What the assistant said between two turns of others was one reply; what stood before it was asked. Nothing else of a
call is known: no instructions, tools or parameters where the source has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import arr, objects, string
from pytest_agentreplay.interchange.trace import ModelCall, ToolRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.trace import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMessage:
    """One message in the form of `dialects.genai`. Those with one `reply` id are pieces of the same reply.

    `facts` are fields of the `ModelCall` that the message is a reply of.
    """

    message: JsonObject
    reply: str = ""
    facts: JsonObject = field(default_factory=dict)

    @property
    def by_model(self) -> bool:
        """Whether the model said it."""
        return self.message["role"] == "assistant"


def steps(said: Iterable[LoggedMessage], **facts: object) -> list[Step]:
    """The calls of a conversation in order; `facts` are fields of each.

    Results of tools are told by the call that follows them; the last ones, which none follows, are steps.
    """
    before: list[JsonObject] = []
    found: list[Step] = []
    names: dict[str, str] = {}
    turn: list[LoggedMessage] = []
    for turn in _turns(said):
        first = turn[0]
        if not first.by_model:
            for one in turn:
                genai.join(before, one.message)
            continue
        reply = genai.joined(one.message for one in turn)
        told = {name: value for one in turn for name, value in one.facts.items()}
        if reply:
            found.append(ModelCall(messages=tuple(before), reply=reply[0], **{**facts, **told}))  # type: ignore[arg-type]
            genai.join(before, reply[0])
            names |= {string(part.get("id")): string(part.get("name")) for part in objects(reply[0]["parts"])}
    if turn and not turn[0].by_model:
        found += _results(turn, names)
    return found


def _results(turn: list[LoggedMessage], names: dict[str, str]) -> list[ToolRun]:
    parts = [part for one in turn for part in objects(one.message["parts"])]
    return [
        ToolRun(name=names[known], call_id=known, seen=genai.parsed(part.get("response")))
        for part in parts
        if part.get("type") == "tool_call_response" and (known := string(part.get("id"))) in names
    ]


def _turns(said: Iterable[LoggedMessage]) -> list[list[LoggedMessage]]:
    """Neighbours by the model, or by others, together; replies of two ids apart."""
    turns: list[list[LoggedMessage]] = []
    for one in said:
        if not arr(one.message.get("parts")):
            continue
        last = turns[-1][-1] if turns else None
        if last is None or last.by_model != one.by_model or (one.reply and last.reply and one.reply != last.reply):
            turns.append([])
        turns[-1].append(one)
    return turns
