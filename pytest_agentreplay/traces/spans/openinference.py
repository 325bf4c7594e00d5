"""Attributes of OpenInference, which Phoenix and Arize read: `openinference.span.kind`, `input.value`, `llm.*`.

Most instrumentations write the whole request into `input.value` and the whole reply into `output.value`, as JSON. Where
they do, nothing of the bodies is lost; else the attributes spread over `llm.input_messages.0.message.role` tell them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces.platforms import bodies, library_messages, span_facts
from pytest_agentreplay.traces.spans import content
from pytest_agentreplay.traces.spans.attributes import at, dialect, grown, named, parameters, text, tree, usage_under
from pytest_agentreplay.traces.spans.genai import tools
from pytest_agentreplay.traces.spans.span import Family, placed
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun
from pytest_agentreplay.traces.wire import json_call

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.spans.span import Kind, Span

_KINDS: dict[str, Kind] = {"LLM": "model", "TOOL": "tool", "AGENT": "agent", "CHAIN": "chain"}
_NO_PARAMETER = {"model", "model_name", "messages", "tools", "stream", "_type"}


def kind(span: Span) -> Kind:
    """By the kind that the span says it is."""
    told = text(span.attributes, "openinference.span.kind").upper()
    own = told == "LLM" and "._prepare" in span.name  # LlamaIndex marks its method that makes a request as a call
    return _KINDS.get("" if own else told, "other") if told else ""


def model_call(span: Span) -> ModelCall:
    """A model call, from its whole bodies where the span holds them."""
    held = span.attributes
    body, told = tree(held, "input.value"), tree(held, "output.value")
    spread = _spread(span)
    spoken = _spoken(body, told)
    if not spoken:
        return spread
    whole = json_call(spoken, body, told, **placed(span))
    return replace(
        whole,
        provider=spread.provider or whole.provider,
        response_model=whole.response_model or spread.response_model,
        usage=whole.usage or spread.usage,
        status=200 if whole.response else 0,
        stream=whole.stream or spread.stream,
    )


def tool_run(span: Span) -> ToolRun:
    """The execution of a tool."""
    held = span.attributes
    given = _value(held, "input")
    arguments = given if isinstance(given, dict) else tree(held, "tool.parameters")
    if isinstance(arguments, dict) and "properties" in arguments and arguments is not given:
        arguments = None  # the schema of the parameters: instrumentations differ
    result = _value(held, "output")
    said = library_messages.fields(result) if library_messages.kind(result) == "tool" else {}
    failed = span_facts.fault(bodies.told(result)) if said.get("status") == "error" else None
    return ToolRun(
        name=text(held, "tool.name", "tool_call.function.name") or span.name,
        call_id=text(held, "tool_call.id", "tool.id") or string(said.get("tool_call_id")),
        arguments=given if arguments is None else arguments,
        result=UNKNOWN if result is None else bodies.told(result) if said else result,
        **placed(span) | {"fault": span.fault or failed},
    )


def ends(span: Span) -> tuple[Json, Json]:
    """What went into the agent and came out, as its span says."""
    return bodies.given(_value(span.attributes, "input")), bodies.final(_value(span.attributes, "output"))


def _value(held: JsonObject, which: str) -> Json:
    """A value that is JSON where its type says so, or where nothing is said and it is an object or a list."""
    found = at(held, f"{which}.value")
    if found == content.REDACTED:
        return None
    parsed = genai.parsed(found)
    said = text(held, f"{which}.mime_type")
    return parsed if "json" in said or (not said and isinstance(parsed, dict | list)) else found


def _spread(span: Span) -> ModelCall:
    """The call by the attributes that stand apart."""
    held = span.attributes
    provider = named(text(held, "llm.provider", "llm.system"))
    spoken = dialect(provider)
    given = obj(tree(held, "llm.invocation_parameters"))
    reason = text(held, "llm.finish_reason")
    asked = [_message(one) for one in _listed(held, "llm.input_messages", "message")]
    told = [_message(one) for one in _listed(held, "llm.output_messages", "message")]
    return ModelCall(
        provider=provider,
        dialect=spoken,
        model=text(held, "llm.request.model_name") or string(given.get("model")) or text(held, "llm.model_name"),
        parameters=parameters(spoken, {name: given[name] for name in given if name not in _NO_PARAMETER}),
        messages=content.messages([*asked] if asked else _plainly(_value(held, "input"))),
        tools=tools([one.get("json_schema") for one in _listed(held, "llm.tools", "tool")]),
        reply=content.reply([*told] if told else _plainly(_value(held, "output"), role="assistant"), reason),
        response_model=text(held, "llm.model_name"),
        response_id=string(obj(tree(held, "output.value")).get("id")),
        finish_reasons=(reason,) if reason else (),
        usage=usage_under(held, "llm.token_count."),
        stream=given.get("stream") is True,
        **placed(span),
    )


def _plainly(found: Json, role: str = "user") -> Json:
    """What the span has as its whole input or output, where no messages stand apart."""
    messages = obj(found).get("messages", found)
    if isinstance(messages, str):
        return {"role": role, "content": messages}
    return messages if objects(messages) and all("role" in one for one in objects(messages)) else None


def _listed(held: JsonObject, name: str, inner: str) -> list[JsonObject]:
    return [obj(obj(grown(one)).get(inner)) for one in objects(tree(held, name))]


def _message(one: JsonObject) -> JsonObject | None:
    """A message of the attributes as one of a chat; None for one that was hidden."""
    blocks = [obj(block.get("message_content")) for block in objects(one.get("contents"))]
    calls = [obj(call.get("tool_call")) for call in objects(one.get("tool_calls"))]
    said = one.get("content") or [block for block in map(_block, blocks) if block] or None
    if not calls and said in (None, content.REDACTED):
        return None
    return {
        **{name: one[name] for name in ("role", "tool_call_id", "name") if one.get(name)},
        "content": said,
        **({"tool_calls": [*calls]} if calls else {}),
    }


def _block(block: JsonObject) -> Json:
    words = block.get("text")
    if string(block.get("type")) in {"tool_use", "tool_call"}:
        return None  # it stands among the calls of the message, too
    return {"type": "text", "text": words} if isinstance(words, str) else block or None


def _spoken(body: Json, told: Json) -> str:
    """The API whose whole request and reply these are; "" where they are something else."""
    asked, answered = obj(body), obj(told)
    if told is not None and not answered:
        return ""
    if isinstance(asked.get("contents"), list) and ("candidates" in answered or not answered):
        return "gemini" if string(asked.get("model")) else ""
    if not string(asked.get("model")):
        return ""
    if answered.get("object") == "response" or ("input" in asked and not answered):
        return "openai_responses"
    if not all("role" in one for one in objects(asked.get("messages"))) or not arr(asked.get("messages")):
        return ""
    if isinstance(answered.get("choices"), list) or (not answered and "max_tokens" not in asked):
        return "openai_chat"
    return "anthropic" if answered.get("type") == "message" else ""


OPENINFERENCE = Family(
    *("openinference", kind, model_call, tool_run, ends),
    losses=("headers, request ids and the bytes of bodies are not recorded",),
)
