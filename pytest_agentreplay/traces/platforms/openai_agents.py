"""The traces of the OpenAI Agents SDK: what a trace processor exports, and what the SDK sends to its own backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.lenient import obj, parse_text, string
from pytest_agentreplay.traces.formats import Format, find_rows
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import PlatformSpan, holds_any, make_run
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Fields: `agents.tracing.spans` and `span_data` of openai-agents 0.24.0.
_LOST = (
    "the Agents SDK keeps no tool definitions, finish reasons, response ids and fingerprints of its model calls",
    "the Agents SDK names no model but the one that was asked for",
)
_REDACTED = "the Agents SDK hides what a failed tool raised; what the model was told of it is known"
_ECHOED = "a response repeats every parameter, sent or not: which were sent is lost"
_UNSET = "`model_config` names every setting; those that are null were not sent and are left out"
_HINT = (
    "the Responses model exports the id of each response alone. Export `span_data.input` and "
    "`span_data.response.model_dump()` of response spans too, in a TracingProcessor of your own; or fetch them with "
    "GET /v1/responses/{id} and /input_items; and leave RunConfig(trace_include_sensitive_data=True)"
)
_CLIENT = frozenset({"base_url", "timeout", "retry", "include_usage", "model_impl", "tracing"})
_TRACES = frozenset({"trace", "trace.span"})


def _read_runs(opened: Opened) -> Iterator[Trace]:
    traces: dict[str, JsonObject] = {}
    spans: dict[str, dict[str, JsonObject]] = {}
    for row in _rows(opened.rows):
        if row.get("object") == "trace":
            traces[string(row.get("id"))] = row
        elif row.get("object") == "trace.span":
            spans.setdefault(string(row.get("trace_id")), {})[string(row.get("id"))] = row
    for trace_id in dict.fromkeys((*traces, *spans)):
        source = Source(format="openai-agents", file=opened.file, id=trace_id)
        yield _read_run(traces.get(trace_id, {}), [*spans.get(trace_id, {}).values()], source)


def _rows(rows: Iterable[Json]) -> list[JsonObject]:
    """The traces and spans in the rows, or in the bodies that carry them."""
    return [*find_rows(rows, lambda row: string(row.get("object")) in _TRACES, ("body", "data", "items"))]


def _read_run(row: JsonObject, spans: list[JsonObject], source: Source) -> Trace:
    root = next((span for span in spans if not span.get("parent_id")), {})
    agent_faults = (fault for span in spans if _kind(span) == "agent" and (fault := _fault(span)))
    tree = [_read_span(span) for span in spans]
    is_silent = not any(span.call and span.call.messages for span in tree)
    return make_run(
        tree,
        _read_span(root),
        source,
        hint=_HINT,
        is_silent=is_silent and any(_kind(span) == "response" for span in spans),
        is_done=root.get("ended_at"),
        name=string(row.get("workflow_name")) or string(obj(root.get("span_data")).get("name")),
        fault=_fault(root) or next(agent_faults, None),
        losses=_losses(spans),
        **span_facts.about(obj(row.get("metadata")), session=string(row.get("group_id"))),
    )


def _losses(spans: list[JsonObject]) -> tuple[str, ...]:
    kinds = {_kind(span) for span in spans}
    redacted = any("redacted" in string(obj(obj(obj(span.get("error")).get("data"))).get("error")) for span in spans)
    chat = (*_LOST, _UNSET) if "generation" in kinds else ()
    return (*chat, *([_ECHOED] if "response" in kinds else []), *([_REDACTED] if redacted else []))


def _kind(row: JsonObject) -> str:
    return string(obj(row.get("span_data")).get("type"))


def _read_span(row: JsonObject) -> PlatformSpan:
    data, kind, failure = obj(row.get("span_data")), _kind(row), _fault(row)
    value, output = data.get("input"), data.get("output")
    call = None
    if kind in {"generation", "response"}:
        facts = {
            "model": string(data.get("model")),
            "usage": span_facts.usage(data.get("usage")),
            **span_facts.call_fields(failure),
        }
        call = _read_chat(data, facts) if kind == "generation" else _read_response(data, facts)
    return PlatformSpan(
        id=string(row.get("id")),
        parent=string(row.get("parent_id")),
        kind="tool" if kind == "function" else "other",
        name=string(data.get("name")),
        agent=string(data.get("name")) if kind == "agent" else "",
        started=moment(row.get("started_at")),
        ended=moment(row.get("ended_at")),
        fault=failure,
        call=call,
        arguments=bodies.parse_literal(value) if isinstance(value, str) else value,
        result=UNKNOWN if output is None else parse_text(output),  # of a failed tool what the model is told
    )


def _read_chat(data: JsonObject, facts: dict[str, Any]) -> ModelCall:
    """A call of a chat model: its messages, and the message that came back."""
    config = obj(data.get("model_config"))
    sent = {name: value for name, value in config.items() if name not in _CLIENT and value is not None}
    return bodies.model_call(
        data.get("input"), data.get("output") or None, dialect="openai_chat", parameters=sent, **facts
    )


def _read_response(data: JsonObject, facts: dict[str, Any]) -> ModelCall:
    """A call of the Responses model; its messages stand in it only where a processor has put them there."""
    reply = obj(data.get("response"))
    request: JsonObject = {"input": data.get("input")} if isinstance(data.get("input"), str | list) else {}
    echoed = {name: reply[name] for name in ("instructions", "tools", "model") if reply.get(name)}
    response_id = string(data.get("response_id"))
    body = {**echoed, **request} if request else {}
    return bodies.model_call(body, reply or None, dialect="openai_responses", response_id=response_id, **facts)


def _fault(row: JsonObject) -> TraceFault | None:
    """The error of a span: what its data say, unless that is hidden."""
    error = obj(row.get("error"))
    if not error:
        return span_facts.fault(row.get("error"))
    data = obj(error.get("data"))
    inner = string(data.get("error")) or string(data.get("message"))
    message = string(error.get("message"))
    failure = span_facts.fault(inner) if inner else None
    if failure is None or not failure.type:
        return TraceFault("", ": ".join(filter(None, (message, inner))))
    return failure


AGENTS = Format("openai-agents", "traces of the OpenAI Agents SDK", 7, holds_any(_rows), _read_runs)
