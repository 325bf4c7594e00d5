"""Messages in attributes and events, in whatever form, as those of `providers.genai` under the conventions' names.

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
from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.genai import carries_tools
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces.platforms import library_messages
from pytest_agentreplay.traces.spans.attributes import named, text
from pytest_agentreplay.traces.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

REDACTED = "__REDACTED__"
_ROLES = {"developer": "system", "model": "assistant", "human": "user", "ai": "assistant", "function": "tool"}


def messages(found: Json) -> tuple[JsonObject, ...]:
    """A list of messages, a text of one, or a single message."""
    items = found if isinstance(found, list) else [found] if found else []
    return genai.joined(message(item) for item in items if item)


def message(item: Json) -> JsonObject:
    """One message, of the conventions' own form or of a provider's."""
    told = genai.message(_plain(item))
    role = string(told["role"])
    role = _ROLES.get(role, role)
    return {"role": role, "parts": [_part(role, part) for part in objects(told["parts"])]}


def instructions(found: Json) -> tuple[JsonObject, ...]:
    """System instructions, which are a text, parts, or messages of their own."""
    if isinstance(found, list) and all("role" in one for one in objects(found)):
        return messages([{**one, "role": "system"} for one in objects(found)])
    parts = found if isinstance(found, list) else [found] if found else []
    plain: list[Json] = [part if isinstance(part, dict) else {"type": "text", "content": part} for part in parts]
    return messages([{"role": "system", "parts": plain}]) if plain else ()


def reply(found: Json, finish: str = "") -> JsonObject | None:
    """The assistant's message among `found`, with its finish reason; None for one that says nothing."""
    first = next(iter(messages(found[:1] if isinstance(found, list) else found)), None)
    if first is None:
        return None
    return {"role": "assistant", "parts": first["parts"], "finish_reason": finish}


def cut_short(value: Json) -> bool:
    """Whether a text was JSON until an exporter cut it."""
    return isinstance(value, str) and value[:1] in {"[", "{"} and isinstance(parse(value), NotJson)


def _plain(item: Json) -> Json:
    """Return a message as genai reads it: without empty fields, old shapes of tool calls in the usual one."""
    found = obj(item)
    if not found:
        return item
    told: JsonObject = {name: value for name, value in found.items() if value is not None}
    if calls := [call for call in objects(told.get("tool_calls")) if "function" not in call and "name" in call]:
        told["tool_calls"] = [_call(call) for call in calls]
    if string(told.get("role")) == "tool" and "id" in told and "tool_call_id" not in told:
        told["tool_call_id"] = told["id"]
    if any(carries_tools(block) for block in objects(told.get("content"))):
        return told | {"role": "user"} if told.get("role") == "tool" else told
    if string(told.get("role")) == "tool" and not {"parts", "tool_call_id", "tool_name", "name"} & told.keys():
        answer: JsonObject = {"type": "tool_call_response", "response": told.get("content")}
        return {"role": "tool", "parts": [answer]}
    return told


