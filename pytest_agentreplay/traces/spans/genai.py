"""Attributes of the OTel GenAI conventions, old and new names alike: `gen_ai.*`; those of OpenLLMetry and of Langfuse.

The messages stand in attributes as JSON text or as real arrays; where log records hold them, `content` has put them
into the attributes of their span before this reads it. OpenLLMetry has older names of its own, and `traceloop.*` around
them. The SDK of Langfuse writes `langfuse.observation.*`, each value a text of JSON, and `langfuse.trace.*`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, rest, string, unique
from pytest_agentreplay.providers.messages import join_neighbours, normalize_tools
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.spans import content
from pytest_agentreplay.traces.spans.attributes import (
    dialect,
    find_value,
    finish_reason,
    normalize_provider,
    number,
    parameters,
    select_prefixed,
    text,
    tree,
    usage_under,
    words,
)
from pytest_agentreplay.traces.spans.span import Family, read_step_fields
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.spans.span import Kind, Span

# Names: docs/gen-ai of github.com/open-telemetry/semantic-conventions, at v1.41.0 and before.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("chat", "generate_content", "text_completion", "completion"), "model"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow", "create_agent"), "agent"),
    "execute_tool": "tool",
}
_PROVIDER = ("gen_ai.provider.name", "gen_ai.system")
_NO_PARAMETER = {"model", "stream", "is_stream"}
_FINGERPRINT = (
    *("openai.response.system_fingerprint", "gen_ai.openai.response.system_fingerprint"),
    *("gen_ai.openai.system_fingerprint", "gen_ai.response.system_fingerprint"),
)


def kind(span: Span) -> Kind:
    """By the operation; before there was one, by the attributes that only one kind has."""
    attributes = span.attributes
    operation = text(attributes, "gen_ai.operation.name", "llm.request.type")
    if operation:
        return _KINDS.get(operation, "other")
    if text(attributes, "gen_ai.tool.name"):
        return "tool"
    if text(attributes, "gen_ai.request.model") and text(attributes, *_PROVIDER):
        return "model"
    return "agent" if text(attributes, "gen_ai.agent.name", "gen_ai.workflow.name") else ""


def model_call(span: Span) -> ModelCall:
    """A model call; its messages are empty where capturing them was off."""
    attributes = span.attributes
    provider = normalize_provider(text(attributes, *_PROVIDER))
    spoken = dialect(provider, text(attributes, "openai.api.type", "gen_ai.openai.api.type"))
    output = _drop_cut_short(tree(attributes, "gen_ai.output.messages", "gen_ai.completion"))
    reasons = _finish_reasons(attributes, output, spoken)
    request = _drop_cut_short(tree(attributes, "gen_ai.input.messages", "gen_ai.prompt"))
    return ModelCall(
        provider=provider,
        dialect=spoken,
        operation=text(attributes, "gen_ai.operation.name", "llm.request.type") or "chat",
        model=text(attributes, "gen_ai.request.model", "gen_ai.response.model"),
        parameters=parameters(spoken, _parameters(attributes)),
        messages=join_neighbours(
            (*content.instructions(tree(attributes, "gen_ai.system_instructions")), *content.messages(request))
        ),
        tools=tools(tree(attributes, "gen_ai.tool.definitions", "gen_ai.request.tools", "llm.request.functions")),
        reply=content.reply(output, next(iter(reasons), "")),
        response_model=text(attributes, "gen_ai.response.model"),
        response_id=text(attributes, "gen_ai.response.id"),
        fingerprint=text(attributes, *_FINGERPRINT),
        finish_reasons=reasons,
        usage=usage_under(attributes, "gen_ai.usage."),
        stream=str(find_value(attributes, "gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming")).lower()
        == "true",
        **read_step_fields(span),
    )


def tools(value: Json) -> tuple[JsonObject, ...]:
    """Tool definitions, a list or each in a text of its own."""
    read = [obj(parse_text(item)) for item in arr(value)]
    defined = normalize_tools([{name: parse_text(value) for name, value in definition.items()} for definition in read])
    return tuple(tool for tool in defined if tool["name"])


def tool_run(span: Span) -> ToolRun:
    """The execution of a tool. Arguments and result are there only where capturing them was on."""
    attributes = span.attributes
    result = find_value(attributes, "gen_ai.tool.call.result", "gen_ai.tool.output", "tool_response")
    result = _in_events(attributes, "gen_ai.output.messages") if result is None else result
    name = text(attributes, "gen_ai.tool.name") or span.name.removeprefix("execute_tool").strip()
    return ToolRun(
        name=name,
        call_id=text(attributes, "gen_ai.tool.call.id"),
        arguments=tree(attributes, "gen_ai.tool.call.arguments", "gen_ai.tool.input", "tool_arguments")
        or _in_events(attributes, "gen_ai.input.messages"),
        result=UNKNOWN if result is None else parse_text(result),
        **read_step_fields(span),
    )


def _in_events(attributes: JsonObject, name: str) -> Json:
    """What a tool was asked, or gave, where it is told as messages are: Strands does so."""
    first = next(iter(objects(tree(attributes, name))), {})
    part = next(iter(objects(first.get("parts"))), first)
    value = next((part[field] for field in ("arguments", "response", "content") if part.get(field) is not None), None)
    only = objects(value)[0] if isinstance(value, list) and len(objects(value)) == 1 else {}
    return parse_text(next((only[field] for field in ("text", "json", "content") if field in only), value))


def ends(span: Span) -> tuple[Json, Json]:
    """The text with which an agent was asked, and that of its answer."""
    asked_messages = content.messages(tree(span.attributes, "gen_ai.input.messages"))
    reply = content.reply(tree(span.attributes, "gen_ai.output.messages"))
    final = parse_text(find_value(span.attributes, "final_result"))
    return _only_text(asked_messages[-1:]), _only_text([reply] if reply else []) or final


def _drop_cut_short(value: Json) -> Json:
    """Return messages, unless an exporter cut them short."""
    return None if content.cut_short(value) else value


def _only_text(messages: tuple[JsonObject, ...] | list[JsonObject]) -> Json:
    spoken = [part for message in messages for part in arr(message["parts"]) if isinstance(part, dict)]
    if not spoken or any(part["type"] not in {"text", "reasoning"} for part in spoken):
        return None
    return "\n".join(string(part["content"]) for part in spoken if part["type"] == "text") or None


def _parameters(attributes: JsonObject) -> JsonObject:
    fields = (
        select_prefixed(attributes, "gen_ai.request.")
        | select_prefixed(attributes, "gen_ai.openai.request.")
        | select_prefixed(attributes, "openai.request.")
    )
    return {name: number(value) for name, value in fields.items() if name not in _NO_PARAMETER}


def _finish_reasons(attributes: JsonObject, output: Json, spoken: str) -> tuple[str, ...]:
    listed = words(tree(attributes, "gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"))
    listed = listed or tuple(string(choice.get("finish_reason")) for choice in arr(output) if isinstance(choice, dict))
    return unique(finish_reason(spoken, word) for word in listed)


GENAI = Family(
    *(kind, model_call, tool_run, ends),
    losses=(
        "arguments are parsed values, their text and the order of their names are lost",
        "of tool definitions name, description and parameters are kept (not `strict`)",
        "response_format, tool_choice, log probabilities and headers are not recorded",
    ),
)


_TRACELOOP_KINDS: dict[str, Kind] = {"tool": "tool", "agent": "agent", "workflow": "agent", "task": "chain"}
_OLD = ("gen_ai.prompt.", "gen_ai.completion.", "llm.request.", "llm.usage.")


def _traceloop_kind(span: Span) -> Kind:
    """Return the kind that the span says it is; that of a model call by its attributes."""
    kind_name = text(span.attributes, "traceloop.span.kind")
    if kind_name:
        return _TRACELOOP_KINDS.get(kind_name, "other")
    ours = any(name.startswith(("traceloop.", *_OLD)) for name in span.attributes)
    return kind(span) if ours else ""


def _traceloop_tool_run(span: Span) -> ToolRun:
    """The execution of a tool: the arguments that were given by name, or those that the model asked with."""
    attributes = span.attributes
    if find_value(attributes, "traceloop.entity.input", "traceloop.entity.output", "traceloop.span.kind") is None:
        return tool_run(span)
    entity_input = obj(parse_text(find_value(attributes, "traceloop.entity.input")))
    result = parse_text(find_value(attributes, "traceloop.entity.output"))
    standard = tool_run(span)
    return replace(
        standard,
        name=text(attributes, "traceloop.entity.name", "gen_ai.tool.name") or span.name.removesuffix(".tool"),
        arguments=_traceloop_arguments(entity_input) if entity_input else standard.arguments,
        result=standard.result if result is None else _traceloop_result(result),
        **read_step_fields(span),
    )


def _traceloop_ends(span: Span) -> tuple[Json, Json]:
    """What the workflow was called with, and what it returned."""
    attributes = span.attributes
    entity_input = parse_text(find_value(attributes, "traceloop.entity.input"))
    entity_output = parse_text(find_value(attributes, "traceloop.entity.output"))
    return bodies.read_input(entity_input), bodies.read_output(entity_output)


def _traceloop_arguments(fields: JsonObject) -> Json:
    """The arguments, without what callbacks of LangChain put around them."""
    if isinstance(fields.get("inputs"), dict):
        return fields["inputs"]
    if "input_str" in fields:
        return parse_text(fields["input_str"])
    return fields


def _traceloop_result(output: Json) -> Json:
    """What a tool gave; LangChain's callbacks wrap it in a message."""
    if isinstance(output, dict) and "output" in output and output.keys() <= {"output", "kwargs"}:
        output = parse_text(output["output"])
    inner = obj(obj(output).get("kwargs"))
    return parse_text(inner["content"]) if obj(output).get("lc") and "content" in inner else output


