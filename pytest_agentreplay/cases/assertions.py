"""What tests can say about runs. Every failure says the turn, what was expected, what was there, and the nearest.

pytest cuts long explanations, so the first six lines carry it all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pytest_agentreplay.cases.checks.calls import ToolExpectation, mismatch_of, read_tools, sides, wish
from pytest_agentreplay.cases.turn import ToolCallView, clip, short
from pytest_agentreplay.core import align
from pytest_agentreplay.core.diff.texts import brief
from pytest_agentreplay.core.divergence import ABSENT
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.matching.address import content
from pytest_agentreplay.core.model import Run, ToolCall
from pytest_agentreplay.dialects import READER, RULES
from pytest_agentreplay.errors import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.cases.checks.calls import ToolSpec
    from pytest_agentreplay.cases.turn import TurnView
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.model import Json

UNSAID: Any = object()


class HoldsRun(Protocol):
    """A run view or a snapshot."""

    @property
    def run(self) -> Run:
        """The run that it holds."""


def run_of(value: Run | HoldsRun) -> Run:
    """The run in `value`. Raises TypeError when there is none."""
    run = value if isinstance(value, Run) else getattr(value, "run", None)
    if not isinstance(run, Run):
        raise TypeError(f"expected a run, `agentreplay.run` or a loaded snapshot, not {type(value).__name__}")
    return run


def first_divergence(a: Run | HoldsRun, b: Run | HoldsRun) -> Divergence | None:
    """The first place where run `b` parts from run `a`, None when they behave alike. Pure."""
    return align.first_divergence(run_of(a), run_of(b), READER, matching=Matching(READER, RULES))


def assert_same_run(a: Run | HoldsRun, b: Run | HoldsRun) -> None:
    """Assert that run `b` behaves as run `a` did. Raises AssertionError with the first divergence."""
    __tracebackhide__ = True
    divergence = first_divergence(a, b)
    if divergence is not None:
        raise AssertionError("\n".join(told(divergence)))


def told(divergence: Divergence) -> list[str]:
    """A divergence between two runs in a few lines."""
    where = f"turn {divergence.turn}/{divergence.turns}{f' of {divergence.who}' if divergence.who else ''}"
    lines = [f"runs part at {where}: {divergence.summary} [{divergence.kind.code}]"]
    for difference in divergence.differences[:2]:
        if difference.note:
            lines.append(f"  {difference.path}  {difference.note}")
        else:
            a, b = (short(side) if side is not ABSENT else "nothing" for side in (difference.recorded, difference.now))
            lines += [f"  {difference.path}", f"    a  {a}", f"    b  {b}"]
    more = len(divergence.differences) - 2
    if more > 0:
        lines.append(f"  and {more} more")
    return list(map(visible, lines + ([f"  likely cause  {divergence.cause}"] if divergence.cause else [])))


def assert_tool_calls(
    calls: Sequence[ToolCallView],
    expected: Iterable[ToolSpec],
    order: Literal["equal", "subsequence", "multiset"] = "equal",
) -> None:
    """Assert that `calls` are the `expected` ones; see `RunView.assert_tool_calls`."""
    __tracebackhide__ = True
    wanted = read_tools(expected)
    if found := mismatch_of(order)(calls, wanted):
        names = ", ".join(call.name for call in calls) or "none"
        raise AssertionError("\n".join([*found, f"  all calls  {names}"]))


def assert_turn(
    turns: Sequence[TurnView],
    number: int,
    *,
    lane: str,
    agent: str,
    conditions: Mapping[str, Any],
    jsonpath: str | None = None,
    equals: object = UNSAID,
) -> None:
    """Assert something of one of `turns`; see `RunView.assert_turn`, whose keywords `conditions` holds."""
    __tracebackhide__ = True
    if jsonpath is None and equals is not UNSAID:
        raise TypeError("equals= says what jsonpath= finds; use them together")
    turn = pick(turns, number, lane, agent)
    found = [line for name, wanted in conditions.items() if wanted is not None for line in unmet(turn, name, wanted)]
    if not found and jsonpath is not None:
        found = elsewhere(turn, jsonpath, equals)
    if found:
        raise AssertionError("\n".join(found))


def pick(turns: Sequence[TurnView], number: int, lane: str, agent: str = "") -> TurnView:
    """Turn `number` of `lane`, or of what `agent` did; negative numbers count from the end.

    Without an agent the turns of a lane are counted through, whoever they are of. Raises AssertionError when there is
    none.
    """
    __tracebackhide__ = True
    lane = lane or ("" if agent else "main")
    mine = [turn for turn in turns if lane in {"", turn.lane} and agent in {"", turn.agent}]
    if -len(mine) <= number < 0:
        return mine[number]
    first = 0 if mine and mine[0].exchange is None else 1
    if first <= number < first + len(mine):
        return mine[number - first]
    lanes = ", ".join(dict.fromkeys(turn.lane for turn in turns)) or "none"
    there = f"turns {first}-{first + len(mine) - 1}" if mine else "no turn"
    whose = " ".join([*([f"of {agent}"] if agent else []), *([f"in lane {lane}"] if lane else [])])
    lines = [
        f"there is no turn {number} {whose}",
        f"  expected  turn {number}",
        f"  there     {there}",
        f"  lanes     {lanes}",
    ]
    if agents := ", ".join(dict.fromkeys(turn.agent for turn in turns if turn.agent)):
        lines.append(f"  agents    {agents}")
    raise AssertionError("\n".join(lines))


def unmet(turn: TurnView, name: str, wanted: Any) -> Iterator[str]:
    """What is wrong when `turn` should have `wanted` as its tool, model, text or part of its text."""
    match name:
        case "tool":
            yield from untouched(turn, wish(wanted))
        case "model" if turn.model != wanted:
            yield from (
                f"turn {turn.number} asked another model",
                f"  expected  {wanted}",
                f"  there     {turn.model or 'none'}",
            )
        case "text" if turn.text != wanted:
            yield f"turn {turn.number} says something else"
            yield from (f"  expected  {short(wanted)}", f"  there     {short(turn.text)}")
            yield f"  differs   {brief(wanted, turn.text)}"
        case "text_contains" if wanted not in turn.text:
            yield f"turn {turn.number} does not say it"
            yield from (f"  expected  {short(wanted)} in the text", f"  there     {short(turn.text)}")
            if wanted.lower() in turn.text.lower():
                at = turn.text.lower().index(wanted.lower())
                yield f"  nearest   {short(turn.text[at : at + len(wanted)])} (other case)"


def untouched(turn: TurnView, want: ToolExpectation) -> list[str]:
    """What is wrong when the wished tool was neither asked for nor called in `turn`."""
    asked = [ToolCallView(use.name, arguments(use.arguments), turn=turn.number) for use in turn.tool_uses]
    calls = [*asked, *turn.tool_calls]
    if any(want.grants(call.name, call.arguments) for call in calls):
        return []
    there = ", ".join(dict.fromkeys(call.name for call in calls)) or "no tool"
    return [
        f"turn {turn.number} neither asked for tool {want.name} nor called it so",
        *sides(want, there, calls),
    ]


def arguments(value: Json) -> dict[str, object]:
    """A model's tool arguments as values; text that is no JSON object stands under ""."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {"": value}
    return dict(value) if isinstance(value, dict) else {"": value}


