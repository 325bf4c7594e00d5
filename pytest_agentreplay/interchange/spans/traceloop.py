"""Attributes of OpenLLMetry: those of the GenAI conventions, older ones of its own, and `traceloop.*` around them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai as dialects_genai
from pytest_agentreplay.dialects.lenient import arr, obj
from pytest_agentreplay.interchange.platforms import finals
from pytest_agentreplay.interchange.spans import genai
from pytest_agentreplay.interchange.spans.dotted_keys import at, text
from pytest_agentreplay.interchange.spans.span import Family, placed

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.spans.span import Kind, Span
    from pytest_agentreplay.interchange.trace import ToolRun

_KINDS: dict[str, Kind] = {"tool": "tool", "agent": "agent", "workflow": "agent", "task": "chain"}
_OLD = ("gen_ai.prompt.", "gen_ai.completion.", "llm.request.", "llm.usage.")


def kind(span: Span) -> Kind:
    """By the kind that the span says it is; a model call by its attributes."""
    told = text(span.attributes, "traceloop.span.kind")
    if told:
        return _KINDS.get(told, "other")
    ours = any(name.startswith(("traceloop.", *_OLD)) for name in span.attributes)
    return genai.kind(span) if ours else ""


def tool_run(span: Span) -> ToolRun:
    """The execution of a tool: the arguments that were given by name, or those that the model asked with."""
    held = span.attributes
    if at(held, "traceloop.entity.input", "traceloop.entity.output", "traceloop.span.kind") is None:
        return genai.tool_run(span)
    given = obj(dialects_genai.parsed(at(held, "traceloop.entity.input")))
    result = dialects_genai.parsed(at(held, "traceloop.entity.output"))
    known = genai.tool_run(span)
    return replace(
        known,
        name=text(held, "traceloop.entity.name", "gen_ai.tool.name") or span.name.removesuffix(".tool"),
        arguments=_arguments(given) if given else known.arguments,
        result=known.result if result is None else _result(result),
        **placed(span),
    )


def ends(span: Span) -> tuple[Json, Json]:
    """What the workflow was called with, the only argument alone, and what it returned."""
    held = span.attributes
    given = dialects_genai.parsed(at(held, "traceloop.entity.input"))
    told = dialects_genai.parsed(at(held, "traceloop.entity.output"))
    if isinstance(given, dict) and given.keys() == {"args", "kwargs"}:
        named, placed_by_order = obj(given["kwargs"]), arr(given["args"])
        given = named if not placed_by_order else given
        given = placed_by_order[0] if len(placed_by_order) == 1 and not named else given
    return finals.given(given), finals.final(told)


def _arguments(given: JsonObject) -> Json:
    """Arguments by name; None where they were given by order, which only the tool's signature could name."""
    if isinstance(given.get("inputs"), dict):
        return given["inputs"]
    if "input_str" in given:
        return dialects_genai.parsed(given["input_str"])
    if "kwargs" in given or "args" in given:
        return None if arr(given.get("args")) else obj(given.get("kwargs"))
    return given


def _result(told: Json) -> Json:
    """What a tool gave; LangChain's callbacks wrap it in a message."""
    if isinstance(told, dict) and "output" in told and told.keys() <= {"output", "kwargs"}:
        told = dialects_genai.parsed(told["output"])
    inner = obj(obj(told).get("kwargs"))
    return dialects_genai.parsed(inner["content"]) if obj(told).get("lc") and "content" in inner else told


OPENLLMETRY = Family(
    *("openllmetry", kind, genai.model_call, tool_run, ends),
    losses=(
        "seed, response_format, tool_choice and headers are not recorded",
        "records of tools have no id: they are joined to the model's calls by name, arguments and order",
    ),
)
