"""Any dialect's messages as those of the OTel GenAI conventions, so that two of them can be compared, or one written.

A message is `{"role": ..., "parts": [...]}`; a part is `{"type": "text", "content"}`, `{"type": "tool_call", "id",
"name", "arguments"}`, `{"type": "tool_call_response", "id", "response"}` (with "name" where there is no id, and
"is_error" where the dialect says so), `{"type": "reasoning", "content"}`, or another block as it was sent under
`{"type": "generic", "block"}`. Arguments are parsed where their text is JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers import lenient, messages
from pytest_agentreplay.providers.lenient import arr, obj, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse

_ROLES = {"model": "assistant", "developer": "system", "function": "tool"}
_TEXTS = frozenset({"text", "input_text", "output_text"})
_SCHEMAS = ("parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema")
_WRAPPINGS = frozenset({"result", "output"})
parsed = lenient.parse_text
"""A text that is JSON as what it says; anything else as it is."""


def conversation(reading: CallReading) -> tuple[JsonObject, ...]:
    """The messages of a call, instructions first; neighbours of one role are one message."""
    told = [message(item) for item in reading.messages]
    if reading.system_at:
        texts = [part for item in reading.system for part in _parts(item)]
        told.insert(0, {"role": "system", "parts": texts})
    return joined(told)


def message(item: Json) -> JsonObject:
    """One message, or item, of any dialect."""
    if isinstance(item, str):
        return {"role": "user", "parts": _parts(item)}
    found = obj(item)
    if isinstance(found.get("parts"), list) and all("type" in part for part in objects(found["parts"])):
        return {"role": string(found.get("role")) or "user", "parts": arr(found["parts"])}  # the conventions' own form
    calls: list[Json] = [call(use) for use in messages.tool_uses(found)]
    results = _results(found)
    role = string(found.get("role"))
    told = role in messages.TELLERS or string(found.get("type")).endswith("_call_output")
    role = _ROLES.get(role, role) or ("tool" if told else "assistant" if calls or "summary" in found else "user")
    if results and role == "user":
        role = "tool"
    said = [] if told else _said(found)
    return {"role": role, "parts": [*said, *calls, *results]}


def call(use: ToolUse) -> JsonObject:
    """A tool call as a part."""
    return {"type": "tool_call", "id": use.id, "name": use.name, "arguments": parsed(use.arguments)}


def reply(reading: ReplyReading) -> JsonObject:
    """A reply as the assistant's message."""
    texts: list[Json] = [{"type": "text", "content": reading.text}] if reading.text else []
    return {
        "role": "assistant",
        "parts": [*texts, *(call(use) for use in reading.tool_uses)],
        "finish_reason": next(iter(reading.finish_reasons), ""),
    }


def tools(items: Iterable[Json]) -> tuple[JsonObject, ...]:
    """Tool schemas as the conventions' tool definitions: type, name, description, parameters."""
    found: list[JsonObject] = []
    for item in items:
        outer = obj(item)
        inner = obj(outer.get("function")) or obj(outer.get("toolSpec")) or outer
        if declared := objects(inner.get("functionDeclarations", inner.get("function_declarations"))):
            found += tools(declared)
            continue
        named = (inner[name] for name in _SCHEMAS if name in inner)
        schema = next(named, obj(inner.get("inputSchema")).get("json"))
        name, about = string(inner.get("name")), string(inner.get("description"))
        found.append({"type": "function", "name": name, "description": about, "parameters": schema})
    return tuple(found)


def joined(told: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """The messages, neighbours of one role in one."""
    found: list[JsonObject] = []
    for one in told:
        join(found, one)
    return tuple(found)


def join(found: list[JsonObject], one: JsonObject) -> None:
    """Put a message behind others: into the last of them where it is of the same role."""
    if found and found[-1]["role"] == one["role"]:
        found[-1] = {**found[-1], **one, "parts": [*arr(found[-1]["parts"]), *arr(one["parts"])]}
    elif arr(one["parts"]):
        found.append(one)


def _said(found: JsonObject) -> list[Json]:
    content = found.get("content", found.get("parts"))
    said: list[Json] = []
    if string(found.get("type")) == "reasoning":
        return _thoughts(objects(found.get("summary")))
    for block in content if isinstance(content, list) else [content]:
        said += _parts(block)
    return said


def _parts(block: Json) -> list[Json]:
    """A block as parts; none for the calls and results of tools, which are told apart."""
    if block is None or block == "":
        return []
    if isinstance(block, str):
        return [{"type": "text", "content": block}]
    found = obj(block)
    if messages.carries_tools(found):
        return []
    if found.get("thought") is True:
        return _thoughts([found])
    if isinstance(found.get("text"), str) and string(found.get("type")) in {"", *_TEXTS}:
        return [{"type": "text", "content": found["text"]}]
    if isinstance(found.get("thinking"), str):
        return [{"type": "reasoning", "content": found["thinking"]}]
    return [{"type": "generic", "block": block}]


def _thoughts(blocks: Iterable[JsonObject]) -> list[Json]:
    return [{"type": "reasoning", "content": string(block.get("text"))} for block in blocks]


def _results(found: JsonObject) -> list[Json]:
    failed = {
        string(block.get("tool_use_id")) or string(obj(block.get("toolResult")).get("toolUseId"))
        for block in objects(found.get("content"))
        if block.get("is_error") is True or obj(block.get("toolResult")).get("status") == "error"
    }
    # Gemini may have no ids: the results of one tool in one message are told apart by their places alone.
    parts: list[Json] = [*objects(found.get("parts"))]
    pieces: list[Json] = [{**found, "parts": [part]} for part in parts] or [found]
    return [
        {"type": "tool_call_response", "id": known, "response": _unwrapped(result) if parts else _plain(result)}
        | ({"is_error": True} if known in failed else {})
        for piece in pieces
        for known, result in messages.tool_results(piece).items()
    ]


def _unwrapped(result: Json) -> Json:
    """What a function gave Gemini: the API takes objects alone, so that all else comes in one of a single field."""
    if isinstance(result, dict) and len(result) == 1 and (field := next(iter(result))) in _WRAPPINGS:
        return parsed(result[field])
    return result


def _plain(result: Json) -> Json:
    """What a tool gave: the only text of a list of blocks, parsed where it is JSON."""
    if isinstance(result, list) and len(result) == 1 and isinstance(only := result[0], dict):
        text = only.get("text", only.get("json"))
        return parsed(text) if text is not None and len(only) <= 2 else result
    return parsed(result)
