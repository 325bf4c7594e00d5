"""What went into an agent and what came out of it, as the root of a run tells them.

Some tracers write the repr of a Python value where others write JSON: it is read as what it shows.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces.platforms import bodies, library_messages

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json

_WRAPPERS = ("output", "result", "final_output", "answer", "response", "return")


def given(value: Json) -> Json:
    """The input of a run: the messages of a state as those of a chat API, a function's only argument, or its names."""
    value = library_messages.from_text(value)
    if isinstance(value, dict) and value.keys() == {"args", "kwargs"}:
        by_order, by_name = arr(value["args"]), obj(value["kwargs"])
        alone = len(by_order) == 1 and not by_name
        value = by_order[0] if alone else value if by_order else by_name
    told = obj(value)
    if _messages(value):
        return {"messages": bodies.messages_of(value)}
    if _messages(told.get("messages")):
        return {**told, "messages": bodies.messages_of(told["messages"])}
    return value


def final(value: Json) -> Json:
    """The output of a run: the last words of the assistant in a state, a message or a reply; else the value."""
    value = library_messages.from_text(value)
    told = obj(value)
    alone = next(iter(told)) if len(told) == 1 else ""
    if alone in _WRAPPERS:
        return final(told[alone])
    messages = value if _messages(value) else told.get("messages") if _messages(told.get("messages")) else None
    if messages is None and (library_messages.kind(told) or string(told.get("role"))):
        messages = [value]
    if messages is None and (
        objects(told.get("choices")) or objects(told.get("candidates")) or told.get("object") == "response"
    ):
        return _text(bodies.model_call({}, value).reply) or value
    if messages is None:
        return value
    return _text(bodies.message(messages)) or value


def _messages(value: Json) -> bool:
    items = arr(value)
    return bool(items) and all(map(library_messages.is_message, items))


def _text(message: Json) -> str:
    """The text of a message; of one that asks for tools none, for it is no end."""
    parts = objects(obj(message).get("parts"))
    if any(part.get("type") == "tool_call" for part in parts):
        return ""
    return "\n".join(string(part.get("content")) for part in parts if part.get("type") == "text")


def told(value: Json) -> Json:
    """What a tool's own record says it gave: what its message says, parsed where that is JSON."""
    inner = obj(value).get("output") if len(obj(value)) == 1 and "output" in obj(value) else value
    if library_messages.kind(inner) in {"tool", "function"}:
        inner = library_messages.fields(inner).get("content")
    return genai.parsed(inner)


_LONGEST = 100_000


def literal(text: str) -> Json:
    """The value of a text that is JSON or the repr of one; else the text. Nothing in it is called, or looked up."""
    tree = parse(text)
    if not isinstance(tree, NotJson):
        return tree
    if not text.startswith(("{", "[", "(")) or len(text) > _LONGEST:
        return text
    try:
        value = ast.literal_eval(text)
        canonical(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text
    found: Json = value
    return found
