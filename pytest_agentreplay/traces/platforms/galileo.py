"""Galileo: a trace as a tree of spans, by the schema of `galileo_core.schemas.logging`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, string
from pytest_agentreplay.traces.formats import Format, find_rows
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import PlatformSpan, holds_any, make_run
from pytest_agentreplay.traces.trace import UNKNOWN, Source, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Fields: `galileo_core.schemas.logging` of galileo_core 4.5.0.
_LOST = (
    "Galileo keeps no parameter but the temperature, no response id and no fingerprint",
    "Galileo names one model of a call: the one that answered",
    "Galileo keeps of a tool's error its status code and its output",
)
_KINDS = frozenset({"llm", "tool", "agent", "workflow", "retriever", "control"})
_LISTS = ("traces", "records", "data", "body")
_HINT = (
    "log the spans with their input and output (GalileoLogger.add_llm_span, add_tool_span), and export the whole trace"
)


def _traces(rows: Iterable[Json]) -> Iterator[JsonObject]:
    for trace in find_rows(rows, lambda row: row.get("type") == "trace" and isinstance(row.get("spans"), list), _LISTS):
        spans = objects(trace["spans"])
        if not spans or any(string(span.get("type")) in _KINDS for span in spans):
            yield trace


def _read_runs(opened: Opened) -> Iterator[Trace]:
    for number, row in enumerate(_traces(opened.rows), 1):
        yield make_run(
            [*_spans(row)],
            _read_span(row, "", ""),
            Source(format="galileo", file=opened.file, id=string(row.get("id"))),
            hint=_HINT,
            is_done=row.get("status_code"),
            id=string(row.get("id")) or f"trace {number}",
            started=moment(row.get("created_at")),
            tags=span_facts.texts(row.get("tags")),
            input=bodies.read_input(_read_side(row, "input")),
            output=bodies.read_output(_read_side(row, "output")),
            losses=_LOST,
            **span_facts.about(
                obj(row.get("user_metadata")) | obj(row.get("metadata")), session=string(row.get("session_id"))
            ),
        )


def _read_side(row: JsonObject, side: str) -> Json:
    """Return the input or the output of a span; redacted, where that is all that was kept."""
    value = row.get(side)
    return value if value not in (None, "", []) else row.get(f"redacted_{side}")


def _spans(root: JsonObject) -> Iterator[PlatformSpan]:
    """The spans of a tree, parents first. Ids are optional in it: where there is none, the place is one."""
    waiting = [(root, "", "")]
    while waiting:
        row, place, parent = waiting.pop()
        span_id = (string(row.get("id")) or f"span {place}") if place else ""
        if place:
            yield _read_span(row, span_id, parent)
        children = reversed([*enumerate(objects(row.get("spans")), 1)])
        waiting += [(child, f"{place}.{number}".lstrip("."), span_id) for number, child in children]


def _read_span(row: JsonObject, span_id: str, parent: str) -> PlatformSpan:
    kind, failure = row.get("type"), _fault(row)
    inputs, output = _read_side(row, "input"), _read_side(row, "output")
    call = None
    if kind == "llm":
        temperature = row.get("temperature")
        call = bodies.model_call(
            bodies.with_tools({"messages": arr(inputs) or [inputs]}, row.get("tools")),
            {**obj(output), "finish_reason": row.get("finish_reason")} if obj(output) else output,
            model=string(row.get("model")),
            response_model=string(row.get("model")),
            parameters={} if temperature is None else {"temperature": temperature},
            usage=span_facts.usage(row.get("metrics")),
            **span_facts.call_fields(failure),
        )
    return PlatformSpan(
        id=span_id,
        parent=parent,
        kind="tool" if kind == "tool" else "other",
        name=string(row.get("name")),
        agent=string(row.get("name")) if kind == "agent" else "",
        started=None,  # `created_at` is when the span was logged, which is after its end: the tree has the order
        ended=moment(row.get("created_at")),
        fault=failure,
        call=call,
        call_id=string(row.get("tool_call_id")),
        arguments=parse_text(inputs),
        result=UNKNOWN if output is None or failure else parse_text(output),
    )


def _fault(row: JsonObject) -> TraceFault | None:
    """The error of a span: its output, where the status code says that it failed."""
    code = row.get("status_code")
    if not isinstance(code, int) or code < 400:
        return None
    return span_facts.fault(_read_side(row, "output")) or TraceFault(f"status {code}")


GALILEO = Format("galileo", "traces of Galileo", 16, holds_any(_traces), _read_runs)
