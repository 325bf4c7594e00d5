"""Messages of Vercel's AI SDK as those of a chat API: its parts `tool-call` and `tool-result`, and bare tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.genai import parsed
from pytest_agentreplay.dialects.lenient import obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_PARTS = frozenset({"tool-call", "tool-result"})


def messages(item: Json) -> list[Json]:
    """A message as those of a chat API, where each result of a tool is one of its own; any other as it is."""
    told = obj(item)
    parts = objects(told.get("content"))
    if not any(string(part.get("type")) in _PARTS for part in parts):
        return [item]
    results = [part for part in parts if part.get("type") == "tool-result"]
    calls: list[Json] = [_call(part) for part in parts if part.get("type") == "tool-call"]
    said: list[Json] = [part for part in parts if string(part.get("type")) not in _PARTS]
    made: list[Json] = [{**told, "content": said, **({"tool_calls": calls} if calls else {})}] if said or calls else []
    return made + [
        {"role": "tool", "tool_call_id": part.get("toolCallId"), "content": _result(part)} for part in results
    ]


def reply(told: Json) -> Json:
    """A list of nothing but tool calls as the message that asks for them; any other output as it is."""
    calls = objects(parsed(told))
    if not calls or not all(string(call.get("toolCallId")) for call in calls):
        return told
    return {"role": "assistant", "content": None, "tool_calls": [_call(call) for call in calls]}


def _call(part: JsonObject) -> JsonObject:
    given = next((part[name] for name in ("input", "args") if name in part), None)
    function: JsonObject = {"name": string(part.get("toolName")), "arguments": given}
    return {"id": string(part.get("toolCallId")), "type": "function", "function": function}


def _result(part: JsonObject) -> Json:
    """What a tool gave: its value, which newer versions wrap with its type."""
    given = next((part[name] for name in ("output", "result") if name in part), None)
    inner = obj(given)
    return inner["value"] if "value" in inner and string(inner.get("type")) else given
