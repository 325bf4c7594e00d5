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
    messages = [message(item) for item in reading.messages]
    if reading.system_at:
        texts = [part for item in reading.system for part in _parts(item)]
        messages.insert(0, {"role": "system", "parts": texts})
    return join_neighbours(messages)


def message(item: Json) -> JsonObject:
    """One message, or item, of any dialect."""
    if isinstance(item, str):
        return {"role": "user", "parts": _parts(item)}
    fields = obj(item)
    if isinstance(fields.get("parts"), list) and all("type" in part for part in objects(fields["parts"])):
        return {
            "role": string(fields.get("role")) or "user",
            "parts": arr(fields["parts"]),
        }  # the conventions' own form
    calls: list[Json] = [call(use) for use in tool_uses(fields)]
    results = _results(fields)
    role = string(fields.get("role"))
    is_result = role in RESULT_ROLES or string(fields.get("type")).endswith("_call_output")
    role = _ROLES.get(role, role) or ("tool" if is_result else "assistant" if calls or "summary" in fields else "user")
    if results and role == "user":
        role = "tool"
    contents = [] if is_result else _read_content(fields)
    return {"role": role, "parts": [*contents, *calls, *results]}


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
    definitions: list[JsonObject] = []
    for item in items:
        outer = obj(item)
        inner = obj(outer.get("function")) or obj(outer.get("toolSpec")) or outer
        if declared := objects(inner.get("functionDeclarations", inner.get("function_declarations"))):
            definitions += tools(declared)
            continue
        schemas = (inner[name] for name in _SCHEMAS if name in inner)
        schema = next(schemas, obj(inner.get("inputSchema")).get("json"))
        name, about = string(inner.get("name")), string(inner.get("description"))
        definitions.append({"type": "function", "name": name, "description": about, "parameters": schema})
    return tuple(definitions)