OPENLLMETRY = Family(
    *(_traceloop_kind, model_call, _traceloop_tool_run, _traceloop_ends),
    losses=(
        "seed, response_format, tool_choice and headers are not recorded",
        "records of tools have no id: they are joined to the model's calls by name, arguments and order",
    ),
)


_LANGFUSE_KINDS: dict[str, Kind] = {
    "generation": "model",
    "tool": "tool",
    "agent": "agent",
    "chain": "chain",
    "span": "chain",
}
_LANGFUSE = "langfuse.observation"


def _langfuse_kind(span: Span) -> Kind:
    """By the type of the observation."""
    kind_name = text(span.attributes, f"{_LANGFUSE}.type").lower()
    return _LANGFUSE_KINDS.get(kind_name, "other") if kind_name else ""


def _langfuse_model_call(span: Span) -> ModelCall:
    """A generation: its input is a list of messages, the arguments of a call, or a text."""
    attributes = span.attributes
    model = text(attributes, f"{_LANGFUSE}.model.name")
    used = span_facts.usage(tree(attributes, f"{_LANGFUSE}.usage_details"))
    fields = rest(obj(tree(attributes, f"{_LANGFUSE}.model.parameters")), "model")
    request, output = tree(attributes, f"{_LANGFUSE}.input"), tree(attributes, f"{_LANGFUSE}.output")
    spoken: dict[str, Any] = {"provider": "openai", "dialect": "openai_chat"} if span.name.startswith("OpenAI-") else {}
    read = bodies.model_call(
        request, output, parameters=fields, usage=used, response_model=model, **spoken, **read_step_fields(span)
    )
    return replace(read, model=read.model or model)


