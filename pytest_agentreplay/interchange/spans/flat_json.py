"""Spans that stand by themselves as JSON objects, flat attributes in them: Phoenix, the console exporter, Foundry.

Phoenix pages its spans (`{data, next_cursor}`), in its own form or in OTLP's; its client gives a list, its data frames
rows with dotted names. The console exporter prints objects one after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import obj, objects, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.moments import nanoseconds
from pytest_agentreplay.interchange.spans import otlp
from pytest_agentreplay.interchange.spans.dotted_keys import flat, under
from pytest_agentreplay.interchange.spans.runs import runs
from pytest_agentreplay.interchange.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

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
    """The runs in spans that stand by themselves, pages or not."""
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
