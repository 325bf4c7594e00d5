"""Attributes by dotted names, whether an exporter kept them flat, spread a value over many names, or nested them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.model import Json, JsonObject


def flat(attributes: JsonObject) -> JsonObject:
    """The attributes, and whatever objects among them hold under its dotted name, wherever the names are split."""
    found, waiting = dict(attributes), [*attributes.items()]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            inner = {f"{name}.{rest}": held for rest, held in value.items()}
            waiting += inner.items()
            for path, held in inner.items():
                found.setdefault(path, held)
    return found


def at(attributes: JsonObject, *names: str) -> Json:
    """The value of the first name that has one; None for none."""
    return next((found for name in names if (found := attributes.get(name)) is not None), None)


def text(attributes: JsonObject, *names: str) -> str:
    """The first text under `names`; "" for none."""
    return next((found for name in names if (found := string(attributes.get(name)))), "")


def tree(attributes: JsonObject, *names: str) -> Json:
    """The value of the first name that has one, JSON in a text parsed; one that is spread over names put together."""
    for name in names:
        found = attributes.get(name)
        if found is not None and not (isinstance(found, dict) and all(place[:1].isdigit() for place in found)):
            return genai.parsed(found)
        start = f"{name}."
        if spread := {one[len(start) :]: held for one, held in attributes.items() if one.startswith(start)}:
            return grown(spread)
    return None


def under(attributes: JsonObject, prefix: str) -> JsonObject:
    """The attributes whose names begin with `prefix`, without it; what an object among them holds is told by it."""
    found = {name[len(prefix) :]: value for name, value in attributes.items() if name.startswith(prefix)}
    held = tuple(f"{name}." for name, value in found.items() if isinstance(value, dict))
    return {name: value for name, value in found.items() if not name.startswith(held)} if held else found


def grown(value: Json) -> Json:
    """A value without dots in its names, where each is a path; numbers are places in a list."""
    return _grown({".".join(path): leaf for path, leaf in _leaves(value, ())}) if isinstance(value, dict) else value


def _leaves(value: Json, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """What stands in objects and lists, with its path."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not members or not value:
        yield path, value
    for name, member in members:
        yield from _leaves(member, (*path, str(name)))


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
