"""Requests and replies as libraries keep them, as those of the API: printed by Python, LangChain's, Google's.

Messages of libraries are read by `providers.messages`. Google's Python libraries dump Gemini's objects in snake_case,
with enums as numbers and a `config`. `providers.gemini` reads the JSON of the API. What a user wrote (arguments,
results, schemas) is left as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, rest, string
from pytest_agentreplay.providers.messages import is_message

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject

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
    read = parse_text(value)
    items = arr(obj(read).get("messages")) or arr(obj(read).get("choices")) or arr(read) or [read]
    if all(is_message(item) or is_message(obj(item).get("message")) for item in items):
        return read
    return None if _PRINTED.match(value) else value


def generation(output: Json) -> Json:
    """The first generation of an output that holds several; any other output as it is."""
    generations = arr(obj(output).get("generations"))
    while generations and isinstance(generations[0], list):
        generations = generations[0]
    return next(iter(objects(generations)), output)


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
