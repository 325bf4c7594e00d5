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
    fields_of_item = obj(item)
    type_names = arr(fields_of_item.get("id"))[-1:] if "lc" in fields_of_item else [fields_of_item.get("type")]
    name = string(type_names[0] if type_names else "").removesuffix("Chunk").removesuffix("Message").lower()
    return (
        name if name in _ROLES and not obj(fields(fields_of_item)).keys().isdisjoint({"content", "tool_calls"}) else ""
    )


def pair(item: Json) -> bool:
    """Whether something is the pair of a role and a text, which stands for a message."""
    sides = arr(item)
    return len(sides) == 2 and isinstance(sides[1], str) and string(sides[0]) in {*_ROLES, *_ROLES.values()}


def fields(item: Json) -> JsonObject:
    """The fields of a message, wherever its form keeps them."""
    item_fields = obj(item)
    inner = item_fields.get("kwargs") if "lc" in item_fields else item_fields.get("data")
    return inner if isinstance(inner, dict) else item_fields


def message(item: Json) -> Json:
    """A message of LangChain as one of a chat API; anything else as it is."""
    if pair(item):
        name, text = arr(item)
        return {"role": _ROLES.get(string(name), string(name)), "content": text}
    name = kind(item)
    own = fields(item)
    if not name:
        return _lift_calls(obj(item)) if isinstance(item, dict) else item
    content = own.get("content")
    if name in {"tool", "function"}:
        answer: JsonObject = {"role": "tool", "tool_call_id": own.get("tool_call_id"), "content": content}
        return answer | ({"name": own["name"]} if string(own.get("name")) else {})
    role = string(own.get("role")) if name == "chat" else ""
    chat_message: JsonObject = {"role": role or _ROLES[name], "content": content}
    if name == "ai" and (calls := _calls(own)):
        chat_message |= {"content": _without_calls(content), "tool_calls": calls}
    return chat_message


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


def generation(output: Json) -> Json:
    """The first generation of an output that holds several; any other output as it is."""
    generations = arr(obj(output).get("generations"))
    while generations and isinstance(generations[0], list):
        generations = generations[0]
    return next(iter(objects(generations)), output)


def _lift_calls(message: JsonObject) -> JsonObject:
    """Return a message of a role whose tool calls are in LangChain's form, or in its `additional_kwargs`."""
    if any("function" not in call and "name" in call for call in objects(message.get("tool_calls"))):
        return {**message, "tool_calls": _calls(message)}
    calls = obj(message.get("additional_kwargs")).get("tool_calls")
    return {**message, "tool_calls": calls} if isinstance(calls, list) and not message.get("tool_calls") else message


def _calls(message: JsonObject) -> list[Json]:
    """The tool calls: as the model wrote them where that was kept, else with parsed arguments."""
    calls = objects(message.get("tool_calls"))
    written = objects(obj(message.get("additional_kwargs")).get("tool_calls"))
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
    return [
        block for block in content if string(obj(block).get("type")) not in _CALLS and not carries_tools(obj(block))
    ]


_PARTS = frozenset({"tool-call", "tool-result"})


def ai_sdk_messages(item: Json) -> list[Json]:
    """A message as those of a chat API, where each result of a tool is one of its own; any other as it is."""
    message = obj(item)
    parts = objects(message.get("content"))
    if not any(string(part.get("type")) in _PARTS for part in parts):
        return [item]
    results = [part for part in parts if part.get("type") == "tool-result"]
    calls: list[Json] = [_ai_sdk_call(part) for part in parts if part.get("type") == "tool-call"]
    others: list[Json] = [part for part in parts if string(part.get("type")) not in _PARTS]
    made: list[Json] = (
        [{**message, "content": others, **({"tool_calls": calls} if calls else {})}] if others or calls else []
    )
    return made + [
        {"role": "tool", "tool_call_id": part.get("toolCallId"), "content": _ai_sdk_result(part)} for part in results
    ]


def ai_sdk_reply(output: Json) -> Json:
    """A list of nothing but tool calls as the message that asks for them; any other output as it is."""
    calls = objects(parsed(output))
    if not calls or not all(string(call.get("toolCallId")) for call in calls):
        return output
    return {"role": "assistant", "content": None, "tool_calls": [_ai_sdk_call(call) for call in calls]}


def _ai_sdk_call(part: JsonObject) -> JsonObject:
    arguments = next((part[name] for name in ("input", "args") if name in part), None)
    function: JsonObject = {"name": string(part.get("toolName")), "arguments": arguments}
    return {"id": string(part.get("toolCallId")), "type": "function", "function": function}


def _ai_sdk_result(part: JsonObject) -> Json:
    """What a tool gave: its value, which newer versions wrap with its type."""
    value = next((part[name] for name in ("output", "result") if name in part), None)
    inner = obj(value)
    return inner["value"] if "value" in inner and string(inner.get("type")) else value


_OWN = frozenset({"args", "response", "parameters", "parameters_json_schema", "labels", "http_options"})
_SNAKE = re.compile(r"_([a-z0-9])")
_ENDS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
_TOP = ("tools", "toolConfig", "safetySettings", "cachedContent", "labels")
_DEEPEST = 60


def gemini_request(body: JsonObject) -> JsonObject:
    """A gemini_request as the API takes it, without the gemini_model, which stands in the URL."""
    request = obj(_camel(rest(body, "model", "live_connect_config"), 0))
    config = obj(request.pop("config", {})) | obj(request.pop("generationConfig", {}))
    instruction = config.pop("systemInstruction", None) or request.pop("systemInstruction", None)
    if instruction is not None:
        is_content = isinstance(instruction, dict)
        texts = [part if isinstance(part, str) else obj(part).get("text") for part in arr(instruction) or [instruction]]
        request["systemInstruction"] = instruction if is_content else {"parts": [{"text": text} for text in texts]}
    for name in _TOP:
        if name in config:
            request.setdefault(name, config.pop(name))
    kept: JsonObject = {name: value for name, value in config.items() if value not in (None, [], {})}
    request |= {"generationConfig": kept} if kept else {}
    contents = request.get("contents")
    request["contents"] = [_content(item) for item in (contents if isinstance(contents, list) else [contents])]
    return {name: value for name, value in request.items() if value not in (None, [], {}) or name == "contents"}


def gemini_reply(body: JsonObject) -> JsonObject:
    """A response as the API gives it; of ADK, whose gemini_reply is the only candidate."""
    made = obj(_camel(body, 0))
    if "candidates" not in made and "content" in made:
        made = {**rest(made, "content", "finishReason"), "candidates": [made]}
    candidates = [
        {**candidate, "finishReason": _end(candidate.get("finishReason"))}
        for candidate in objects(made.get("candidates"))
    ]
    return {**made, "candidates": [*candidates]}


def gemini_model(body: JsonObject) -> str:
    """The name of the gemini_model without the place where it runs."""
    return string(body.get("model")).rpartition("/")[2]


def _content(value: Json) -> Json:
    return {"role": "user", "parts": [{"text": value}]} if isinstance(value, str) else value


def _end(value: Json) -> Json:
    if isinstance(value, int) and not isinstance(value, bool):
        return _ENDS.get(value, "")
    return string(value).rpartition(".")[2]


def _camel(value: Json, depth: int) -> Json:
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_camel(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        _SNAKE.sub(lambda match: match[1].upper(), name): member if name in _OWN else _camel(member, depth + 1)
        for name, member in value.items()
    }
