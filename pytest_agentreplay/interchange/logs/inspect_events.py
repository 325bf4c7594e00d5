"""The events of one sample of Inspect as steps: its calls of models, with the provider's own bodies, and of tools."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import arr, counts, obj, objects, string
from pytest_agentreplay.interchange import wire
from pytest_agentreplay.interchange.logs import spoken
from pytest_agentreplay.interchange.logs.pairs import fault
from pytest_agentreplay.interchange.logs.spoken import LoggedMessage
from pytest_agentreplay.interchange.logs.wordings import dialect_of
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, ToolRun, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.trace import Step

_PROVIDERS = {
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azureai": "azure.ai.inference",
}
_DEEPEST = 40


def steps(sample: JsonObject) -> list[Step]:
    """The steps of a sample in order of their start."""
    tables = obj(sample.get("events_data"))
    found: list[tuple[int, Step]] = []
    for order, event in enumerate(_flat(sample.get("events"), 0)):
        if event.get("event") == "model":
            found.append((order, _model(event, tables)))
        elif event.get("event") == "tool":
            found.append((order, _tool(event)))
    if all(step.started is not None for _, step in found):
        found.sort(key=lambda one: (one[1].started or 0, one[0]))
    return [step for _, step in found]


def steps_of_messages(sample: JsonObject, model: Json) -> list[Step]:
    """The steps that the messages of a sample amount to, which was kept without its events."""
    provider, _, name = string(model).partition("/")
    said = [LoggedMessage(message=_marked(one)) for one in objects(sample.get("messages"))]
    return spoken.steps(said, provider=_PROVIDERS.get(provider, provider), model=name or provider)


def _marked(message: JsonObject) -> JsonObject:
    """A message in the neutral form, the result of a tool that failed as one."""
    found, failed = genai.message(_openai(message)), bool(message.get("error"))
    return {**found, "parts": [{**part, "is_error": True} for part in objects(found["parts"])]} if failed else found


def _flat(events: Json, depth: int) -> Iterator[JsonObject]:
    """The events, those within others after them; older logs nest what a tool did."""
    for event in objects(events):
        yield event
        if depth < _DEEPEST and isinstance(event.get("events"), list):
            yield from _flat(event["events"], depth + 1)


def _model(event: JsonObject, tables: JsonObject) -> ModelCall:
    call = obj(event.get("call"))
    request, reply = obj(call.get("request")), call.get("response")
    if (refs := call.get("call_refs")) is not None:
        request = {**request, string(call.get("call_key")) or "messages": _referred(refs, tables.get("calls"))}
    dialect = dialect_of(request, reply)
    told = _told(event, tables)
    if not dialect or not request:
        return told
    where = wire.address(dialect, model=told.model, stream=False)
    read = wire.json_call(
        where, request, reply or None, started=told.started, ended=told.ended, id=told.id, parent=told.parent
    )
    if not read.dialect:
        return told
    return replace(read, provider=told.provider or read.provider, fault=told.fault or read.fault)


def _told(event: JsonObject, tables: JsonObject) -> ModelCall:
    """The call in Inspect's own words."""
    given = arr(event.get("input")) or _referred(event.get("input_refs"), tables.get("messages"))
    output = obj(event.get("output"))
    choice = next(iter(objects(output.get("choices"))), {})
    provider, _, model = string(event.get("model")).partition("/")
    error = event.get("error") or output.get("error")
    answer = genai.message(_openai(choice.get("message"))) if choice else None
    usage = obj(output.get("usage"))
    return ModelCall(
        provider=_PROVIDERS.get(provider, provider),
        model=model or provider,
        parameters=obj(event.get("config")) | {"tool_choice": event.get("tool_choice")},
        messages=genai.joined(genai.message(_openai(one)) for one in given),
        tools=genai.tools(arr(event.get("tools"))),
        reply=answer | {"finish_reason": string(choice.get("stop_reason"))} if answer else None,
        response_model=string(output.get("model")),
        response_id=string(output.get("response_id")),
        finish_reasons=tuple(filter(None, [string(choice.get("stop_reason"))])),
        usage=counts((name, usage.get(name)) for name in ("input_tokens", "output_tokens")),
        fault=fault(error) if error else None,
        started=moment(event.get("timestamp")),
        ended=moment(event.get("completed")),
        id=string(event.get("uuid")),
        parent=string(event.get("span_id")),
    )


def _openai(message: Json) -> Json:
    """A message of Inspect in the form of a chat: a tool call is named in another place there."""
    found = obj(message)
    uses: list[Json] = [
        {"id": use.get("id"), "function": {"name": use.get("function"), "arguments": use.get("arguments")}}
        for use in objects(found.get("tool_calls"))
    ]
    error = string(obj(found.get("error")).get("message"))
    content: Json = error if found.get("role") == "tool" and error else found.get("content")
    return {**found, "content": content, **({"tool_calls": uses} if uses else {})}


def _tool(event: JsonObject) -> ToolRun:
    error = event.get("error")
    result = genai.parsed(event.get("result"))
    broke = fault(error) if error else None
    return ToolRun(
        name=string(event.get("function")),
        call_id=string(event.get("id")),
        arguments=event.get("arguments"),
        result=UNKNOWN if (broke and not result) or event.get("pending") else result,
        fault=broke or (TraceFault("failed") if event.get("failed") is True else None),
        started=moment(event.get("timestamp")),
        ended=moment(event.get("completed")),
        id=string(event.get("uuid")),
        parent=string(event.get("span_id")),
        agent=string(event.get("agent")),
    )


def _referred(refs: Json, table: Json) -> list[Json]:
    """The parts of a table that pairs of a beginning and an end name."""
    known = arr(table)
    found: list[Json] = []
    for ref in arr(refs):
        match ref:
            case [int(start), int(end)] if 0 <= start <= end <= len(known) and len(found) < len(known) * 2:
                found += known[start:end]
            case _:
                pass
    return found
