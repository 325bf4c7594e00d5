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

import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from pytest_agentreplay.model.canonical_json import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json

Place: TypeAlias = tuple[str | int, ...]

_UNQUOTED = re.compile(r"[A-Za-z_]\w*")
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Several(NamedTuple):
    """The members or elements `['a', 'b']` or `[0, 2]`."""

    keys: tuple[str | int, ...]


class Span(NamedTuple):
    """The elements `[start:stop:step]`, as in a slice of Python."""

    start: int | None
    stop: int | None
    step: int | None


class Query(NamedTuple):
    """What is looked up inside of a filter: from the node that is asked, or from the root of the tree."""

    steps: tuple[Step, ...]
    from_root: bool


class Comparison(NamedTuple):
    """Values that a query finds, beside a plain value, a pattern (for "=~") or another query.

    `operator` is "" where something must be there, "!" where nothing may.
    """

    query: Query
    operator: str = ""
    operand: Any = None


class Conditions(NamedTuple):
    """Conditions of which all hold (`every`), or any."""

    every: bool
    parts: tuple[Condition, ...]


class Filter(NamedTuple):
    """The members or elements of which `condition` holds. `text` is the bracket as written, "" in another filter."""

    condition: Condition
    text: str = ""


Condition: TypeAlias = Comparison | Conditions
Want: TypeAlias = str | int | Several | Span | Filter | None


class Step(NamedTuple):
    """One step down: to the members or elements `want` (None: to each), `deep` from every node below too."""

    want: Want
    deep: bool = False

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The names, or the numbers, of what it leads to; none where it says neither."""
        keys = self.want.keys if isinstance(self.want, Several) else (self.want,)
        return tuple(key for key in keys if isinstance(key, str | int))

    @property
    def is_numbered(self) -> bool:
        """Whether it leads to elements by their numbers."""
        return isinstance(self.want, Span) or any(isinstance(key, int) for key in self.keys)


class Selector(NamedTuple):
    """A compiled path. `text` is the path as written."""

    text: str
    steps: tuple[Step, ...]

    def find(self, tree: Json) -> list[tuple[Place, Json]]:
        """Return every place that is meant, once, with what stands there, in the order of the tree."""
        return _find(self.steps, tree, tree)

    def list_values(self, tree: Json) -> list[Json]:
        """Return what stands at the places that are meant."""
        return [value for _, value in _find(self.steps, tree, tree)]

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


def _find(steps: tuple[Step, ...], start: Json, root: Json) -> list[tuple[Place, Json]]:
    matches: list[tuple[Place, Json]] = [((), start)]
    for step in steps:
        sources = _list_nodes(matches) if step.deep else matches
        matches = [match for place, node in sources for match in _step_down(place, node, step.want, root)]
        if not matches:
            break
    return matches


def _list_nodes(starts: list[tuple[Place, Json]]) -> Iterator[tuple[Place, Json]]:
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
            stack.extend(reversed(list(_step_down(place, node, None, None))))


def _step_down(place: Place, node: Json, want: Want, root: Json) -> Iterator[tuple[Place, Json]]:
    """Yield what one step leads to from a node, with its places. `root` is what `$` means in a filter."""
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
        case list(), Span():
            for index in range(len(node))[slice(*want)]:
                yield (*place, index), node[index]
        case dict() | list(), Filter():
            below = _step_down(place, node, None, root)
            yield from (match for match in below if _holds(want.condition, match[1], root))
        case dict() | list(), Several():
            # Of [0, -2] both may be one element.
            yield from {match[0]: match for key in want.keys for match in _step_down(place, node, key, root)}.values()
        case _:
            pass


def _holds(condition: Condition, node: Json, root: Json) -> bool:
    """Return whether a condition of a filter holds of a node.

    As RFC 9535, section 2.3.5.2.2, has it: what is not there is equal to nothing but something else that is not there,
    and only two numbers or two texts have an order. Of several values one that fits is enough.
    """
    if isinstance(condition, Conditions):
        return (all if condition.every else any)(_holds(part, node, root) for part in condition.parts)
    values, how, operand = _look_up(condition.query, node, root), condition.operator, condition.operand
    if how in {"", "!"}:
        return bool(values) == (how == "")
    if how == "=~":
        return any(isinstance(value, str) and operand.search(value) for value in values)
    others = _look_up(operand, node, root) if isinstance(operand, Query) else [operand]
    if not values or not others:
        return _are_equal_by(how, equal=not values and not others)
    return any(_compare(value, how, other) for value in values for other in others)


def _look_up(query: Query, node: Json, root: Json) -> list[Json]:
    return [value for _, value in _find(query.steps, root if query.from_root else node, root)]


def _compare(left: Json, how: str, right: Json) -> bool:
    kinds = [float if type(side) is int else type(side) for side in (left, right)]
    if kinds in ([float, float], [str, str]):
        return _OPERATORS[how](left, right)
    return _are_equal_by(how, equal=canonical(left) == canonical(right))


def _are_equal_by(how: str, *, equal: bool) -> bool:
    """Return what an operator says of two values without an order."""
    return not equal if how == "!=" else equal and "=" in how


def show(place: Iterable[str | int]) -> str:
    """Return a place as a path: "$.messages[3]['x-y']"."""
    return "$" + "".join(_format_key(key) for key in place)


def format_path(steps: Iterable[Step]) -> str:
    """Return steps as a path, which compiles to them."""
    return "$" + "".join(map(_format_step, steps))


def _format_step(step: Step) -> str:
    match step.want:
        case None:
            text = "[*]"
        case Filter():
            text = step.want.text
        case Span(start, stop, size):
            numbers = (start, stop) if size is None else (start, stop, size)
            text = f"[{':'.join('' if number is None else str(number) for number in numbers)}]"
        case Several(keys):
            text = f"[{', '.join(_quote(key) if isinstance(key, str) else str(key) for key in keys)}]"
        case str() | int() as key:
            text = _format_key(key)
    return f"..{text.removeprefix('.')}" if step.deep else text


def _format_key(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _UNQUOTED.fullmatch(key) else f"[{_quote(key)}]"


def _quote(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
