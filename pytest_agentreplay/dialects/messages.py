"""The messages of a conversation, whatever dialect wrote them: said in a line or two, and the tools in them.

A message is known by its shape: a role with a text or blocks (chat, Messages), an item with a type (Responses), or a
bare text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canon import canonical
from pytest_agentreplay.dialects import anthropic, openai_chat, openai_responses
from pytest_agentreplay.dialects.loose import obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.core.reading import ToolUse


def say(message: Json) -> str:
    """A message for people: "user: ...", "assistant calls lookup({...})", "tool result call_1: ...", a line each."""
    if isinstance(message, str):
        return f"user: {message}"
    found = obj(message)
    if not found:
        return canonical(message)
    role = string(found.get("role")) or ("assistant" if tool_uses(found) else string(found.get("type")) or "message")
    results = tool_results(found)
    lines = [] if results and "tool_call_id" in found else _blocks(role, found.get("content"))
    if string(found.get("refusal")):
        lines.append(f"{role} refuses: {found['refusal']}")
    lines += [f"{role} calls {use.name}({_plain(use.arguments)})" for use in tool_uses(found)]
    lines += [f"tool result {call_id}: {_text(result)}" for call_id, result in results.items()]
    return "\n".join(lines) or f"{role}: {canonical(found)}"


def tool_uses(message: Json) -> tuple[ToolUse, ...]:
    """The tool calls that a message carries."""
    found = obj(message)
    uses = [openai_chat.tool_use(call) for call in objects(found.get("tool_calls"))]
    uses += [anthropic.tool_use(block) for block in objects(found.get("content")) if block.get("type") == "tool_use"]
    item = openai_responses.tool_use(found)
    return (*uses, item) if item else tuple(uses)


def tool_results(message: Json) -> dict[str, Json]:
    """The tool results that a message carries, as sent, by the id of the tool call."""
    found = obj(message)
    results: dict[str, Json] = {}
    if found.get("role") == "tool" and "tool_call_id" in found:
        results[string(found["tool_call_id"])] = found.get("content")
    if string(found.get("type")).endswith("_call_output"):
        results[string(found.get("call_id"))] = found.get("output")
    for block in objects(found.get("content")):
        if block.get("type") == "tool_result":
            results[string(block.get("tool_use_id"))] = block.get("content")
    return results


def _blocks(role: str, content: Json) -> list[str]:
    """The lines for what was said besides tools; neighbouring texts are one."""
    if isinstance(content, str):
        return [f"{role}: {content}"] if content else []
    shown = (_block(block) for block in content) if isinstance(content, list) else ()
    joined = " ".join(text for text in shown if text)
    return [f"{role}: {joined}"] if joined else []


def _block(block: Json) -> str:
    if isinstance(block, str):
        return block
    found = obj(block)
    kind = string(found.get("type"))
    if kind in {"tool_use", "tool_result"}:
        return ""
    if isinstance(found.get("text"), str):
        return string(found["text"])
    if kind == "thinking":
        return f"(thinks: {string(found.get('thinking'))})"
    return _media(found) or f"[{kind or 'block'}]"


def _media(block: JsonObject) -> str:
    """A picture, sound or file by its type, size and digest: "[image/png 412 kB sha256:ab12cd34]"."""
    source, url = obj(block.get("source")), block.get("image_url")
    link = string(url) or string(obj(url).get("url")) or string(block.get("file_data"))
    media, data = string(source.get("media_type")), string(source.get("data"))
    if link.startswith("data:"):
        head, _, data = link[5:].partition(",")
        media = head.partition(";")[0]
    elif link:
        return f"[{string(block.get('type'))} {link}]"
    if not data:
        return ""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{media or 'data'} {len(data)} characters]"
    size = f"{len(raw) // 1000} kB" if len(raw) >= 1000 else f"{len(raw)} B"
    return f"[{media or 'data'} {size} sha256:{hashlib.sha256(raw).hexdigest()[:8]}]"


def _text(result: Json) -> str:
    """A tool result as text: blocks are joined."""
    if isinstance(result, list):
        return " ".join(filter(None, map(_block, result)))
    return _plain(result)


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value)
