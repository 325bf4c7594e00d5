"""Words about tools: called, not called, failed, forbidden, in which order, over and over; and what tests expect."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.cases.checks.values import HOLDS, AnswerCheck, fails, find_values, is_same
from pytest_agentreplay.cases.turn import clip, short
from pytest_agentreplay.compare.tolerance.comparing import match_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.turn import ToolCallView

ToolSpec: TypeAlias = "str | tuple[str, Mapping[str, object]]"
"""An expected tool call: its name, or its name and arguments."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolExpectation:
    """A tool call that a test expects: its name, and its arguments unless any will do."""

    name: str
    arguments: Mapping[str, object] | None

    def grants(self, name: str, arguments: object) -> bool:
        """Return whether a call of `name` with `arguments` is the expected one."""
        return self.name == name and (self.arguments is None or self.arguments == arguments)

    def parting(self, call: ToolCallView) -> list[str]:
        """Return the arguments in which a call is not the expected one: "order_id 7 -> 8"."""
        expected = call.arguments if self.arguments is None else self.arguments
        return [
            f"{name} {short(expected[name]) if name in expected else 'nothing'} -> "
            f"{short(call.arguments[name]) if name in call.arguments else 'nothing'}"
            for name in {**expected, **call.arguments}
            if name not in expected or name not in call.arguments or expected[name] != call.arguments[name]
        ]

    def __str__(self) -> str:
        if self.arguments is None:
            return self.name
        return f"{self.name}({', '.join(f'{name}={short(value)}' for name, value in self.arguments.items())})"


def read_tools(expected: Iterable[ToolSpec]) -> list[ToolExpectation]:
    """The expectations in a list. Raises TypeError for what is none, a lone name too: it would be read by letters."""
    if isinstance(expected, str):
        raise TypeError(f"expected a list of tools: [{expected!r}]")
    return [wish(spec) for spec in expected]


def wish(spec: ToolSpec) -> ToolExpectation:
    """Return an expectation from a name, or a pair of name and arguments. Raises TypeError for anything else."""
    match spec:
        case str():
            return ToolExpectation(spec, None)
        case (str(name), arguments) if hasattr(arguments, "keys"):
            return ToolExpectation(name, dict(arguments))
        case _:
            raise TypeError(f'a tool call is a name, or a pair like ("refund", {{"order_id": 7}}), not {spec!r}')


def find_unequal(calls: Sequence[ToolCallView], wishes: Sequence[ToolExpectation]) -> list[str]:
    """Return what is wrong with `calls` when exactly the `wishes` should be there, in order."""
    for number, (call, want) in enumerate(zip(calls, wishes, strict=False), 1):
        if not want.grants(call.name, call.arguments):
            return [f"tool call {number} is another one (turn {call.turn})", *sides(want, repr(call), calls)]
    made, expected = len(calls), len(wishes)
    if made > expected:
        head = f"tool call {expected + 1} was not expected (turn {calls[expected].turn})"
        return [head, "  expected  no more calls", f"  there     {calls[expected]!r}"]
    if made < expected:
        return [f"tool call {made + 1} was not made", *sides(wishes[made], "no more calls", calls)]
    return []


def find_out_of_sequence(calls: Sequence[ToolCallView], wishes: Sequence[ToolExpectation]) -> list[str]:
    """Return what is wrong with `calls` when the `wishes` should be among them, in this order."""
    at = 0
    for number, want in enumerate(wishes, 1):
        after = "the beginning" if at == 0 else f"{calls[at - 1].name} (turn {calls[at - 1].turn})"
        at = next((i + 1 for i in range(at, len(calls)) if want.grants(calls[i].name, calls[i].arguments)), -1)
        if at < 0:
            return [f"expected tool call {number} did not come after {after}", *sides(want, "", calls)]
    return []


