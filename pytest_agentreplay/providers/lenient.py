"""Reading JSON that may be anything: each gives the wanted type or its empty value, and never raises."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import NotJson, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

# Halves of characters, which no text in UTF-8 holds: a stream of tokens may be cut within an emoji.
_HALVES = re.compile("[\ud800-\udfff]")


def obj(value: Any) -> JsonObject:
    """Return `value` if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def arr(value: Any) -> list[Json]:
    """Return `value` if it is an array, else []."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[JsonObject]:
    """Return the objects in an array."""
    return [item for item in arr(value) if isinstance(item, dict)]


def string(value: Any) -> str:
    """Return `value` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def counts(pairs: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """Return the pairs whose value is a whole number."""
    # True is an int in Python, and no count in JSON.
    return {name: value for name, value in pairs if isinstance(value, int) and not isinstance(value, bool)}


_USAGE = ("input_tokens", "output_tokens", "cache_read.input_tokens", "cache_creation.input_tokens")


def token_counts(
    read: Any, written: Any, *, cache_read: Any = None, cache_written: Any = None, reasoning: Any = None
) -> dict[str, int]:
    """Return the counts of tokens that are there, under the names of the OTel GenAI conventions.

    https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/ lists the names, below `gen_ai.usage`.
    """
    pairs = zip(_USAGE, (read, written, cache_read, cache_written), strict=True)
    return counts([*pairs, ("reasoning.output_tokens", reasoning)])


def openai_tokens(usage: JsonObject, read: str, written: str) -> dict[str, int]:
    """Return the counts of an API of OpenAI, which names what was read and what was written as `read` and `written`."""
    inward, outward = obj(usage.get(f"{read}_details")), obj(usage.get(f"{written}_details"))
    cached, thought = inward.get("cached_tokens"), outward.get("reasoning_tokens")
    return token_counts(usage.get(read), usage.get(written), cache_read=cached, reasoning=thought)


def sum_tokens(usage: JsonObject, read: str, written: str, cache_read: str, cache_written: str) -> dict[str, int]:
    """Return the counts of an API that lists cached tokens beside those that were read, as Anthropic and Bedrock do.

    The conventions want them among the input tokens.
    """
    return token_counts(
        add_counts(usage, read, cache_read, cache_written),
        usage.get(written),
        cache_read=usage.get(cache_read),
        cache_written=usage.get(cache_written),
    )


def add_counts(usage: JsonObject, *names: str) -> int | None:
    """Return the sum of some counts; None if none of them is there."""
    present = counts((name, usage.get(name)) for name in names)
    return sum(present.values()) if present else None


def unique(values: Iterable[str]) -> tuple[str, ...]:
    """Return the strings that are not empty, each once, in order."""
    return tuple(dict.fromkeys(value for value in values if value))


def rest(body: JsonObject, *names: str) -> JsonObject:
    """Return the object without `names`."""
    return {name: value for name, value in body.items() if name not in names}


def first(body: JsonObject, names: Iterable[str]) -> str:
    """Return the first of `names` that is a field of the object, "" if none is."""
    return next((name for name in names if name in body), "")


def merge_later(earlier: JsonObject, later: JsonObject, *, empty: tuple[Json, ...] = (None,)) -> JsonObject:
    """Return `earlier` with what `later` says; a value of it that is `empty` takes the place of none."""
    return earlier | {name: value for name, value in later.items() if value not in empty or name not in earlier}


def parse_text(value: Json) -> Json:
    """Return a text that is JSON as what it says; anything else as it is."""
    tree = parse(value) if isinstance(value, str) else value
    return value if isinstance(tree, NotJson) else tree


def dump_json(value: Any) -> str:
    """Return JSON as clients write it, in letters of any script; escaped if half a character stands in it."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if _HALVES.search(text) else text


def as_text(value: Json) -> str:
    """Return arguments or a result as the text of a message: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else dump_json(value)
