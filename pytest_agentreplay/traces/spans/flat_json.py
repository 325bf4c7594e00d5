"""Spans in JSON forms of their own: Phoenix, the console exporter, Foundry, Azure Application Insights.

Phoenix pages its spans (`{data, next_cursor}`), in its own form or in OTLP's; its client gives a list, its data frames
rows with dotted names. The console exporter prints objects one after another. Application Insights has rows of tables
(dependencies, requests, traces, exceptions), as its query tools give them: attributes are in `customDimensions`
(`Properties` in Log Analytics), every value a text, sometimes the whole one too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, string
from pytest_agentreplay.traces.formats import group_by, list_objects
from pytest_agentreplay.traces.moments import nanoseconds
from pytest_agentreplay.traces.spans import otlp
from pytest_agentreplay.traces.spans.attributes import find_value, flat, number, select_prefixed
from pytest_agentreplay.traces.spans.runs import runs
from pytest_agentreplay.traces.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Phoenix: schemas/openapi.json of github.com/Arize-ai/phoenix.
_CONTEXT = ("context.span_id", "context.trace_id")


def is_page(opened: Opened) -> bool:
    """Whether it holds pages of Phoenix with spans."""
    return any(_is_listed(row) or _is_otlp(row) for row in _list_page(opened))


def is_list(opened: Opened) -> bool:
    """Whether it holds spans of Phoenix or OpenInference, without a page around them."""
    return any(_is_listed(row) for row in _rows(opened))


def is_console(opened: Opened) -> bool:
    """Whether it holds what the console exporter prints."""
    return any({"context", "kind", "attributes", "resource"} <= row.keys() for row in _rows(opened))


def is_foundry(opened: Opened) -> bool:
    """Whether it holds spans of Azure AI Foundry."""
    return any(
        "context" in row and any(name.startswith("microsoft.foundry") for name in flat(obj(row.get("attributes"))))
        for row in _rows(opened)
    )


def is_trace_list(opened: Opened) -> bool:
    """Whether it holds Phoenix's list of traces, which says nothing of what is in them."""
    return any({"trace_id", "project_id", "start_time"} <= row.keys() for row in _list_page(opened))


def read_rows(name: str, opened: Opened, beside: Iterable[Opened]) -> Iterable[Trace]:
    """Return the runs in spans that are in no envelope of OTLP, pages or not."""
    files = (opened, *beside)
    rows = [row for file in files for row in (*_list_page(file), *_rows(file))]
    spans = [otlp.span(row) if _is_otlp(row) else span(row) for row in rows if "data" not in row and not _is_log(row)]
    return runs(spans, map(_log, filter(_is_log, rows)), called=name, file=opened.file)


def refuse_traces(opened: Opened) -> Iterable[Trace]:
    """Say which list has the contents."""
    raise TraceIncomplete(
        "lists traces without what was said in them: export GET /v1/projects/PROJECT/spans instead", file=opened.file
    )


def span(row: JsonObject) -> Span:
    """A span of Phoenix, of the console exporter, of Foundry, or a row of a data frame."""
    context, status = obj(row.get("context")), row.get("status")
    attributes = flat(obj(row.get("attributes")) or select_prefixed(row, "attributes."))
    kind = string(row.get("span_kind"))
    return Span(
        id=otlp.identity(context.get("span_id") or row.get("context.span_id")),
        trace=otlp.identity(context.get("trace_id") or row.get("context.trace_id")),
        parent=otlp.identity(row.get("parent_id")),
        name=string(row.get("name")),
        started=nanoseconds(row.get("start_time")),
        ended=nanoseconds(row.get("end_time")),
        status=otlp.outcome(row.get("status_code") or obj(status).get("status_code") or status),
        message=string(row.get("status_message")) or string(obj(status).get("description")),
        attributes=attributes | ({"openinference.span.kind": kind} if kind else {}),
        events=tuple(_event(event) for event in objects(parse_text(row.get("events")))),
        resource=obj(obj(row.get("resource")).get("attributes")),
        scope=string(obj(row.get("instrumentation_scope")).get("name")) or ("openinference." if kind else ""),
    )


def _event(event: JsonObject) -> SpanEvent:
    at = nanoseconds(event.get("timestamp"))
    return SpanEvent(name=string(event.get("name")), attributes=flat(obj(event.get("attributes"))), at=at)


def _is_log(row: JsonObject) -> bool:
    """Whether it is a log record as the console exporter of these prints it."""
    return "severity_number" in row and "body" in row


def _log(row: JsonObject) -> SpanEvent:
    attributes = flat(obj(row.get("attributes")))
    return SpanEvent(
        name=string(row.get("event_name")) or string(attributes.get("event.name")),
        attributes=attributes,
        body=row.get("body"),
        at=nanoseconds(row.get("timestamp")) or nanoseconds(row.get("observed_timestamp")),
        trace=otlp.identity(row.get("trace_id")),
        span=otlp.identity(row.get("span_id")),
    )