def find_unmatched(calls: Sequence[ToolCallView], wishes: Sequence[ToolExpectation]) -> list[str]:
    """Return what is wrong with `calls` when they should be the `wishes` in any order.

    A name alone, or ANY, can stand for several calls, so wishes that were granted first may have to move on.
    """
    pairs = match_elements(
        [repr(number) for number in range(len(wishes))],
        [""] * len(calls),
        lambda want, at: wishes[want].grants(calls[at].name, calls[at].arguments),
    )
    missing = [want for at, want in enumerate(wishes) if at not in pairs]
    extra = [call for at, call in enumerate(calls) if at not in pairs.values()]
    if missing:
        there = repr(extra[0]) if extra else "no other call"
        return [f"{len(missing)} of {len(wishes)} expected tool calls were not made", *sides(missing[0], there, calls)]
    if extra:
        head = f"{len(extra)} tool call{'s were' if len(extra) > 1 else ' was'} not expected (turn {extra[0].turn})"
        return [head, "  expected  no other calls", f"  there     {extra[0]!r}"]
    return []


ORDERS = {"equal": find_unequal, "subsequence": find_out_of_sequence, "multiset": find_unmatched}
"""What is wrong with calls, by the order in which they should be."""


def mismatch_of(order: str) -> Callable[[Sequence[ToolCallView], Sequence[ToolExpectation]], list[str]]:
    """Return what compares calls in this order. Raises ValueError for one that there is not."""
    if order not in ORDERS:
        raise ValueError(f'order is "equal", "subsequence" or "multiset", not {order!r}')
    return ORDERS[order]


def sides(want: ToolExpectation, there: str, calls: Iterable[ToolCallView]) -> list[str]:
    """Return what was expected, what was there, and the call that came nearest to it."""
    lines = [f"  expected  {want}"]
    if there:
        lines.append(f"  there     {there}")
    return lines + nearest(want, calls)


def nearest(want: ToolExpectation, calls: Iterable[ToolCallView]) -> list[str]:
    """Return the call of the same name with the fewest other arguments, else the one of the most similar name."""
    calls = list(calls)
    same = [call for call in calls if call.name == want.name]
    if not same:
        names = {call.name: SequenceMatcher(None, call.name, want.name).ratio() for call in calls}
        best = max(names, key=lambda name: names[name], default="")
        return [f"  nearest   {best}"] if names.get(best, 0) > 0.5 else []
    call = min(same, key=lambda call: len(want.parting(call)))
    parting = "; ".join(want.parting(call)) or "with these arguments"
    return [f"  nearest   {call.name} in turn {call.turn}: {clip(parting)}"]


class CheckedCall(ToolExpectation):
    """A tool call that a check names: arguments by name or path, others do not matter."""

    __slots__ = ()

    def grants(self, name: str, arguments: object) -> bool:
        """Return whether a call of `name` with `arguments` is meant."""
        return name == self.name and not self._unlike(arguments)

    def parting(self, call: ToolCallView) -> list[str]:
        """Return the arguments in which a call is not the one that is meant."""
        expected = self.arguments or {}
        return [
            f"{path} {short(expected[path])} -> {', '.join(map(short, find_values(path, call.arguments))) or 'nothing'}"
            for path in self._unlike(call.arguments)
        ]

    def _unlike(self, arguments: object) -> list[str]:
        expected = self.arguments or {}
        return [
            path for path, want in expected.items() if not any(is_same(want, it) for it in find_values(path, arguments))
        ]


def read_call(expectation: Any) -> CheckedCall:
    """Return a call from a name, or `{name, arguments}`."""
    if isinstance(expectation, str):
        return CheckedCall(expectation, None)
    return CheckedCall(expectation["name"], expectation.get("arguments") or None)


