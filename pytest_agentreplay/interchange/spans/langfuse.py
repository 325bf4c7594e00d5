"""Attributes of the Langfuse SDK: `langfuse.observation.*`, each value a text of JSON, and `langfuse.trace.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.loose import arr, counts, obj, objects, rest, string
from pytest_agentreplay.interchange.spans import content
from pytest_agentreplay.interchange.spans.dotted import at, text, tree
from pytest_agentreplay.interchange.spans.family import Family, placed
from pytest_agentreplay.interchange.spans.genai import tools
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.spans.family import Kind
    from pytest_agentreplay.interchange.spans.span import Span

_KINDS: dict[str, Kind] = {
    "generation": "model",
    "tool": "tool",
    "agent": "agent",
    "chain": "agent",
    "span": "agent",
    "embedding": "other",
    "retriever": "other",
    "evaluator": "other",
    "guardrail": "other",
    "event": "other",
}
_AT = "langfuse.observation"
_USAGE = {
    "input_tokens": ("prompt_tokens", "input", "input_tokens"),
    "output_tokens": ("completion_tokens", "output", "output_tokens"),
    "cache_read.input_tokens": ("input_cached_tokens", "cache_read_input_tokens"),
    "reasoning.output_tokens": ("output_reasoning_tokens",),
}


def kind(span: Span) -> Kind:
    """By the type of the observation."""
    told = text(span.attributes, f"{_AT}.type").lower()
    return _KINDS.get(told, "other") if told else ""


def model_call(span: Span) -> ModelCall:
    """A generation: its input is a list of messages, the arguments of a call, or a text."""
    held = span.attributes
    asked, told = tree(held, f"{_AT}.input"), tree(held, f"{_AT}.output")
    request = obj(asked)
    request = obj(request.get("kwargs")) or request
    given = obj(tree(held, f"{_AT}.model.parameters"))
    model = text(held, f"{_AT}.model.name")
    return ModelCall(
        model=string(request.get("model")) or model,
        dialect="openai_chat" if span.name.startswith("OpenAI-") else "",
        provider="openai" if span.name.startswith("OpenAI-") else "",
        parameters=rest(given, "model"),
        messages=_messages(asked, request),
        tools=tools(request.get("tools")),
        reply=content.reply(_answer(told)),
        response_model=model,
        usage=_usage(obj(tree(held, f"{_AT}.usage_details"))),
        **placed(span),
    )


def tool_run(span: Span) -> ToolRun:
    """The execution of a tool."""
    held = span.attributes
    result = at(held, f"{_AT}.output")
    known = tree(held, f"{_AT}.metadata.tool_call_id")
    return ToolRun(
        name=span.name,
        call_id=known if isinstance(known, str) else "",
        arguments=tree(held, f"{_AT}.input"),
        result=UNKNOWN if result is None else genai.parsed(result),
        **placed(span),
    )


def ends(span: Span) -> tuple[Json, Json]:
    """What went into the observation and came out; the trace's own word wins."""
    held = span.attributes
    asked = tree(held, "langfuse.trace.input", f"{_AT}.input")
    return asked, tree(held, "langfuse.trace.output", f"{_AT}.output")


def _messages(asked: Json, request: JsonObject) -> tuple[JsonObject, ...]:
    if not request:
        return content.messages(asked)
    found = next((request[name] for name in ("messages", "input", "contents", "prompt") if name in request), None)
    if found is None:
        return content.messages(asked if "role" in request else None)
    system = request.get("system", request.get("instructions"))
    return (*content.instructions(system), *content.messages(found))


def _answer(told: Json) -> Json:
    """A message, or the texts, of whatever was kept as the output."""
    if isinstance(told, str):
        return {"role": "assistant", "content": told}
    choices = objects(obj(told).get("choices"))
    if choices:
        return [choice.get("message") for choice in choices]
    if isinstance(told, list) and any("type" in one and "role" not in one for one in objects(told)):
        return {"role": "assistant", "content": told}
    return told if arr(told) or obj(told) else None


def _usage(usage: JsonObject) -> dict[str, int]:
    details = {
        "input_cached_tokens": obj(usage.get("prompt_tokens_details")).get("cached_tokens"),
        "output_reasoning_tokens": obj(usage.get("completion_tokens_details")).get("reasoning_tokens"),
    }
    known = {**details, **usage}
    return counts((name, next((known[w] for w in words if w in known), None)) for name, words in _USAGE.items())


LANGFUSE = Family(
    *("langfuse", kind, model_call, tool_run, ends),
    losses=(
        "the name of the model is that of the reply; response id, fingerprint and finish reason are not recorded",
        "parameters hold defaults that were never sent (top_p, frequency_penalty, presence_penalty, service_tier)",
    ),
)
