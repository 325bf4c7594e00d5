"""Which tool calls a test expects, and what is wrong with those that were made, in lines."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.cases.turn import clip, short
from pytest_agentreplay.core.tolerance.comparing import matched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_agentreplay.cases.turn import ToolCallView

ToolSpec: TypeAlias = "str | tuple[str, Mapping[str, object]]"
"""An expected tool call: its name, or its name and arguments."""


class ToolExpectation:
    """A tool call that a test expects: its name, and its arguments unless any will do."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: Mapping[str, object] | None) -> None:
        """Made by `wish` alone."""
        self.name = name
        self.arguments = None if arguments is None else dict(arguments)

    def grants(self, name: str, arguments: object) -> bool:
        """Whether a call of `name` with `arguments` is the expected one."""
        return self.name == name and (self.arguments is None or self.arguments == arguments)

    def parting(self, call: ToolCallView) -> list[str]:
        """The arguments in which a call is not the expected one: "order_id 7 -> 8"."""
        wanted = call.arguments if self.arguments is None else self.arguments
        return [
            f"{name} {short(wanted[name]) if name in wanted else 'nothing'} -> "
            f"{short(call.arguments[name]) if name in call.arguments else 'nothing'}"
            for name in {**wanted, **call.arguments}
            if name not in wanted or name not in call.arguments or wanted[name] != call.arguments[name]
        ]

    def __str__(self) -> str:
        if self.arguments is None:
            return self.name
        return f"{self.name}({', '.join(f'{name}={short(value)}' for name, value in self.arguments.items())})"


def read(expected: Iterable[ToolSpec]) -> list[ToolExpectation]:
    """The expectations in a list. Raises TypeError for what is none, a lone name too: it would be read by letters."""
    if isinstance(expected, str):
        raise TypeError(f"expected a list of tools: [{expected!r}]")
    return [wish(spec) for spec in expected]


def wish(spec: ToolSpec) -> ToolExpectation:
    """An expectation from a name, or a pair of name and arguments. Raises TypeError for anything else."""
    match spec:
        case str():
            return ToolExpectation(spec, None)
        case (str(name), arguments) if hasattr(arguments, "keys"):
            return ToolExpectation(name, arguments)
        case _:
            raise TypeError(f'a tool call is a name, or a pair like ("refund", {{"order_id": 7}}), not {spec!r}')


def unequal(calls: Sequence[ToolCallView], wanted: Sequence[ToolExpectation]) -> list[str]:
    """What is wrong with `calls` when exactly the `wanted` ones should be there, in order."""
    for number, (call, want) in enumerate(zip(calls, wanted, strict=False), 1):
        if not want.grants(call.name, call.arguments):
            return [f"tool call {number} is another one (turn {call.turn})", *sides(want, repr(call), calls)]
    made, expected = len(calls), len(wanted)
    if made > expected:
        head = f"tool call {expected + 1} was not expected (turn {calls[expected].turn})"
        return [head, "  expected  no more calls", f"  there     {calls[expected]!r}"]
    if made < expected:
        return [f"tool call {made + 1} was not made", *sides(wanted[made], "no more calls", calls)]
    return []


def out_of_sequence(calls: Sequence[ToolCallView], wanted: Sequence[ToolExpectation]) -> list[str]:
    """What is wrong with `calls` when the `wanted` ones should be among them, in this order."""
    at = 0
    for number, want in enumerate(wanted, 1):
        after = "the beginning" if at == 0 else f"{calls[at - 1].name} (turn {calls[at - 1].turn})"
        at = next((i + 1 for i in range(at, len(calls)) if want.grants(calls[i].name, calls[i].arguments)), -1)
        if at < 0:
            return [f"expected tool call {number} did not come after {after}", *sides(want, "", calls)]
    return []


def unmatched(calls: Sequence[ToolCallView], wanted: Sequence[ToolExpectation]) -> list[str]:
    """What is wrong with `calls` when they should be the `wanted` ones in any order.

    A name alone, or ANY, can stand for several calls, so wishes that were granted first may have to move on.
    """
    pairs = matched(
        [repr(number) for number in range(len(wanted))],
        [""] * len(calls),
        lambda want, at: wanted[want].grants(calls[at].name, calls[at].arguments),
    )
    missing = [want for at, want in enumerate(wanted) if at not in pairs]
    extra = [call for at, call in enumerate(calls) if at not in pairs.values()]
    if missing:
        there = repr(extra[0]) if extra else "no other call"
        return [f"{len(missing)} of {len(wanted)} expected tool calls were not made", *sides(missing[0], there, calls)]
    if extra:
        head = f"{len(extra)} tool call{'s were' if len(extra) > 1 else ' was'} not expected (turn {extra[0].turn})"
        return [head, "  expected  no other calls", f"  there     {extra[0]!r}"]
    return []


ORDERS = {"equal": unequal, "subsequence": out_of_sequence, "multiset": unmatched}
"""What is wrong with calls, by the order in which they should be."""


def mismatch_of(order: str) -> Callable[[Sequence[ToolCallView], Sequence[ToolExpectation]], list[str]]:
    """What compares calls in this order. Raises ValueError for one that there is not."""
    if order not in ORDERS:
        raise ValueError(f'order is "equal", "subsequence" or "multiset", not {order!r}')
    return ORDERS[order]


def sides(want: ToolExpectation, there: str, calls: Iterable[ToolCallView]) -> list[str]:
    """What was expected, what was there, and the call that came nearest to it."""
    lines = [f"  expected  {want}"]
    if there:
        lines.append(f"  there     {there}")
    return lines + nearest(want, calls)


def nearest(want: ToolExpectation, calls: Iterable[ToolCallView]) -> list[str]:
    """The call of the same name with the fewest other arguments, else the one of the most similar name."""
    calls = list(calls)
    same = [call for call in calls if call.name == want.name]
    if not same:
        names = {call.name: SequenceMatcher(None, call.name, want.name).ratio() for call in calls}
        best = max(names, key=lambda name: names[name], default="")
        return [f"  nearest   {best}"] if names.get(best, 0) > 0.5 else []
    call = min(same, key=lambda call: len(want.parting(call)))
    parting = "; ".join(want.parting(call)) or "with these arguments"
    return [f"  nearest   {call.name} in turn {call.turn}: {clip(parting)}"]