def join_neighbours(messages: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Return the messages, neighbours of one role in one."""
    merged: list[JsonObject] = []
    for message in messages:
        add_message(merged, message)
    return tuple(merged)


def add_message(messages: list[JsonObject], message: JsonObject) -> None:
    """Add a message behind others: into the last of them where it is of the same role."""
    if messages and messages[-1]["role"] == message["role"]:
        messages[-1] = {**messages[-1], **message, "parts": [*arr(messages[-1]["parts"]), *arr(message["parts"])]}
    elif arr(message["parts"]):
        messages.append(message)


def _read_content(fields: JsonObject) -> list[Json]:
    content = fields.get("content", fields.get("parts"))
    parts: list[Json] = []
    if string(fields.get("type")) == "reasoning":
        return _thoughts(objects(fields.get("summary")))
    for block in content if isinstance(content, list) else [content]:
        parts += _parts(block)
    return parts


def _parts(block: Json) -> list[Json]:
    """A block as parts; none for the calls and results of tools, which are told apart."""
    if block is None or block == "":
        return []
    if isinstance(block, str):
        return [{"type": "text", "content": block}]
    fields = obj(block)
    if carries_tools(fields):
        return []
    if fields.get("thought") is True:
        return _thoughts([fields])
    if isinstance(fields.get("text"), str) and string(fields.get("type")) in {"", *_TEXTS}:
        return [{"type": "text", "content": fields["text"]}]
    if isinstance(fields.get("thinking"), str):
        return [{"type": "reasoning", "content": fields["thinking"]}]
    return [{"type": "generic", "block": block}]


def _thoughts(blocks: Iterable[JsonObject]) -> list[Json]:
    return [{"type": "reasoning", "content": string(block.get("text"))} for block in blocks]


def _results(fields: JsonObject) -> list[Json]:
    failed = {
        string(block.get("tool_use_id")) or string(obj(block.get("toolResult")).get("toolUseId"))
        for block in objects(fields.get("content"))
        if block.get("is_error") is True or obj(block.get("toolResult")).get("status") == "error"
    }
    # Gemini may have no ids: the results of one tool in one message are told apart by their places alone.
    parts: list[Json] = [*objects(fields.get("parts"))]
    pieces: list[Json] = [{**fields, "parts": [part]} for part in parts] or [fields]
    return [
        {
            "type": "tool_call_response",
            "id": call_id,
            "response": _unwrap_result(result) if parts else _parse_result(result),
        }
        | ({"is_error": True} if call_id in failed else {})
        for piece in pieces
        for call_id, result in tool_results(piece).items()
    ]


def _unwrap_result(result: Json) -> Json:
    """Return what a function gave Gemini: the API takes objects alone, so all else comes in one of a single field."""
    if isinstance(result, dict) and len(result) == 1 and (field := next(iter(result))) in _WRAPPINGS:
        return parsed(result[field])
    return result


def _parse_result(result: Json) -> Json:
    """Return what a tool gave: the only text of a list of blocks, parsed where it is JSON."""
    if isinstance(result, list) and len(result) == 1 and isinstance(only := result[0], dict):
        text = only.get("text", only.get("json"))
        return parsed(text) if text is not None and len(only) <= 2 else result
    return parsed(result)


RESULT_ROLES = frozenset({"tool", "function"})
"""The roles whose content is the result of a tool."""
_CALLS = ("tool_call_id", "tool_name", "name")
_TOOLS = frozenset(
    {"functionCall", "function_call", "functionResponse", "function_response", "toolUse", "toolResult", "cachePoint"}
)


def say(message: Json) -> str:
    """A message for people: "user: ...", "assistant calls lookup({...})", "tool result call_1: ...", a line each."""
    if isinstance(message, str):
        return f"user: {message}"
    fields = obj(message)
    if not fields:
        return canonical(message)
    uses, results = tool_uses(fields), tool_results(fields)
    role = "assistant" if fields.get("role") == "model" else string(fields.get("role"))
    role = role or ("assistant" if uses else "user" if "parts" in fields else string(fields.get("type")) or "message")
    lines = [] if results and role in RESULT_ROLES else _list_lines(role, fields)
    if string(fields.get("refusal")):
        lines.append(f"{role} refuses: {fields['refusal']}")
    lines += [f"{role} calls {use.name}({_write_value(use.arguments)})" for use in uses]
    lines += [f"tool result {call_id}: {_text(result)}" for call_id, result in results.items()]
    return "\n".join(lines) or f"{role}: {canonical(fields)}"


def tool_uses(message: Json) -> tuple[ToolUse, ...]:
    """The tool calls that a message carries."""
    fields = obj(message)
    uses = [openai_chat.tool_use(call) for call in objects(fields.get("tool_calls"))]
    for block in _blocks(fields):
        use = gemini.tool_use(block) or bedrock.tool_use(block)
        use = use or (anthropic.tool_use(block) if block.get("type") == "tool_use" else None)
        uses += [use] if use else []
    item = openai_responses.tool_use(fields)
    return (*uses, item) if item else tuple(uses)


def tool_results(message: Json) -> dict[str, Json]:
    """The tool results that a message carries, as sent, by the id of the tool call; where it has none, by its name."""
    fields = obj(message)
    results: dict[str, Json] = {}
    if string(fields.get("role")) in RESULT_ROLES:
        call_id = next((string(fields[name]) for name in _CALLS if string(fields.get(name))), "")
        results |= {call_id: fields.get("content")} if call_id else {}
    if string(fields.get("type")).endswith("_call_output"):
        results[string(fields.get("call_id"))] = fields.get("output")
    for block in _blocks(fields):
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
    texts = [_block(block) for block in [message.get("tool_plan"), *content] if block is not None]
    texts += [str(file) for _, file in media.find_media({"images": message.get("images")})]
    joined = " ".join(text for text in texts if text)
    return [f"{role}: {joined}"] if joined else []


def _block(block: Json) -> str:
    """A block as text; "" for the calls and results of tools, which are told apart."""
    if isinstance(block, str):
        return str(media.read_media(block) or block)
    fields = obj(block)
    kind = string(fields.get("type"))
    if carries_tools(fields):
        return ""
    if isinstance(fields.get("text"), str):
        return f"(thinks: {fields['text']})" if fields.get("thought") is True else string(fields["text"])
    thought = fields.get("thinking", obj(obj(fields.get("reasoningContent")).get("reasoningText")).get("text"))
    if thought is not None:
        return f"(thinks: {_text(thought)})"
    if isinstance(fields.get("json"), dict | list):
        return canonical(fields["json"])
    return _media(fields) or f"[{kind or next(iter(fields), 'block')}]"


def _media(block: JsonObject) -> str:
    """The pictures, sounds and files in a block, each by its type, size and digest; a link as it stands."""
    marks = [str(file) for _, file in media.find_media(block)]
    if marks:
        return " ".join(marks)
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