def _rows(opened: Opened) -> list[JsonObject]:
    """The objects in a file: one after another, in a list, or in lists by name."""
    rows: list[JsonObject] = []
    for row in list_objects(opened.rows):
        by_name = [item for name, group in row.items() if name != "data" for item in objects(group)]
        rows += [item for item in by_name if "context" in item] or [row]
    return rows


def _list_page(opened: Opened) -> list[JsonObject]:
    return [item for row in _rows(opened) if "next_cursor" in row or len(row) == 1 for item in objects(row.get("data"))]


def _is_listed(row: JsonObject) -> bool:
    framed = _CONTEXT[0] in row
    return "span_kind" in row and (framed or {"context", "parent_id", "attributes"} <= row.keys())


def _is_otlp(row: JsonObject) -> bool:
    return {"trace_id", "span_id"} <= row.keys() and isinstance(row.get("attributes"), list)


_OPERATION = ("operation_Id", "OperationId")
_HELD = ("customDimensions", "Properties")
_PARENT = ("operation_ParentId", "ParentId")
_TIME = ("timestamp", "TimeGenerated")
_MILLISECOND = 1_000_000


def is_insights(opened: Opened) -> bool:
    """Whether it holds rows of Application Insights, or of its tables in Log Analytics."""
    return any(
        find_value(row, *_OPERATION) is not None and find_value(row, *_HELD) is not None
        for row in _insight_rows(opened)
    )


def read_insights(name: str, opened: Opened, beside: Iterable[Opened]) -> Iterable[Trace]:
    """The runs in the rows of any of the tables."""
    rows = [row for file in (opened, *beside) for row in _insight_rows(file)]
    events = [_insight_event(row) for row in rows if not _is_span(row)]
    raised = group_by(events, lambda event: (event.trace, event.span))
    spans = [_insight_span(row, raised) for row in rows if _is_span(row)]
    return runs(spans, events, called=name, file=opened.file)


def _insight_rows(opened: Opened) -> Iterator[JsonObject]:
    """The rows: a list, lines, or the tables of a query's answer."""
    for item in list_objects(opened.rows):
        tables = objects(item.get("tables"))
        for table in tables:
            names = [string(column.get("name")) for column in objects(table.get("columns"))]
            yield from (dict(zip(names, arr(row), strict=False)) for row in arr(table.get("rows")))
        if not tables:
            yield item


def _is_span(row: JsonObject) -> bool:
    return find_value(row, "id", "Id") is not None and find_value(row, "duration", "DurationMs") is not None


def _insight_span(row: JsonObject, raised: dict[tuple[str, str], list[SpanEvent]]) -> Span:
    started = nanoseconds(find_value(row, *_TIME))
    took = number(find_value(row, "duration", "DurationMs"))
    span_id, trace = otlp.identity(find_value(row, "id", "Id")), otlp.identity(find_value(row, *_OPERATION))
    lasted = int(took * _MILLISECOND) if isinstance(took, int | float) and 0 <= took < 1e12 else 0
    failed = str(find_value(row, "success", "Success")).lower() == "false"
    return Span(
        id=span_id,
        trace=trace,
        parent=otlp.identity(find_value(row, *_PARENT)),
        name=string(find_value(row, "name", "Name")),
        started=started,
        ended=started + lasted if started is not None else None,
        status="error" if failed else "ok",
        attributes=_dimensions(row),
        events=tuple(raised.get((trace, span_id), ())),
        resource={"service.name": find_value(row, "cloud_RoleName", "AppRoleName")},
    )


def _insight_event(row: JsonObject) -> SpanEvent:
    """A log record, or an exception, by the span that it names as its parent."""
    dimensions = _dimensions(row)
    kind = string(find_value(row, "type", "ExceptionType", "problemId"))
    message = string(find_value(row, "outerMessage", "OuterMessage", "message", "Message"))
    is_exception = "outerMessage" in row or "OuterMessage" in row or row.get("itemType") == "exception"
    fields: JsonObject = {"exception.type": kind, "exception.message": message} if is_exception else {}
    return SpanEvent(
        name="exception"
        if is_exception
        else string(dimensions.get("event.name")) or string(dimensions.get("_MS.event.name")),
        attributes=dimensions | fields,
        body=parse_text(message),
        at=nanoseconds(find_value(row, *_TIME)),
        trace=otlp.identity(find_value(row, *_OPERATION)),
        span=otlp.identity(find_value(row, *_PARENT)),
    )


def _dimensions(row: JsonObject) -> JsonObject:
    return flat(obj(parse_text(find_value(row, *_HELD))))
