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
from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.genai import parsed
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string
from pytest_agentreplay.traces.chains import fill_up
from pytest_agentreplay.traces.formats import Format, grouped
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, langfuse_rows, library_messages, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, TreeSpan, make_run, root_of
from pytest_agentreplay.traces.spans import genai as conventions
from pytest_agentreplay.traces.spans import openinference
from pytest_agentreplay.traces.spans.attributes import at, text
from pytest_agentreplay.traces.spans.span import Span as OtelSpan
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, TraceFault

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


def _is_tool(observation: JsonObject, held: JsonObject, output: Json) -> bool:
    """Whether a name, an attribute of a framework (`held`), or the message of a tool says that it is a tool."""
    named = _TOOL_NAME.match(string(observation.get("name"))) is not None
    return named or any(name in held for name in (*_NAMES, *_ARGUMENTS)) or library_messages.kind(output) == "tool"


def _failure(observation: JsonObject) -> TraceFault | None:
    """The error of an observation."""
    if observation.get("level") != "ERROR":
        return None
    return span_facts.fault(observation.get("statusMessage")) or TraceFault()


def _tool_run(told: JsonObject, noted: JsonObject, held: JsonObject) -> ToolRun:
    """The run; `noted` is the observation's metadata, `held` the attributes of a framework in it."""
    output = told.get("output")
    said = library_messages.fields(output) if library_messages.kind(output) == "tool" else {}
    kept = at(held, *_RESULTS)
    failed = _failure(told) or (span_facts.fault(said.get("content")) if said.get("status") == "error" else None)
    result = _bare(bodies.told(output if output is not None else kept))
    named = _TOOL_NAME.match(string(told.get("name")))
    return ToolRun(
        name=text(held, *_NAMES) or string(said.get("name")) or (named[1] if named else string(told.get("name"))),
        call_id=text(held, *_CALL_IDS) or string(said.get("tool_call_id")) or string(noted.get("tool_call_id")),
        arguments=_arguments(told, noted, held),
        result=UNKNOWN if result is None or (failed is not None and not said) else result,
        fault=failed,
    )


def _bare(given: Json) -> Json:
    """Return a result without the envelope of Microsoft's agent framework, or of the ADK, around it."""
    told = obj(given)
    if told.get("type") == "function_result" and "result" in told:
        return parsed(told["result"])
    if set(told) == {"id", "name", "response"}:
        return parsed(told["response"])
    return given


def _arguments(told: JsonObject, noted: JsonObject, held: JsonObject) -> Json:
    """The arguments: from the attributes, as LangChain's handler noted them, else the input."""
    kept = at(held, *_ARGUMENTS)
    if kept is not None:
        return parsed(kept)
    given = told.get("input")
    if isinstance(given, str) and isinstance(noted.get("inputs"), dict):
        return noted["inputs"]
    read = bodies.literal(given) if isinstance(given, str) else given
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


def _span(told: JsonObject) -> TreeSpan:
    """Return an observation as a span."""
    noted = langfuse_rows.table(told, "metadata")
    held = obj(noted.get("attributes")) | {name: one for name, one in noted.items() if "." in name}
    kind = _kind(told, held)
    tool = _tool_run(told, noted, held)
    call = _model_call(told, noted, held) if kind == "model" else None
    return TreeSpan(
        id=string(told.get("id")),
        parent=string(told.get("parentObservationId")),
        agent=_agent(told, held) if kind == "agent" else "",
        started=moment(told.get("startTime")),
        ended=moment(told.get("endTime")),
        step=tool if kind == "tool" else call,
        tool=tool if kind == "" else None,
    )


def _invented(told: JsonObject) -> list[str]:
    """Return the parameters of an observation that nobody may have set."""
    given = langfuse_rows.table(told, "modelParameters")
    return [name for name, value in given.items() if _plain(value) in _UNSET.get(name, ())]


