"""A run from the spans of a platform: which of them are its steps, in which order, and by which agent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers.lenient import string
from pytest_agentreplay.traces import assembling
from pytest_agentreplay.traces.chains import merge_duplicates, parts
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Source, Step, TraceFault

SNIFFED = 500
"""How many rows are looked at to know a format: what a file is stands near its beginning."""


Kind: TypeAlias = Literal["model", "tool", "other", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSpan:
    """A span of any platform under the names of a trace: each reader says which of its fields is which of these.

    Attributes:
        id: Its id.
        parent: The id of the span around it.
        kind: What it is; "" where the platform does not say: a tool where a model was given one of its name.
        name: Its name; of a tool the name that the model knows.
        agent: The name of the agent that it is, "" for any other.
        started: When it began, in nanoseconds since the epoch; None unknown.
        ended: When it ended, likewise.
        fault: The error that it ended with.
        call: The call of a model that it is.
        call_id: The id by which a model asked for the tool that it is, or may be.
        arguments: What that tool was given.
        result: What that tool gave.
    """

    id: str
    parent: str = ""
    kind: Kind = ""
    name: str = ""
    agent: str = ""
    started: int | None = None
    ended: int | None = None
    fault: TraceFault | None = None
    call: ModelCall | None = None
    call_id: str = ""
    arguments: Json = None
    result: Json = UNKNOWN

    @property
    def step(self) -> Step | None:
        """The step that it is."""
        if self.kind != "tool":
            return self.call
        return ToolRun(
            name=self.name, call_id=self.call_id, arguments=self.arguments, result=self.result, fault=self.fault
        )


def holds_any(list_rows: Callable[[Sequence[Json]], Iterable[JsonObject]]) -> Callable[[Opened], bool]:
    """Return a check of whether `list_rows` lists anything near the beginning of a file."""
    return lambda opened: any(True for _ in list_rows(opened.rows[:SNIFFED]))


def root_of(rows: Sequence[JsonObject], id_name: str, parent: str | Callable[[JsonObject], str]) -> JsonObject:
    """The first row whose parent is none of the rows, else the first of them; {} for none."""
    ids = {string(row.get(id_name)) for row in rows}
    above = parent if callable(parent) else lambda row: string(row.get(parent))
    return next((row for row in rows if above(row) not in ids), next(iter(rows), {}))


def make_run(
    spans: Sequence[PlatformSpan],
    root: PlatformSpan,
    source: Source,
    *,
    hint: str,
    is_silent: bool = False,
    is_done: object = None,
    **facts: Any,
) -> Trace:
    """Return the run that `spans` amount to; `facts` are fields of `Trace`, and win over what `root` says.

    Where the spans say nothing, or too little (`is_silent`), `hint` names the setting that was off. A root that is a
    model call has its own input and output, and not those of the run. `is_done` says that the root has ended, for a
    platform without a status.
    """
    own = {"name": root.name, "started": root.started, "ended": root.ended, "fault": root.fault, **facts}
    status = "error" if own["fault"] else "ok" if is_done else ""
    trace = Trace(**{"source": source, "id": source.id, "status": status, **own})
    spans = _recognise_tools(spans)
    by_id = {span.id: span for span in spans if span.id}
    if root.id in by_id and by_id[root.id].step is not None:
        trace = replace(trace, input=None, output=None)
    placed = [(span, _place_step(step, span, by_id)) for span in spans if (step := span.step) is not None]
    around = {
        span.id: next((above.id for above in _list_parents(span, by_id) if above.step is not None), "")
        for span, _ in placed
    }
    merged, losses = merge_duplicates([step for _, step in placed], around)
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


def _recognise_tools(spans: Sequence[PlatformSpan]) -> list[PlatformSpan]:
    """Return the spans, those as tools that have the name of a tool which a model was given or asked for."""
    calls = [span.call for span in spans if span.call is not None]
    names = {string(tool.get("name")) for call in calls for tool in call.tools}
    spoken = (part for call in calls for _, part in parts((*call.messages, call.reply or {})))
    names |= {string(part.get("name")) for part in spoken if part.get("type") == "tool_call"}
    return [replace(span, kind="tool") if span.kind == "" and span.name in names - {""} else span for span in spans]


def _place_step(step: Step, span: PlatformSpan, by_id: dict[str, PlatformSpan]) -> Step:
    """Return the step with its place in the tree, made by the nearest agent around it."""
    agent = step.agent or next((above.agent for above in _list_parents(span, by_id) if above.agent), "")
    return replace(step, id=span.id, parent=span.parent, agent=agent, started=span.started, ended=span.ended)


def _tells(step: Step) -> bool:
    if isinstance(step, ToolRun):
        return step.arguments not in (None, {}) or step.replayable not in (UNKNOWN, None) or step.fault is not None
    return bool(step.messages) or step.reply is not None


def _list_parents(span: PlatformSpan, by_id: dict[str, PlatformSpan]) -> Iterable[PlatformSpan]:
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
