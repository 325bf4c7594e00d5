"""Spans in JSON forms of their own: Phoenix, the console exporter, Foundry, Azure Application Insights.

Phoenix pages its spans (`{data, next_cursor}`), in its own form or in OTLP's; its client gives a list, its data frames
rows with dotted names. The console exporter prints objects one after another. Application Insights has rows of tables
(dependencies, requests, traces, exceptions), as its query tools give them: attributes are in `customDimensions`
(`Properties` in Log Analytics), every value a text, sometimes the whole one too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces.formats import grouped
from pytest_agentreplay.traces.moments import nanoseconds
from pytest_agentreplay.traces.spans import otlp
from pytest_agentreplay.traces.spans.attributes import at, flat, number, under
from pytest_agentreplay.traces.spans.runs import runs
from pytest_agentreplay.traces.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

_CONTEXT = ("context.span_id", "context.trace_id")


def is_page(opened: Opened) -> bool:
    """Whether it holds pages of Phoenix with spans."""
    return any(_is_listed(one) or _is_otlp(one) for one in _paged(opened))


def is_list(opened: Opened) -> bool:
    """Whether it holds spans of Phoenix or OpenInference, without a page around them."""
    return any(_is_listed(one) for one in _rows(opened))


def is_console(opened: Opened) -> bool:
    """Whether it holds what the console exporter prints."""
    return any({"context", "kind", "attributes", "resource"} <= one.keys() for one in _rows(opened))


def is_foundry(opened: Opened) -> bool:
    """Whether it holds spans of Azure AI Foundry."""
    return any(
        "context" in one and any(name.startswith("microsoft.foundry") for name in flat(obj(one.get("attributes"))))
        for one in _rows(opened)
    )


def is_trace_list(opened: Opened) -> bool:
    """Whether it holds Phoenix's list of traces, which says nothing of what is in them."""
    return any({"trace_id", "project_id", "start_time"} <= one.keys() for one in _paged(opened))


def read(name: str, opened: Opened, beside: Iterable[Opened]) -> Iterable[Trace]:
    """Return the runs in spans that are in no envelope of OTLP, pages or not."""
    files = (opened, *beside)
    held = [one for file in files for one in (*_paged(file), *_rows(file))]
    spans = [otlp.span(one) if _is_otlp(one) else span(one) for one in held if "data" not in one and not _is_log(one)]
    return runs(spans, map(_log, filter(_is_log, held)), called=name, file=opened.file)


def refuse_traces(opened: Opened) -> Iterable[Trace]:
    """Say which list has the contents."""
    raise TraceIncomplete(
        "lists traces without what was said in them: export GET /v1/projects/PROJECT/spans instead", file=opened.file
    )


def span(row: JsonObject) -> Span:
    """A span of Phoenix, of the console exporter, of Foundry, or a row of a data frame."""
    context, status = obj(row.get("context")), row.get("status")
    attributes = flat(obj(row.get("attributes")) or under(row, "attributes."))
    told = string(row.get("span_kind"))
    return Span(
        id=otlp.identity(context.get("span_id") or row.get("context.span_id")),
        trace=otlp.identity(context.get("trace_id") or row.get("context.trace_id")),
        parent=otlp.identity(row.get("parent_id")),
        name=string(row.get("name")),
        started=nanoseconds(row.get("start_time")),
        ended=nanoseconds(row.get("end_time")),
        status=otlp.outcome(row.get("status_code") or obj(status).get("status_code") or status),
        message=string(row.get("status_message")) or string(obj(status).get("description")),
        attributes=attributes | ({"openinference.span.kind": told} if told else {}),
        events=tuple(_event(one) for one in objects(genai.parsed(row.get("events")))),
        resource=obj(obj(row.get("resource")).get("attributes")),
        scope=string(obj(row.get("instrumentation_scope")).get("name")) or ("openinference." if told else ""),
    )


def _event(one: JsonObject) -> SpanEvent:
    at = nanoseconds(one.get("timestamp"))
    return SpanEvent(name=string(one.get("name")), attributes=flat(obj(one.get("attributes"))), at=at)


def _is_log(one: JsonObject) -> bool:
    """Whether it is a log record as the console exporter of these prints it."""
    return "severity_number" in one and "body" in one


def _log(one: JsonObject) -> SpanEvent:
    attributes = flat(obj(one.get("attributes")))
    return SpanEvent(
        name=string(one.get("event_name")) or string(attributes.get("event.name")),
        attributes=attributes,
        body=one.get("body"),
        at=nanoseconds(one.get("timestamp")) or nanoseconds(one.get("observed_timestamp")),
        trace=otlp.identity(one.get("trace_id")),
        span=otlp.identity(one.get("span_id")),
    )


