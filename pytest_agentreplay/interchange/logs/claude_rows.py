"""The rows of a session in order, and the newest branch of the tree that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import obj, objects, string
from pytest_agentreplay.interchange.moments import in_time

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import JsonObject


_SIDES = frozenset({"user", "assistant"})


def is_message(row: JsonObject) -> bool:
    """Whether a row is what one side said."""
    return string(row.get("type")) in _SIDES and isinstance(row.get("message"), dict)


def in_order(rows: list[JsonObject]) -> list[JsonObject]:
    """The rows as they stand; by their times where a row stands before the one that it answers."""
    seen: set[str] = set()
    known = {string(row.get("uuid")) for row in rows}
    shuffled = False
    for row in rows:
        parent = string(row.get("parentUuid"))
        shuffled |= parent in known and parent not in seen and parent != ""
        seen.add(string(row.get("uuid")))
    return in_time(rows) if shuffled else rows


def branch(rows: list[JsonObject]) -> tuple[list[JsonObject], int]:
    """The messages that lead to the last one, and how many were left out.

    A row whose parent is not there follows the one before it, and so does every row of a file that names none. Results
    of tools, and further pieces of a reply, belong to the branch that asked for them, wherever they hang in the tree.
    """
    parents = _parents(rows)
    at, kept = max(place for place, row in enumerate(rows) if is_message(row)), set[int]()
    while at >= 0:
        kept.add(at)
        at = parents[at]
    replies = {_reply(rows[place]) for place in kept} - {""}
    kept |= {place for place, row in enumerate(rows) if _reply(row) in replies}
    held = [block for place in kept for block in blocks(rows[place])]
    asked = {string(block.get("id")) for block in held if block.get("type") == "tool_use"}
    for place, row in enumerate(rows):
        answered = {string(block.get("tool_use_id")) for block in blocks(row) if block.get("type") == "tool_result"}
        if answered and answered <= asked:
            kept.add(place)
    said = [place for place, row in enumerate(rows) if is_message(row)]
    taken = [rows[place] for place in said if place in kept]
    return taken, len(said) - len(taken)


def blocks(row: JsonObject) -> list[JsonObject]:
    """The blocks of the message in a row."""
    return objects(obj(row.get("message")).get("content"))


def _parents(rows: list[JsonObject]) -> list[int]:
    """For each row the place of the one before it, always a smaller one; -1 for the first."""
    places: dict[str, int] = {}
    found: list[int] = []
    tree = any(string(row.get("parentUuid")) for row in rows)
    for place, row in enumerate(rows):
        named = string(row.get("parentUuid")) or string(row.get("logicalParentUuid"))
        root = tree and not named and "parentUuid" in row
        found.append(-1 if root else places.get(named, place - 1))
        if string(row.get("uuid")):
            places[string(row["uuid"])] = place
    return found


def _reply(row: JsonObject) -> str:
    return string(obj(row.get("message")).get("id")) if row.get("type") == "assistant" else ""
