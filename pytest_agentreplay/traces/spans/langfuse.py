"""Attributes of the Langfuse SDK: `langfuse.observation.*`, each value a text of JSON, and `langfuse.trace.*`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import obj, rest
from pytest_agentreplay.traces.platforms import bodies, finals, span_facts
from pytest_agentreplay.traces.spans.attributes import at, text, tree
from pytest_agentreplay.traces.spans.span import Family, placed
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.traces.spans.span import Kind, Span

_KINDS: dict[str, Kind] = {"generation": "model", "tool": "tool", "agent": "agent", "chain": "chain", "span": "chain"}
_AT = "langfuse.observation"


def kind(span: Span) -> Kind:
    """By the type of the observation."""
    told = text(span.attributes, f"{_AT}.type").lower()
    return _KINDS.get(told, "other") if told else ""


def model_call(span: Span) -> ModelCall:
    """A generation: its input is a list of messages, the arguments of a call, or a text."""
    held = span.attributes
    model, used = text(held, f"{_AT}.model.name"), span_facts.usage(tree(held, f"{_AT}.usage_details"))
    given = rest(obj(tree(held, f"{_AT}.model.parameters")), "model")
    asked, told = tree(held, f"{_AT}.input"), tree(held, f"{_AT}.output")
    spoken: dict[str, Any] = {"provider": "openai", "dialect": "openai_chat"} if span.name.startswith("OpenAI-") else {}
    read = bodies.model_call(asked, told, parameters=given, usage=used, response_model=model, **spoken, **placed(span))
    return replace(read, model=read.model or model)


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
    return finals.given(asked), finals.final(tree(held, "langfuse.trace.output", f"{_AT}.output"))


LANGFUSE = Family(
    *("langfuse", kind, model_call, tool_run, ends),
    losses=(
        "the name of the model is that of the reply; response id, fingerprint and finish reason are not recorded",
        "parameters hold defaults that were never sent (top_p, frequency_penalty, presence_penalty, service_tier)",
    ),
)
