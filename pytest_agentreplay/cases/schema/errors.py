"""What is reported of a case file that is invalid."""

from __future__ import annotations

import functools
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.schema import check_fields, model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SAID = {
    "bool_type": "is true or false",
    "string_type": "is text; put it in quotes",
    "int_type": "is a whole number",
    "float_type": "is a number",
    "finite_number": "is a number",
    "list_type": "is a list: one line with - for each",
    "dict_type": "is keys and values",
    "model_type": "is keys and values",
    "model_attributes_type": "is keys and values",
    "too_long": "holds too many",
    "too_short": "is empty",
    "string_too_long": "is too long",
    "string_too_short": "is empty",
    "greater_than_equal": "is not less than 0",
}
PATTERNS = {
    model.LINE: "is one line, without control characters",
    model.ID: "is the name of the folder: letters, digits, . _ and -, at most 100",
    model.FILE_NAME: "is the name of a file beside this one, without a path",
    model.LINK: "is a link: https://...",
}


def plain_path(loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """A place as the file has it, without the marks of the model."""
    return tuple(part for part in loc if part not in check_fields.TAGS and part != "[key]")


def shown(path: Iterable[str | int]) -> str:
    """A path as people write one: observed[2].output."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def said_of(wrong: Any, path: tuple[str | int, ...]) -> str:
    """What pydantic has found, in our words."""
    kind, context = wrong["type"], wrong.get("ctx", {})
    match kind:
        case "missing":
            return f"{shown(path[:-1]) or 'a case'} needs {path[-1]}"
        case "literal_error":
            known = str(context.get("expected", "")).replace("'", "")
            given = wrong["input"] if isinstance(wrong["input"], str | int | float | bool) else "something else"
            return (
                f"{shown(path)} is {known}, not {given!s:.60}{_meant(given, known.replace(' or ', ', ').split(', '))}"
            )
        case "string_pattern_mismatch":
            return f"{shown(path)} {PATTERNS.get(context.get('pattern', ''), 'is written another way')}"
        case "union_tag_invalid":
            words = {"(text)": "text", "(keys)": "keys and values", "(number)": "a number", "(list)": "a list"}
            tags = [words[tag] for tag in check_fields.TAGS if f"'{tag}'" in str(context.get("expected_tags", ""))]
            return f"{shown(path)} is {' or '.join(tags)}"
    return f"{shown(path)} {SAID.get(kind, str(wrong['msg']))}"


def unknown(path: tuple[str | int, ...], known: Sequence[str]) -> str:
    """The message about a key that nobody knows."""
    if len(path) == 1:
        return f"{path[-1]!r:.60} is no key of a case{_nearest(path[-1], known)}; your own begin with {model.EXTRA}"
    return f"{path[-1]!r:.60} is no key of {shown(path[:-1])}{_nearest(path[-1], known)}"


def known_at(path: tuple[str | int, ...]) -> list[str]:
    """The keys that may stand where `path` leads, as the schema has them."""
    whole = _schema()
    here: list[dict[str, Any]] = [whole]
    for part in path[:-1]:
        step = "items" if isinstance(part, int) else str(part)
        here = [
            found
            for node in here
            for one in _variants(node, whole)
            if (found := one.get("items") if step == "items" else _named(one, step)) is not None
        ]
    return [key for node in here for one in _variants(node, whole) for key in one.get("properties", {})]


@functools.cache
def _schema() -> dict[str, Any]:
    return model.schema()


def _named(node: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = node.get("properties", {}).get(name, node.get("additionalProperties"))
    return found if isinstance(found, dict) else None


def _variants(node: dict[str, Any], whole: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema with what it refers to, or each of several."""
    if "$ref" in node:
        return _variants(whole["$defs"][node["$ref"].rpartition("/")[2]], whole)
    several = node.get("oneOf") or node.get("anyOf") or node.get("allOf")  # the last one by old releases of pydantic
    return [found for one in several for found in _variants(one, whole)] if several else [node]


def _nearest(word: object, words: Sequence[str]) -> str:
    return _meant(word, words) or (f": it is one of {', '.join(words)}" if words else "")


def _meant(word: object, words: Iterable[str]) -> str:
    close = get_close_matches(str(word), [*words], n=1)
    return f": did you mean {close[0]}?" if close else ""
