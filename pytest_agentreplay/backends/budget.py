"""What a session of live runs may ask of models: limits, prices, and the most that one call can take.

A call that could exceed a limit is refused before it is made. So it is counted by an upper bound first: a token of the
input takes at least a byte, and the output is bounded by the request itself. Where that states no limit, the amount
"assumed_output" of the budget is counted until the reply is there: an estimate, which a longer reply exceeds.

What a run has shown and cost is a plain document that the paths of tolerances lead into. Arguments and results are
frozen values in it, as they stand in the run; `compare.tolerance` leads paths through them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_agentreplay.compare.diagnose.results import read_result
from pytest_agentreplay.compare.tolerance import is_named
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import HttpCall, HttpReply, ToolCall
from pytest_agentreplay.model.reading import arguments_of
from pytest_agentreplay.model.turns import seat, tool_of, top_level, turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Call, Outcome
    from pytest_agentreplay.model.reading import Reader

    Prices = Iterable[tuple[str, tuple[float, float]]]
    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject, Run
    from pytest_agentreplay.model.reading import ReplyReading
    from pytest_agentreplay.model.turns import Turn

NANO = 1_000_000_000
OUTPUT_LIMITS = frozenset(
    ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens", "maxOutputTokens", "num_predict")
)
CHOICES = {"n", "candidateCount"}
UNSTATED = "no output limit: the request has no max_tokens; add it, or an estimate to the budget: assumed_output=4096"
UNPRICED = "no price of {0} is known; add it to agentreplay_prices (dollars per million tokens): {0} = 1.25 in, 10 out"


class ModelBudget(Protocol):
    """What a live backend asks before each call of a model, and what it reports to after the call."""

    def reserve(self, call: Call) -> str:
        """Take `call` into account, or return why it must not be made."""

    def settle(self, call: Call, outcome: Outcome | None) -> None:
        """Put what a reserved `call` has used in the place of its upper bound; once."""


class Spending(NamedTuple):
    """Calls of models, their tokens, and their cost in billionths of a dollar: whole, so that sums are exact."""

    calls: int = 0
    tokens: int = 0
    nano: int = 0

    @classmethod
    def total(cls, parts: Iterable[Iterable[int]]) -> Spending:
        """Return the sum of `parts`."""
        return cls(*map(sum, zip(*parts, strict=True)))

    @property
    def text(self) -> str:
        """Return it in the form of a budget."""
        return f"calls={self.calls} tokens={self.tokens} usd={self.nano / NANO:.4f}"

    def find_exceeded(self, limits: Mapping[str, float]) -> str:
        """Return the first limit that this exceeds, "calls=100"; "" for none."""
        amounts = {"calls": self.calls, "tokens": self.tokens, "usd": self.nano / NANO}
        exceeded = (unit for unit, amount in amounts.items() if amount > limits.get(unit, math.inf))
        return next((f"{unit}={limits[unit]:g}" for unit in exceeded), "")


class PricedReader:
    """Reads what calls cost: at most before they are made, and in truth once they are.

    `limits` has "calls", "tokens", "usd" and "assumed_output" as far as they are set; `prices` dollars per million
    tokens of input and output by patterns of model names, of which the first that fits counts.
    """

    def __init__(self, reader: Reader, limits: Mapping[str, float], prices: Prices) -> None:
        self.reader, self.limits, self.prices = reader, limits, tuple(prices)

    def cost(self, model: str, read: int, written: int) -> int | None:
        """Return what so many tokens cost in billionths of a dollar, rounded up; None without a price."""
        price = next((each for name, each in self.prices if is_named(model, name)), None)
        return None if price is None else math.ceil(1000 * (read * price[0] + written * price[1]))

    def upper_bound(self, call: Call) -> Spending | str:
        """Return the most that `call` can take, without a limit of its own by the estimate, or why nobody can tell."""
        reading = self.reader.read_call(call)
        parts = [reading.parameters, *reading.system, *reading.messages, *reading.tools]
        body = call.body.data if isinstance(call, HttpCall) else b""
        size = max(len(body), len(canonical(parts).encode("utf-8", "surrogatepass")))  # it may be compressed
        knobs = [(path.rpartition(".")[2], value) for path, value in reading.knobs.items() if isinstance(value, int)]
        stated = [value for name, value in knobs if name in OUTPUT_LIMITS and value > 0]
        written = max(stated, default=int(self.limits.get("assumed_output", 0))) if reading.kind == "model" else 0
        if not written and reading.kind == "model" and self.limits.keys() & {"tokens", "usd"}:
            return UNSTATED
        written *= max((value for name, value in knobs if name in CHOICES), default=1)
        cost = self.cost(reading.model, size, written)
        if cost is None and "usd" in self.limits:
            return UNPRICED.format(reading.model)
        return Spending(1, size + written, cost or 0)

    def usage(self, call: Call, outcome: Outcome | None, bound: Spending) -> Spending:
        """Return what a call has used: nothing where it was refused with a status, `bound` where nobody says it."""
        if isinstance(outcome, HttpReply) and outcome.status >= 400:
            return Spending(1)
        used = self.reader.read_reply(call, outcome).usage
        if not {"input_tokens", "output_tokens"} <= used.keys():
            return bound
        read, written = used["input_tokens"], used["output_tokens"]
        return Spending(1, read + written, self.cost(self.reader.read_call(call).model, read, written) or 0)


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
