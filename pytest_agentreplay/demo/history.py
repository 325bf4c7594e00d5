"""What a request says, whichever API it is of: who spoke last, and which tools are offered. Known by its shape."""

from __future__ import annotations

import json
from typing import Any

_RESULTS = ("tool_result", "toolResult", "functionResponse", "function_response")


def last_word(body: dict[str, Any]) -> tuple[str, str]:
    """Who spoke last ("user", "tool", "assistant" ...), and what."""
    said: Any = next((body[name] for name in ("messages", "input", "contents", "prompt") if body.get(name)), [])
    last = said[-1] if isinstance(said, list) and said else said
    if not isinstance(last, dict):
        return "user", last if isinstance(last, str) else ""
    content = next((last[name] for name in ("content", "parts", "output") if last.get(name)), "")
    text = content if isinstance(content, str) else plain(content)
    # Some APIs give tool results in the user's name; Gemini needs no role for the user's.
    if str(last.get("type")).endswith("_call_output") or any(f'"{name}"' in json.dumps(content) for name in _RESULTS):
        return "tool", text
    return last.get("role") or "user", text


def plain(content: Any) -> str:
    """Blocks as a text: that of their texts when they have nothing else."""
    blocks = content if isinstance(content, list) else [content]
    if all(isinstance(block, dict) and isinstance(block.get("text"), str) for block in blocks):
        return " ".join(block["text"] for block in blocks)
    return json.dumps(content)


def offered(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools of a request: `name` and `schema` of each, as far as it is a function of the caller's."""
    tools = body.get("tools") or (body.get("toolConfig") or {}).get("tools") or []
    flat: list[dict[str, Any]] = []
    for tool in tools:
        flat += (
            tool.get("functionDeclarations")
            or tool.get("function_declarations")
            or [tool.get("function") or tool.get("toolSpec") or tool]
        )
    return [{"name": tool["name"], "schema": schema(tool)} for tool in flat if tool.get("name")]


def schema(tool: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    names = ("parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema", "inputSchema")
    found: dict[str, Any] = next((tool[name] for name in names if tool.get(name)), {})
    inner: dict[str, Any] = found.get("json", found)
    return inner
