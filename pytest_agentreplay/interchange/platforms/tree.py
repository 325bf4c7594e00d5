"""A run from the spans of a platform: which of them are its steps, in which order, and by which agent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.dialects.lenient import objects, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange import assembling
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.trace import Step, Trace

SNIFFED = 500
"""How many rows are looked at to know a format: what a file is stands near its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSpan:
    """A span of any platform.

    `agent` is the name of the agent that it is, "" for any other. `step` is what it tells of a model or a tool. Where
    the platform does not say what a span is, `tool` is what it tells should it be a tool; it is one where a model was
    given a tool of that name.
    """

    id: str
    parent: str = ""
    agent: str = ""
    started: int | None = None
    ended: int | None = None
    step: Step | None = None
    tool: ToolRun | None = None


def root_of(rows: Sequence[JsonObject], id_name: str, parent: str | Callable[[JsonObject], str]) -> JsonObject:
    """The first row whose parent is none of the rows, else the first of them; {} for none."""
    ids = {string(row.get(id_name)) for row in rows}
    above = parent if callable(parent) else lambda row: string(row.get(parent))
    return next((row for row in rows if above(row) not in ids), next(iter(rows), {}))


def run(trace: Trace, spans: Sequence[TreeSpan], *, hint: str, untold: bool = False, root: str = "") -> Trace:
    """The trace with the steps that `spans` tell.

    Where they tell nothing, or too little (`untold`), `hint` names the setting that was off. `root` is the id of the
    span whose input and output the trace has: those of a model call are not those of the run.
    """
    spans = _recognised(spans)
    known = {span.id: span for span in spans if span.id}
    if root in known and known[root].step is not None:
        trace = replace(trace, input=None, output=None)
    steps = [_placed(span, known) for span in _ordered(_once(spans, known))]
    if untold or not any(_tells(step) for step in steps):
        what = "no model call tells what was asked and answered" if steps else "there is no call of a model or a tool"
        raise TraceIncomplete(
            f"the run {trace.id or trace.name} has {len(spans)} spans, but {what}: {hint}", file=trace.source.file
        )
    starts = [span.started for span in spans if span.started is not None]
    ends = [span.ended for span in spans if span.ended is not None]
    return assembling.whole(
        replace(
            trace,
            source=replace(trace.source, fidelity=assembling.fidelity(steps)),
            steps=tuple(steps),
            started=min(starts, default=None) if trace.started is None else trace.started,
            ended=max(ends, default=None) if trace.ended is None else trace.ended,
        )
    )


def _recognised(spans: Sequence[TreeSpan]) -> list[TreeSpan]:
    """The spans, those as runs of tools that have the name of a tool which a model was given or asked for."""
    calls = [span.step for span in spans if isinstance(span.step, ModelCall)]
    names = {string(tool.get("name")) for call in calls for tool in call.tools}
    told = (
        part
        for call in calls
        for message in (*call.messages, call.reply or {})
        for part in objects(message.get("parts"))
    )
    names |= {string(part.get("name")) for part in told if part.get("type") == "tool_call"}
    return [
        replace(span, step=span.tool) if span.step is None and span.tool and span.tool.name in names - {""} else span
        for span in spans
    ]


def _placed(span: TreeSpan, known: dict[str, TreeSpan]) -> Step:
    assert span.step is not None
    agent = span.step.agent or _agent(span, known)
    return replace(span.step, id=span.id, parent=span.parent, agent=agent, started=span.started, ended=span.ended)


def _tells(step: Step) -> bool:
    if isinstance(step, ToolRun):
        return step.arguments not in (None, {}) or step.replayable not in (UNKNOWN, None) or step.fault is not None
    return bool(step.messages) or step.reply is not None


def _once(spans: Iterable[TreeSpan], known: dict[str, TreeSpan]) -> list[TreeSpan]:
    """The spans that are steps, each once: of a model call traced at several depths the deepest that tells anything."""
    steps = [span for span in spans if span.step is not None]
    wrappers: set[str] = set()
    for span in steps:
        for above in _above(span, known):
            if isinstance(span.step, ModelCall) and isinstance(above.step, ModelCall):
                wrappers.add(above.id if _tells(span.step) or not _tells(above.step) else span.id)
            elif isinstance(span.step, ToolRun) and isinstance(above.step, ToolRun) and _same(span.step, above.step):
                wrappers.add(span.id)
    return [span for span in steps if span.id not in wrappers]


def _same(one: ToolRun, other: ToolRun) -> bool:
    return one.name == other.name and canonical(one.arguments) == canonical(other.arguments)


def _above(span: TreeSpan, known: dict[str, TreeSpan]) -> Iterable[TreeSpan]:
    """The spans in which this one happened, the nearest first."""
    seen = {span.id}
    while (above := known.get(span.parent)) is not None and above.id not in seen:
        seen.add(above.id)
        yield above
        span = above


def _agent(span: TreeSpan, known: dict[str, TreeSpan]) -> str:
    return next((above.agent for above in _above(span, known) if above.agent), "")


def _ordered(spans: list[TreeSpan]) -> list[TreeSpan]:
    """The spans in order of their start, of two at once the shorter first; where any has no start, as they stand."""
    if any(span.started is None for span in spans):
        return spans
    return sorted(spans, key=lambda span: (span.started or 0, span.ended or span.started or 0))
