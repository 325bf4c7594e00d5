"""The messages of a conversation, whatever dialect wrote them: said in a line or two, and the tools in them.

A message is known by its shape: a role with a text or blocks (chat, Messages, Converse, Ollama, Cohere), with parts
(Gemini), an item with a type (Responses), or a bare text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers import anthropic, bedrock, gemini, openai_chat, openai_responses
from pytest_agentreplay.providers.lenient import obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import ToolUse

_ROLES = {"model": "assistant"}
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
    role = _ROLES.get(string(found.get("role")), string(found.get("role")))
    role = role or ("assistant" if uses else "user" if "parts" in found else string(found.get("type")) or "message")
    lines = [] if results and role in TELLERS else _said(role, found)
    if string(found.get("refusal")):
        lines.append(f"{role} refuses: {found['refusal']}")
    lines += [f"{role} calls {use.name}({_plain(use.arguments)})" for use in uses]
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


def _said(role: str, message: JsonObject) -> list[str]:
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
    return _plain(result)


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value)
