"""Messages in attributes and events, in whatever form, as those of `providers.messages` under the conventions' names.

The conventions once wrote one event a message (`gen_ai.user.message` ... `gen_ai.choice`); now one record has all of a
call (`gen_ai.client.inference.operation.details`). Some instrumentations keep such events in an attribute of the span.

Frameworks have names of their own: Google's ADK and the AI SDK write the conventions' names for models and usage, and
their own for what was said.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, string
from pytest_agentreplay.providers.messages import (
    ROLES,
    carries_tools,
    join_neighbours,
    normalize_message,
    read_ai_sdk_calls,
)
from pytest_agentreplay.traces.spans.attributes import normalize_provider, text
from pytest_agentreplay.traces.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

REDACTED = "__REDACTED__"


def messages(value: Json) -> tuple[JsonObject, ...]:
    """A list of messages, a text of one, or a single message."""
    items = value if isinstance(value, list) else [value] if value else []
    return join_neighbours(message(item) for item in items if item)


def message(item: Json) -> JsonObject:
    """One message, of the conventions' own form or of a provider's."""
    neutral = normalize_message(_normalize_message(item))
    # The conventions' own form keeps the role as it was written.
    role = ROLES.get(string(neutral["role"]), string(neutral["role"]))
    return {"role": role, "parts": [_part(role, part) for part in objects(neutral["parts"])]}


def instructions(value: Json) -> tuple[JsonObject, ...]:
    """System instructions, which are a text, parts, or messages of their own."""
    if isinstance(value, list) and all("role" in item for item in objects(value)):
        return messages([{**item, "role": "system"} for item in objects(value)])
    parts = value if isinstance(value, list) else [value] if value else []
    plain: list[Json] = [part if isinstance(part, dict) else {"type": "text", "content": part} for part in parts]
    return messages([{"role": "system", "parts": plain}]) if plain else ()


def reply(value: Json, finish: str = "") -> JsonObject | None:
    """The assistant's message among `value`, with its finish reason; None for one that says nothing."""
    first = next(iter(messages(value[:1] if isinstance(value, list) else value)), None)
    if first is None:
        return None
    return {"role": "assistant", "parts": first["parts"], "finish_reason": finish}


def cut_short(value: Json) -> bool:
    """Whether a text was JSON until an exporter cut it."""
    return isinstance(value, str) and value[:1] in {"[", "{"} and isinstance(parse(value), NotJson)


def _normalize_message(item: Json) -> Json:
    """Return a message without empty fields, and with the results of tools where `normalize_message` looks for them."""
    fields = obj(item)
    if not fields:
        return item
    filled: JsonObject = {name: value for name, value in fields.items() if value is not None}
    if string(filled.get("role")) == "tool" and "id" in filled and "tool_call_id" not in filled:
        filled["tool_call_id"] = filled["id"]
    if any(carries_tools(block) for block in objects(filled.get("content"))):
        return filled | {"role": "user"} if filled.get("role") == "tool" else filled
    if string(filled.get("role")) == "tool" and not {"parts", "tool_call_id", "tool_name", "name"} & filled.keys():
        answer: JsonObject = {"type": "tool_call_response", "response": filled.get("content")}
        return {"role": "tool", "parts": [answer]}
    return filled


def _part(role: str, part: JsonObject) -> JsonObject:
    kind = string(part.get("type"))
    if kind == "tool_call_response" or (kind == "text" and role == "tool"):
        value = next((part[name] for name in ("response", "result", "content") if part.get(name) is not None), None)
        name_field = {"name": part["name"]} if string(part.get("name")) else {}
        failed = {"is_error": True} if part.get("is_error") is True else {}
        return {
            "type": "tool_call_response",
            "id": string(part.get("id")),
            **name_field,
            "response": parse_text(value),
            **failed,
        }
    if kind == "tool_call":
        arguments = parse_text(part.get("arguments"))
        return {"type": kind, "id": string(part.get("id")), "name": string(part.get("name")), "arguments": arguments}
    if kind in {"text", "reasoning"}:
        return {"type": kind, "content": string(part.get("content")) or string(part.get("text"))}
    return part if kind == "generic" and "block" in part else {"type": "generic", "block": part}


