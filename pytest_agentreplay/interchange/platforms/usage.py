"""Counts of tokens under the names of the conventions, whatever a platform calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import counts, obj

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_NAMES = {
    "input_tokens": (
        *("input_tokens", "prompt_tokens", "num_input_tokens", "promptTokens", "input", "promptTokenCount", "prompt"),
    ),
    "output_tokens": (
        *("output_tokens", "completion_tokens", "num_output_tokens", "completionTokens", "output"),
        *("candidatesTokenCount", "completion"),
    ),
    "cache_read.input_tokens": (
        *("prompt_cached_tokens", "cache_read_input_tokens", "input_cache_read", "input_cached_tokens"),
        *("prompt_details.cache_read", "cached_input_tokens", "cache_read.input_tokens"),
    ),
    "cache_creation.input_tokens": (
        *("cache_creation_input_tokens", "input_cache_creation", "cache_write_input_tokens"),
        *("prompt_details.cache_write", "cache_creation.input_tokens", "cache_write.input_tokens"),
    ),
    "reasoning.output_tokens": (
        *("completion_reasoning_tokens", "output_reasoning", "output_reasoning_tokens", "reasoning_output_tokens"),
        *("completion_details.reasoning", "reasoning.output_tokens", "reasoning_tokens"),
    ),
}
_INWARD = ("input_token_details", "input_tokens_details", "prompt_tokens_details")
_DETAILS = (
    ("cache_read.input_tokens", _INWARD),
    ("cache_creation.input_tokens", _INWARD),
    ("reasoning.output_tokens", ("output_token_details", "output_tokens_details", "completion_tokens_details")),
)
_INNER = {
    "cache_read.input_tokens": ("cache_read", "cached_tokens"),
    "cache_creation.input_tokens": ("cache_creation",),
    "reasoning.output_tokens": ("reasoning", "reasoning_tokens"),
}


def usage(*told: Json) -> dict[str, int]:
    """The first of `told` that counts anything."""
    return next((found for one in told if (found := _read(obj(one)))), {})


def restored(reply: JsonObject, told: Json) -> JsonObject:
    """A reply with the usage that its API would have told, made of LangChain's `usage_metadata`."""
    read = _read(obj(told))
    if "usage" in reply or not {"input_tokens", "output_tokens"} <= read.keys():
        return reply
    given, made = read["input_tokens"], read["output_tokens"]
    cached, thought = read.get("cache_read.input_tokens", 0), read.get("reasoning.output_tokens", 0)
    told_in: JsonObject = {"cached_tokens": cached}
    told_out: JsonObject = {"reasoning_tokens": thought}
    if "choices" in reply:
        counted: JsonObject = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
        counted |= {"prompt_tokens_details": told_in} if cached else {}
        counted |= {"completion_tokens_details": told_out} if thought else {}
    elif reply.get("object") == "response":
        counted = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
        counted |= {"input_tokens_details": told_in, "output_tokens_details": told_out}
    else:
        written = read.get("cache_creation.input_tokens", 0)
        counted = {"input_tokens": given - cached - written, "output_tokens": made}
        counted |= {"cache_read_input_tokens": cached} if cached else {}
        counted |= {"cache_creation_input_tokens": written} if written else {}
    return {**reply, "usage": counted}


def _read(told: JsonObject) -> dict[str, int]:
    found = {name: _first(told, names) for name, names in _NAMES.items()}
    for name, places in _DETAILS:
        inner = next((obj(told[place]) for place in places if isinstance(told.get(place), dict)), {})
        found[name] = _first(inner, _INNER[name]) if found[name] is None else found[name]
    return counts((name, value) for name, value in found.items() if value is not None)


def _first(told: JsonObject, names: tuple[str, ...]) -> Json:
    return next((int(one) for name in names if _whole(one := told.get(name)) and isinstance(one, int | float)), None)


def _whole(value: Json) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
