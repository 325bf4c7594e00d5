"""Requests and replies of Gemini as its Python libraries dump them: snake_case, enums as numbers, a `config`.

`dialects.gemini` reads the JSON of the API. What a user wrote (arguments, results, schemas) is left as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import arr, obj, objects, rest, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_OWN = frozenset({"args", "response", "parameters", "parameters_json_schema", "labels", "http_options"})
_SNAKE = re.compile(r"_([a-z0-9])")
_ENDS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
_TOP = ("tools", "toolConfig", "safetySettings", "cachedContent", "labels")
_DEEPEST = 60


def request(told: JsonObject) -> JsonObject:
    """A request as the API takes it, without the model, which stands in the URL."""
    asked = obj(_camel(rest(told, "model", "live_connect_config"), 0))
    config = obj(asked.pop("config", {})) | obj(asked.pop("generationConfig", {}))
    instruction = config.pop("systemInstruction", None) or asked.pop("systemInstruction", None)
    if instruction is not None:
        whole = isinstance(instruction, dict)
        asked["systemInstruction"] = instruction if whole else {"parts": [{"text": one} for one in _texts(instruction)]}
    for name in _TOP:
        if name in config:
            asked.setdefault(name, config.pop(name))
    kept: JsonObject = {name: value for name, value in config.items() if value not in (None, [], {})}
    asked |= {"generationConfig": kept} if kept else {}
    given = asked.get("contents")
    asked["contents"] = [_content(one) for one in (given if isinstance(given, list) else [given])]
    return {name: value for name, value in asked.items() if value not in (None, [], {}) or name == "contents"}


def reply(told: JsonObject) -> JsonObject:
    """A response as the API gives it; of ADK, whose reply is the only candidate."""
    made = obj(_camel(told, 0))
    if "candidates" not in made and "content" in made:
        made = {**rest(made, "content", "finishReason"), "candidates": [made]}
    candidates = [{**one, "finishReason": _end(one.get("finishReason"))} for one in objects(made.get("candidates"))]
    return {**made, "candidates": [*candidates]}


def model(told: JsonObject) -> str:
    """The name of the model without the place where it runs."""
    return string(told.get("model")).rpartition("/")[2]


def _content(given: Json) -> Json:
    return {"role": "user", "parts": [{"text": given}]} if isinstance(given, str) else given


def _texts(given: Json) -> list[Json]:
    return [one if isinstance(one, str) else obj(one).get("text") for one in arr(given) or [given]]


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
