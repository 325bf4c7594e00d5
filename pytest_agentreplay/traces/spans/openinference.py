"""Attributes of OpenInference, which Phoenix and Arize read: `openinference.span.kind`, `input.value`, `llm.*`.

Most instrumentations write the whole request into `input.value` and the whole reply into `output.value`, as JSON. Where
they do, nothing of the bodies is lost; else the attributes spread over `llm.input_messages.0.message.role` tell them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, string
from pytest_agentreplay.providers.messages import langchain_fields, langchain_kind
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.spans import content
from pytest_agentreplay.traces.spans.attributes import (
    dialect,
    find_value,
    grown,
    normalize_provider,
    parameters,
    text,
    tree,
    usage_under,
)
from pytest_agentreplay.traces.spans.genai import tools
from pytest_agentreplay.traces.spans.span import Family, read_step_fields
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun
from pytest_agentreplay.traces.wire import json_call

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.spans.span import Kind, Span

# Names: `openinference.semconv.trace` of openinference-semantic-conventions.
_KINDS: dict[str, Kind] = {"LLM": "model", "TOOL": "tool", "AGENT": "agent", "CHAIN": "chain"}
_NO_PARAMETER = {"model", "model_name", "messages", "tools", "stream", "_type"}


def kind(span: Span) -> Kind:
    """By the kind that the span says it is."""
    kind_name = text(span.attributes, "openinference.span.kind").upper()
    own = kind_name == "LLM" and "._prepare" in span.name  # LlamaIndex marks its method that makes a request as a call
    return _KINDS.get("" if own else kind_name, "other") if kind_name else ""


def model_call(span: Span) -> ModelCall:
    """A model call, from its whole bodies where the span holds them."""
    attributes = span.attributes
    body, output = tree(attributes, "input.value"), tree(attributes, "output.value")
    spread = _spread(span)
    spoken = _spoken(body, output)
    if not spoken:
        return spread
    body_call = json_call(spoken, body, output, **read_step_fields(span))
    return replace(
        body_call,
        provider=spread.provider or body_call.provider,
        response_model=body_call.response_model or spread.response_model,
        usage=body_call.usage or spread.usage,
        status=200 if body_call.response else 0,
        stream=body_call.stream or spread.stream,
    )


def tool_run(span: Span) -> ToolRun:
    """The execution of a tool."""
    attributes = span.attributes
    value = _value(attributes, "input")
    arguments = value if isinstance(value, dict) else tree(attributes, "tool.parameters")
    if isinstance(arguments, dict) and "properties" in arguments and arguments is not value:
        arguments = None  # the schema of the parameters: instrumentations differ
    result = _value(attributes, "output")
    message = langchain_fields(result) if langchain_kind(result) == "tool" else {}
    failed = span_facts.fault(bodies.read_result(result)) if message.get("status") == "error" else None
    return ToolRun(
        name=text(attributes, "tool.name", "tool_call.function.name") or span.name,
        call_id=text(attributes, "tool_call.id", "tool.id") or string(message.get("tool_call_id")),
        arguments=value if arguments is None else arguments,
        result=UNKNOWN if result is None else bodies.read_result(result) if message else result,
        **read_step_fields(span) | {"fault": span.fault or failed},
    )


def ends(span: Span) -> tuple[Json, Json]:
    """What went into the agent and came out, as its span says."""
    return bodies.read_input(_value(span.attributes, "input")), bodies.read_output(_value(span.attributes, "output"))


def _value(attributes: JsonObject, which: str) -> Json:
    """A value that is JSON where its type says so, or where nothing is said and it is an object or a list."""
    value = find_value(attributes, f"{which}.value")
    if value == content.REDACTED:
        return None
    parsed = parse_text(value)
    mime_type = text(attributes, f"{which}.mime_type")
    return parsed if "json" in mime_type or (not mime_type and isinstance(parsed, dict | list)) else value


def _spread(span: Span) -> ModelCall:
    """The call by the attributes that stand apart."""
    attributes = span.attributes
    provider = normalize_provider(text(attributes, "llm.provider", "llm.system"))
    spoken = dialect(provider)
    invocation = obj(tree(attributes, "llm.invocation_parameters"))
    reason = text(attributes, "llm.finish_reason")
    input_messages = [_message(message) for message in _list_members(attributes, "llm.input_messages", "message")]
    output_messages = [_message(message) for message in _list_members(attributes, "llm.output_messages", "message")]
    return ModelCall(
        provider=provider,
        dialect=spoken,
        model=text(attributes, "llm.request.model_name")
        or string(invocation.get("model"))
        or text(attributes, "llm.model_name"),
        parameters=parameters(spoken, {name: invocation[name] for name in invocation if name not in _NO_PARAMETER}),
        messages=content.messages([*input_messages] if input_messages else _plainly(_value(attributes, "input"))),
        tools=tools([tool.get("json_schema") for tool in _list_members(attributes, "llm.tools", "tool")]),
        reply=content.reply(
            [*output_messages] if output_messages else _plainly(_value(attributes, "output"), role="assistant"), reason
        ),
        response_model=text(attributes, "llm.model_name"),
        response_id=string(obj(tree(attributes, "output.value")).get("id")),
        finish_reasons=(reason,) if reason else (),
        usage=usage_under(attributes, "llm.token_count."),
        stream=invocation.get("stream") is True,
        **read_step_fields(span),
    )


def _plainly(value: Json, role: str = "user") -> Json:
    """What the span has as its whole input or output, where no messages stand apart."""
    messages = obj(value).get("messages", value)
    if isinstance(messages, str):
        return {"role": role, "content": messages}
    return messages if objects(messages) and all("role" in message for message in objects(messages)) else None


def _list_members(attributes: JsonObject, name: str, inner: str) -> list[JsonObject]:
    return [obj(obj(grown(member)).get(inner)) for member in objects(tree(attributes, name))]


def _message(fields: JsonObject) -> JsonObject | None:
    """A message of the attributes as one of a chat; None for one that was hidden."""
    blocks = [obj(block.get("message_content")) for block in objects(fields.get("contents"))]
    calls = [obj(call.get("tool_call")) for call in objects(fields.get("tool_calls"))]
    content_value = fields.get("content") or [block for block in map(_block, blocks) if block] or None
    if not calls and content_value in (None, content.REDACTED):
        return None
    return {
        **{name: fields[name] for name in ("role", "tool_call_id", "name") if fields.get(name)},
        "content": content_value,
        **({"tool_calls": [*calls]} if calls else {}),
    }


def _block(block: JsonObject) -> Json:
    words = block.get("text")
    if string(block.get("type")) in {"tool_use", "tool_call"}:
        return None  # it stands among the calls of the message, too
    return {"type": "text", "text": words} if isinstance(words, str) else block or None


def _spoken(body: Json, output: Json) -> str:
    """The API whose whole request and reply these are; "" where they are something else."""
    request, answered = obj(body), obj(output)
    if output is not None and not answered:
        return ""
    if isinstance(request.get("contents"), list) and ("candidates" in answered or not answered):
        return "gemini" if string(request.get("model")) else ""
    if not string(request.get("model")):
        return ""
    if answered.get("object") == "response" or ("input" in request and not answered):
        return "openai_responses"
    if not all("role" in message for message in objects(request.get("messages"))) or not arr(request.get("messages")):
        return ""
    if isinstance(answered.get("choices"), list) or (not answered and "max_tokens" not in request):
        return "openai_chat"
    return "anthropic" if answered.get("type") == "message" else ""


OPENINFERENCE = Family(
    *(kind, model_call, tool_run, ends),
    losses=("headers, request ids and the bytes of bodies are not recorded",),
)
