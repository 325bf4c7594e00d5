"""JSON paths: how rules, policies, tolerances, checks and assertions name places of a JSON tree.

    $.a.b            a member of a member             $['x-y']             a name that needs quotes
    $.messages[*].id of every element                 $.messages[-1]       the last element
    $.*              every member or element          $..id                at any depth
    $.messages[1:3]  elements from 1 up to 3          $['id', 'name']      several members; [0, 2] elements
    $.messages[?(@.role == 'user')]                   members or elements of which something holds

A compiled path is a row of steps (`path_parsing` compiles them). They are evaluated here and not by jsonpath-ng, which
has no places for members of objects in a filter, and finds other things from release to release. Finding takes a time
that grows with the tree.

Trees are never changed in place: `remove` and `replace` copy what stands on the way and share the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json

Place: TypeAlias = tuple[str | int, ...]

_UNQUOTED = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a bracket means that is more than one key: several names or numbers, a slice, a filter.

    `text` is the bracket as written, and two that are written alike are equal. `choose` takes a node, and the root of
    the tree for a `$` in a filter; it returns which keys of the node are meant, each once. `names` are those that the
    bracket says.
    """

    text: str
    choose: Callable[[Json, Json], Iterable[str | int]] = field(compare=False)
    names: tuple[str, ...] = ()
    is_numbered: bool = False


Want: TypeAlias = str | int | Choice | None


class Step(NamedTuple):
    """One step down: to the members or elements `want` (None: to each), `deep` from every node below too."""

    want: Want
    deep: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The members to which it leads, by name."""
        return (self.want,) if isinstance(self.want, str) else getattr(self.want, "names", ())

    @property
    def is_numbered(self) -> bool:
        """Whether it leads to elements by their numbers."""
        return isinstance(self.want, int) or (isinstance(self.want, Choice) and self.want.is_numbered)


class Selector(NamedTuple):
    """A compiled path. `text` is the path as written."""

    text: str
    steps: tuple[Step, ...]

    def find(self, tree: Json) -> list[tuple[Place, Json]]:
        """Return every place that is meant, once, with what stands there, in the order of the tree."""
        return find_places(self.steps, tree, tree)

    def list_values(self, tree: Json) -> list[Json]:
        """Return what stands at the places that are meant."""
        return [value for _, value in self.find(tree)]

    def reach(self, *trees: Json) -> tuple[Selector, list[Json]]:
        """Return the longest beginning of the path that leads to something in one of the trees, and what it finds."""
        for count in range(len(self.steps), -1, -1):
            start = Selector(format_path(self.steps[:count]), self.steps[:count])
            if values := [value for tree in trees for value in start.list_values(tree)]:
                break
        return start, values

    def remove(self, tree: Json) -> Json:
        """Return the tree without these places; `tree` itself when there are none, None when it is the whole."""
        # From the last place to the first, so that indexes stay true; [::-1] and [2, 0] find them in another order.
        return _edit(tree, sorted((place for place, _ in self.find(tree)), reverse=True), None)

    def replace(self, tree: Json, change: Callable[[Json], Json]) -> Json:
        """Return the tree with `change(value)` at each of these places."""
        return _edit(tree, [place for place, _ in reversed(self.find(tree))], lambda _, value: change(value))


def find_places(steps: tuple[Step, ...], start: Json, root: Json) -> list[tuple[Place, Json]]:
    """Return each place to which the steps lead from `start`, once. `root` is what `$` means in a filter."""
    matches: list[tuple[Place, Any]] = [((), start)]
    for step in steps:
        sources = _list_nodes(matches) if step.deep else matches
        matches = [((*place, key), node[key]) for place, node in sources for key in list_keys(node, step.want, root)]
        # Of shipped rules most find nothing in a body.
        if not matches:
            break
    return matches


def _list_nodes(starts: list[tuple[Place, Any]]) -> Iterator[tuple[Place, Any]]:
    """Yield the starts and all below them, in order, each node once."""
    walked: set[Place] = set()
    for start in starts:
        # A start that stands in another one comes after it, and has been walked through with it.
        if any(start[0][:depth] in walked for depth in range(len(start[0]) + 1)):
            continue
        walked.add(start[0])
        # A stack of its own: trees may be deeper than Python's.
        stack = [start]
        while stack:
            place, node = stack.pop()
            yield place, node
            stack.extend(reversed([((*place, key), node[key]) for key in list_keys(node, None, None)]))


def list_keys(node: Json, want: Want, root: Json) -> Iterable[str | int]:
    """Return the keys of a node to which a step leads: names of members, or numbers of elements from 0 on."""
    if not isinstance(node, dict | list):
        return ()
    if isinstance(want, Choice):
        return want.choose(node, root)
    if want is None:
        return node if isinstance(node, dict) else range(len(node))
    if isinstance(node, dict):
        return (want,) if want in node else ()
    return (want % len(node),) if isinstance(want, int) and -len(node) <= want < len(node) else ()


def show(place: Iterable[str | int]) -> str:
    """Return a place as a path: "$.messages[3]['x-y']"."""
    return "$" + "".join(_format_key(key) for key in place)


def format_path(steps: Iterable[Step]) -> str:
    """Return steps as a path, which compiles to them."""
    return "$" + "".join(map(_format_step, steps))


def _format_step(step: Step) -> str:
    want = step.want
    text = "[*]" if want is None else want.text if isinstance(want, Choice) else _format_key(want)
    return f"..{text.removeprefix('.')}" if step.deep else text


def _format_key(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    quoted = key.replace("\\", "\\\\").replace("'", "\\'")
    return f".{key}" if _UNQUOTED.fullmatch(key) else f"['{quoted}']"


def rewritten(tree: Json, values: Mapping[Place, Json]) -> Json:
    """Return the tree with other values at these places of it."""
    return _edit(tree, [*values], lambda place, _: values[place])


def _edit(tree: Json, places: Sequence[Place], change: Callable[[Place, Json], Json] | None) -> Json:
    """Return the tree with places changed, or removed, in their order; each container on the way is copied once."""
    if () in places:
        return change((), tree) if change is not None else None
    if not places:
        return tree
    copies: dict[Place, Any] = {(): cast("Any", tree).copy()}
    for place in places:
        for depth in range(1, len(place)):
            if place[:depth] not in copies:
                above, key = copies[place[: depth - 1]], place[depth - 1]
                copies[place[:depth]] = above[key] = above[key].copy()
        holder, last = copies[place[:-1]], place[-1]
        if change is None:
            del holder[last]
        else:
            holder[last] = change(place, holder[last])
    return cast("Json", copies[()])
