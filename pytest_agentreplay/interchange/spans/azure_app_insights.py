"""Rows of Azure Application Insights (dependencies, requests, traces, exceptions), as its query tools give them.

Attributes are in `customDimensions` (`Properties` in Log Analytics), every value a text, sometimes the whole one too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.interchange.moments import nanoseconds
from pytest_agentreplay.interchange.spans import otlp
from pytest_agentreplay.interchange.spans.dotted_keys import at, flat
from pytest_agentreplay.interchange.spans.providers import number
from pytest_agentreplay.interchange.spans.runs import runs
from pytest_agentreplay.interchange.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

_OPERATION = ("operation_Id", "OperationId")
_HELD = ("customDimensions", "Properties")
_PARENT = ("operation_ParentId", "ParentId")
_TIME = ("timestamp", "TimeGenerated")
_MILLISECOND = 1_000_000


def fits(opened: Opened) -> bool:
    """Whether it holds rows of Application Insights, or of its tables in Log Analytics."""
    return any(at(row, *_OPERATION) is not None and at(row, *_HELD) is not None for row in _rows(opened))


def read(name: str, opened: Opened, beside: Iterable[Opened]) -> Iterable[Trace]:
    """The runs in the rows of any of the tables."""
    rows = [row for file in (opened, *beside) for row in _rows(file)]
    events = [_event(row) for row in rows if not _is_span(row)]
    raised: dict[tuple[str, str], list[SpanEvent]] = {}
    for event in events:
        raised.setdefault((event.trace, event.span), []).append(event)
    spans = [_span(row, raised) for row in rows if _is_span(row)]
    return runs(spans, events, called=name, file=opened.file)


def _rows(opened: Opened) -> Iterator[JsonObject]:
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


def _span(row: JsonObject, raised: dict[tuple[str, str], list[SpanEvent]]) -> Span:
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
        attributes=_attributes(row),
        events=tuple(raised.get((trace, known), ())),
        resource={"service.name": at(row, "cloud_RoleName", "AppRoleName")},
    )


def _event(row: JsonObject) -> SpanEvent:
    """A log record, or an exception, by the span that it names as its parent."""
    held = _attributes(row)
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


def _attributes(row: JsonObject) -> JsonObject:
    return flat(obj(genai.parsed(at(row, *_HELD))))
