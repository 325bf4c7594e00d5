"""The traces of the OpenAI Agents SDK: what a trace processor exports, and what the SDK sends to its own backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import obj, string
from pytest_agentreplay.traces.formats import Format, find_rows
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, TreeSpan, run
from pytest_agentreplay.traces.trace import UNKNOWN, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import ModelCall, Step

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


def _fits(opened: Opened) -> bool:
    return any(string(row.get("object")) in _TRACES for row in _rows(opened.rows[:SNIFFED]))


def _read(opened: Opened) -> Iterator[Trace]:
    traces: dict[str, JsonObject] = {}
    spans: dict[str, dict[str, JsonObject]] = {}
    for row in _rows(opened.rows):
        if row.get("object") == "trace":
            traces[string(row.get("id"))] = row
        elif row.get("object") == "trace.span":
            spans.setdefault(string(row.get("trace_id")), {})[string(row.get("id"))] = row
    for trace_id in dict.fromkeys((*traces, *spans)):
        yield _trace(trace_id, traces.get(trace_id, {}), [*spans.get(trace_id, {}).values()], opened.file)


def _rows(rows: Iterable[Json]) -> list[JsonObject]:
    """The traces and spans in the rows, or in the bodies that carry them."""
    return [*find_rows(rows, lambda row: string(row.get("object")) in _TRACES, ("body", "data", "items"))]


def _trace(trace_id: str, told: JsonObject, spans: list[JsonObject], file: str) -> Trace:
    root = next((one for one in spans if not one.get("parent_id")), {})
    failed = _fault(root) or next((found for one in spans if _kind(one) == "agent" and (found := _fault(one))), None)
    trace = Trace(
        source=Source(format="openai-agents", file=file, id=trace_id),
        id=trace_id,
        name=string(told.get("workflow_name")) or string(_data(root).get("name")),
        status="error" if failed else "ok" if root.get("ended_at") else "",
        started=moment(root.get("started_at")),
        ended=moment(root.get("ended_at")),
        fault=failed,
        losses=_losses(spans),
        **span_facts.about(obj(told.get("metadata")), session=string(told.get("group_id"))),
    )
    made = [_span(one) for one in spans]
    responses = any(_kind(one) == "response" for one in spans)
    silent = all(span.step is None or isinstance(span.step, ToolRun) or not span.step.messages for span in made)
    return run(trace, made, hint=_HINT, untold=responses and silent)


def _losses(spans: list[JsonObject]) -> tuple[str, ...]:
    kinds = {_kind(one) for one in spans}
    redacted = any("redacted" in string(obj(obj(obj(one.get("error")).get("data"))).get("error")) for one in spans)
    chat = (*_LOST, _UNSET) if "generation" in kinds else ()
    return (*chat, *([_ECHOED] if "response" in kinds else []), *([_REDACTED] if redacted else []))


def _data(told: JsonObject) -> JsonObject:
    return obj(told.get("span_data"))


def _kind(told: JsonObject) -> str:
    return string(_data(told).get("type"))


def _span(told: JsonObject) -> TreeSpan:
    data = _data(told)
    readers: dict[str, Callable[..., Step]] = {
        "generation": _generation,
        "response": _response,
        "function": _tool_run,
    }
    read = readers.get(_kind(told))
    return TreeSpan(
        id=string(told.get("id")),
        parent=string(told.get("parent_id")),
        agent=string(data.get("name")) if _kind(told) == "agent" else "",
        started=moment(told.get("started_at")),
        ended=moment(told.get("ended_at")),
        step=read(told, data) if read is not None else None,
    )


def _generation(told: JsonObject, data: JsonObject) -> ModelCall:
    """A call of a chat model: its messages, and the message that came back."""
    config = obj(data.get("model_config"))
    return bodies.model_call(
        data.get("input"),
        data.get("output") or None,
        model=string(data.get("model")),
        dialect="openai_chat",
        parameters={name: value for name, value in config.items() if name not in _CLIENT and value is not None},
        usage=span_facts.usage(data.get("usage")),
        **span_facts.call_fields(_fault(told)),
    )


def _response(told: JsonObject, data: JsonObject) -> ModelCall:
    """A call of the Responses model; its messages stand in it only where a processor has put them there."""
    reply = obj(data.get("response"))
    asked: JsonObject = {"input": data.get("input")} if isinstance(data.get("input"), str | list) else {}
    echoed = {name: reply[name] for name in ("instructions", "tools", "model") if reply.get(name)}
    return bodies.model_call(
        {**echoed, **asked} if asked else {},
        reply or None,
        model=string(data.get("model")),
        dialect="openai_responses",
        response_id=string(data.get("response_id")),
        usage=span_facts.usage(data.get("usage")),
        **span_facts.call_fields(_fault(told)),
    )


def _tool_run(told: JsonObject, data: JsonObject) -> ToolRun:
    given, output = data.get("input"), data.get("output")
    return ToolRun(
        name=string(data.get("name")),
        arguments=bodies.literal(given) if isinstance(given, str) else given,
        result=UNKNOWN if output is None else genai.parsed(output),  # of a failed one what the model is told
        fault=_fault(told),
    )


def _fault(told: JsonObject) -> TraceFault | None:
    """The error of a span: what its data say, unless that is hidden."""
    error = obj(told.get("error"))
    if not error:
        return span_facts.fault(told.get("error"))
    data = obj(error.get("data"))
    inner = string(data.get("error")) or string(data.get("message"))
    message = string(error.get("message"))
    found = span_facts.fault(inner) if inner else None
    if found is None or not found.type:
        return TraceFault("", ": ".join(filter(None, (message, inner))))
    return found


AGENTS = Format("openai-agents", "traces of the OpenAI Agents SDK", 7, _fits, _read)
