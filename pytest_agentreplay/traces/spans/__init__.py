"""Span trees, whatever instrumentation wrote them and whatever file they are in.

span, attributes        the nouns, and their attributes by dotted names: providers, tokens, people
otlp, flat_json         files -> spans and events
content                 messages in any form; log records and own names -> names of the conventions
genai, openinference    attributes -> model calls, tools, agents; `Family` is what one is
runs                    spans -> traces, or which setting brings what is missing
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.spans import flat_json, otlp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace


def _otlp(name: str, title: str, rank: float) -> Format:
    def is_family(opened: Opened) -> bool:
        return otlp.family(opened) == name

    return Format(name, f"OTLP JSON, {title}", rank, is_family, _reading(otlp.read_file, name), together="otlp")


def _list_format(name: str, title: str, rank: float, fits: Callable[[Opened], bool]) -> Format:
    return Format(name, title, rank, fits, _reading(flat_json.read_rows, name), together=name)


def _reading(read: Callable[..., Iterable[Trace]], name: str) -> Callable[..., list[Trace]]:
    """Return a reader of the format `name` whose runs also tell what of the file could not be read."""

    def traces(opened: Opened, beside: Iterable[Opened] = ()) -> list[Trace]:
        lost = (f"{opened.junk} lines of the file are no JSON",) if opened.junk else ()
        return [replace(run, losses=(*run.losses, *lost)) for run in read(name, opened, beside)]

    return traces


_read_insights = _reading(flat_json.read_insights, "appinsights")

FORMATS: tuple[Format, ...] = (
    _otlp("otlp-langfuse", "attributes of Langfuse", 2.0),
    _otlp("otlp-openinference", "attributes of OpenInference", 2.1),
    _otlp("otlp-openllmetry", "attributes of OpenLLMetry (Traceloop)", 2.2),
    _otlp(otlp.PROMPTLAYER, "attributes of PromptLayer", 2.3),
    _otlp(otlp.GENAI, "OpenTelemetry GenAI spans", 2.4),
    _otlp(otlp.EVENTS, "OpenTelemetry GenAI log records", 2.5),
    Format("otlp-protobuf", "OTLP protobuf", 2.9, otlp.is_protobuf, otlp.refuse_protobuf),
    _list_format("phoenix-spans", "spans of Phoenix's REST API", 3.0, flat_json.is_page),
    Format("phoenix-traces", "traces of Phoenix's REST API", 3.1, flat_json.is_trace_list, flat_json.refuse_traces),
    _list_format("foundry-spans", "spans of Azure AI Foundry", 3.9, flat_json.is_foundry),
    _list_format("openinference-spans", "a list of OpenInference spans", 4.0, flat_json.is_list),
    _list_format("otel-console", "OpenTelemetry's console exporter", 5.0, flat_json.is_console),
    Format("appinsights", "Azure Application Insights", 6.0, flat_json.is_insights, _read_insights, "appinsights"),
)
"""The formats of this package, by rank."""
