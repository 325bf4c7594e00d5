"""The nouns of an export: what goes out, and what comes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.traces.trace import ModelCall, Trace

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject

Wanted: TypeAlias = "tuple[str, Json]"
"""One check of a case: its word, and what it wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A case that goes out: its id and title, its folder as shown, the frozen run, and its checks by half.

    `calls` are the tool calls that were made, with None for arguments that JSON cannot say.
    """

    id: str
    title: str = ""
    folder: str = ""
    input: Json = None
    trace: Trace
    calls: tuple[tuple[str, JsonObject | None], ...] = ()
    observed: tuple[Wanted, ...] = ()
    desired: tuple[Wanted, ...] = ()
    semantic: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The id as a name in Python and in files."""
        return re.sub(r"\W+", "_", self.id, flags=re.ASCII).strip("_").lower() or "case"

    @property
    def messages(self) -> list[JsonObject]:
        """What went in, as chat messages: the input of the case, else what the first model call was told."""
        given = self.input.get("messages") if isinstance(self.input, dict) else None
        if isinstance(given, list):
            return [one for one in given if isinstance(one, dict)]
        first = next((step for step in self.trace.steps if isinstance(step, ModelCall)), None)
        told = [] if first is None else [plain(message) for message in first.messages]
        return [one for one in told if one["role"] != "system"]


@dataclass(frozen=True, slots=True)
class Exported:
    """The files of an export, (name, text) each, the main one first. `losses` are sentences for people."""

    files: tuple[tuple[str, str], ...]
    losses: tuple[str, ...] = field(default=())


def plain(message: JsonObject) -> JsonObject:
    """A message of `providers.genai` as role and text."""
    parts = message.get("parts")
    texts = [part.get("content") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return {"role": message.get("role"), "content": "\n".join(text for text in texts if isinstance(text, str))}


def unsaid(target: str, half: str, wanted: Wanted) -> str:
    """The loss of a check for which the target has no word."""
    return f"{half} {wanted[0]}: {target} has no word for it, and nothing checks it there"
