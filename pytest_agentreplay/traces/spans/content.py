"""Messages in attributes and events, in whatever form, as those of `providers.genai`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.genai import carries_tools
from pytest_agentreplay.providers.lenient import arr, obj, objects, string

if TYPE_CHECKING:
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
    """A message as genai reads it: finish reasons and empty names aside, old shapes of tool calls in the usual one."""
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


def words(found: Json) -> tuple[str, ...]:
    """The texts in a list, or a text alone."""
    return tuple(filter(None, map(string, arr(found) or [found])))
