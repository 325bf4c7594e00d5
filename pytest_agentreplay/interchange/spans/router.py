"""OTLP files: which family of attributes is in one, and its runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import obj, objects
from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.spans import otlp
from pytest_agentreplay.interchange.spans.events import tells
from pytest_agentreplay.interchange.spans.runs import runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

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
    if not any(_enveloped(row) for row in opened.rows[:50]):
        return ""
    found = otlp.names(opened.rows)
    for mark, name in _FAMILIES:
        if any(one.startswith(mark) for one in found):
            return name
    logs = not found and any(tells(event) for event in otlp.logs(opened.rows))
    return EVENTS if logs else GENAI


def read(name: str, opened: Opened, beside: Iterable[Opened]) -> Iterable[Trace]:
    """The runs in an OTLP file, and in those that were given with it."""
    files = (opened, *beside)
    if name == PROMPTLAYER:
        raise TraceIncomplete(
            "its spans hold what Python prints of objects, which nobody can read back: export the request logs of "
            "PromptLayer (the bodies of /track-request, or its REST API) instead",
            file=opened.file,
        )
    spans = [span for one in files for span in otlp.spans(one.rows)]
    events = [event for one in files for event in otlp.logs(one.rows)]
    found = runs(spans, events, called=name, file=opened.file)
    return found if spans else [replace(run, losses=(*run.losses, _ALONE)) for run in found]


def is_protobuf(opened: Opened) -> bool:
    """Whether the bytes look like an OTLP body in protobuf."""
    held = opened.data
    return not opened.rows and not opened.members and held[:1] == b"\n" and _MARK in held[:4096]


def refuse_protobuf(opened: Opened) -> Iterable[Trace]:
    """Say how to get the same as JSON."""
    raise TraceError(
        "is OTLP in protobuf: export JSON (OTEL_EXPORTER_OTLP_PROTOCOL=http/json, or the collector's file exporter "
        "with `format: json`)",
        file=opened.file,
    )


def _enveloped(row: object) -> bool:
    names = {*otlp.SPANS, *otlp.LOGS}
    held = objects(row) if isinstance(row, list) else [obj(row)]
    return any(names & one.keys() or names & obj(one.get("trace")).keys() for one in held[:50])
