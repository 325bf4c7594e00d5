"""What the model server is told to say: replies as values, and the scripts that choose them.

Pure functions of the request; only `fresh` is new each time.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import obj, objects, string
from pytest_agentreplay.providers.model_reply import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call that the model makes: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Say:
    """A whole reply of the model: some text, some tool calls, or both."""

    text: str = ""
    asks: tuple[Ask, ...] = ()


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply said in bytes.

    `headers` go out as they are, in order and case; unless they name a length or an encoding of the transfer, the
    `chunks` are sent as HTTP chunks. `delay` is in seconds, before each chunk and before a reset. After `break_after`
    chunks the connection is cut: abruptly (`reset`) or as if the server had simply gone. `hang` says nothing more,
    and keeps the connection until the client leaves or the server stops. Status 0 sends no head, so a break or hang
    comes before any answer. `head` stands for status line, headers and blank line, for what is not HTTP at all.
    """

    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    chunks: Sequence[bytes] = ()
    reason: str = "OK"
    delay: float = 0.0
    break_after: int | None = None
    reset: bool = False
    hang: bool = False
    head: bytes | None = None


Reply: TypeAlias = "str | Ask | Say | Raw | Sequence[Ask]"
Script: TypeAlias = "Callable[[Any, int], Reply] | Iterable[Reply]"


def fresh(prefix: str) -> str:
    """An id that never comes twice; not drawn from `random`, which a run may have seeded."""
    return prefix + os.urandom(9).hex()


def in_order(replies: Iterable[Reply]) -> Callable[[Any, int], Reply]:
    """A script of replies by the request's number; past the last one it answers with status 500."""
    listed = list(replies)

    def reply(_body: Any, number: int) -> Reply:
        if number <= len(listed):
            return listed[number - 1]
        message = f"the script has {len(listed)} replies, and this is request {number}"
        return Raw(500, chunks=(json.dumps({"error": {"message": message}}).encode(),), reason="Internal Server Error")

    return reply


def default_script(body: Any, number: int) -> Reply:
    """Ask for a fitting tool when the last word is the user's and tools are offered; else say something new."""
    body = obj(body)
    role, text = last_word(body)
    offered = body.get("tools") or obj(body.get("toolConfig")).get("tools")
    tools = [tool for tool in genai.tools(objects(offered)) if tool["name"]]
    if tools and role == "user":
        return fitting(tools, text)
    return f"Answer {number} ({fresh('')}) to: {text}"


def last_word(body: dict[str, Any]) -> tuple[str, str]:
    """Who spoke last in a request of any API ("user", "tool", "assistant" ...), and what."""
    said: Any = next((body[name] for name in ("messages", "input", "contents", "prompt") if body.get(name)), "")
    last = said[-1] if isinstance(said, list) else said
    message = genai.message(last)
    texts = (text_of(part.get("content", part.get("response"))) for part in objects(message["parts"]))
    return string(message["role"]), " ".join(texts) or string(obj(last).get("content"))


def fitting(tools: Sequence[dict[str, Any]], text: str) -> Ask:
    """The first tool with a word of its name in `text`, else the first; its required arguments taken from `text`."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    tool = next((t for t in tools if words & set(t["name"].lower().split("_"))), tools[0])
    schema: dict[str, Any] = obj(tool["parameters"])
    fields: dict[str, Any] = obj(schema.get("properties"))
    return Ask(tool["name"], {name: argument(fields.get(name, {}), text) for name in schema.get("required", fields)})


def argument(schema: dict[str, Any], text: str) -> Any:
    """A value for one argument: a number of `text`, a word with a digit in it, or its last word."""
    numbers = re.findall(r"\d+", text) or ["1"]
    if schema.get("enum"):
        return schema["enum"][0]
    match str(schema.get("type")).lower():
        case "integer" | "number":
            return int(numbers[0])
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
        case _:
            words = re.findall(r"[\w-]+", text) or [""]
            return next((word for word in words if re.search(r"\d", word)), words[-1])
