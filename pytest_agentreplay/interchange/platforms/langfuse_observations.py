"""An observation of Langfuse as a model call, a tool or an agent, by the framework that made it.

Frameworks that speak OpenTelemetry leave their own attributes in `metadata.attributes`: these say best what it is. The
others are known by the type that Langfuse gave, by the form of the output, and by names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.genai import parsed
from pytest_agentreplay.dialects.lenient import obj, objects, string
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.platforms import bodies, faults, langfuse_rows, langfuse_tools, usage
from pytest_agentreplay.interchange.platforms.tree import TreeSpan
from pytest_agentreplay.interchange.spans import genai as conventions
from pytest_agentreplay.interchange.spans import openinference
from pytest_agentreplay.interchange.spans.merging import fill_up
from pytest_agentreplay.interchange.spans.span import Span as OtelSpan
from pytest_agentreplay.interchange.trace import ModelCall

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_AGENT_NAME = re.compile(r"^(?:invoke_agent|agent_run|create_agent)\s+\[?(.+?)\]?$", re.IGNORECASE)
_MODEL_NAMES = frozenset({"call_llm"})
_PARAMETERS = frozenset(
    {
        *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed", "stop"),
        *("frequency_penalty", "presence_penalty", "n", "tool_choice", "response_format", "reasoning_effort", "stream"),
        *("stop_sequences", "parallel_tool_calls"),
    }
)
_INVENTED: dict[str, tuple[Json, ...]] = {
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


def span(told: JsonObject, *, as_is: bool) -> TreeSpan:
    """An observation as a span. `as_is` says that values in the file are no JSON texts."""
    noted = langfuse_rows.table(told, "metadata")
    held = obj(noted.get("attributes")) | {name: one for name, one in noted.items() if "." in name}
    kind = _kind(told, held, as_is=as_is)
    run = langfuse_tools.tool_run(told, noted, held, as_is=as_is)
    call = _model_call(told, noted, held, as_is=as_is) if kind == "model" else None
    return TreeSpan(
        id=string(told.get("id")),
        parent=string(told.get("parentObservationId")),
        agent=_agent(told, held) if kind == "agent" else "",
        started=moment(told.get("startTime")),
        ended=moment(told.get("endTime")),
        step=run if kind == "tool" else call,
        tool=run if kind == "" else None,
    )


def invented(told: JsonObject) -> list[str]:
    """The parameters of an observation that nobody may have set."""
    given = langfuse_rows.table(told, "modelParameters")
    return [name for name, value in given.items() if name in _INVENTED and _plain(value) in _INVENTED[name]]


def _kind(told: JsonObject, held: JsonObject, *, as_is: bool) -> str:
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
    if kind == "TOOL" or langfuse_tools.told(told, held, langfuse_rows.value(told, "output", as_is=as_is)):
        return "tool"
    if kind == "AGENT" or own == "agent" or _AGENT_NAME.match(name):
        return "agent"
    return "model" if kind == "GENERATION" else "" if kind in {"SPAN", "CHAIN"} else kind


def _agent(told: JsonObject, held: JsonObject) -> str:
    name = string(told.get("name"))
    found = _AGENT_NAME.match(name)
    return string(held.get("gen_ai.agent.name")) or string(held.get("graph.node.id")) or (found[1] if found else name)


def _model_call(told: JsonObject, noted: JsonObject, held: JsonObject, *, as_is: bool) -> ModelCall:
    """A call by what Langfuse shows of it, and by the attributes that it was made of."""
    asked = _asked(langfuse_rows.value(told, "input", as_is=as_is), held)
    answer = langfuse_rows.value(told, "output", as_is=as_is)
    answer = parsed(held["gcp.vertex.agent.llm_response"]) if "gcp.vertex.agent.llm_response" in held else answer
    model = string(told.get("model"))
    shown = bodies.model_call(
        _echoed(asked, answer),
        answer or None,
        response_model=model.rpartition("/")[2],
        parameters=_parameters(told),
        provider=string(noted.get("ls_provider")),
        usage=usage.usage(langfuse_rows.table(told, "usageDetails"), told.get("usage")),
        **faults.call_fields(langfuse_tools.fault(told)),
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
    """A request, with the tool definitions that LangChain's handler put among its messages in their own place."""
    if "gcp.vertex.agent.llm_request" in held:
        return parsed(held["gcp.vertex.agent.llm_request"])
    items = objects(given) if isinstance(given, list) else objects(obj(given).get("messages"))
    tools = [one["content"] for one in items if one.get("role") == "tool" and _defines(one.get("content"))]
    if not tools:
        return [_unwrapped(one) for one in given] if isinstance(given, list) else given
    kept: list[Json] = [one for one in items if not (one.get("role") == "tool" and _defines(one.get("content")))]
    return {**obj(given), "messages": kept, "tools": tools}


def _unwrapped(item: Json) -> Json:
    """A message whose tool results have no envelope."""
    parts = objects(obj(item).get("parts"))
    if not any(part.get("type") == "tool_call_response" for part in parts):
        return item
    return {
        **obj(item),
        "parts": [
            {**part, "response": langfuse_tools.bare(parsed(part.get("response", part.get("result"))))}
            if part.get("type") == "tool_call_response"
            else part
            for part in parts
        ],
    }


def _defines(content: Json) -> bool:
    told = obj(content)
    return told.get("type") == "function" and isinstance(told.get("function"), dict)


def _echoed(asked: Json, answer: Json) -> Json:
    """A request for a response, with the instructions and tools that the response repeats."""
    told = obj(answer)
    if told.get("object") != "response" or not isinstance(asked, list | str):
        return asked
    return {"input": asked, **{name: told[name] for name in ("instructions", "tools", "model") if told.get(name)}}


def _parameters(told: JsonObject) -> JsonObject:
    given = {name: _plain(value) for name, value in langfuse_rows.table(told, "modelParameters").items()}
    return {
        name: value
        for name, value in given.items()
        if name in _PARAMETERS and value not in (None, [], {}, "") and value not in _INVENTED.get(name, ())
    }


def _plain(value: Json) -> Json:
    """A parameter, which may have been made a text."""
    return parsed(value) if isinstance(value, str) and value != "Infinity" else value
