"""Messages, requests and replies as libraries keep them, as those of the API: LangChain, Vercel's AI SDK, Google's.

A message of LangChain is a serialised object (`{"lc": 1, "id": [..., "HumanMessage"], "kwargs": {...}}`), the dump of
one (`{"type": "human", "content": ...}`, or with its fields under "data"), or a pair of role and text.

Vercel's AI SDK has parts `tool-call` and `tool-result`, and bare tool calls.

Google's Python libraries dump Gemini's objects in snake_case, with enums as numbers and a `config`. `providers.gemini`
reads the JSON of the API. What a user wrote (arguments, results, schemas) is left as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.providers.genai import carries_tools, parsed
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject

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


_SPEAKERS = frozenset({*_ROLES, *_ROLES.values(), "developer", "model"})
_PRINTED = re.compile(
    r"(?s)[\s\[(]*(\{(?=')(?=.*'role': '(system|user|assistant|tool)')(?=.*'(content|parts|tool_calls)': )|"
    r"(\w+\.)*(\w*Message|\w*Response|ChatCompletion)\((id|role|content|message|candidates)=|"
    r"candidates=\[Candidate\(|content=(['\"]|None).* (additional_kwargs=|role='))"
)
"""How Python prints messages and replies, of SDKs or in dictionaries."""


def from_text(value: Json) -> Json:
    """Return the messages or the reply that a text is the JSON of; None for a text that Python printed of them."""
    if not isinstance(value, str):
        return value
    read = parsed(value)
    items = arr(obj(read).get("messages")) or arr(obj(read).get("choices")) or arr(read) or [read]
    if all(is_message(item) or is_message(obj(item).get("message")) for item in items):
        return read
    return None if _PRINTED.match(value) else value


def is_message(item: Json) -> bool:
    """Return whether something is a message, of LangChain or of a chat API."""
    spoken = string(obj(item).get("role")) in _SPEAKERS and {"content", "parts", "tool_calls"} & obj(item).keys()
    return bool(spoken or kind(item) or pair(item))


def generation(told: Json) -> Json:
    """The first generation of an output that holds several; any other output as it is."""
    found = arr(obj(told).get("generations"))
    while found and isinstance(found[0], list):
        found = found[0]
    return next(iter(objects(found)), told)


def _lifted(found: JsonObject) -> JsonObject:
    """Return a message of a role whose tool calls are in LangChain's form, or in its `additional_kwargs`."""
    if any("function" not in call and "name" in call for call in objects(found.get("tool_calls"))):
        return {**found, "tool_calls": _calls(found)}
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
            "function": {"name": string(call.get("name")), "arguments": call.get("args", call.get("arguments"))},
        }
        for call in calls
    ]


def _without_calls(content: Json) -> Json:
    """The content without the blocks that tell the tool calls once more."""
    if not isinstance(content, list):
        return content
    return [one for one in content if string(obj(one).get("type")) not in _CALLS and not carries_tools(obj(one))]


_PARTS = frozenset({"tool-call", "tool-result"})


def ai_sdk_messages(item: Json) -> list[Json]:
    """A message as those of a chat API, where each result of a tool is one of its own; any other as it is."""
    told = obj(item)
    parts = objects(told.get("content"))
    if not any(string(part.get("type")) in _PARTS for part in parts):
        return [item]
    results = [part for part in parts if part.get("type") == "tool-result"]
    calls: list[Json] = [_ai_sdk_call(part) for part in parts if part.get("type") == "tool-call"]
    said: list[Json] = [part for part in parts if string(part.get("type")) not in _PARTS]
    made: list[Json] = [{**told, "content": said, **({"tool_calls": calls} if calls else {})}] if said or calls else []
    return made + [
        {"role": "tool", "tool_call_id": part.get("toolCallId"), "content": _ai_sdk_result(part)} for part in results
    ]


def ai_sdk_reply(told: Json) -> Json:
    """A list of nothing but tool calls as the message that asks for them; any other output as it is."""
    calls = objects(parsed(told))
    if not calls or not all(string(call.get("toolCallId")) for call in calls):
        return told
    return {"role": "assistant", "content": None, "tool_calls": [_ai_sdk_call(call) for call in calls]}


def _ai_sdk_call(part: JsonObject) -> JsonObject:
    given = next((part[name] for name in ("input", "args") if name in part), None)
    function: JsonObject = {"name": string(part.get("toolName")), "arguments": given}
    return {"id": string(part.get("toolCallId")), "type": "function", "function": function}


def _ai_sdk_result(part: JsonObject) -> Json:
    """What a tool gave: its value, which newer versions wrap with its type."""
    given = next((part[name] for name in ("output", "result") if name in part), None)
    inner = obj(given)
    return inner["value"] if "value" in inner and string(inner.get("type")) else given


_OWN = frozenset({"args", "response", "parameters", "parameters_json_schema", "labels", "http_options"})
_SNAKE = re.compile(r"_([a-z0-9])")
_ENDS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
_TOP = ("tools", "toolConfig", "safetySettings", "cachedContent", "labels")
_DEEPEST = 60


def gemini_request(told: JsonObject) -> JsonObject:
    """A gemini_request as the API takes it, without the gemini_model, which stands in the URL."""
    asked = obj(_camel(rest(told, "model", "live_connect_config"), 0))
    config = obj(asked.pop("config", {})) | obj(asked.pop("generationConfig", {}))
    instruction = config.pop("systemInstruction", None) or asked.pop("systemInstruction", None)
    if instruction is not None:
        whole = isinstance(instruction, dict)
        texts = [part if isinstance(part, str) else obj(part).get("text") for part in arr(instruction) or [instruction]]
        asked["systemInstruction"] = instruction if whole else {"parts": [{"text": text} for text in texts]}
    for name in _TOP:
        if name in config:
            asked.setdefault(name, config.pop(name))
    kept: JsonObject = {name: value for name, value in config.items() if value not in (None, [], {})}
    asked |= {"generationConfig": kept} if kept else {}
    given = asked.get("contents")
    asked["contents"] = [_content(one) for one in (given if isinstance(given, list) else [given])]
    return {name: value for name, value in asked.items() if value not in (None, [], {}) or name == "contents"}


def gemini_reply(told: JsonObject) -> JsonObject:
    """A response as the API gives it; of ADK, whose gemini_reply is the only candidate."""
    made = obj(_camel(told, 0))
    if "candidates" not in made and "content" in made:
        made = {**rest(made, "content", "finishReason"), "candidates": [made]}
    candidates = [{**one, "finishReason": _end(one.get("finishReason"))} for one in objects(made.get("candidates"))]
    return {**made, "candidates": [*candidates]}


def gemini_model(told: JsonObject) -> str:
    """The name of the gemini_model without the place where it runs."""
    return string(told.get("model")).rpartition("/")[2]


def _content(given: Json) -> Json:
    return {"role": "user", "parts": [{"text": given}]} if isinstance(given, str) else given


def _end(given: Json) -> Json:
    if isinstance(given, int) and not isinstance(given, bool):
        return _ENDS.get(given, "")
    return string(given).rpartition(".")[2]


def _camel(value: Json, depth: int) -> Json:
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_camel(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        _SNAKE.sub(lambda found: found[1].upper(), name): one if name in _OWN else _camel(one, depth + 1)
        for name, one in value.items()
    }