def tool_called(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Return whether a tool was called: so often, with such arguments."""
    want, calls = read_call(expectation), evidence.tool_calls
    fitting = [call for call in calls if want.grants(call.name, call.arguments)]
    least, most = bounds(expectation if isinstance(expectation, dict) else {})
    if least <= len(fitting) and (most is None or len(fitting) <= most):
        return HOLDS
    expected = f"{want} {times(least, most)}"
    there = f"{len(fitting)} of {len(calls)} calls"
    if len(fitting) < least:
        near = [] if fitting else nearest(want, calls)
        return fails(f"tool {want.name} was not called so", expected, there, *near, all_calls(calls))
    late = fitting[most or 0]
    return fails(f"tool {want.name} was called too often", expected, there, f"  nearest   {late!r} in turn {late.turn}")


def tool_not_called(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Return whether a tool was not called, or not with such arguments."""
    want = read_call(expectation)
    hit = next((call for call in evidence.tool_calls if want.grants(call.name, call.arguments)), None)
    if hit is None:
        return HOLDS
    return fails(f"tool {want.name} was called in turn {hit.turn}", f"no call of {want}", repr(hit))


def forbidden_tools(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """None of these tools was called."""
    hit = next((call for call in evidence.tool_calls if call.name in expectation), None)
    if hit is None:
        return HOLDS
    return fails(f"tool {hit.name} is forbidden and was called in turn {hit.turn}", "no call of it", repr(hit))


def tool_failed(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Return whether a call of this tool failed."""
    mine = [call for call in evidence.tool_calls if call.name == expectation]
    if any(map(has_failed, mine)):
        return HOLDS
    if mine:
        return fails(f"tool {expectation} did not fail", "a failed call", repr(mine[-1]))
    near = nearest(CheckedCall(expectation, None), evidence.tool_calls)
    return fails(
        f"tool {expectation} was not called", "a failed call", "no call of it", *near, all_calls(evidence.tool_calls)
    )


def has_failed(call: ToolCallView) -> bool:
    """Whether a call raised, was marked as an error by its protocol, or gave an object whose `error` is filled."""
    result = call.result
    return call.failed or (isinstance(result, dict) and bool(result.get("error") or result.get("is_error")))


def tool_order(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Return whether the tools were called in this order."""
    ((how, items),) = expectation.items()
    wants, calls = [read_call(item) for item in items], evidence.tool_calls
    lines = mismatch_of(how)(calls, wants)
    return AnswerCheck(False, (*lines, all_calls(calls))) if lines else HOLDS


def repeated_call(expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """One tool was called with the same arguments again and again: so often."""
    fields = {"name": expectation} if isinstance(expectation, str) else expectation
    name = fields.get("name", "")
    counts: dict[tuple[str, str], list[ToolCallView]] = {}
    for call in evidence.tool_calls:
        if name in {"", call.name}:
            counts.setdefault((call.name, spell_arguments(call.arguments)), []).append(call)
    often = max(counts.values(), key=len, default=[])
    least, most = bounds({"at_least": 0 if "at_most" in fields else 2, **fields})
    if least <= len(often) and (most is None or len(often) <= most):
        return HOLDS
    there = f"{len(often)} times {often[0]!r}" if often else "no call of it"
    head = f"no call{f' of {name}' if name else ''} was repeated so often"
    if len(often) >= least:
        head = f"tool {often[0].name} was called the same way too often"
    return fails(head, f"the same call {times(least, most)}", there)


def spell_arguments(arguments: Mapping[str, object]) -> str:
    """Return the one text of arguments that mean the same."""
    return json.dumps(arguments, sort_keys=True, default=repr)


def bounds(expectation: Mapping[str, Any]) -> tuple[int, int | None]:
    """At least, at most. Called means once or more, unless `at_least` says otherwise."""
    if "times" in expectation:
        return expectation["times"], expectation["times"]
    return expectation.get("at_least", 1), expectation.get("at_most")


def times(least: int, most: int | None) -> str:
    """Return the bounds in words."""
    if most is None:
        return f"at least {least} time{'s' * (least != 1)}"
    if least == most:
        return f"{least} time{'s' * (least != 1)}"
    return f"{least} to {most} times" if least else f"at most {most} time{'s' * (most != 1)}"


def all_calls(calls: Sequence[ToolCallView]) -> str:
    """Return the names of all calls, on a line."""
    return f"  all calls  {', '.join(call.name for call in calls) or 'none'}"