def _call(call: JsonObject) -> JsonObject:
    arguments = call.get("arguments", call.get("args"))
    return {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": arguments}}


def _part(role: str, part: JsonObject) -> JsonObject:
    kind = string(part.get("type"))
    if kind == "tool_call_response" or (kind == "text" and role == "tool"):
        given = next((part[name] for name in ("response", "result", "content") if part.get(name) is not None), None)
        named = {"name": part["name"]} if string(part.get("name")) else {}
        failed = {"is_error": True} if part.get("is_error") is True else {}
        return {
            "type": "tool_call_response",
            "id": string(part.get("id")),
            **named,
            "response": genai.parsed(given),
            **failed,
        }
    if kind == "tool_call":
        arguments = genai.parsed(part.get("arguments"))
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


def joined(spans: Iterable[Span], records: Iterable[SpanEvent]) -> list[Span]:
    """Return the spans with what their events and records say; a record without its span gets a span."""
    told: defaultdict[tuple[str, str], list[SpanEvent]] = defaultdict(list)
    for record in records:
        if tells(record):
            told[record.trace, record.span].append(record)
    found = []
    for span in spans:
        own = [*told.pop((span.trace, span.id), ()), *filter(tells, span.events)] or _kept(span.attributes)
        found.append(replace(span, attributes=_attributes(own) | span.attributes) if own else span)
    return [*found, *(made for (trace, known), group in told.items() for made in _made(trace, known, group))]


def _made(trace: str, known: str, group: list[SpanEvent]) -> list[Span]:
    """Return a span for records alone; records that name none are one call each."""
    if not known:
        details = [event for event in group if event.name == DETAILS]
        return [_alone(trace, f"{number}", [event]) for number, event in enumerate(details, 1)]
    return [_alone(trace, known, group)]


def _alone(trace: str, known: str, group: list[SpanEvent]) -> Span:
    times = [event.at for event in group if event.at is not None]
    plain: JsonObject = {"gen_ai.operation.name": "chat"}
    for event in group:
        plain |= {name: value for name, value in event.attributes.items() if name.startswith("gen_ai.")}
    return Span(
        trace=trace,
        id=known,
        started=min(times, default=None),
        ended=max(times, default=None),
        attributes=plain | _attributes(group),
    )


def _attributes(events: Iterable[SpanEvent]) -> JsonObject:
    found: JsonObject = {}
    asked: list[Json] = []
    told: list[Json] = []
    ordered = sorted(events, key=lambda event: event.at or 0)
    for event in ordered:
        if event.name == DETAILS:
            found |= event.attributes
        elif event.name in _CONTENT:
            name = _CONTENT[event.name]
            found |= {name: event.attributes[name]} if name in event.attributes else {}
        elif event.name == CHOICE and (message := _choice(_body(event))):
            told.append(message)
        elif (role := _MESSAGE.get(event.name)) and (message := _said(_body(event), role)):
            asked.append(message)
    found |= {"gen_ai.input.messages": asked} if asked else {}
    found |= {"gen_ai.output.messages": told} if told else {}
    return found


def _body(event: SpanEvent) -> JsonObject:
    """What the event says: its body, or JSON in an attribute, or the attributes themselves."""
    written = genai.parsed(text(event.attributes, "gen_ai.event.content"))
    return obj(event.body) or obj(written) or {name: genai.parsed(value) for name, value in event.attributes.items()}


def _said(body: JsonObject, role: str) -> JsonObject | None:
    """Return a message; None where content was not captured."""
    told = {name: body[name] for name in _SAID if body.get(name) is not None}
    calls = [call for call in objects(told.get("tool_calls")) if "arguments" in obj(call.get("function"))]
    if not calls and not told.get("content") and not told.get("parts"):
        return None
    return {"role": role, **told}


def _choice(body: JsonObject) -> JsonObject | None:
    message = obj(body.get("message")) or {name: body.get(name) for name in ("content", "tool_calls", "parts")}
    if isinstance(body.get("message"), list | str):  # Strands puts the blocks of Converse in its place
        message = {"content": body["message"]}
    told = _said(message, "assistant")
    return told and {**told, "finish_reason": string(body.get("finish_reason"))}


def _kept(attributes: JsonObject) -> list[SpanEvent]:
    """Return the events that an instrumentation wrote into one attribute of the span."""
    kept = [one for name in _KEPT for one in objects(genai.parsed(attributes.get(name)))]
    return [SpanEvent(name=string(one.get("event.name")), body=one) for one in kept]


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


def translated(held: JsonObject) -> JsonObject:
    """Return the attributes, with those that a framework has named otherwise under the conventions' names, too."""
    names = " ".join(held)
    found = _adk(held) if _ADK in names else _ai_sdk(held) if "ai.operationId" in held else {}
    return {name: value for name, value in found.items() if value not in (None, "", [])} | held


def _adk(held: JsonObject) -> JsonObject:
    asked = obj(genai.parsed(held.get(f"{_ADK}llm_request")))
    told = obj(genai.parsed(held.get(f"{_ADK}llm_response")))
    config = obj(asked.get("config"))
    return {
        "gen_ai.input.messages": asked.get("contents"),
        "gen_ai.system_instructions": config.get("system_instruction", config.get("systemInstruction")),
        "gen_ai.tool.definitions": config.get("tools"),
        "gen_ai.output.messages": [told["content"]] if obj(told.get("content")) else None,
        "gen_ai.response.finish_reasons": string(told.get("finish_reason", told.get("finishReason"))),
        "gen_ai.tool.call.arguments": held.get(f"{_ADK}tool_call_args"),
        "gen_ai.tool.call.result": held.get(f"{_ADK}tool_response"),
        "gen_ai.conversation.id": held.get(f"{_ADK}session_id"),
    }


def _ai_sdk(held: JsonObject) -> JsonObject:
    operation = string(held.get("ai.operationId"))
    asked = genai.parsed(held.get("ai.prompt.messages")) or obj(genai.parsed(held.get("ai.prompt"))).get("messages")
    calls = objects(obj(library_messages.ai_sdk_reply(held.get("ai.response.toolCalls"))).get("tool_calls"))
    words = held.get("ai.response.text")
    answer: JsonObject = {"role": "assistant", "content": words, **({"tool_calls": [*calls]} if calls else {})}
    listed: list[Json] = [one for message in arr(asked) for one in library_messages.ai_sdk_messages(message)]
    provider, _, api = string(held.get("ai.model.provider")).partition(".")
    return {name: held[old] for old, name in _AI_SDK.items() if old in held} | {
        "gen_ai.provider.name": named(provider),
        "openai.api.type": api,
        "gen_ai.operation.name": next((name for end, name in _OPERATIONS if operation.endswith(end)), None),
        "gen_ai.input.messages": listed or obj(genai.parsed(held.get("ai.prompt"))).get("prompt"),
        "gen_ai.output.messages": [answer] if words or calls else None,
        "gen_ai.tool.definitions": [_tool(obj(genai.parsed(one))) for one in arr(held.get("ai.prompt.tools"))],
    }


def _tool(one: JsonObject) -> Json:
    schema = one.get("inputSchema", one.get("parameters"))
    return {"name": one.get("name"), "description": one.get("description"), "parameters": schema}
