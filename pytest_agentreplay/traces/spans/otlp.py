"""OTLP in JSON: resource spans and resource logs as spans and events, and the runs of a file by its attributes.

Written by the rules of the protocol (ids in hex, numbers of 64 bits as texts, enums as numbers), by naive converters of
its messages (ids in base64, enums by name), or by Phoenix (names in snake case, every kind of a value there as null).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces.formats import list_objects
from pytest_agentreplay.traces.moments import nanoseconds
from pytest_agentreplay.traces.spans.attributes import flat
from pytest_agentreplay.traces.spans.content import tells
from pytest_agentreplay.traces.spans.runs import runs
from pytest_agentreplay.traces.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Fields: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
SPANS = ("resourceSpans", "resource_spans", "batches")
LOGS = ("resourceLogs", "resource_logs")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "scopeLogs", "scope_logs")
_RECORDS = ("spans", "logRecords", "log_records")
_HEX = re.compile("[0-9a-f]+")
_ID_BYTES = (16, 8)
_OK = (1, "STATUS_CODE_OK", "OK")
_ERROR = (2, "STATUS_CODE_ERROR", "ERROR")


def batches(rows: Iterable[Json], names: Iterable[str]) -> Iterator[JsonObject]:
    """The resource spans_of, or logs_of, in the rows of a file: on the top, in a list, or under `trace`."""
    for item in list_objects(rows):
        envelope = obj(item.get("trace")) or item
        for name in names:
            yield from objects(envelope.get(name))


def spans_of(rows: Iterable[Json]) -> Iterator[Span]:
    """Every span in the rows of a file."""
    for resource, scope, record in _records(batches(rows, SPANS)):
        yield span(record, resource=resource, scope=scope)


def names(rows: Iterable[Json]) -> set[str]:
    """The names of all attributes of spans_of in the rows of a file."""
    attribute_names: set[str] = set()
    for _, _, record in _records(batches(rows, SPANS)):
        attribute_names.update(flat(values(record.get("attributes"))))
    return attribute_names


def logs_of(rows: Iterable[Json]) -> Iterator[SpanEvent]:
    """Every log record in the rows of a file."""
    for _, _, record in _records(batches(rows, LOGS)):
        attributes = flat(values(record.get("attributes")))
        yield SpanEvent(
            name=string(_field(record, "eventName")) or string(attributes.get("event.name")),
            attributes=attributes,
            body=value(record.get("body")),
            at=nanoseconds(_field(record, "timeUnixNano")) or nanoseconds(_field(record, "observedTimeUnixNano")),
            trace=identity(_field(record, "traceId")),
            span=identity(_field(record, "spanId")),
        )


def span(record: JsonObject, *, resource: JsonObject | None = None, scope: JsonObject | None = None) -> Span:
    """One span of the protocol."""
    status, parent = obj(record.get("status")), identity(_field(record, "parentSpanId"))
    return Span(
        id=identity(_field(record, "spanId")),
        trace=identity(_field(record, "traceId")),
        parent=parent if parent.strip("0") else "",
        name=string(record.get("name")),
        started=nanoseconds(_field(record, "startTimeUnixNano")),
        ended=nanoseconds(_field(record, "endTimeUnixNano")),
        status=outcome(status.get("code")),
        message=string(status.get("message")),
        attributes=flat(values(record.get("attributes"))),
        events=tuple(
            SpanEvent(
                name=string(event.get("name")),
                attributes=flat(values(event.get("attributes"))),
                at=nanoseconds(_field(event, "timeUnixNano")),
            )
            for event in objects(record.get("events"))
        ),
        resource=resource or {},
        scope=string((scope or {}).get("name")),
        version=string((scope or {}).get("version")),
    )


def outcome(code: Json) -> Literal["ok", "error", ""]:
    """A status by its number or any of its names."""
    return "ok" if code in _OK else "error" if code in _ERROR else ""


def identity(raw: Json) -> str:
    """An id in lower-case hex, from hex or base64; any other as it is, "" for none."""
    text = string(raw).removeprefix("0x")
    lowered = text.lower()
    if len(lowered) not in (2 * size for size in _ID_BYTES) or not _HEX.fullmatch(lowered):
        lowered = _of_base64(text) or text
    return lowered


def values(pairs: Json) -> JsonObject:
    """Attributes as a plain object."""
    return {string(pair.get("key")): value(pair.get("value")) for pair in objects(pairs)}


def value(wrapped: Json) -> Json:
    """One value of the protocol as plain JSON."""
    kind, content = next(
        ((_camel(name), member) for name, member in obj(wrapped).items() if member is not None), ("", None)
    )
    match kind:
        case "kvlistValue":
            return values(obj(content).get("values"))
        case "arrayValue":
            return [value(item) for item in arr(obj(content).get("values"))]
        case "intValue":
            return _parse_integer(content)
        case "doubleValue":
            return content if isinstance(content, int | float) and math.isfinite(content) else None
        case _:
            return content


def _parse_integer(number: Json) -> Json:
    text = str(number)
    return int(text) if len(text) <= 20 and re.fullmatch(r"-?[0-9]+", text) else number


def _records(resource_batches: Iterable[JsonObject]) -> Iterator[tuple[JsonObject, JsonObject, JsonObject]]:
    for batch in resource_batches:
        resource = values(obj(batch.get("resource")).get("attributes"))
        for scoped in (scope_batch for name in _SCOPES for scope_batch in objects(batch.get(name))):
            scope = obj(scoped.get("scope")) or obj(scoped.get("instrumentationLibrary"))
            for record in (item for name in _RECORDS for item in objects(scoped.get(name))):
                yield resource, scope, record


def _field(record: JsonObject, name: str) -> Json:
    """A field by its name, or by the same in snake case."""
    field = record.get(name)
    return field if field is not None else record.get(_snake(name))


@cache
def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", name)


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _of_base64(text: str) -> str:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return data.hex() if len(data) in _ID_BYTES else ""


GENAI = "otlp-genai"
EVENTS = "otlp-genai-events"
PROMPTLAYER = "otlp-promptlayer"
_MARK = b"service.name"
_ALONE = "log records without their spans: the runs of tools, their errors, agents and users are not recorded"
_FAMILIES = (
    ("langfuse.", "otlp-langfuse"),
    ("openinference.span.kind", "otlp-openinference"),
    ("traceloop.", "otlp-openllmetry"),
    ("gen_ai.prompt.", "otlp-openllmetry"),
    ("function_output", PROMPTLAYER),
)


def family(opened: Opened) -> str:
    """The name of the format of an OTLP file, by the attributes in it; "" for a file that is none."""
    if not any(_is_enveloped(row) for row in opened.rows[:50]):
        return ""
    attribute_names = names(opened.rows)
    for mark, name in _FAMILIES:
        if any(name_of_attribute.startswith(mark) for name_of_attribute in attribute_names):
            return name
    logs = not attribute_names and any(tells(event) for event in logs_of(opened.rows))
    return EVENTS if logs else GENAI


def read_file(name: str, opened: Opened, beside: Iterable[Opened]) -> Iterable[Trace]:
    """Return the runs in an OTLP file, and in those that were given with it."""
    files = (opened, *beside)
    if name == PROMPTLAYER:
        raise TraceIncomplete(
            "its spans hold what Python prints of objects, which nobody can read back: export the request logs of "
            "PromptLayer (the bodies of /track-request, or its REST API) instead",
            file=opened.file,
        )
    spans = [span for file in files for span in spans_of(file.rows)]
    events = [event for file in files for event in logs_of(file.rows)]
    traces = runs(spans, events, called=name, file=opened.file)
    return traces if spans else [replace(run, losses=(*run.losses, _ALONE)) for run in traces]


def is_protobuf(opened: Opened) -> bool:
    """Whether the bytes look like an OTLP body in protobuf."""
    data = opened.data
    return not opened.rows and not opened.members and data[:1] == b"\n" and _MARK in data[:4096]


def refuse_protobuf(opened: Opened) -> Iterable[Trace]:
    """Say how to get the same as JSON."""
    raise TraceError(
        "is OTLP in protobuf: export JSON (OTEL_EXPORTER_OTLP_PROTOCOL=http/json, or the collector's file exporter "
        "with `format: json`)",
        file=opened.file,
    )


def _is_enveloped(row: Json) -> bool:
    names = {*SPANS, *LOGS}
    return any(names & (item | obj(item.get("trace"))).keys() for item in list_objects([row])[:50])
