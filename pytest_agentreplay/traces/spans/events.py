"""What was said elsewhere than in the attributes of the conventions, as the attributes that the span would have had.

The conventions once wrote one event a message (`gen_ai.user.message` ... `gen_ai.choice`); now one record has all of a
call (`gen_ai.client.inference.operation.details`). Some instrumentations keep such events in an attribute of the span.

Frameworks have names of their own: Google's ADK and the AI SDK write the conventions' names for models and usage, and
their own for what was said.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces.platforms import library_messages
from pytest_agentreplay.traces.spans.attributes import named, text
from pytest_agentreplay.traces.spans.span import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

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
    """The spans with what their events and the records of them tell; of a record without its span, a span is made."""
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
    """A span for records alone; records that name none are one call each."""
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
    """A message; None where content was not captured."""
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
    """The events that an instrumentation wrote into one attribute of the span."""
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
    """The attributes, with those that a framework has named otherwise under the conventions' names, too."""
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
