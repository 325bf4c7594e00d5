"""What a run shows, as the plain document that the paths of tolerances lead into.

Arguments and results are frozen values as they stand in the run; `compare.tolerance` leads paths through them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.backends.budget import NANO, PricedReader
from pytest_agentreplay.compare.diagnose.results import read_result
from pytest_agentreplay.model.exchanges import ToolCall
from pytest_agentreplay.model.reading import arguments_of
from pytest_agentreplay.model.turns import seat, tool_of, top_level, turns

if TYPE_CHECKING:
    from pytest_agentreplay.backends.budget import Prices
    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject, Run
    from pytest_agentreplay.model.reading import Reader, ReplyReading
    from pytest_agentreplay.model.turns import Turn

TOKENS = ("input_tokens", "output_tokens")
OUTCOME = ("status", "type", "message")


def observe(run: Run, reader: Reader, outcome: JsonObject, prices: Prices = ()) -> JsonObject:
    """Return what `run` shows; `outcome` is how its test ended, as in a header.

    Turns and tools come in the order in which they began, those of several strands one strand after the other: what ran
    beside each other has no order of its own. The tools are those that ran; where no call of one was intercepted, those
    that the model asked for. "final" is the text of the last reply in the first strand, None where that reply asks for
    tools. The model of a turn is the served one, where the reply names it. What nobody states is None: tokens of a
    provider that counts none, and "cost", in dollars, of a model that `prices` do not name.
    """
    every = sorted(turns(run, reader), key=lambda turn: _strand(turn.model or turn.exchanges[0]))
    replies = [(turn, x, reader.read_reply(x.call, x.outcome)) for turn in every if (x := turn.model) is not None]
    calls: list[Json] = [
        {"name": tool.name, "arguments": tool.arguments, "result": _result(x, reader)}
        for x in sorted(top_level(run), key=_strand)
        if (tool := tool_of(x.call, reader)) is not None
    ]
    uses: list[Json] = [{**use, "result": None} for _, _, reply in replies for use in _uses(reply)]
    last = next((reply for _, x, reply in reversed(replies) if x.lane == "main"), None)
    priced = PricedReader(reader, {}, prices)
    models = [reader.read_call(x.call).model for _, x, _ in replies]
    stated = [reply.usage for _, _, reply in replies]
    tokens = {name: [usage[name] for usage in stated if name in usage] for name in TOKENS}
    usages = [[usage.get(name, 0) for name in TOKENS] for usage in stated]
    costs = [priced.cost(model, *usage) for model, usage in zip(models, usages, strict=True)]
    return {
        "turns": [_turn(turn, model, reply) for (turn, _, reply), model in zip(replies, models, strict=True)],
        "tools": calls or uses,
        "final": last.text or None if last is not None and not last.tool_uses else None,
        "outcome": dict.fromkeys(OUTCOME) | outcome,
        "usage": {
            "calls": len(replies),
            **{name: sum(counts) if counts else None for name, counts in tokens.items()},
            "seconds": sum((x.timing.end or x.timing.start) - x.timing.start for _, x, _ in replies) / 1e9,
            "cost": sum(filter(None, costs)) / NANO if costs and None not in costs else None,
        },
    }


def list_asking_turns(run: Run, reader: Reader) -> list[str]:
    """Return of each call of a tool that was intercepted which turn asked for it, in the order of `observe`."""
    every = turns(run, reader)
    calls = [x for x in sorted(top_level(run), key=_strand) if tool_of(x.call, reader) is not None]
    return [seat(every, x).turn.title for x in calls]


def _strand(x: Exchange) -> list[int]:
    """Return a key that orders lanes as they were begun: "main.2" before "main.10"."""
    return [int(part) if part.isdecimal() else 0 for part in x.lane.split(".")]


def _turn(turn: Turn, model: str, reply: ReplyReading) -> JsonObject:
    return {
        "lane": turn.lane,
        "agent": turn.agent,
        "model": reply.model or model,
        "fingerprint": reply.fingerprint,
        "text": reply.text,
        "tool_uses": [*_uses(reply)],
        "finish_reasons": [*reply.finish_reasons],
        **{name: reply.usage.get(name) for name in TOKENS},
    }


def _uses(reply: ReplyReading) -> list[JsonObject]:
    return [{"name": use.name, "arguments": arguments_of(use)} for use in reply.tool_uses]


def _result(x: Exchange, reader: Reader) -> Json:
    """Return what a tool gave, whether it is a function or was called over a wire."""
    return read_result(x.outcome) if isinstance(x.call, ToolCall) else reader.read_reply(x.call, x.outcome).result
