"""The small path language that rules share: which places of a JSON tree are meant.

    $.a.b            a member of a member             $['x-y']         a name that needs quotes
    $.messages[*].id of every element                 $.messages[-1]   the last element
    $.*              every member or element          $..id            at any depth

Trees are never changed in place: `remove` and `replace` copy what stands on the way and share the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_agentreplay.core.model import Json

Place: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(
    r"""(?P<deep>\.\.)?\[(?:(?P<index>-?[0-9]+)|(?P<each>\*)|'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]"""
    r"""|(?P<dots>\.\.?)(?P<name>\*|[\w@$-]+)""",
)
_PLAIN = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Step:
    """One step down: to the member or element `want` (None: to each), `deep` from every node below too."""

    want: str | int | None
    deep: bool


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled path. `text` is the path as written."""

    text: str
    steps: tuple[Step, ...]

    def find(self, tree: Json) -> list[tuple[Place, Json]]:
        """Every place that is meant, with what stands there, in the order of the tree."""
        found: list[tuple[Place, Json]] = [((), tree)]
        for step in self.steps:
            sources = (node for start in found for node in _nodes(*start)) if step.deep else found
            found = [hit for place, node in sources for hit in _down(place, node, step.want)]
            if not found:
                break
        return found

    def remove(self, tree: Json) -> Json:
        """The tree without these places; `tree` itself when there are none, None when it is the whole."""
        places = [place for place, _ in self.find(tree)]
        if () in places:
            return None
        return _rewrite(tree, places, None)

    def replace(self, tree: Json, change: Callable[[Json], Json]) -> Json:
        """The tree with `change(value)` at each of these places."""
        places = [place for place, _ in self.find(tree)]
        if () in places:
            return change(tree)
        return _rewrite(tree, places, change)


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Selector:
    """The selector that `text` writes. Raises SettingsError, naming the column, for what is no path."""
    steps = []
    at = 1
    if not text.startswith("$"):
        msg = f"{text!r} is no path into a body: it starts with $, as in $.metadata.trace_id"
        raise SettingsError(msg)
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            msg = (
                f"{text!r} is no path into a body: column {at + 1}, at {text[at : at + 12]!r}. "
                "Steps are .name  ..name  [0]  [*]  .*  ['x-y']"
            )
            raise SettingsError(msg)
        steps.append(_step(found))
        at = found.end()
    return Selector(text, tuple(steps))


def show(place: Iterable[str | int]) -> str:
    """A place as a path: "$.messages[3]['x-y']"."""
    parts = ["$"]
    for key in place:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif _PLAIN.fullmatch(key):
            parts.append(f".{key}")
        else:
            parts.append("['" + key.replace("\\", "\\\\").replace("'", "\\'") + "']")
    return "".join(parts)


def _step(found: re.Match[str]) -> Step:
    deep = found["deep"] is not None or found["dots"] == ".."
    if found["index"] is not None:
        return Step(int(found["index"]), deep)
    if found["each"] is not None or found["name"] == "*":
        return Step(None, deep)
    if found["name"] is not None:
        return Step(found["name"], deep)
    quoted = found["single"] if found["single"] is not None else found["double"]
    return Step(re.sub(r"\\(.)", r"\1", quoted), deep)


def _nodes(place: Place, tree: Json) -> Iterator[tuple[Place, Json]]:
    """`tree` and all below it, in order; with a stack of its own, for trees deeper than Python's."""
    stack = [(place, tree)]
    while stack:
        here, node = stack.pop()
        yield here, node
        stack.extend(reversed(list(_down(here, node, None))))


def _down(place: Place, node: Json, want: str | int | None) -> Iterator[tuple[Place, Json]]:
    match node, want:
        case dict(), None:
            yield from (((*place, name), value) for name, value in node.items())
        case dict(), str() if want in node:
            yield (*place, want), node[want]
        case list(), None:
            yield from (((*place, index), value) for index, value in enumerate(node))
        case list(), int() if -len(node) <= want < len(node):
            index = want % len(node)
            yield (*place, index), node[index]
        case _:
            pass


def rewritten(tree: Json, values: Mapping[Place, Json]) -> Json:
    """The tree with other values at these places of it."""
    if () in values:
        return values[()]
    copies: dict[Place, dict[str, Json] | list[Json]] = {(): _copy(tree)} if values else {}
    for place, value in values.items():
        _holder(copies, place)[place[-1]] = value
    return copies[()] if values else tree


def _holder(copies: dict[Place, dict[str, Json] | list[Json]], place: Place) -> dict[str | int, Json]:
    """The copy of what holds `place`; each container on the way is copied once."""
    for depth in range(1, len(place)):
        if place[:depth] not in copies:
            above: dict[str | int, Json] = copies[place[: depth - 1]]  # type: ignore[assignment]
            copies[place[:depth]] = above[place[depth - 1]] = _copy(above[place[depth - 1]])
    return copies[place[:-1]]  # type: ignore[return-value]


def _rewrite(tree: Json, places: list[Place], change: Callable[[Json], Json] | None) -> Json:
    """Copy each container on the way once; from the last place to the first, so that indexes stay true."""
    if not places:
        return tree
    copies: dict[Place, dict[str, Json] | list[Json]] = {(): _copy(tree)}
    for place in reversed(places):
        holder = _holder(copies, place)
        if change is None:
            del holder[place[-1]]
        else:
            holder[place[-1]] = change(holder[place[-1]])
    return copies[()]


def _copy(node: Json) -> dict[str, Json] | list[Json]:
    assert isinstance(node, dict | list)
    return node.copy()