DETAILS = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"
_MESSAGE = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_KEPT = ("events", "all_messages_events")
_SAID = ("role", "content", "parts", "tool_calls", "tool_call_id", "id", "name")
_CONTENT = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}


def tells(event: SpanEvent) -> bool:
    """Whether an event says something of a model call."""
    return event.name in {DETAILS, CHOICE, *_MESSAGE, *_CONTENT}


def join_events(spans: Iterable[Span], records: Iterable[SpanEvent]) -> list[Span]:
    """Return the spans with what their events and records say; a record without its span gets a span."""
    by_span: defaultdict[tuple[str, str], list[SpanEvent]] = defaultdict(list)
    for record in records:
        if tells(record):
            by_span[record.trace, record.span].append(record)
    joined_spans = []
    for span in spans:
        own = [*by_span.pop((span.trace, span.id), ()), *filter(tells, span.events)] or _list_kept_events(
            span.attributes
        )
        joined_spans.append(replace(span, attributes=_attributes(own) | span.attributes) if own else span)
    return [
        *joined_spans,
        *(made for (trace, span_id), group in by_span.items() for made in _make_spans(trace, span_id, group)),
    ]


def _make_spans(trace: str, span_id: str, group: list[SpanEvent]) -> list[Span]:
    """Return a span for records alone; records that name none are one call each."""
    if not span_id:
        details = [event for event in group if event.name == DETAILS]
        return [_alone(trace, f"{number}", [event]) for number, event in enumerate(details, 1)]
    return [_alone(trace, span_id, group)]


def _alone(trace: str, span_id: str, group: list[SpanEvent]) -> Span:
    times = [event.at for event in group if event.at is not None]
    plain: JsonObject = {"gen_ai.operation.name": "chat"}
    for event in group:
        plain |= {name: value for name, value in event.attributes.items() if name.startswith("gen_ai.")}
    return Span(
        trace=trace,
        id=span_id,
        started=min(times, default=None),
        ended=max(times, default=None),
        attributes=plain | _attributes(group),
    )


def _attributes(events: Iterable[SpanEvent]) -> JsonObject:
    attributes: JsonObject = {}
    input_messages: list[Json] = []
    output_messages: list[Json] = []
    ordered = sorted(events, key=lambda event: event.at or 0)
    for event in ordered:
        if event.name == DETAILS:
            attributes |= event.attributes
        elif event.name in _CONTENT:
            name = _CONTENT[event.name]
            attributes |= {name: event.attributes[name]} if name in event.attributes else {}
        elif event.name == CHOICE and (message := _choice(_body(event))):
            output_messages.append(message)
        elif (role := _MESSAGE.get(event.name)) and (message := _read_message(_body(event), role)):
            input_messages.append(message)
    attributes |= {"gen_ai.input.messages": input_messages} if input_messages else {}
    attributes |= {"gen_ai.output.messages": output_messages} if output_messages else {}
    return attributes


def _body(event: SpanEvent) -> JsonObject:
    """What the event says: its body, or JSON in an attribute, or the attributes themselves."""
    written = parse_text(text(event.attributes, "gen_ai.event.content"))
    return obj(event.body) or obj(written) or {name: parse_text(value) for name, value in event.attributes.items()}


def _read_message(body: JsonObject, role: str) -> JsonObject | None:
    """Return a message; None where content was not captured."""
    fields = {name: body[name] for name in _SAID if body.get(name) is not None}
    calls = [call for call in objects(fields.get("tool_calls")) if "arguments" in obj(call.get("function"))]
    if not calls and not fields.get("content") and not fields.get("parts"):
        return None
    return {"role": role, **fields}


def _choice(body: JsonObject) -> JsonObject | None:
    message = obj(body.get("message")) or {name: body.get(name) for name in ("content", "tool_calls", "parts")}
    if isinstance(body.get("message"), list | str):  # Strands puts the blocks of Converse in its place
        message = {"content": body["message"]}
    reply_message = _read_message(message, "assistant")
    return reply_message and {**reply_message, "finish_reason": string(body.get("finish_reason"))}


