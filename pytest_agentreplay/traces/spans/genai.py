"""Attributes of the OTel GenAI conventions, old and new names alike: `gen_ai.*`; those of OpenLLMetry and of Langfuse.

The messages stand in attributes as JSON text or as real arrays; where log records hold them, `content` has put them
into the attributes of their span before this reads it. OpenLLMetry has older names of its own, and `traceloop.*` around
them. The SDK of Langfuse writes `langfuse.observation.*`, each value a text of JSON, and `langfuse.trace.*`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string, unique
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.spans import content
from pytest_agentreplay.traces.spans.attributes import (
    at,
    dialect,
    finish_reason,
    named,
    number,
    parameters,
    text,
    tree,
    under,
    usage_under,
    words,
)
from pytest_agentreplay.traces.spans.span import Family, placed
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.spans.span import Kind, Span

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
    held = span.attributes
    operation = text(held, "gen_ai.operation.name", "llm.request.type")
    if operation:
        return _KINDS.get(operation, "other")
    if text(held, "gen_ai.tool.name"):
        return "tool"
    if text(held, "gen_ai.request.model") and text(held, *_PROVIDER):
        return "model"
    return "agent" if text(held, "gen_ai.agent.name", "gen_ai.workflow.name") else ""


def model_call(span: Span) -> ModelCall:
    """A model call; its messages are empty where capturing them was off."""
    held = span.attributes
    provider = named(text(held, *_PROVIDER))
    spoken = dialect(provider, text(held, "openai.api.type", "gen_ai.openai.api.type"))
    told = _whole(tree(held, "gen_ai.output.messages", "gen_ai.completion"))
    reasons = _finish_reasons(held, told, spoken)
    asked = _whole(tree(held, "gen_ai.input.messages", "gen_ai.prompt"))
    return ModelCall(
        provider=provider,
        dialect=spoken,
        operation=text(held, "gen_ai.operation.name", "llm.request.type") or "chat",
        model=text(held, "gen_ai.request.model", "gen_ai.response.model"),
        parameters=parameters(spoken, _parameters(held)),
        messages=genai.joined(
            (*content.instructions(tree(held, "gen_ai.system_instructions")), *content.messages(asked))
        ),
        tools=tools(tree(held, "gen_ai.tool.definitions", "gen_ai.request.tools", "llm.request.functions")),
        reply=content.reply(told, next(iter(reasons), "")),
        response_model=text(held, "gen_ai.response.model"),
        response_id=text(held, "gen_ai.response.id"),
        fingerprint=text(held, *_FINGERPRINT),
        finish_reasons=reasons,
        usage=usage_under(held, "gen_ai.usage."),
        stream=str(at(held, "gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming")).lower() == "true",
        **placed(span),
    )


def tools(found: Json) -> tuple[JsonObject, ...]:
    """Tool definitions, a list or each in a text of its own."""
    read = [obj(genai.parsed(one)) for one in arr(found)]
    defined = genai.tools([{name: genai.parsed(value) for name, value in one.items()} for one in read])
    return tuple(tool for tool in defined if tool["name"])


def tool_run(span: Span) -> ToolRun:
    """The execution of a tool. Arguments and result are there only where capturing them was on."""
    held = span.attributes
    result = at(held, "gen_ai.tool.call.result", "gen_ai.tool.output", "tool_response")
    result = _in_events(held, "gen_ai.output.messages") if result is None else result
    named = text(held, "gen_ai.tool.name") or span.name.removeprefix("execute_tool").strip()
    return ToolRun(
        name=named,
        call_id=text(held, "gen_ai.tool.call.id"),
        arguments=tree(held, "gen_ai.tool.call.arguments", "gen_ai.tool.input", "tool_arguments")
        or _in_events(held, "gen_ai.input.messages"),
        result=UNKNOWN if result is None else genai.parsed(result),
        **placed(span),
    )


def _in_events(held: JsonObject, name: str) -> Json:
    """What a tool was asked, or gave, where it is told as messages are: Strands does so."""
    first = next(iter(objects(tree(held, name))), {})
    part = next(iter(objects(first.get("parts"))), first)
    told = next((part[one] for one in ("arguments", "response", "content") if part.get(one) is not None), None)
    only = objects(told)[0] if isinstance(told, list) and len(objects(told)) == 1 else {}
    return genai.parsed(next((only[one] for one in ("text", "json", "content") if one in only), told))


def ends(span: Span) -> tuple[Json, Json]:
    """The text with which an agent was asked, and that of its answer."""
    asked = content.messages(tree(span.attributes, "gen_ai.input.messages"))
    told = content.reply(tree(span.attributes, "gen_ai.output.messages"))
    final = genai.parsed(at(span.attributes, "final_result"))
    return _only_text(asked[-1:]), _only_text([told] if told else []) or final


def _whole(found: Json) -> Json:
    """Return messages, unless an exporter cut them short."""
    return None if content.cut_short(found) else found


def _only_text(messages: tuple[JsonObject, ...] | list[JsonObject]) -> Json:
    spoken = [part for message in messages for part in arr(message["parts"]) if isinstance(part, dict)]
    if not spoken or any(part["type"] not in {"text", "reasoning"} for part in spoken):
        return None
    return "\n".join(string(part["content"]) for part in spoken if part["type"] == "text") or None


def _parameters(held: JsonObject) -> JsonObject:
    given = under(held, "gen_ai.request.") | under(held, "gen_ai.openai.request.") | under(held, "openai.request.")
    return {name: number(value) for name, value in given.items() if name not in _NO_PARAMETER}


def _finish_reasons(held: JsonObject, told: Json, spoken: str) -> tuple[str, ...]:
    listed = words(tree(held, "gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"))
    listed = listed or tuple(string(one.get("finish_reason")) for one in arr(told) if isinstance(one, dict))
    return unique(finish_reason(spoken, word) for word in listed)


GENAI = Family(
    *("genai", kind, model_call, tool_run, ends),
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
    told = text(span.attributes, "traceloop.span.kind")
    if told:
        return _TRACELOOP_KINDS.get(told, "other")
    ours = any(name.startswith(("traceloop.", *_OLD)) for name in span.attributes)
    return kind(span) if ours else ""


def _traceloop_tool_run(span: Span) -> ToolRun:
    """The execution of a tool: the arguments that were given by name, or those that the model asked with."""
    held = span.attributes
    if at(held, "traceloop.entity.input", "traceloop.entity.output", "traceloop.span.kind") is None:
        return tool_run(span)
    given = obj(genai.parsed(at(held, "traceloop.entity.input")))
    result = genai.parsed(at(held, "traceloop.entity.output"))
    known = tool_run(span)
    return replace(
        known,
        name=text(held, "traceloop.entity.name", "gen_ai.tool.name") or span.name.removesuffix(".tool"),
        arguments=_traceloop_arguments(given) if given else known.arguments,
        result=known.result if result is None else _traceloop_result(result),
        **placed(span),
    )


def _traceloop_ends(span: Span) -> tuple[Json, Json]:
    """What the workflow was called with, and what it returned."""
    held = span.attributes
    given = genai.parsed(at(held, "traceloop.entity.input"))
    told = genai.parsed(at(held, "traceloop.entity.output"))
    return bodies.given(given), bodies.final(told)


def _traceloop_arguments(given: JsonObject) -> Json:
    """The arguments, without what callbacks of LangChain put around them."""
    if isinstance(given.get("inputs"), dict):
        return given["inputs"]
    if "input_str" in given:
        return genai.parsed(given["input_str"])
    return given


def _traceloop_result(told: Json) -> Json:
    """What a tool gave; LangChain's callbacks wrap it in a message."""
    if isinstance(told, dict) and "output" in told and told.keys() <= {"output", "kwargs"}:
        told = genai.parsed(told["output"])
    inner = obj(obj(told).get("kwargs"))
    return genai.parsed(inner["content"]) if obj(told).get("lc") and "content" in inner else told


