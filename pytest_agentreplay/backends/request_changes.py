"""What a live run changes in each request to a model: "model", "prompt" (the system text), a parameter. All else stays.

A parameter has the name that its API gives it. It is set where the request has it, else in the dialect's group of
`GROUPS`; a name that begins with "$." says the place itself ("$.keep_alive").
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.exchanges import Body, HttpCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.model.exchanges import Call, Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, Reader

GROUPS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("openai_chat", "openai_responses", "anthropic", "cohere"), ()),
    **dict.fromkeys(("ollama_chat", "ollama_generate"), ("options",)),
    "bedrock": ("inferenceConfig",),
    "gemini": ("generationConfig", "generation_config"),
}
"""The dialects whose requests can be changed, and where each keeps parameters: at the top without a group."""
_IN_PATH = re.compile(r"(?<=/model/)[^/]+(?=/[\w-]+/?$)|(?<=/)[^/:]+(?=:\w+$)|(?<=/deployments/)[^/]+(?=/)")
"""The model in a path: Bedrock's, Google's, Azure's."""
_INSTRUCTIONS = frozenset(("system", "instructions", "systemInstruction", "system_instruction", "prompt"))
_WRITTEN_BY_AGENT = frozenset(("stream", "messages", "input", "contents", "tools", "functions"))


def parse_change(text: str) -> tuple[str, Json]:
    """Return name and value of NAME=VALUE; a value that is JSON is read as such, that of a prompt is "@FILE".

    Raises SettingsError.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    if not value or not re.fullmatch(r"(\$\.)?\w+(\.\w+)*", name):
        raise change_error(repr(text), "write NAME=VALUE: model=NAME, prompt=@FILE, temperature=0")
    if (plain := name.removeprefix("$.")) in _WRITTEN_BY_AGENT:
        raise change_error(name, "the agent writes it; model, prompt and parameters can be changed")
    if plain in _INSTRUCTIONS and f"{name}{value[0]}" != "prompt@":
        raise change_error(name, "the system text becomes that of a file: write prompt=@FILE")
    parsed = parse(value)
    return name, value if name in {"model", "prompt"} or isinstance(parsed, NotJson) else parsed


def change_error(names: str, why: str) -> SettingsError:
    """Return the error of a change that cannot be made."""
    return SettingsError(f"--replay-set {names}: {why}")


def changed_call(call: Call, changes: Mapping[str, Json], reader: Reader, *, sent: bool = False) -> Call:
    """Return `call` with `changes`, by name; the very call where it asks no model or has them already.

    The value of "prompt" is the new system text, or a list of which the one nearest to that of `call` is. Raises
    SettingsError for what cannot be changed, and for one that is about to be `sent` unchanged.
    """
    reading = reader.read_call(call)
    if isinstance(prompts := changes.get("prompt"), list):
        text, recorded = prompt_of(reading), [*map(str, prompts)]
        nearest = next(iter(get_close_matches(text, recorded, 1, 0.0)), "")
        changes = {} if text in {"", *recorded} else {"prompt": nearest}
    names = ", ".join(changes)
    if reading.kind != "model" or not changes:
        return call
    if not isinstance(call, HttpCall) or reading.dialect not in GROUPS:
        raise change_error(names, f"calls of this kind ({call.boundary}, {reading.dialect}) stay as they are")
    signed = any(name.lower() == "authorization" and value.startswith("AWS4-") for name, value in call.headers)
    if signed or "X-Amz-Signature=" in call.url:
        raise change_error(names, "the request is signed (AWS SigV4) and would be refused; use an API key")
    body = parse(call.body.data)
    if not isinstance(body, dict):
        raise change_error(names, "the body is compressed or no JSON")
    before, url = canonical(body), call.url
    for name, value in changes.items():
        if name == "model":
            url = _set_model(url, body, str(value))
        elif name == "prompt":
            _set_prompt(body, str(value), reading)
        else:
            _set_parameter(body, name, value, GROUPS[reading.dialect])
    if (url, canonical(body)) == (call.url, before):
        return call
    if sent:
        raise change_error(
            names, "this library's requests stay as they are; those of httpx, aiohttp and urllib3 do not"
        )
    data = json.dumps(body, separators=(",", ":")).encode()
    lengths = {"content-length": str(len(data))}
    headers = tuple([(name, lengths.get(name.lower(), value)) for name, value in call.headers])
    return replace(call, url=url, headers=headers, body=Body(data))


def prompt_of(reading: CallReading) -> str:
    """Return the system text of a request, "" where it has none."""
    parts = [part for value in reading.system for part in (value if isinstance(value, list) else [value])]
    return "\n".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in parts)


def _set_model(url: str, body: JsonObject, model: str) -> str:
    """Set the model wherever it stands; returns the URL."""
    path, mark, query = url.partition("?")
    if "model" in body:
        body["model"] = model
    elif not _IN_PATH.search(path):
        raise change_error("model", "the request names none")
    return _IN_PATH.sub(quote(model, safe=""), path, count=1) + mark + query


def _set_prompt(body: JsonObject, text: str, reading: CallReading) -> None:
    """Replace the system text: its own field, or the messages of system and developer that stand first."""
    if reading.system_at and reading.system:
        name = reading.system_at.removeprefix("$.")
        body[name] = _with_text(body[name], text)
        return
    name = reading.messages_at.removeprefix("$.")
    items: Any = body[name] if name and isinstance(body[name], list) else []
    first = list(takewhile(lambda item: isinstance(item, dict) and item.get("role") in ["system", "developer"], items))
    if not first:
        raise change_error("prompt", "the request has no system text")
    body[name] = [{**first[0], "content": _with_text(first[0].get("content"), text)}, *items[len(first) :]]


def _with_text(value: Json, text: str) -> Json:
    """Return `text` in the form of `value`: a string, blocks (those without a text stay), or an object of parts."""
    if isinstance(value, dict):
        return {**value, "parts": _with_text(value.get("parts"), text)}
    blocks = [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []
    first = next((block for block in blocks if "text" in block), None)
    return text if first is None else [{**first, "text": text}, *(block for block in blocks if "text" not in block)]


def _set_parameter(body: JsonObject, name: str, value: Json, groups: tuple[str, ...]) -> None:
    *path, last = name.removeprefix("$.").split(".")
    if groups and (path or [last])[0] not in {*groups, *body} and not name.startswith("$."):
        path.insert(0, next((group for group in groups if group in body), groups[0]))
    place: Json = body
    for part in path:
        place = place.setdefault(part, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise change_error(name, f"{'.'.join(path)} is no object in the request")
    place[last] = value
