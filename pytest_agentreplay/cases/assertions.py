"""What tests can say about runs. Every failure says the turn, what was expected, what was there, and the nearest.

pytest cuts long explanations, so the first six lines carry it all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay.cases.checks.calls import ToolExpectation, sides, wish
from pytest_agentreplay.cases.checks.values import describe_reach, differing, fails, find_alike
from pytest_agentreplay.cases.turn import ToolCallView, parsed_arguments, short
from pytest_agentreplay.compare import align
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.errors import SettingsError, visible
from pytest_agentreplay.model.divergence import ABSENT
from pytest_agentreplay.model.exchanges import Run, ToolCall
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.providers import READER, RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.cases.turn import TurnView
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Json

UNSAID: Any = object()

__tracebackhide__ = True  # no frame of this module says more than the line of the test


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
    """Compare two runs, and return the first place where the second differs.

    Reads nothing and writes nothing.

    Args:
        a: A run, `agentreplay.run` or a loaded snapshot.
        b: The run that is compared with it.

    Returns:
        The divergence, or None where both behave alike: same prompts, calls and results, whatever ids and times they
        have.
    """
    return align.first_divergence(run_of(a), run_of(b), READER, matching=Matching(READER, RULES))


def assert_same_run(a: Run | HoldsRun, b: Run | HoldsRun) -> None:
    """Assert that a run behaves as another did.

    Args:
        a: A run, `agentreplay.run` or a loaded snapshot.
        b: The run that is compared with it.

    Raises:
        AssertionError: It does not. The message is the first divergence.
    """
    divergence = first_divergence(a, b)
    if divergence is not None:
        raise AssertionError("\n".join(format_divergence(divergence)))


def format_divergence(divergence: Divergence) -> list[str]:
    """Return a divergence between two runs in a few lines."""
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


def pick(turns: Sequence[TurnView], number: int, lane: str, agent: str = "") -> TurnView:
    """Turn `number` of `lane`, or of what `agent` did; negative numbers count from the end.

    Without an agent the turns of a lane are counted through, whoever they are of. Raises AssertionError when there is
    none.
    """
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
    agents = ", ".join(dict.fromkeys(turn.agent for turn in turns if turn.agent))
    more = [f"  lanes     {lanes}", *([f"  agents    {agents}"] if agents else [])]
    raise AssertionError("\n".join(fails(f"there is no turn {number} {whose}", f"turn {number}", there, *more).lines))


def find_mismatch(turn: TurnView, name: str, expectation: Any) -> Iterator[str]:
    """Yield what is wrong when `turn` should have `expectation` as its tool, model, text or part of its text."""
    match name:
        case "tool":
            yield from find_tool_mismatch(turn, wish(expectation))
        case "model" if turn.model != expectation:
            yield from fails(f"turn {turn.number} asked another model", expectation, turn.model or "none").lines
        case "text" if turn.text != expectation:
            head, more = f"turn {turn.number} says something else", differing(expectation, turn.text)
            yield from fails(head, short(expectation), short(turn.text), *more).lines
        case "text_contains" if expectation not in turn.text:
            head, more = f"turn {turn.number} does not say it", find_alike(expectation, [turn.text])
            yield from fails(head, f"{short(expectation)} in the text", short(turn.text), *more).lines


def find_tool_mismatch(turn: TurnView, want: ToolExpectation) -> list[str]:
    """Return what is wrong when the wished tool was neither asked for nor called in `turn`."""
    requested = [ToolCallView(use.name, parsed_arguments(use.arguments), turn=turn.number) for use in turn.tool_uses]
    calls = [*requested, *turn.tool_calls]
    if any(want.grants(call.name, call.arguments) for call in calls):
        return []
    there = ", ".join(dict.fromkeys(call.name for call in calls)) or "no tool"
    return [f"turn {turn.number} neither asked for tool {want.name} nor called it so", *sides(want, there, calls)]


def find_jsonpath_mismatch(turn: TurnView, jsonpath: str, equals: object) -> list[str]:
    """Return what is wrong when `jsonpath` should find something in the request of `turn`, or find `equals`.

    Raises ValueError for what is no path.
    """
    tree = read_body(turn)
    # jsonpath-ng takes a path without its "$.", and tests are written so.
    try:
        path = compile_path(jsonpath if jsonpath.startswith("$") else f"$.{jsonpath}", patterns=True)
    except SettingsError as error:
        raise ValueError(f"jsonpath: {error}") from error
    values = path.list_values(tree)
    there = values[0] if len(values) == 1 else values
    if not values:
        head, expected = f"{jsonpath} finds nothing in the request", "something" if equals is UNSAID else short(equals)
        nearest = "the request has no readable body" if tree is None else " ".join(describe_reach(path, tree))
        return [*fails(f"turn {turn.number}: {head}", expected, "nothing", f"  nearest   {nearest}").lines]
    if equals is UNSAID or there == equals:
        return []
    head = f"turn {turn.number}: {jsonpath} is something else"
    return [*fails(head, short(equals), short(there), *differing(equals, there)).lines]


def read_body(turn: TurnView) -> Json:
    """Return the body of a turn's request as a tree; None where there is none."""
    call = turn.exchange.call if turn.exchange is not None else None
    return None if call is None or isinstance(call, ToolCall) else content(call.headers, call.body).tree