def elsewhere(turn: TurnView, jsonpath: str, equals: object) -> list[str]:
    """What is wrong when `jsonpath` should find something in the request of `turn`, or find `equals`."""
    tree = body(turn)
    found = find(jsonpath, tree)
    there = found[0] if len(found) == 1 else found
    if not found:
        expected = "something" if equals is UNSAID else short(equals)
        return [
            f"turn {turn.number}: {jsonpath} finds nothing in the request",
            f"  expected  {expected}",
            "  there     nothing",
            f"  nearest   {landing(jsonpath, tree)}",
        ]
    if equals is UNSAID or there == equals:
        return []
    lines = [
        f"turn {turn.number}: {jsonpath} is something else",
        f"  expected  {short(equals)}",
        f"  there     {short(there)}",
    ]
    if isinstance(equals, str) and isinstance(there, str):
        lines.append(f"  differs   {brief(equals, there)}")
    return lines


def body(turn: TurnView) -> Json:
    """The body of a turn's request as a tree; None where there is none."""
    call = turn.exchange.call if turn.exchange is not None else None
    return None if call is None or isinstance(call, ToolCall) else content(call.headers, call.body).tree


def find(jsonpath: str, tree: Json) -> list[Json]:
    """All values at `jsonpath`. Raises ValueError for what is no JSONPath."""
    from jsonpath_ng.ext.parser import parse

    try:
        expression = parse(jsonpath)
    except Exception as error:
        raise ValueError(f"{jsonpath!r} is no JSONPath: {error}") from error
    try:
        return [match.value for match in expression.find(tree)]
    except (KeyError, TypeError):  # releases before 1.7 take the index of whatever stands there
        return []


def landing(jsonpath: str, tree: Json) -> str:
    """How far `jsonpath` leads, and what stands there: "$.messages: 3 items"."""
    while cut := max(jsonpath.rfind("."), jsonpath.rfind("[")):
        if cut < 0:
            break
        jsonpath = jsonpath[:cut].rstrip(".")
        found = find(jsonpath, tree) if jsonpath else []
        match found[:1]:
            case [dict() as fields]:
                return f"{jsonpath} has {clip(', '.join(fields)) or 'no fields'}"
            case [list() as items]:
                return f"{jsonpath} has {len(items)} items"
            case [value]:
                return f"{jsonpath} is {short(value)}"
    return "the request has no readable body" if tree is None else f"$ is {short(tree)}"
