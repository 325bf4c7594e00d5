"""A run from the spans of a platform: which of them are its steps, in which order, and by which agent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers.lenient import objects, string
from pytest_agentreplay.traces import assembling
from pytest_agentreplay.traces.chains import merge_duplicates
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.traces.trace import Source, Step

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


def make_run(
    spans: Sequence[TreeSpan],
    source: Source,
    *,
    hint: str,
    is_silent: bool = False,
    root: str = "",
    is_done: object = None,
    **facts: Any,
) -> Trace:
    """Return the run that `spans` amount to; `facts` are fields of `Trace`.

    Where the spans say nothing, or too little (`is_silent`), `hint` names the setting that was off. `root` is the id of
    the span whose input and output the run has: those of a model call are not those of the run. `is_done` says that the
    root has ended, for a platform without a status.
    """
    status = "error" if facts.get("fault") else "ok" if is_done else ""
    trace = Trace(**{"source": source, "id": source.id, "status": status, **facts})
    spans = _recognise_tools(spans)
    by_id = {span.id: span for span in spans if span.id}
    if root in by_id and by_id[root].step is not None:
        trace = replace(trace, input=None, output=None)
    own = [span for span in spans if span.step is not None]
    around = {
        span.id: next((above.id for above in _list_parents(span, by_id) if above.step is not None), "") for span in own
    }
    merged, losses = merge_duplicates([_place_step(span, by_id) for span in own], around)
    steps = _sort_steps(merged)
    holders = {span.parent for span in spans}
    unused = sum(span.step is None and not span.agent and span.id not in holders for span in spans)
    losses += [f"{unused} records of neither a model nor a tool are left out"] if unused else []
    if is_silent or not any(_tells(step) for step in steps):
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
            losses=(*trace.losses, *losses),
            started=min(starts, default=None) if trace.started is None else trace.started,
            ended=max(ends, default=None) if trace.ended is None else trace.ended,
        )
    )


def _recognise_tools(spans: Sequence[TreeSpan]) -> list[TreeSpan]:
    """Return the spans, those as runs of tools that have the name of a tool which a model was given or asked for."""
    calls = [span.step for span in spans if isinstance(span.step, ModelCall)]
    names = {string(tool.get("name")) for call in calls for tool in call.tools}
    message_parts = (
        part
        for call in calls
        for message in (*call.messages, call.reply or {})
        for part in objects(message.get("parts"))
    )
    names |= {string(part.get("name")) for part in message_parts if part.get("type") == "tool_call"}
    return [
        replace(span, step=span.tool) if span.step is None and span.tool and span.tool.name in names - {""} else span
        for span in spans
    ]


def _place_step(span: TreeSpan, by_id: dict[str, TreeSpan]) -> Step:
    assert span.step is not None
    agent = span.step.agent or next((above.agent for above in _list_parents(span, by_id) if above.agent), "")
    return replace(span.step, id=span.id, parent=span.parent, agent=agent, started=span.started, ended=span.ended)


def _tells(step: Step) -> bool:
    if isinstance(step, ToolRun):
        return step.arguments not in (None, {}) or step.replayable not in (UNKNOWN, None) or step.fault is not None
    return bool(step.messages) or step.reply is not None


def _list_parents(span: TreeSpan, by_id: dict[str, TreeSpan]) -> Iterable[TreeSpan]:
    """Yield the spans in which this one happened, the nearest first."""
    seen = {span.id}
    while (above := by_id.get(span.parent)) is not None and above.id not in seen:
        seen.add(above.id)
        yield above
        span = above


def _sort_steps(steps: list[Step]) -> list[Step]:
    """Return the steps in order of their start, the shorter of two first; as they stand where any has no start."""
    if any(step.started is None for step in steps):
        return steps
    return sorted(steps, key=lambda step: (step.started or 0, step.ended or step.started or 0))
