"""A run as spans of OpenTelemetry (GenAI conventions), as OTLP JSON: one agent, its model calls and its tools below it.

Ids are made of the case's id and the span's place, so that the same case gives the same file.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from pytest_agentreplay.traces.exporting.subject import Exported
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.exporting.subject import Subject
    from pytest_agentreplay.traces.trace import Step, ToolRun, Trace

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
INTERNAL, CLIENT = 1, 3
FAILED = 2

PARAMETERS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "seed": "seed",
    "stop": "stop_sequences",
    "stop_sequences": "stop_sequences",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "n": "choice.count",
}
"""Parameters that the conventions have a name for."""


def write(subject: Subject) -> Exported:
    """The frozen run of a case as one OTLP JSON file."""
    trace, losses = subject.trace, dict.fromkeys(subject.trace.losses)
    trace_id = make_id(subject.id, 16)
    root = make_id(f"{subject.id}/0", 8)
    spans = [agent(trace, trace_id, root)]
    for number, step in enumerate(trace.steps, 1):
        about = chat(step, losses) if isinstance(step, ModelCall) else tool(step)
        spans.append(
            {"traceId": trace_id, "spanId": make_id(f"{subject.id}/{number}", 8), "parentSpanId": root, **about}
        )
    losses["the checks of the case: spans tell what happened, and not what should"] = None
    scope = {"scope": {"name": "pytest_agentreplay"}, "spans": spans, "schemaUrl": SCHEMA}
    resource = {"attributes": attributes({"service.name": subject.id})}
    document = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    return Exported(((f"{subject.name}.otlp.json", text),), tuple(losses))


def agent(trace: Trace, trace_id: str, span_id: str) -> JsonObject:
    """The root: the agent's whole run."""
    fields: dict[str, Json] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": trace.name,
        "gen_ai.conversation.id": trace.session,
        "user.id": trace.user,
        "tenant.id": trace.tenant,
    }
    ids: JsonObject = {"traceId": trace_id, "spanId": span_id}
    if isinstance(trace.output, str) and trace.output:
        messages: Json = [{"role": "assistant", "parts": [{"type": "text", "content": trace.output}]}]
        fields["gen_ai.output.messages"] = dense(messages)
    return ids | span(f"invoke_agent {trace.name}", INTERNAL, trace, fields, trace.fault)


def chat(call: ModelCall, losses: dict[str, None]) -> JsonObject:
    """One call of a model."""
    fields: dict[str, Json] = {
        "gen_ai.operation.name": call.operation or "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
        "gen_ai.agent.name": call.agent,
    }
    for name, value in call.parameters.items():
        if name in PARAMETERS and isinstance(value, bool | int | float | str | list):
            fields[f"gen_ai.request.{PARAMETERS[name]}"] = (
                [value] if name == "stop" and isinstance(value, str) else value
            )
        else:
            losses[f"parameter {name}: the conventions have no name for it"] = None
    fields |= {
        "gen_ai.response.finish_reasons": list(call.finish_reasons),
        "gen_ai.response.id": call.response_id,
        "gen_ai.response.model": call.response_model,
        "openai.response.system_fingerprint": call.fingerprint,
        **{f"gen_ai.usage.{name}": count for name, count in call.usage.items()},
        "gen_ai.input.messages": dense(list(call.messages)),
        "gen_ai.output.messages": dense([call.reply]) if call.reply is not None else "",
        "gen_ai.tool.definitions": dense(list(call.tools)) if call.tools else "",
    }
    return span(f"{call.operation or 'chat'} {call.model}".strip(), CLIENT, call, fields, call.fault)


def tool(run: ToolRun) -> JsonObject:
    """One run of a tool."""
    fields: dict[str, Json] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": run.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": run.call_id,
        "gen_ai.agent.name": run.agent,
        "gen_ai.tool.call.arguments": dense(run.arguments),
        "gen_ai.tool.call.result": "" if run.fault or run.result == UNKNOWN else dense(run.result),
    }
    return span(f"execute_tool {run.name}", INTERNAL, run, fields, run.fault)


def span(name: str, kind: int, step: Step | Trace, fields: dict[str, Json], fault: TraceFault | None) -> JsonObject:
    """A span but for its ids."""
    status: JsonObject = {}
    if fault is not None:
        fields = {**fields, "error.type": fault.type or "error"}
        status = {"message": fault.message, "code": FAILED}
    start = step.started or 0
    times = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(step.ended or start)}
    return {"name": name, "kind": kind, **times, "attributes": attributes(fields), "status": status}


def attributes(fields: dict[str, Json]) -> list[Json]:
    """Attributes as OTLP writes them, without the empty ones."""
    return [{"key": key, "value": value_of(value)} for key, value in fields.items() if value not in ("", [], None)]


def value_of(value: Json) -> JsonObject:
    """One value, named by its kind."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [value_of(item) for item in value]}}
        case str():
            return {"stringValue": value}
        case _:
            return {"stringValue": dense(value)}


def dense(value: Json) -> str:
    """JSON as it stands within an attribute."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def make_id(text: str, size: int) -> str:
    """Return an id of `size` bytes in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:size].hex()
