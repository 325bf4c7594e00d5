"""Langfuse: traces with their observations, as its page and its API give them.

An observation is a model call, a tool or an agent, by the framework that made it. Frameworks that speak OpenTelemetry
leave their own attributes in `metadata.attributes`: these say best what it is. The others are known by the type that
Langfuse gave, by the form of the output, and by names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, rest, string
from pytest_agentreplay.providers.messages import langchain_fields, langchain_kind, normalize_tools
from pytest_agentreplay.traces.chains import fill_up
from pytest_agentreplay.traces.formats import Format, group_by
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, langfuse_rows, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, PlatformSpan, make_run, root_of
from pytest_agentreplay.traces.spans import genai as conventions
from pytest_agentreplay.traces.spans import openinference
from pytest_agentreplay.traces.spans.attributes import find_value, text
from pytest_agentreplay.traces.spans.span import Span as OtelSpan
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

_TOOL_NAME = re.compile(
    r"^(?:execute_tool|running tool:?|tool call:?|ai\.toolCall|mcp[._]tool[._]call)\s+(.+)$", re.IGNORECASE
)
_ARGUMENTS = ("gcp.vertex.agent.tool_call_args", "tool_arguments", "ai.toolCall.args", "gen_ai.tool.call.arguments")
_RESULTS = ("gcp.vertex.agent.tool_response", "tool_response", "ai.toolCall.result", "gen_ai.tool.call.result")
_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_name")
_CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "tool_call_id", "ai.toolCall.id", "gcp.vertex.agent.tool_call_id")


def _is_tool(observation: JsonObject, attributes: JsonObject, output: Json) -> bool:
    """Whether a name, an attribute of a framework, or the message of a tool says that it is a tool."""
    if _TOOL_NAME.match(string(observation.get("name"))) or langchain_kind(output) == "tool":
        return True
    return any(name in attributes for name in (*_NAMES, *_ARGUMENTS))


def _failure(observation: JsonObject) -> TraceFault | None:
    """The error of an observation."""
    if observation.get("level") != "ERROR":
        return None
    return span_facts.fault(observation.get("statusMessage")) or TraceFault()


def _strip_envelope(value: Json) -> Json:
    """Return a result without the envelope of Microsoft's agent framework, or of the ADK, around it."""
    fields = obj(value)
    if fields.get("type") == "function_result" and "result" in fields:
        return parse_text(fields["result"])
    if set(fields) == {"id", "name", "response"}:
        return parse_text(fields["response"])
    return value


def _arguments(row: JsonObject, metadata: JsonObject, attributes: JsonObject) -> Json:
    """The arguments: from the attributes, as LangChain's handler noted them, else the input."""
    kept = find_value(attributes, *_ARGUMENTS)
    if kept is not None:
        return parse_text(kept)
    value = row.get("input")
    if isinstance(value, str) and isinstance(metadata.get("inputs"), dict):
        return metadata["inputs"]
    read = bodies.parse_literal(value) if isinstance(value, str) else value
    return read["args"] if isinstance(read, dict) and read.keys() == {"id", "name", "args"} else read