def _langfuse_tool_run(span: Span) -> ToolRun:
    """The execution of a tool."""
    attributes = span.attributes
    result = find_value(attributes, f"{_LANGFUSE}.output")
    call_id = tree(attributes, f"{_LANGFUSE}.metadata.tool_call_id")
    return ToolRun(
        name=span.name,
        call_id=call_id if isinstance(call_id, str) else "",
        arguments=tree(attributes, f"{_LANGFUSE}.input"),
        result=UNKNOWN if result is None else parse_text(result),
        **read_step_fields(span),
    )


def _langfuse_ends(span: Span) -> tuple[Json, Json]:
    """What went into the observation and came out; the trace's own word wins."""
    attributes = span.attributes
    request = tree(attributes, "langfuse.trace.input", f"{_LANGFUSE}.input")
    return bodies.read_input(request), bodies.read_output(
        tree(attributes, "langfuse.trace.output", f"{_LANGFUSE}.output")
    )


LANGFUSE = Family(
    *(_langfuse_kind, _langfuse_model_call, _langfuse_tool_run, _langfuse_ends),
    losses=(
        "the name of the model is that of the reply; response id, fingerprint and finish reason are not recorded",
        "parameters hold defaults that were never sent (top_p, frequency_penalty, presence_penalty, service_tier)",
    ),
)