def _kind(told: JsonObject, held: JsonObject) -> str:
    """What an observation is: "model", "tool", "agent", or "" for what may be a tool by its name."""
    kind, name = string(told.get("type")), string(told.get("name"))
    bare = OtelSpan(id="", attributes=held)
    own = openinference.kind(bare) or conventions.kind(bare)
    if "(merged" in name or "(merged" in string(held.get("gen_ai.tool.name")):
        return "other"  # the ADK tells the results of parallel calls once more
    if own in {"tool", "model"}:
        return own
    if "gcp.vertex.agent.llm_request" in held or (name in _MODEL_NAMES and kind != "GENERATION"):
        return "model"
    if kind == "TOOL" or _is_tool(told, held, told.get("output")):
        return "tool"
    if kind == "AGENT" or own == "agent" or _AGENT_NAME.match(name):
        return "agent"
    return "model" if kind == "GENERATION" else "" if kind in {"SPAN", "CHAIN"} else kind


def _agent(told: JsonObject, held: JsonObject) -> str:
    name = string(told.get("name"))
    found = _AGENT_NAME.match(name)
    return string(held.get("gen_ai.agent.name")) or string(held.get("graph.node.id")) or (found[1] if found else name)


def _model_call(told: JsonObject, noted: JsonObject, held: JsonObject) -> ModelCall:
    """A call by what Langfuse shows of it, and by the attributes that it was made of."""
    asked = _asked(told.get("input"), held)
    answer = told.get("output")
    answer = parsed(held["gcp.vertex.agent.llm_response"]) if "gcp.vertex.agent.llm_response" in held else answer
    model = string(told.get("model"))
    shown = bodies.model_call(
        _echoed(asked, answer),
        answer or None,
        response_model=model.rpartition("/")[2],
        parameters=_parameters(told),
        provider=string(noted.get("ls_provider")),
        usage=span_facts.usage(langfuse_rows.table(told, "usageDetails"), told.get("usage")),
        **span_facts.call_fields(_failure(told)),
    )
    ours = (("gen_ai.input.messages", asked), ("gen_ai.output.messages", answer))
    otel = OtelSpan(id="", attributes={**{name: one for name, one in ours if isinstance(one, list)}, **held})
    if conventions.kind(otel) == "model" and openinference.kind(otel) == "":
        own = _with_tools(_of_responses(conventions.model_call(otel), held), held)
        own = replace(own, parameters=own.parameters | shown.parameters, usage=shown.usage or own.usage)
        return fill_up(own, shown)
    own = openinference.model_call(otel) if openinference.kind(otel) == "model" else ModelCall(model=model)
    own = replace(own, parameters={}, request=None, response=None, status=0)
    made = fill_up(shown, own)
    return made if made.model else replace(made, model=made.response_model)


def _of_responses(call: ModelCall, held: JsonObject) -> ModelCall:
    """A call whose ids are of the Responses API, where the provider keeps what was said before."""
    if not call.response_id.startswith("resp_"):
        return call
    before = string(held.get("gen_ai.conversation.id"))
    kept: JsonObject = {"previous_response_id": before} if before.startswith("resp_") else {}
    return replace(call, dialect="openai_responses", parameters=call.parameters | kept)


def _with_tools(call: ModelCall, held: JsonObject) -> ModelCall:
    """A call of Pydantic AI with the tools that its parameters name."""
    given = objects(obj(parsed(held.get("model_request_parameters"))).get("function_tools"))
    named: list[Json] = [{**one, "parameters": one.get("parameters_json_schema")} for one in given]
    return call if call.tools else replace(call, tools=genai.tools(named))


def _asked(given: Json, held: JsonObject) -> Json:
    """Return a request with the tool definitions that LangChain's handler put among its messages as `tools`."""
    if "gcp.vertex.agent.llm_request" in held:
        return parsed(held["gcp.vertex.agent.llm_request"])
    items = objects(given) if isinstance(given, list) else objects(obj(given).get("messages"))
    tools = [one["content"] for one in items if one.get("role") == "tool" and _defines(one.get("content"))]
    if not tools:
        return [_unwrapped(one) for one in given] if isinstance(given, list) else given
    kept: list[Json] = [one for one in items if not (one.get("role") == "tool" and _defines(one.get("content")))]
    return {**obj(given), "messages": kept, "tools": tools}


def _unwrapped(item: Json) -> Json:
    """Return a message whose tool results have no envelope."""
    parts = objects(obj(item).get("parts"))
    if not any(part.get("type") == "tool_call_response" for part in parts):
        return item
    return {
        **obj(item),
        "parts": [
            {**part, "response": _bare(parsed(part.get("response", part.get("result"))))}
            if part.get("type") == "tool_call_response"
            else part
            for part in parts
        ],
    }