_AGENT_NAME = re.compile(r"^(?:invoke_agent|agent_run|create_agent)\s+\[?(.+?)\]?$", re.IGNORECASE)
_MODEL_NAMES = frozenset({"call_llm"})
_PARAMETERS = frozenset(
    {
        *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed", "stop"),
        *("frequency_penalty", "presence_penalty", "n", "tool_choice", "response_format", "reasoning_effort", "stream"),
        *("stop_sequences", "parallel_tool_calls"),
    }
)
_UNSET: dict[str, tuple[Json, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "n": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "max_tokens": ("Infinity", "inf"),
    "parallel_tool_calls": (True,),
    "tool_choice": ("auto",),
}
"""What Langfuse writes for a parameter that nobody set, and what a reply of the Responses API echoes of one."""


def _read_span(row: JsonObject) -> PlatformSpan:
    """Return an observation as a span, by its metadata and the attributes of a framework in it."""
    metadata, name, output = langfuse_rows.table(row, "metadata"), string(row.get("name")), row.get("output")
    attributes = obj(metadata.get("attributes")) | {name: value for name, value in metadata.items() if "." in name}
    kind = _kind(row, attributes)
    message = langchain_fields(output) if langchain_kind(output) == "tool" else {}
    failure = _failure(row) or (span_facts.fault(message.get("content")) if message.get("status") == "error" else None)
    result = _strip_envelope(bodies.read_result(output if output is not None else find_value(attributes, *_RESULTS)))
    match = _TOOL_NAME.match(name)
    return PlatformSpan(
        id=string(row.get("id")),
        parent=string(row.get("parentObservationId")),
        kind="tool" if kind == "tool" else "" if kind == "" else "other",
        name=text(attributes, *_NAMES) or string(message.get("name")) or (match[1] if match else name),
        agent=_agent(row, attributes) if kind == "agent" else "",
        started=moment(row.get("startTime")),
        ended=moment(row.get("endTime")),
        fault=failure,
        call=_model_call(row, metadata, attributes) if kind == "model" else None,
        call_id=text(attributes, *_CALL_IDS)
        or string(message.get("tool_call_id"))
        or string(metadata.get("tool_call_id")),
        arguments=_arguments(row, metadata, attributes),
        result=UNKNOWN if result is None or (failure is not None and not message) else result,
    )


def _list_invented(row: JsonObject) -> list[str]:
    """Return the parameters of an observation that nobody may have set."""
    parameters = langfuse_rows.table(row, "modelParameters")
    return [name for name, value in parameters.items() if _parse_parameter(value) in _UNSET.get(name, ())]


def _kind(row: JsonObject, attributes: JsonObject) -> str:
    """What an observation is: "model", "tool", "agent", or "" for what may be a tool by its name."""
    kind, name = string(row.get("type")), string(row.get("name"))
    bare = OtelSpan(id="", attributes=attributes)
    own = openinference.kind(bare) or conventions.kind(bare)
    if "(merged" in name or "(merged" in string(attributes.get("gen_ai.tool.name")):
        return "other"  # the ADK tells the results of parallel calls once more
    if own in {"tool", "model"}:
        return own
    if "gcp.vertex.agent.llm_request" in attributes or (name in _MODEL_NAMES and kind != "GENERATION"):
        return "model"
    if kind == "TOOL" or _is_tool(row, attributes, row.get("output")):
        return "tool"
    if kind == "AGENT" or own == "agent" or _AGENT_NAME.match(name):
        return "agent"
    return "model" if kind == "GENERATION" else "" if kind in {"SPAN", "CHAIN"} else kind


def _agent(row: JsonObject, attributes: JsonObject) -> str:
    name = string(row.get("name"))
    match = _AGENT_NAME.match(name)
    return text(attributes, "gen_ai.agent.name", "graph.node.id") or (match[1] if match else name)


def _model_call(row: JsonObject, metadata: JsonObject, attributes: JsonObject) -> ModelCall:
    """A call by what Langfuse shows of it, and by the attributes that it was made of."""
    request = _read_request(row.get("input"), attributes)
    answer = row.get("output")
    if "gcp.vertex.agent.llm_response" in attributes:
        answer = parse_text(attributes["gcp.vertex.agent.llm_response"])
    model = string(row.get("model"))
    shown_call = bodies.model_call(
        _add_echoed(request, answer),
        answer or None,
        response_model=model.rpartition("/")[2],
        parameters=_parameters(row),
        provider=string(metadata.get("ls_provider")),
        usage=span_facts.usage(langfuse_rows.table(row, "usageDetails"), row.get("usage")),
        **span_facts.call_fields(_failure(row)),
    )
    ours = (("gen_ai.input.messages", request), ("gen_ai.output.messages", answer))
    otel = OtelSpan(
        id="", attributes={**{name: messages for name, messages in ours if isinstance(messages, list)}, **attributes}
    )
    if conventions.kind(otel) == "model" and openinference.kind(otel) == "":
        own = _with_tools(_of_responses(conventions.model_call(otel), attributes), attributes)
        own = replace(own, parameters=own.parameters | shown_call.parameters, usage=shown_call.usage or own.usage)
        return fill_up(own, shown_call)
    own = openinference.model_call(otel) if openinference.kind(otel) == "model" else ModelCall(model=model)
    own = replace(own, parameters={}, request=None, response=None, status=0)
    made = fill_up(shown_call, own)
    return made if made.model else replace(made, model=made.response_model)


def _of_responses(call: ModelCall, attributes: JsonObject) -> ModelCall:
    """A call whose ids are of the Responses API, where the provider keeps what was said before."""
    if not call.response_id.startswith("resp_"):
        return call
    before = string(attributes.get("gen_ai.conversation.id"))
    kept: JsonObject = {"previous_response_id": before} if before.startswith("resp_") else {}
    return replace(call, dialect="openai_responses", parameters=call.parameters | kept)


def _with_tools(call: ModelCall, attributes: JsonObject) -> ModelCall:
    """A call of Pydantic AI with the tools that its parameters name."""
    definitions = objects(obj(parse_text(attributes.get("model_request_parameters"))).get("function_tools"))
    tools: list[Json] = [
        {**definition, "parameters": definition.get("parameters_json_schema")} for definition in definitions
    ]
    return call if call.tools else replace(call, tools=normalize_tools(tools))


def _read_request(value: Json, attributes: JsonObject) -> Json:
    """Return a request with the tool definitions that LangChain's handler put among its messages as `tools`."""
    if "gcp.vertex.agent.llm_request" in attributes:
        return parse_text(attributes["gcp.vertex.agent.llm_request"])
    items = objects(value) if isinstance(value, list) else objects(obj(value).get("messages"))
    tools = [item["content"] for item in items if item.get("role") == "tool" and _defines(item.get("content"))]
    if not tools:
        return [_unwrap_results(item) for item in value] if isinstance(value, list) else value
    kept: list[Json] = [item for item in items if not (item.get("role") == "tool" and _defines(item.get("content")))]
    return {**obj(value), "messages": kept, "tools": tools}


def _unwrap_results(item: Json) -> Json:
    """Return a message whose tool results have no envelope."""
    parts = objects(obj(item).get("parts"))
    if not any(part.get("type") == "tool_call_response" for part in parts):
        return item
    return {
        **obj(item),
        "parts": [
            {**part, "response": _strip_envelope(parse_text(part.get("response", part.get("result"))))}
            if part.get("type") == "tool_call_response"
            else part
            for part in parts
        ],
    }


def _defines(content: Json) -> bool:
    fields = obj(content)
    return fields.get("type") == "function" and isinstance(fields.get("function"), dict)


def _add_echoed(request: Json, answer: Json) -> Json:
    """Return a request for a response, with the instructions and tools that the response repeats."""
    reply = obj(answer)
    if reply.get("object") != "response" or not isinstance(request, list | str):
        return request
    return {"input": request, **{name: reply[name] for name in ("instructions", "tools", "model") if reply.get(name)}}


def _parameters(row: JsonObject) -> JsonObject:
    parameters = {name: _parse_parameter(value) for name, value in langfuse_rows.table(row, "modelParameters").items()}
    return {
        name: value
        for name, value in parameters.items()
        if name in _PARAMETERS and value not in (None, [], {}, "") and value not in _UNSET.get(name, ())
    }


def _parse_parameter(value: Json) -> Json:
    """Return the value of a parameter, which may have been made a text."""
    return parse_text(value) if isinstance(value, str) and value != "Infinity" else value


_LOST = (
    "Langfuse keeps of a call what its integration read of it: fingerprint, finish reason, response id and the request "
    "as it was sent are lost wherever the framework's own attributes do not hold them"
)
_INVENTED = "Langfuse writes a value for parameters that nobody set; at these values they are left out: {names}"
_DEPLOYED = ("release", "version", "environment")
_OTEL = ("attributes", "resourceAttributes", "scope")
_HINT = (
    "export it with input and output (GET /api/public/traces/ID, or fields=core,basic,io of the observations), without "
    "`mask`, and with capture of both left on (LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED)"
)
_IDS = "it names its observations by id alone: get it with GET /api/public/traces/ID, which holds them whole"


def _is_langfuse(opened: Opened) -> bool:
    return langfuse_rows.holds_observations(opened.rows[:SNIFFED])


def _read_runs(opened: Opened, beside: Iterable[Opened] = ()) -> Iterator[Trace]:
    traces: dict[str, JsonObject] = {}
    observations: dict[str, JsonObject] = {}
    as_is: set[str] = set()
    for file in (opened, *beside):
        file_traces, rows = langfuse_rows.read_rows(file.rows)
        traces |= file_traces
        observations |= rows
        as_is |= rows.keys() if langfuse_rows.are_decoded(rows.values()) else set()
    only = next(iter(traces)) if len(traces) == 1 else ""
    groups = group_by(observations.values(), lambda row: string(row.get("traceId")) or only)
    for trace_id in dict.fromkeys((*traces, *groups)):
        seen = sorted(groups.get(trace_id, []), key=lambda row: moment(row.get("startTime")) or 0)
        trace = traces.get(trace_id, {})
        if not any(string(row["id"]) in as_is for row in seen):
            seen, trace = [*map(langfuse_rows.decode_sides, seen)], langfuse_rows.decode_sides_twice(trace)
        yield _read_run(trace_id, trace, seen, opened.file)


def _read_run(trace_id: str, trace: JsonObject, observations: list[JsonObject], file: str) -> Trace:
    if not observations and arr(trace.get("observations")):
        raise TraceIncomplete(_IDS, file=file, place=f"trace {trace_id}")
    root = root_of(observations, "id", "parentObservationId")
    failed = span_facts.fault(root.get("statusMessage")) if root.get("level") == "ERROR" else None
    ends = [root.get(side) for side in ("input", "output")]
    own = [trace.get(side) for side in ("input", "output")]
    taken = all(value is None or value == end for value, end in zip(own, ends, strict=True))
    names = dict.fromkeys(name for observation in observations for name in _list_invented(observation))
    scope = obj(langfuse_rows.table(root, "metadata").get("scope"))
    version = f"{string(scope.get('name'))} {string(scope.get('version'))}".strip()
    return make_run(
        [_read_span(row) for row in observations],
        PlatformSpan(id=string(root.get("id")) if taken else ""),
        Source(format="langfuse", version=version, file=file, id=trace_id),
        hint=_HINT,
        name=string(trace.get("name")) or string(root.get("name")),
        status="error" if root.get("level") == "ERROR" else "ok" if root.get("endTime") else "",
        started=moment(trace.get("timestamp")),
        tags=span_facts.texts(trace.get("tags")),
        input=bodies.read_input(ends[0] if own[0] is None else own[0]),
        output=bodies.read_output(ends[1] if own[1] is None else own[1]),
        fault=failed,
        grades=langfuse_rows.scores(trace),
        losses=(_LOST, *([_INVENTED.format(names=", ".join(names))] if names else [])),
        **span_facts.about(
            _read_metadata(trace) | {name: trace[name] for name in _DEPLOYED if trace.get(name)},
            *map(_read_metadata, observations),
            user=string(trace.get("userId")),
            session=string(trace.get("sessionId")),
        ),
    )


def _read_metadata(row: JsonObject) -> JsonObject:
    """Return the metadata of a trace or an observation, without what OpenTelemetry writes of itself."""
    return rest(langfuse_rows.table(row, "metadata"), *_OTEL)


LANGFUSE = Format("langfuse", "traces of Langfuse", 9, _is_langfuse, _read_runs, together="langfuse")
