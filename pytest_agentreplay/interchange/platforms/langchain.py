"""Messages of LangChain, in all the forms that its tracers write, as messages of a chat API.

A message is a serialised object (`{"lc": 1, "id": [..., "HumanMessage"], "kwargs": {...}}`), the dump of one (`{"type":
"human", "content": ...}`, or with its fields under "data"), or a pair of role and text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.dialects.messages import carries_tools

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool", "chat": "user"}
_CALLS = frozenset({"tool_call", "function_call", "tool_use", "server_tool_call"})


def kind(item: Json) -> str:
    """Which kind of message of LangChain something is ("human", "ai", "tool" ...); "" for what is none."""
    found = obj(item)
    named = arr(found.get("id"))[-1:] if "lc" in found else [found.get("type")]
    name = string(named[0] if named else "").removesuffix("Chunk").removesuffix("Message").lower()
    return name if name in _ROLES and not obj(fields(found)).keys().isdisjoint({"content", "tool_calls"}) else ""


def pair(item: Json) -> bool:
    """Whether something is the pair of a role and a text, which stands for a message."""
    told = arr(item)
    return len(told) == 2 and isinstance(told[1], str) and string(told[0]) in {*_ROLES, *_ROLES.values()}


def fields(item: Json) -> JsonObject:
    """The fields of a message, wherever its form keeps them."""
    found = obj(item)
    inner = found.get("kwargs") if "lc" in found else found.get("data")
    return inner if isinstance(inner, dict) else found


def message(item: Json) -> Json:
    """A message of LangChain as one of a chat API; anything else as it is."""
    if pair(item):
        name, text = arr(item)
        return {"role": _ROLES.get(string(name), string(name)), "content": text}
    name = kind(item)
    told = fields(item)
    if not name:
        return _lifted(obj(item)) if isinstance(item, dict) else item
    content = told.get("content")
    if name in {"tool", "function"}:
        answer: JsonObject = {"role": "tool", "tool_call_id": told.get("tool_call_id"), "content": content}
        return answer | ({"name": told["name"]} if string(told.get("name")) else {})
    role = string(told.get("role")) if name == "chat" else ""
    said: JsonObject = {"role": role or _ROLES[name], "content": content}
    if name == "ai" and (calls := _calls(told)):
        said |= {"content": _without_calls(content), "tool_calls": calls}
    return said


def generation(told: Json) -> Json:
    """The first generation of an output that holds several; any other output as it is."""
    found = arr(obj(told).get("generations"))
    while found and isinstance(found[0], list):
        found = found[0]
    return next(iter(objects(found)), told)


def _lifted(found: JsonObject) -> JsonObject:
    """A message of a role whose tool calls stand in LangChain's place for what it does not know."""
    calls = obj(found.get("additional_kwargs")).get("tool_calls")
    return {**found, "tool_calls": calls} if isinstance(calls, list) and not found.get("tool_calls") else found


def _calls(told: JsonObject) -> list[Json]:
    """The tool calls: as the model wrote them where that was kept, else with parsed arguments."""
    calls = objects(told.get("tool_calls"))
    written = objects(obj(told.get("additional_kwargs")).get("tool_calls"))
    if len(written) >= len(calls):
        return [*written]
    return [
        {
            "id": string(call.get("id")),
            "type": "function",
            "function": {"name": string(call.get("name")), "arguments": call.get("args")},
        }
        for call in calls
    ]


def _without_calls(content: Json) -> Json:
    """The content without the blocks that tell the tool calls once more."""
    if not isinstance(content, list):
        return content
    return [one for one in content if string(obj(one).get("type")) not in _CALLS and not carries_tools(obj(one))]
