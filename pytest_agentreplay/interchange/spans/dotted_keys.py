"""Attributes by dotted names, whether an exporter kept them flat, spread a value over many names, or nested them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject


def at(attributes: JsonObject, *names: str) -> Json:
    """The value of the first name that has one; None for none."""
    return next((found for name in names if (found := _at(attributes, name)) is not None), None)


def text(attributes: JsonObject, *names: str) -> str:
    """The first text under `names`; "" for none."""
    return next((found for name in names if (found := string(_at(attributes, name)))), "")


def tree(attributes: JsonObject, *names: str) -> Json:
    """The value of the first name that has one, JSON in a text parsed; one that is spread over names put together."""
    for name in names:
        found = _at(attributes, name)
        if found is not None:
            return genai.parsed(found)
        if spread := under(attributes, f"{name}."):
            return _grown(spread)
    return None


def under(attributes: JsonObject, prefix: str) -> JsonObject:
    """The attributes whose names begin with `prefix`, without it."""
    return {name[len(prefix) :]: value for name, value in attributes.items() if name.startswith(prefix)}


def _at(attributes: JsonObject, name: str) -> Json:
    if (found := attributes.get(name)) is not None:
        return found
    head, dot, rest = name.partition(".")
    inner = attributes.get(head) if dot else None
    return _at(inner, rest) if isinstance(inner, dict) else None


def _grown(spread: JsonObject) -> Json:
    """The value of which each leaf stands under its dotted path; numbers are places in a list."""
    leaves = {name: value for name, value in spread.items() if "." not in name}
    branches: dict[str, JsonObject] = {}
    for name, value in spread.items():
        head, dot, rest = name.partition(".")
        if dot and head not in leaves:
            branches.setdefault(head, {})[rest] = value
    grown: JsonObject = {**leaves, **{head: _grown(branch) for head, branch in branches.items()}}
    if all(head.isascii() and head.isdigit() and len(head) < 10 for head in grown):
        return [grown[head] for head in sorted(grown, key=int)]
    return grown
