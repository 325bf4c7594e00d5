"""Records in what tools gave: objects that say whose they are, at any depth, also in texts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.checks.lists import listed
from pytest_agentreplay.core.canonical_json import NotJson, parse
from pytest_agentreplay.core.rules import compile_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_TRIES = 50
"""So many beginnings of JSON are tried in a text that is more than JSON."""
_BEGIN = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Record:
    """One object: whose it is (one identity, or several), and the fields below it that belong to no other record."""

    whose: frozenset[str]
    fields: list[tuple[str, Any]] = field(default_factory=list)
    origin: str = ""


@dataclass(slots=True)
class RecordMatch:
    """The records in a value, and the plain values that belong to none."""

    records: list[Record] = field(default_factory=list)
    loose: list[Any] = field(default_factory=list)


def tail(path: str) -> tuple[str, ...]:
    """The names at the end of a path, which lead from a record to whose it is: `$.orders[*].user.id` -> user, id."""
    names: list[str] = []
    for step in reversed(compile_path(path).steps):
        if not isinstance(step.want, str):
            break
        names.insert(0, step.want)
    return tuple(names)


def records(value: Any, way: tuple[str, ...], origin: str = "", *, lists: bool = False) -> RecordMatch:
    """The records in `value`: objects from which `way` leads to an identity.

    With `lists` those in plain texts too: lines of names and values, tables, XML.
    """
    found = RecordMatch()
    waiting: list[tuple[str, Any, Record | None]] = [("", value, None)]
    while waiting:
        name, node, owner = waiting.pop()
        match node:
            case dict():
                if whose := identities(node, way):
                    owner = Record(whose, origin=origin)
                    found.records.append(owner)
                waiting += [(str(key), it, owner) for key, it in reversed(node.items())]
            case list() | tuple() | set() | frozenset():
                waiting += [(name, it, owner) for it in reversed([*node])]
            case str() if "{" in node and (inner := objects_in(node)):
                waiting += [(name, it, owner) for it in reversed(inner)]
            case str() if lists and (rows := listed(node, way)):
                waiting += [(name, it, owner) for it in reversed(rows)]
            case None | bool():
                pass
            case _ if owner is not None:
                owner.fields.append((name, node))
            case _:
                found.loose.append(node)
    found.records.sort(key=lambda one: one.origin)
    return found


def identities(node: dict[Any, Any], way: Iterable[str]) -> frozenset[str]:
    """Whose an object is; empty where it does not say."""
    here: Any = node
    for name in way:
        here = here.get(name) if isinstance(here, dict) else None
    every = here if isinstance(here, list | tuple) else [here]
    return frozenset(
        spelled(one) for one in every if isinstance(one, str | int) and not isinstance(one, bool) and one != ""
    )


def spelled(identity: object) -> str:
    """An identity as it is compared: 7 and "7" are one."""
    return str(identity).strip().casefold()


def objects_in(text: str) -> list[Any]:
    """The JSON objects and lists in a text: the text itself, or what stands among other words."""
    whole = parse(text)
    if not isinstance(whole, NotJson):
        return [whole] if isinstance(whole, dict | list) else []
    return [*_among(text)]


def _among(text: str) -> Iterator[Any]:
    at = tries = 0
    while tries < MOST_TRIES and (begin := _BEGIN.search(text, at)) is not None:
        tries += 1
        try:
            value, at = _DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            at = begin.end()
            continue
        if value:
            yield value
