"""What a dialect tells about a call and its reply, in the terms of the OTel GenAI conventions.

The dialects fill these values in; core compares them without knowing any provider.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Call, Json, JsonObject, Outcome, ToolCall


_GROUPS = frozenset({"generationConfig", "inferenceConfig", "options"})
"""Where Gemini, Bedrock and Ollama keep the parameters that others have at the top."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call that the model asked for. `arguments` is the text as the model wrote it, or parsed JSON."""

    id: str
    name: str
    arguments: Json = None


@dataclass(frozen=True, slots=True)
class CallReading:
    """A call as its dialect reads it.

    `kind` is "model" (a turn begins here), "tool", "retrieval", "embeddings", "rerank", "mcp" (other messages of that
    protocol), or "http" for what no dialect knows. `name` is what people are shown: the model's or tool's name, a
    method, or `POST host/path`. `region` is where the provider runs it, as far as the URL says. `system` holds texts,
    `messages` (or what is embedded or ranked) and `tools` the elements as sent; the `*_at` fields are the JSON paths at
    which they stand in the body ("$.messages"). `parameters` is every other top-level field of the body. `client_ids`
    are the JSON paths of ids that the client made itself, `client_refs` those of ids that may be such ones.
    """

    kind: str
    name: str
    dialect: str = "generic"
    provider: str = ""
    region: str = ""
    operation: str = ""
    model: str = ""
    parameters: JsonObject = field(default_factory=dict)
    system: tuple[Json, ...] = ()
    messages: tuple[Json, ...] = ()
    tools: tuple[Json, ...] = ()
    system_at: str = ""
    messages_at: str = ""
    tools_at: str = ""
    stream: bool = False
    client_ids: tuple[str, ...] = ()
    client_refs: tuple[str, ...] = ()

    @property
    def knobs(self) -> JsonObject:
        """The parameters that are a word or a number; one of a group by both names, "inferenceConfig.maxTokens"."""
        flat: JsonObject = dict(self.parameters)
        for group in _GROUPS & self.parameters.keys():
            values = self.parameters[group]
            flat |= {f"{group}.{name}": value for name, value in values.items()} if isinstance(values, dict) else {}
        return {name: value for name, value in sorted(flat.items()) if isinstance(value, bool | int | float | str)}


@dataclass(frozen=True, slots=True)
class ReplyReading:
    """A reply as its dialect reads it; for a stream, the whole that its events amount to.

    `ids` are all ids that this reply minted (response, message, tool call ids): they must come back exactly. `result`
    is what a tool gave that was called over a protocol.
    """

    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    response_id: str = ""
    model: str = ""
    fingerprint: str = ""
    ids: tuple[str, ...] = ()
    error: str = ""
    result: Json = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece that a retrieval gave back: id and score where it has them, and its content."""

    id: str = ""
    score: float | None = None
    content: str = ""

    @property
    def name(self) -> str:
        """What people call it: its id, else the beginning of its content."""
        return self.id or (self.content if len(self.content) <= 30 else f"{self.content[:27]}...")


class Reader(Protocol):
    """Reads calls and replies; `providers.READER` is the real one."""

    def read_call(self, call: Call) -> CallReading:
        """Read a call. Never raises: what cannot be read is `generic`."""

    def read_reply(self, call: Call, outcome: Outcome | None) -> ReplyReading:
        """Read what a model or a call over a wire gave. Never raises: what cannot be read is empty."""

    def read_chunks(self, outcome: Outcome | None) -> tuple[Chunk, ...]:
        """Read what a retrieval gave, best first as it came. Never raises: what cannot be read is empty."""


def arguments_of(use: ToolUse) -> Json:
    """Return what the model asked for, as a value."""
    if not isinstance(use.arguments, str):
        return use.arguments
    value = parse(use.arguments, exact=True)
    return use.arguments if isinstance(value, NotJson) else value


def ran_for(use: ToolUse, call: ToolCall) -> bool:
    """Return whether `call` has the arguments that the model gave, whatever function and parameters are called.

    A registry may hand them on as one value, as a class, as text, or with others that the model does not give.
    """
    values = Counter(scalars(arguments_of(use)))
    if not values:
        return call.arguments.keys() <= call.defaults
    return values <= Counter(scalars(call.arguments)) or use.arguments in call.arguments.values()


def scalars(value: Json) -> list[str]:
    """Return the values in `value` that hold no others, each as comparable text."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [canonical(value)] if inner is None else [scalar for each in inner for scalar in scalars(each)]
