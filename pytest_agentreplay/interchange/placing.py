"""Where each step of a trace stands in the order of a run: counters, lanes, what happened inside what.

Times of other tools are coarse, missing or skewed between machines. What they say counts as far as causes allow: a
tool does not run before the reply that asked for it, nor a request go out before the results that stand in it. Steps
that overlap after that did overlap, and each strand of them gets a lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import Timing
from pytest_agentreplay.interchange.trace import ToolRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.trace import Step

MAIN = "main"


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The place of one step: readings of the run's counter, its lane, the reading at which its parent started."""

    start: int
    finish: int
    timing: Timing
    lane: str = MAIN
    parent: int | None = None


def seats(steps: Sequence[Step]) -> list[RunPosition]:
    """The place of each step, in their order."""
    causes = list(_causes(steps))
    spans = _spans(steps, causes)
    starts, finishes = _counted(spans)
    first = min((begin for begin, _ in spans), default=0)
    parents = _parents(steps, spans)
    lanes = _lanes(steps, causes, starts, finishes, parents)
    return [
        RunPosition(
            starts[at],
            finishes[at],
            Timing(begin - first, None, end - first),
            lanes[_outermost(at, parents)],
            None if (parent := parents[at]) is None else starts[parent],
        )
        for at, (begin, end) in enumerate(spans)
    ]


def _causes(steps: Sequence[Step]) -> Iterator[set[int]]:
    """For each step, the earlier ones that it cannot have come before."""
    asked: dict[str, int] = {}
    answered: dict[str, int] = {}
    for at, step in enumerate(steps):
        if isinstance(step, ToolRun):
            yield {asked[step.call_id]} if step.call_id in asked else set()
            answered |= {step.call_id: at} if step.call_id else {}
        else:
            told = {part.get("id") for part in parts(step.messages) if part.get("type") == "tool_call_response"}
            yield {answered[known] for known in told if isinstance(known, str) and known in answered}
            asked |= {str(part.get("id")): at for part in parts((step.reply or {},)) if part.get("type") == "tool_call"}


def parts(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """The parts of all messages; a file may hold anything there."""
    for message in messages:
        listed = message.get("parts")
        yield from (part for part in (listed if isinstance(listed, list) else []) if isinstance(part, dict))


def _spans(steps: Sequence[Step], causes: Sequence[set[int]]) -> list[tuple[int, int]]:
    """Beginning and end of each step in nanoseconds; one that nobody has timed comes after what stands before it."""
    spans: list[tuple[int, int]] = []
    before = next((step.started for step in steps if step.started is not None), 0)
    for step, causing in zip(steps, causes, strict=True):
        begin = before if step.started is None else step.started
        begin = max([begin, *(spans[cause][1] for cause in causing)])
        end = begin if step.ended is None else max(begin, step.ended)
        spans.append((begin, end))
        before = end
    return spans


def _counted(spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The readings at which each span starts and finishes. What ends in a moment has ended before what begins in it."""
    events = []
    for at, (begin, end) in enumerate(spans):
        events.append((begin, 1, at, 0))
        events.append((end, 1, at, 1) if begin == end else (end, 0, -at, 1))
    starts, finishes = [0] * len(spans), [0] * len(spans)
    for reading, (_, _, at, finished) in enumerate(sorted(events)):
        (finishes if finished else starts)[abs(at)] = reading
    return starts, finishes


def _parents(steps: Sequence[Step], spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each step, the tool inside which it happened: the one that it names, if their times agree."""
    tools = {step.id: at for at, step in enumerate(steps) if isinstance(step, ToolRun) and step.id}

    def inside(at: int, step: Step) -> int | None:
        tool = tools.get(step.parent, at)
        if tool == at or not (spans[tool][0] <= spans[at][0] < spans[tool][1] and spans[at][1] <= spans[tool][1]):
            return None
        return tool if tool < at else None

    return [inside(at, step) for at, step in enumerate(steps)]


def _outermost(at: int, parents: Sequence[int | None]) -> int:
    while (up := parents[at]) is not None:
        at = up
    return at


def _lanes(
    steps: Sequence[Step],
    causes: Sequence[set[int]],
    starts: Sequence[int],
    finishes: Sequence[int],
    parents: Sequence[int | None],
) -> list[str]:
    """The lane of each step: "main" for one that ran alone; one for each strand of those that ran side by side.

    A step goes on with the strand of what caused it, or of its own agent and parent, if that strand is free then.
    """
    lanes = [MAIN] * len(steps)
    number = 0
    for together in _side_by_side(starts, finishes, parents):
        last: dict[str, int] = {}
        for at in together if len(together) > 1 else ():
            free = [lane for lane, other in last.items() if finishes[other] < starts[at]]
            caused = [lane for lane in free if last[lane] in causes[at]]
            mine = [lane for lane in free if _of(steps[last[lane]]) == _of(steps[at])]
            if lane := next(iter(caused or mine), ""):
                lanes[at] = lane
            else:
                number += 1
                lanes[at] = f"{MAIN}.{number}"
            last[lanes[at]] = at
    return lanes


def _of(step: Step) -> tuple[str, str]:
    return step.agent, step.parent


def _side_by_side(starts: Sequence[int], finishes: Sequence[int], parents: Sequence[int | None]) -> Iterator[list[int]]:
    """The outermost steps in order of start, those together that overlap, directly or through others."""
    together: list[int] = []
    until = -1
    for at in sorted((at for at in range(len(starts)) if parents[at] is None), key=lambda at: starts[at]):
        if together and starts[at] > until:
            yield together
            together = []
        together.append(at)
        until = max(until, finishes[at]) if len(together) > 1 else finishes[at]
    if together:
        yield together
