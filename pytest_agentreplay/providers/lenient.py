"""Reading JSON that may be anything: each gives the wanted type or its empty value, and never raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import NotJson, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject


_NAMES = frozenset({"id", "name", "role", "type"})
"""Fields that come whole, also where each piece of a stream repeats them."""


def obj(value: Any) -> JsonObject:
    """`value` when it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def arr(value: Any) -> list[Json]:
    """`value` when it is an array, else []."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[JsonObject]:
    """The objects in an array."""
    return [item for item in arr(value) if isinstance(item, dict)]


def string(value: Any) -> str:
    """`value` when it is a string, else ""."""
    return value if isinstance(value, str) else ""


def counts(pairs: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """The pairs whose value is a whole number."""
    return {name: value for name, value in pairs if isinstance(value, int) and not isinstance(value, bool)}


def token_counts(
    read: Any, written: Any, *, cache_read: Any = None, cache_written: Any = None, reasoning: Any = None
) -> dict[str, int]:
    """The counts of tokens that are there, under the names of the OTel GenAI conventions."""
    return counts(
        [
            ("input_tokens", read),
            ("output_tokens", written),
            ("cache_read.input_tokens", cache_read),
            ("cache_creation.input_tokens", cache_written),
            ("reasoning.output_tokens", reasoning),
        ]
    )


def openai_tokens(usage: JsonObject, read: str, written: str) -> dict[str, int]:
    """The counts of an API of OpenAI, which names what was read and what was written as `read` and `written`."""
    inward, outward = obj(usage.get(f"{read}_details")), obj(usage.get(f"{written}_details"))
    cached, thought = inward.get("cached_tokens"), outward.get("reasoning_tokens")
    return token_counts(usage.get(read), usage.get(written), cache_read=cached, reasoning=thought)


def sum_tokens(usage: JsonObject, read: str, written: str, cache_read: str, cache_written: str) -> dict[str, int]:
    """Cached tokens count as input tokens, as the conventions ask; Bedrock and Anthropic list them apart."""
    input_counts = counts((name, usage.get(name)) for name in (read, cache_read, cache_written))
    return token_counts(
        sum(input_counts.values()) if input_counts else None,
        usage.get(written),
        cache_read=usage.get(cache_read),
        cache_written=usage.get(cache_written),
    )


def unique(values: Iterable[str]) -> tuple[str, ...]:
    """The strings that are not empty, each once, in order."""
    return tuple(dict.fromkeys(value for value in values if value))


def rest(body: JsonObject, *names: str) -> JsonObject:
    """The object without `names`."""
    return {name: value for name, value in body.items() if name not in names}


def merge_later(earlier: JsonObject, later: JsonObject, *, empty: tuple[Json, ...] = (None,)) -> JsonObject:
    """Return `known` with what `later` says; a value of it that is `empty` takes the place of none."""
    return earlier | {name: value for name, value in later.items() if value not in empty or name not in earlier}


def parse_text(value: Json) -> Json:
    """A text that is JSON as what it says; anything else as it is."""
    tree = parse(value) if isinstance(value, str) else value
    return value if isinstance(tree, NotJson) else tree


def grow(target: JsonObject, piece: JsonObject) -> None:
    """Add a piece of a stream to what has come: texts and lists grow, objects by their fields; names stay.

    What the piece leaves open (null) stays as it is.
    """
    for name, value in piece.items():
        before = target.get(name)
        if isinstance(value, str) and isinstance(before, str):
            target[name] = before or value if name in _NAMES else before + value
        elif isinstance(value, list) and isinstance(before, list):
            target[name] = [*before, *value]
        elif isinstance(value, dict):
            inner: JsonObject = {**obj(before)}
            grow(inner, value)
            target[name] = inner
        elif value is not None:
            target[name] = value
