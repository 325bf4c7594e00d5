"""What a model said, in no dialect: the value from which each dialect writes its own bytes.

Ids that nobody gave are made of what was said, so that the same reply is the same bytes each time.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.model.canonical_json import canonical, digest
from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers.lenient import obj, objects, string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

HALVES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which no text in UTF-8 holds."""

_PIECE = re.compile(r"\s*\S+|\s+$")

End: TypeAlias = Literal["stop", "tools", "length", "filter"]

_LENGTH = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "incomplete"})
_FILTER = frozenset({"content_filter", "refusal", "SAFETY", "guardrail_intervened", "content_filtered"})


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply: text, tool calls, and what stands around them. `usage` is as `model.reading.ReplyReading`'s."""

    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    end: End = "stop"
    model: str = ""
    id: str = ""
    fingerprint: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    created: int = 0
    in_pieces: bool = False
    """Whether a stream comes word by word, as from a model; else each text and each tool call is one event."""

    def pieces(self, text: str) -> list[str]:
        """A text, or the arguments of a tool call, as a stream brings it: nothing of it is lost."""
        return _PIECE.findall(text) or [""] if self.in_pieces else [text]

    def tokens(self, name: str) -> int:
        """A count of `usage`, 0 where nobody counted."""
        return self.usage.get(name, 0)


def make_reply(
    message: JsonObject, *, model: str = "", response_id: str = "", usage: dict[str, int], fingerprint: str = ""
) -> ModelReply:
    """Return what an assistant's `message` of the conventions (`providers.genai`) holds."""
    parts = objects(message.get("parts"))
    stamp = digest(canonical(message))[:24]
    uses = tuple(
        ToolUse(string(part.get("id")) or f"call_{stamp}{nth}", string(part.get("name")), part.get("arguments"))
        for nth, part in enumerate(part for part in parts if part.get("type") == "tool_call")
    )
    text = "".join(string(part.get("content")) for part in parts if part.get("type") == "text")
    end = end_of(string(message.get("finish_reason")), uses)
    return ModelReply(text, uses, end, model, response_id or stamp, fingerprint, usage)


def end_of(reason: str, uses: Iterable[ToolUse]) -> End:
    """Why a reply ended, of any dialect's word for it."""
    if reason in _LENGTH:
        return "length"
    if reason in _FILTER:
        return "filter"
    return "tools" if tuple(uses) else "stop"


def arguments(use: ToolUse) -> str:
    """The arguments of a tool call as a model writes them: JSON in a text."""
    return use.arguments if isinstance(use.arguments, str) else dump_json(use.arguments)


def get_arguments(use: ToolUse) -> Json:
    """Return the arguments of a tool call as an object."""
    return use.arguments if isinstance(use.arguments, dict) else {}


def text_of(result: Json) -> str:
    """The result of a tool as the text that a model is told."""
    return result if isinstance(result, str) else dump_json(result)


def dump_json(value: Any) -> str:
    """Return JSON as clients write it, in letters of any script; escaped where half a character stands in it."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if HALVES.search(text) else text


def server_sent(events: Iterable[tuple[str, Any]], *, done: bool = False) -> tuple[bytes, ...]:
    """The bytes of each server-sent event, by name ("" for none) and data."""
    lines = [
        f"{f'event: {name}{chr(10)}' if name else ''}data: {dump_json(data)}\n\n".encode() for name, data in events
    ]
    return (*lines, b"data: [DONE]\n\n") if done else tuple(lines)


def split_system(messages: Iterable[JsonObject]) -> tuple[list[str], list[JsonObject]]:
    """The texts of the system messages, and the other messages."""
    listed = list(messages)
    texts = [joined_texts(objects(m.get("parts"))) for m in listed if m.get("role") == "system"]
    return texts, [m for m in listed if m.get("role") != "system"]


def blocks_of(
    message: JsonObject,
    make_result: Callable[[JsonObject], Json],
    make_text: Callable[[str], Json],
    make_use: Callable[[ToolUse], Json],
) -> list[Json]:
    """The blocks of a message: results of tools, the text, calls of tools."""
    parts = objects(message.get("parts"))
    text = joined_texts(parts)
    results = [make_result(part) for part in parts if part.get("type") == "tool_call_response"]
    return [*results, *([make_text(text)] if text else []), *map(make_use, make_reply(message, usage={}).uses)]


def joined_texts(parts: Iterable[JsonObject]) -> str:
    """The texts of a message's parts."""
    return "".join(string(part.get("content")) for part in parts if part.get("type") in {"text", None})


def result_of(part: JsonObject) -> Json:
    """What a part tells of a tool's result."""
    return part.get("response", part.get("result"))


def schema_of(tool: JsonObject) -> JsonObject:
    """The schema of a tool's arguments; that of any object where it has none."""
    return obj(tool.get("parameters")) or {"type": "object", "properties": {}}


def function_of(tool: JsonObject) -> JsonObject:
    """A tool as the APIs of OpenAI and Google declare a function."""
    about = string(tool.get("description"))
    return {"name": tool.get("name"), "description": about, "parameters": schema_of(tool)}