def _defines(content: Json) -> bool:
    told = obj(content)
    return told.get("type") == "function" and isinstance(told.get("function"), dict)


def _echoed(asked: Json, answer: Json) -> Json:
    """Return a request for a response, with the instructions and tools that the response repeats."""
    told = obj(answer)
    if told.get("object") != "response" or not isinstance(asked, list | str):
        return asked
    return {"input": asked, **{name: told[name] for name in ("instructions", "tools", "model") if told.get(name)}}


def _parameters(told: JsonObject) -> JsonObject:
    given = {name: _plain(value) for name, value in langfuse_rows.table(told, "modelParameters").items()}
    return {
        name: value
        for name, value in given.items()
        if name in _PARAMETERS and value not in (None, [], {}, "") and value not in _UNSET.get(name, ())
    }


def _plain(value: Json) -> Json:
    """Return the value of a parameter, which may have been made a text."""
    return parsed(value) if isinstance(value, str) and value != "Infinity" else value


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


def _fits(opened: Opened) -> bool:
    return langfuse_rows.fits(opened.rows[:SNIFFED])


def _read(opened: Opened, beside: Iterable[Opened] = ()) -> Iterator[Trace]:
    traces: dict[str, JsonObject] = {}
    observations: dict[str, JsonObject] = {}
    as_is: set[str] = set()
    for file in (opened, *beside):
        named, rows = langfuse_rows.read(file.rows)
        traces |= named
        observations |= rows
        as_is |= rows.keys() if langfuse_rows.plain(rows.values()) else set()
    only = next(iter(traces)) if len(traces) == 1 else ""
    groups = grouped(observations.values(), lambda one: string(one.get("traceId")) or only)
    for known in dict.fromkeys((*traces, *groups)):
        seen = sorted(groups.get(known, []), key=lambda one: moment(one.get("startTime")) or 0)
        trace = traces.get(known, {})
        if not any(string(one["id"]) in as_is for one in seen):
            seen, trace = [*map(langfuse_rows.decoded, seen)], langfuse_rows.decoded_twice(trace)
        yield _trace(known, trace, seen, opened.file)


def _trace(known: str, told: JsonObject, found: list[JsonObject], file: str) -> Trace:
    if not found and arr(told.get("observations")):
        raise TraceIncomplete(_IDS, file=file, place=f"trace {known}")
    root = root_of(found, "id", "parentObservationId")
    failed = span_facts.fault(root.get("statusMessage")) if root.get("level") == "ERROR" else None
    ends = [root.get(side) for side in ("input", "output")]
    own = [told.get(side) for side in ("input", "output")]
    taken = all(one is None or one == end for one, end in zip(own, ends, strict=True))
    names = dict.fromkeys(name for one in found for name in _invented(one))
    scope = obj(langfuse_rows.table(root, "metadata").get("scope"))
    version = f"{string(scope.get('name'))} {string(scope.get('version'))}".strip()
    return make_run(
        [_span(row) for row in found],
        Source(format="langfuse", version=version, file=file, id=known),
        hint=_HINT,
        root=string(root.get("id")) if taken else "",
        name=string(told.get("name")) or string(root.get("name")),
        status="error" if root.get("level") == "ERROR" else "ok" if root.get("endTime") else "",
        started=moment(told.get("timestamp")),
        tags=span_facts.texts(told.get("tags")),
        input=bodies.given(ends[0] if own[0] is None else own[0]),
        output=bodies.final(ends[1] if own[1] is None else own[1]),
        fault=failed,
        grades=langfuse_rows.scores(told),
        losses=(_LOST, *([_INVENTED.format(names=", ".join(names))] if names else [])),
        **span_facts.about(
            _noted(told) | {name: told[name] for name in _DEPLOYED if told.get(name)},
            *map(_noted, found),
            user=string(told.get("userId")),
            session=string(told.get("sessionId")),
        ),
    )


def _noted(told: JsonObject) -> JsonObject:
    """Return the metadata of a trace or an observation, without what OpenTelemetry writes of itself."""
    return rest(langfuse_rows.table(told, "metadata"), *_OTEL)


LANGFUSE = Format("langfuse", "traces of Langfuse", 9, _fits, _read, together="langfuse")