OPENLLMETRY = Family(
    *("openllmetry", _traceloop_kind, model_call, _traceloop_tool_run, _traceloop_ends),
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
    told = text(span.attributes, f"{_LANGFUSE}.type").lower()
    return _LANGFUSE_KINDS.get(told, "other") if told else ""


def _langfuse_model_call(span: Span) -> ModelCall:
    """A generation: its input is a list of messages, the arguments of a call, or a text."""
    held = span.attributes
    model, used = text(held, f"{_LANGFUSE}.model.name"), span_facts.usage(tree(held, f"{_LANGFUSE}.usage_details"))
    given = rest(obj(tree(held, f"{_LANGFUSE}.model.parameters")), "model")
    asked, told = tree(held, f"{_LANGFUSE}.input"), tree(held, f"{_LANGFUSE}.output")
    spoken: dict[str, Any] = {"provider": "openai", "dialect": "openai_chat"} if span.name.startswith("OpenAI-") else {}
    read = bodies.model_call(asked, told, parameters=given, usage=used, response_model=model, **spoken, **placed(span))
    return replace(read, model=read.model or model)


def _langfuse_tool_run(span: Span) -> ToolRun:
    """The execution of a tool."""
    held = span.attributes
    result = at(held, f"{_LANGFUSE}.output")
    known = tree(held, f"{_LANGFUSE}.metadata.tool_call_id")
    return ToolRun(
        name=span.name,
        call_id=known if isinstance(known, str) else "",
        arguments=tree(held, f"{_LANGFUSE}.input"),
        result=UNKNOWN if result is None else genai.parsed(result),
        **placed(span),
    )


def _langfuse_ends(span: Span) -> tuple[Json, Json]:
    """What went into the observation and came out; the trace's own word wins."""
    held = span.attributes
    asked = tree(held, "langfuse.trace.input", f"{_LANGFUSE}.input")
    return bodies.given(asked), bodies.final(tree(held, "langfuse.trace.output", f"{_LANGFUSE}.output"))


LANGFUSE = Family(
    *("langfuse", _langfuse_kind, _langfuse_model_call, _langfuse_tool_run, _langfuse_ends),
    losses=(
        "the name of the model is that of the reply; response id, fingerprint and finish reason are not recorded",
        "parameters hold defaults that were never sent (top_p, frequency_penalty, presence_penalty, service_tier)",
    ),
)