def _rows(opened: Opened) -> list[JsonObject]:
    """The objects in a file: one after another, in a list, or in lists by name."""
    found = [one for row in opened.rows for one in (objects(row) if isinstance(row, list) else objects([row]))]
    grouped = [
        [one for name, group in row.items() if name != "data" for one in objects(group) if "context" in one]
        for row in found
    ]
    return [one for row, inner in zip(found, grouped, strict=True) for one in (inner or [row])]


def _paged(opened: Opened) -> list[JsonObject]:
    return [one for row in _rows(opened) if "next_cursor" in row or len(row) == 1 for one in objects(row.get("data"))]


def _is_listed(one: JsonObject) -> bool:
    framed = _CONTEXT[0] in one
    return "span_kind" in one and (framed or {"context", "parent_id", "attributes"} <= one.keys())


def _is_otlp(one: JsonObject) -> bool:
    return {"trace_id", "span_id"} <= one.keys() and isinstance(one.get("attributes"), list)


_OPERATION = ("operation_Id", "OperationId")
_HELD = ("customDimensions", "Properties")
_PARENT = ("operation_ParentId", "ParentId")
_TIME = ("timestamp", "TimeGenerated")
_MILLISECOND = 1_000_000


def is_insights(opened: Opened) -> bool:
    """Whether it holds rows of Application Insights, or of its tables in Log Analytics."""
    return any(at(row, *_OPERATION) is not None and at(row, *_HELD) is not None for row in _insight_rows(opened))


def read_insights(name: str, opened: Opened, beside: Iterable[Opened]) -> Iterable[Trace]:
    """The runs in the rows of any of the tables."""
    rows = [row for file in (opened, *beside) for row in _insight_rows(file)]
    events = [_insight_event(row) for row in rows if not _is_span(row)]
    raised = grouped(events, lambda event: (event.trace, event.span))
    spans = [_insight_span(row, raised) for row in rows if _is_span(row)]
    return runs(spans, events, called=name, file=opened.file)


def _insight_rows(opened: Opened) -> Iterator[JsonObject]:
    """The rows: a list, lines, or the tables of a query's answer."""
    for held in opened.rows:
        for one in objects(held) if isinstance(held, list) else objects([held]):
            tables = objects(one.get("tables"))
            for table in tables:
                names = [string(column.get("name")) for column in objects(table.get("columns"))]
                yield from (dict(zip(names, arr(row), strict=False)) for row in arr(table.get("rows")))
            if not tables:
                yield one


def _is_span(row: JsonObject) -> bool:
    return at(row, "id", "Id") is not None and at(row, "duration", "DurationMs") is not None


def _insight_span(row: JsonObject, raised: dict[tuple[str, str], list[SpanEvent]]) -> Span:
    started = nanoseconds(at(row, *_TIME))
    took = number(at(row, "duration", "DurationMs"))
    known, trace = otlp.identity(at(row, "id", "Id")), otlp.identity(at(row, *_OPERATION))
    lasted = int(took * _MILLISECOND) if isinstance(took, int | float) and 0 <= took < 1e12 else 0
    failed = str(at(row, "success", "Success")).lower() == "false"
    return Span(
        id=known,
        trace=trace,
        parent=otlp.identity(at(row, *_PARENT)),
        name=string(at(row, "name", "Name")),
        started=started,
        ended=started + lasted if started is not None else None,
        status="error" if failed else "ok",
        attributes=_dimensions(row),
        events=tuple(raised.get((trace, known), ())),
        resource={"service.name": at(row, "cloud_RoleName", "AppRoleName")},
    )


def _insight_event(row: JsonObject) -> SpanEvent:
    """A log record, or an exception, by the span that it names as its parent."""
    held = _dimensions(row)
    kind = string(at(row, "type", "ExceptionType", "problemId"))
    message = string(at(row, "outerMessage", "OuterMessage", "message", "Message"))
    is_exception = "outerMessage" in row or "OuterMessage" in row or row.get("itemType") == "exception"
    told: JsonObject = {"exception.type": kind, "exception.message": message} if is_exception else {}
    return SpanEvent(
        name="exception" if is_exception else string(held.get("event.name")) or string(held.get("_MS.event.name")),
        attributes=held | told,
        body=genai.parsed(message),
        at=nanoseconds(at(row, *_TIME)),
        trace=otlp.identity(at(row, *_OPERATION)),
        span=otlp.identity(at(row, *_PARENT)),
    )


def _dimensions(row: JsonObject) -> JsonObject:
    return flat(obj(genai.parsed(at(row, *_HELD))))
