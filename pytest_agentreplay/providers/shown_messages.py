"""Messages for people: "user: ...", "assistant calls lookup({...})", "tool result call_1: ...", a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers.lenient import obj, string
from pytest_agentreplay.providers.messages import RESULT_ROLES, carries_tools, find_tool_results, find_tool_uses

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject


def show_message(message: Json) -> str:
    """Return a message of any dialect, as it was sent, as lines for people."""
    if isinstance(message, str):
        return f"user: {message}"
    fields = obj(message)
    if not fields:
        return canonical(message)
    uses, results = find_tool_uses(fields), find_tool_results(fields)
    role = "assistant" if fields.get("role") == "model" else string(fields.get("role"))
    role = role or ("assistant" if uses else "user" if "parts" in fields else string(fields.get("type")) or "message")
    lines = [] if results and role in RESULT_ROLES else _list_lines(role, fields)
    if string(fields.get("refusal")):
        lines.append(f"{role} refuses: {fields['refusal']}")
    lines += [f"{role} calls {use.name}({_show_value(use.arguments)})" for use in uses]
    lines += [f"tool result {call_id}: {_show_result(result)}" for call_id, result in results.items()]
    return "\n".join(lines) or f"{role}: {canonical(fields)}"


def _list_lines(role: str, message: JsonObject) -> list[str]:
    """The lines for what was said besides tools; neighbouring texts are one."""
    content = message.get("content") or message.get("parts")
    content = content if isinstance(content, list) else [content]
    # Cohere tells what the model plans before it calls tools; Ollama keeps pictures beside the text.
    texts = [_show_block(block) for block in [message.get("tool_plan"), *content] if block is not None]
    texts += [str(file) for _, file in media.find_media({"images": message.get("images")})]
    joined = " ".join(text for text in texts if text)
    return [f"{role}: {joined}"] if joined else []


def _show_block(block: Json) -> str:
    """A block as text; "" for the calls and results of tools, which have lines of their own."""
    # A text may be the data URL of a picture.
    if isinstance(block, str):
        return str(media.read_media(block) or block)
    fields = obj(block)
    if carries_tools(fields):
        return ""
    if isinstance(fields.get("text"), str):
        return f"(thinks: {fields['text']})" if fields.get("thought") is True else string(fields["text"])
    thought = fields.get("thinking", obj(obj(fields.get("reasoningContent")).get("reasoningText")).get("text"))
    if thought is not None:
        return f"(thinks: {_show_result(thought)})"
    if isinstance(fields.get("json"), dict | list):
        return canonical(fields["json"])
    return _show_media(fields) or f"[{string(fields.get('type')) or next(iter(fields), 'block')}]"


def _show_media(block: JsonObject) -> str:
    """The pictures, sounds and files in a block, each by its type, size and digest; a link as it stands."""
    marks = [str(file) for _, file in media.find_media(block)]
    if marks:
        return " ".join(marks)
    url = block.get("image_url")
    link = string(url) or string(obj(url).get("url")) or string(obj(block.get("source")).get("url"))
    link = link or string(obj(block.get("fileData", block.get("file_data"))).get("fileUri"))
    return f"[{string(block.get('type')) or 'file'} {link}]" if link else ""


def _show_result(result: Json) -> str:
    """A tool's result as text: blocks are joined."""
    return " ".join(filter(None, map(_show_block, result))) if isinstance(result, list) else _show_value(result)


def _show_value(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value)