def _list_kept_events(attributes: JsonObject) -> list[SpanEvent]:
    """Return the events that an instrumentation wrote into one attribute of the span."""
    kept = [event for name in _KEPT for event in objects(parse_text(attributes.get(name)))]
    return [SpanEvent(name=string(event.get("event.name")), body=event) for event in kept]


_ADK = "gcp.vertex.agent."
_OPERATIONS = (("doGenerate", "chat"), ("doStream", "chat"), ("toolCall", "execute_tool"), ("Text", "invoke_agent"))
_AI_SDK = {
    "ai.toolCall.name": "gen_ai.tool.name",
    "ai.toolCall.id": "gen_ai.tool.call.id",
    "ai.toolCall.args": "gen_ai.tool.call.arguments",
    "ai.toolCall.result": "gen_ai.tool.call.result",
    "ai.telemetry.metadata.userId": "user.id",
    "ai.telemetry.metadata.sessionId": "session.id",
    "ai.telemetry.functionId": "gen_ai.agent.name",
}


def translate_names(attributes: JsonObject) -> JsonObject:
    """Return the attributes, with those that a framework has named otherwise under the conventions' names, too."""
    names = " ".join(attributes)
    own = _adk(attributes) if _ADK in names else _ai_sdk(attributes) if "ai.operationId" in attributes else {}
    return {name: value for name, value in own.items() if value not in (None, "", [])} | attributes


def _adk(attributes: JsonObject) -> JsonObject:
    request = obj(parse_text(attributes.get(f"{_ADK}llm_request")))
    reply_body = obj(parse_text(attributes.get(f"{_ADK}llm_response")))
    config = obj(request.get("config"))
    return {
        "gen_ai.input.messages": request.get("contents"),
        "gen_ai.system_instructions": config.get("system_instruction", config.get("systemInstruction")),
        "gen_ai.tool.definitions": config.get("tools"),
        "gen_ai.output.messages": [reply_body["content"]] if obj(reply_body.get("content")) else None,
        "gen_ai.response.finish_reasons": string(reply_body.get("finish_reason", reply_body.get("finishReason"))),
        "gen_ai.tool.call.arguments": attributes.get(f"{_ADK}tool_call_args"),
        "gen_ai.tool.call.result": attributes.get(f"{_ADK}tool_response"),
        "gen_ai.conversation.id": attributes.get(f"{_ADK}session_id"),
    }


def _ai_sdk(attributes: JsonObject) -> JsonObject:
    operation = string(attributes.get("ai.operationId"))
    prompt = parse_text(attributes.get("ai.prompt.messages")) or obj(parse_text(attributes.get("ai.prompt"))).get(
        "messages"
    )
    calls = read_ai_sdk_calls(attributes.get("ai.response.toolCalls"))
    words = attributes.get("ai.response.text")
    texts: list[Json] = [{"type": "text", "text": words}] if words else []
    answer: JsonObject = {"role": "assistant", "content": [*texts, *calls]}
    provider, _, api = string(attributes.get("ai.model.provider")).partition(".")
    return {name: attributes[old] for old, name in _AI_SDK.items() if old in attributes} | {
        "gen_ai.provider.name": normalize_provider(provider),
        "openai.api.type": api,
        "gen_ai.operation.name": next((name for end, name in _OPERATIONS if operation.endswith(end)), None),
        "gen_ai.input.messages": arr(prompt) or obj(parse_text(attributes.get("ai.prompt"))).get("prompt"),
        "gen_ai.output.messages": [answer] if words or calls else None,
        "gen_ai.tool.definitions": [
            _tool(obj(parse_text(definition))) for definition in arr(attributes.get("ai.prompt.tools"))
        ],
    }


def _tool(definition: JsonObject) -> Json:
    schema = definition.get("inputSchema", definition.get("parameters"))
    return {"name": definition.get("name"), "description": definition.get("description"), "parameters": schema}
