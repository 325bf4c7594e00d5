"""What a session of live runs may ask of models: limits, prices, and the most that one call can take.

A call that could exceed a limit is refused before it is made. So it is counted by an upper bound first: a token of the
input takes at least a byte, and the output is bounded by the request itself. Where that states no limit, the amount
"assumed_output" of the budget is counted until the reply is there: an estimate, which a longer reply exceeds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_agentreplay.compare.tolerance import is_named
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import HttpCall, HttpReply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Call, Outcome
    from pytest_agentreplay.model.reading import Reader

    Prices = Iterable[tuple[str, tuple[float, float]]]

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
