"""What is said to a model and by it, in no dialect: the values from which the `Writer` of each dialect makes its bytes.

A message of the conventions (`providers.messages`) is taken apart once, here. Ids that nobody gave are made of the
message, so that the same reply is the same bytes each time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pytest_agentreplay.model.canonical_json import canonical, digest
from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers.lenient import as_text, objects, string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

# A word with the space before it: how a tokenizer cuts most texts, and so how models stream them.
_PIECE = re.compile(r"\s*\S+|\s+$")

End: TypeAlias = Literal["stop", "tools", "length", "filter"]
# The words of all dialects: no two of them mean different things by one.
_LENGTH = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "incomplete"})
_FILTER = frozenset({"content_filter", "refusal", "SAFETY", "guardrail_intervened", "content_filtered"})


class ToolResult(NamedTuple):
    """What a tool gave; `name` is that of the tool where nobody gave the call an id."""

    id: Json
    name: Json
    value: Json
    is_error: bool

    @property
    def text(self) -> str:
        """The result as the text that a model is given."""
        return as_text(self.value)


BlockForm: TypeAlias = "tuple[Callable[[str], Json], Callable[[ToolUse], Json], Callable[[ToolResult], Json]]"
"""How an API writes a text, the call of a tool and the result of one as blocks of a message."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message taken apart: its text, the calls of tools and the results of tools."""

    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    results: tuple[ToolResult, ...] = ()
    role: str = "assistant"

    def write_blocks(self, form: BlockForm) -> list[Json]:
        """Return the message in blocks: results, the text, calls. APIs with blocks want results first."""
        make_text, make_use, make_result = form
        text = [make_text(self.text)] if self.text else []
        return [*map(make_result, self.results), *text, *map(make_use, self.uses)]


@dataclass(frozen=True, slots=True)
class ModelReply(Spoken):
    """A reply of a model, and what stands around it.

    Attributes:
        usage: As `model.reading.ReplyReading` has it.
        in_pieces: Whether a stream comes word by word, as from a model; else each text and each call is one event.
    """

    end: End = "stop"
    model: str = ""
    id: str = ""
    fingerprint: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    created: int = 0
    in_pieces: bool = False

    def pieces(self, text: str) -> list[str]:
        """Return a text, or the arguments of a call, in the pieces of a stream; joined they are the text."""
        return _PIECE.findall(text) or [""] if self.in_pieces else [text]

    def tokens(self, name: str) -> int:
        """Return a count of `usage`, 0 if nobody counted."""
        return self.usage.get(name, 0)


class Conversation(NamedTuple):
    """A request to a model, without its parameters."""

    messages: tuple[Spoken, ...]
    """All of them, those of the system too, where they stand."""
    tools: tuple[JsonObject, ...]
    """Each with "name", "description" and "parameters"."""

    @property
    def system(self) -> list[str]:
        """The texts of the system messages, for APIs that have a field for them."""
        return [message.text for message in self.messages if message.role == "system"]

    @property
    def others(self) -> list[Spoken]:
        """The messages that are none of the system."""
        return [message for message in self.messages if message.role != "system"]

    def write_messages(self, form: BlockForm, assistant: str, blocks: str) -> list[Json]:
        """Return the other messages for an API with two roles: `assistant` and "user", which brings the results."""
        return [
            {"role": assistant if message.role == "assistant" else "user", blocks: message.write_blocks(form)}
            for message in self.others
        ]


def take_apart(message: JsonObject) -> Spoken:
    """Return a message of the conventions taken apart; calls without an id get one made of the message."""
    parts = objects(message.get("parts"))
    stamp = make_stamp(message)
    calls = [part for part in parts if part.get("type") == "tool_call"]
    return Spoken(
        role=string(message.get("role")),
        text="".join(string(part.get("content")) for part in parts if part.get("type") in {"text", None}),
        uses=tuple(
            ToolUse(string(part.get("id")) or f"call_{stamp}{nth}", string(part.get("name")), part.get("arguments"))
            for nth, part in enumerate(calls)
        ),
        results=tuple(
            ToolResult(
                part.get("id"), part.get("name"), part.get("response", part.get("result")), part.get("is_error") is True
            )
            for part in parts
            if part.get("type") == "tool_call_response"
        ),
    )


def make_stamp(message: JsonObject) -> str:
    """Return what stands for the id of a message that has none."""
    # 96 bits: no two messages of a run have the same.
    return digest(canonical(message))[:24]


def end_of(reason: str, uses: Iterable[ToolUse]) -> End:
    """Return why a reply ended, from any dialect's word for it."""
    if reason in _LENGTH:
        return "length"
    if reason in _FILTER:
        return "filter"
    return "tools" if tuple(uses) else "stop"
