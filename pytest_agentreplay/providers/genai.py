"""The messages of a conversation, whatever dialect wrote them: as the OTel GenAI conventions have them, and for people.

A message is known by its shape: a role with a text or blocks (chat, Messages, Converse, Ollama, Cohere), with parts
(Gemini), an item with a type (Responses), or a bare text. In the form of the conventions two dialects can be compared,
and one be written: `{"role": ..., "parts": [...]}`; a part is `{"type": "text", "content"}`, `{"type": "tool_call",
"id", "name", "arguments"}`, `{"type": "tool_call_response", "id", "response"}` (with "name" where there is no id, and
"is_error" where the dialect says so), `{"type": "reasoning", "content"}`, or another block as it was sent under
`{"type": "generic", "block"}`. Arguments are parsed where their text is JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers import anthropic, bedrock, gemini, lenient, openai_chat, openai_responses
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
    calls: list[Json] = [call(use) for use in tool_uses(found)]
    results = _results(found)
    role = string(found.get("role"))
    told = role in TELLERS or string(found.get("type")).endswith("_call_output")
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
    """Return the messages, neighbours of one role in one."""
    found: list[JsonObject] = []
    for one in told:
        join(found, one)
    return tuple(found)


def join(found: list[JsonObject], one: JsonObject) -> None:
    """Add a message behind others: into the last of them where it is of the same role."""
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
    if carries_tools(found):
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
        for known, result in tool_results(piece).items()
    ]


def _unwrapped(result: Json) -> Json:
    """Return what a function gave Gemini: the API takes objects alone, so all else comes in one of a single field."""
    if isinstance(result, dict) and len(result) == 1 and (field := next(iter(result))) in _WRAPPINGS:
        return parsed(result[field])
    return result


def _plain(result: Json) -> Json:
    """Return what a tool gave: the only text of a list of blocks, parsed where it is JSON."""
    if isinstance(result, list) and len(result) == 1 and isinstance(only := result[0], dict):
        text = only.get("text", only.get("json"))
        return parsed(text) if text is not None and len(only) <= 2 else result
    return parsed(result)


TELLERS = frozenset({"tool", "function"})
"""The roles whose content is the result of a tool."""
_CALLS = ("tool_call_id", "tool_name", "name")
_TOOLS = frozenset(
    {"functionCall", "function_call", "functionResponse", "function_response", "toolUse", "toolResult", "cachePoint"}
)


def say(message: Json) -> str:
    """A message for people: "user: ...", "assistant calls lookup({...})", "tool result call_1: ...", a line each."""
    if isinstance(message, str):
        return f"user: {message}"
    found = obj(message)
    if not found:
        return canonical(message)
    uses, results = tool_uses(found), tool_results(found)
    role = "assistant" if found.get("role") == "model" else string(found.get("role"))
    role = role or ("assistant" if uses else "user" if "parts" in found else string(found.get("type")) or "message")
    lines = [] if results and role in TELLERS else _list_lines(role, found)
    if string(found.get("refusal")):
        lines.append(f"{role} refuses: {found['refusal']}")
    lines += [f"{role} calls {use.name}({_write_value(use.arguments)})" for use in uses]
    lines += [f"tool result {call_id}: {_text(result)}" for call_id, result in results.items()]
    return "\n".join(lines) or f"{role}: {canonical(found)}"


def tool_uses(message: Json) -> tuple[ToolUse, ...]:
    """The tool calls that a message carries."""
    found = obj(message)
    uses = [openai_chat.tool_use(call) for call in objects(found.get("tool_calls"))]
    for block in _blocks(found):
        use = gemini.tool_use(block) or bedrock.tool_use(block)
        use = use or (anthropic.tool_use(block) if block.get("type") == "tool_use" else None)
        uses += [use] if use else []
    item = openai_responses.tool_use(found)
    return (*uses, item) if item else tuple(uses)


def tool_results(message: Json) -> dict[str, Json]:
    """The tool results that a message carries, as sent, by the id of the tool call; where it has none, by its name."""
    found = obj(message)
    results: dict[str, Json] = {}
    if string(found.get("role")) in TELLERS:
        known = next((string(found[name]) for name in _CALLS if string(found.get(name))), "")
        results |= {known: found.get("content")} if known else {}
    if string(found.get("type")).endswith("_call_output"):
        results[string(found.get("call_id"))] = found.get("output")
    for block in _blocks(found):
        answer = block.get("functionResponse", block.get("function_response"))
        if block.get("type") == "tool_result":
            results[string(block.get("tool_use_id"))] = block.get("content")
        elif isinstance(answer, dict):
            results[string(answer.get("id")) or string(answer.get("name"))] = answer.get("response")
        elif isinstance(block.get("toolResult"), dict):
            result = obj(block["toolResult"])
            results[string(result.get("toolUseId"))] = result.get("content")
    return results


def carries_tools(block: JsonObject) -> bool:
    """Whether a block is the call or the result of a tool."""
    return string(block.get("type")) in {"tool_use", "tool_result"} or not _TOOLS.isdisjoint(block)


def _blocks(message: JsonObject) -> list[JsonObject]:
    """The blocks of a message, or the parts of a content."""
    return objects(message.get("content")) or objects(message.get("parts"))


def _list_lines(role: str, message: JsonObject) -> list[str]:
    """The lines for what was said besides tools; neighbouring texts are one."""
    content = message.get("content") or message.get("parts")
    content = content if isinstance(content, list) else [content]
    shown = [_block(block) for block in [message.get("tool_plan"), *content] if block is not None]
    shown += [str(one) for _, one in media.found({"images": message.get("images")})]
    joined = " ".join(text for text in shown if text)
    return [f"{role}: {joined}"] if joined else []


def _block(block: Json) -> str:
    """A block as text; "" for the calls and results of tools, which are told apart."""
    if isinstance(block, str):
        return str(media.encoded(block) or block)
    found = obj(block)
    kind = string(found.get("type"))
    if carries_tools(found):
        return ""
    if isinstance(found.get("text"), str):
        return f"(thinks: {found['text']})" if found.get("thought") is True else string(found["text"])
    thought = found.get("thinking", obj(obj(found.get("reasoningContent")).get("reasoningText")).get("text"))
    if thought is not None:
        return f"(thinks: {_text(thought)})"
    if isinstance(found.get("json"), dict | list):
        return canonical(found["json"])
    return _media(found) or f"[{kind or next(iter(found), 'block')}]"


def _media(block: JsonObject) -> str:
    """The pictures, sounds and files in a block, each by its type, size and digest; a link as it stands."""
    held = [str(one) for _, one in media.found(block)]
    if held:
        return " ".join(held)
    url = block.get("image_url")
    link = string(url) or string(obj(url).get("url")) or string(obj(block.get("source")).get("url"))
    link = link or string(obj(block.get("fileData", block.get("file_data"))).get("fileUri"))
    return f"[{string(block.get('type')) or 'file'} {link}]" if link else ""


def _text(result: Json) -> str:
    """A tool result as text: blocks are joined."""
    if isinstance(result, list):
        return " ".join(filter(None, map(_block, result)))
    return _write_value(result)


def _write_value(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value)
