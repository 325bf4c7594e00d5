"""Reading JSON paths: from a text to a `Selector`.

Names and indexes are read by one regular expression, since a replay reads those of its rules and shall not load
jsonpath-ng for them (10 to 60 ms of CPU, by its release). What stands in any other bracket is parsed by jsonpath-ng,
which knows the grammar of filters, slices and unions, and turned into steps of our own.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.json_paths import Choice, Selector, Step, find_places, list_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.model.json_paths import Want

    Condition: TypeAlias = Callable[[Json, Json], bool]
    Query: TypeAlias = Callable[[Json, Json], list[Json]]

STEPS = "Steps are .name  ..name  [0]  [*]  .*  ['x-y']  [1:3]  ['a', 'b']  [?(@.name == 'x')]"
LONGEST_BRACKET = 500
"""Characters of a filter. Filters in filters cost a stack frame each, and this keeps them far below Python's limit."""
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# Nine digits: `int` refuses a text of more than 4,300, and no list has so many elements.
_STEP = re.compile(
    rf"(?P<dots>\.\.?)?(?:\[(?P<inside>-?[0-9]{{1,9}}|\*|{_QUOTED})\]|(?(dots)(?P<bare>\*|[\w@$-]+|{_QUOTED})|(?!)))"
)
_QUOTES, _BRACKET_PART = re.compile(_QUOTED, re.DOTALL), re.compile(rf"{_QUOTED}|[\[\]]", re.DOTALL)
_NULL = re.compile(r"\bnull\b")
# jsonpath-ng counts from the bracket, and from 0: "Parse error at 1:17 near token ]".
_POSITION = re.compile(r" at \d+:\d+| on line \d+, col \d+")
_OPERATORS = {"==": eq, "=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@lru_cache(maxsize=1024)
def compile_path(text: str, *, patterns: bool = False) -> Selector:
    """Return the selector that `text` writes.

    Args:
        text: A path, which starts with "$".
        patterns: Whether a filter may hold `=~ 'REGEX'`. Only paths in code may: a pattern from a file could take
            for ever.

    Raises:
        SettingsError: It is no path. The message shows it, and says the column and which steps there are.
    """
    if not text.startswith("$"):
        raise SettingsError(f"{text!r} is no path into a body: it starts with $, as in $.metadata.trace_id")
    steps: list[Step] = []
    at = 1
    while at < len(text):
        if match := _STEP.match(text, at):
            steps.append(_read_step(match))
            at = match.end()
            continue
        dots = next(count for count in (2, 1, 0) if text.startswith("." * count, at))
        end = _find_bracket_end(text, at + dots)
        if not end:
            raise _make_error(text, at)
        try:
            steps.append(Step(_parse_bracket(text[at + dots : end], patterns=patterns), deep=dots == 2))
        except ValueError as error:
            raise _make_error(text, at + dots, str(error)) from None
        at = end
    deep, deep_with_filters = sum(step.deep for step in steps), _QUOTES.sub("", text).count("..")
    if 1 < deep_with_filters > deep:
        # Each .. walks through the tree for each node that the other one finds.
        raise _make_error(text, 0, "a filter with .. is the one place in a path that has it")
    return Selector(text, tuple(steps))


def split_path(text: str, mark: str = "=") -> tuple[str, str]:
    """Return the path that a line begins with, and what stands behind the first `mark` outside of its brackets."""
    at = 0
    while at < len(text) and not text.startswith(mark, at):
        at = _find_bracket_end(text, at) or at + 1
    return text[:at].strip(), text[at + len(mark) :].strip()


def _make_error(text: str, at: int, reason: str = "") -> SettingsError:
    place = f"column {at + 1}, at {text[at : at + 12]!r}{reason and f': {reason}'}"
    return SettingsError(f"{text!r} is no path into a body: {place}. {STEPS}")


def _read_step(match: re.Match[str]) -> Step:
    word, deep = match["inside"] or match["bare"], match["dots"] == ".."
    if word == "*":
        return Step(None, deep)
    if word[0] in "'\"":
        return Step(re.sub(r"\\(.)", r"\1", word[1:-1]), deep)
    return Step(int(word) if match["inside"] else word, deep)


def _find_bracket_end(text: str, at: int) -> int:
    """Return where the bracket ends that begins at `at`; 0 where none begins, or it has no end."""
    depth = 0
    for part in _BRACKET_PART.finditer(text, at) if text[at : at + 1] == "[" else ():
        depth += {"[": 1, "]": -1}.get(part[0], 0)
        if not depth:
            return part.end()
    return 0


def _parse_bracket(text: str, *, patterns: bool) -> Want:
    """Return what a bracket wants, as jsonpath-ng understands it. Raises ValueError."""
    if len(text) > LONGEST_BRACKET:
        raise ValueError(f"a bracket has at most {LONGEST_BRACKET} characters")
    bare = _QUOTES.sub("", text)
    if "=~" in bare and not patterns:
        raise ValueError("=~ is for tests alone: a pattern of a file could take for ever")
    from jsonpath_ng import jsonpath
    from jsonpath_ng.ext.parser import ExtendedJsonPathLexer, parse

    # Releases before 1.16 take .* for a member of that name, and null for a text: nothing would ever be found.
    misread_each = ".*" in bare and not hasattr(jsonpath, "Wildcard")
    misread_null = _NULL.search(bare) and "NULL" not in ExtendedJsonPathLexer.tokens
    if misread_each or misread_null:
        raise ValueError(".* and null in a filter need jsonpath-ng 1.16")
    try:
        (step,) = _read_steps(parse(f"${text}"), text=text)
    except Exception as error:  # jsonpath-ng raises several, some of them plain ones
        raise ValueError(_POSITION.sub("", str(error))) from None
    return step.want


def _read_steps(node: Any, *, text: str = "", is_start: bool = True) -> tuple[Step, ...]:
    """Return the steps of an expression of jsonpath-ng. Raises ValueError for what leads to no places of a tree.

    Classes are told by their names, and absent fields allowed for: releases from 1.6 on are supported, and `Wildcard`,
    `Index.indices`, `And` and `Or` came later (https://github.com/h2non/jsonpath-ng/blob/master/CHANGELOG.md).
    """
    match type(node).__name__:
        case "This" | "Root" if is_start:
            return ()
        case "Child" | "Descendants" as kind:
            above = _read_steps(node.left, is_start=is_start)
            first, *others = _read_steps(node.right, text=text, is_start=False)
            return (*above, first._replace(deep=first.deep or kind == "Descendants"), *others)
        case "Wildcard":
            return (Step(None),)
        case "Fields":
            return (Step(_join_keys(text, node.fields)),)
        case "Index":
            return (Step(_join_keys(text, getattr(node, "indices", None) or [node.index])),)
        case "Slice" if node.step != 0:
            part = slice(node.start, node.end, node.step)
            return (Step(Choice(text, partial(_list_sliced, part), is_numbered=True)),)
        case "Filter":
            return (Step(Choice(text, partial(_list_filtered, _join_conditions(all, node.expressions)))),)
        case kind:
            raise ValueError(f"{kind.lower()} leads to no place")


def _join_keys(text: str, keys: Sequence[str | int]) -> Want:
    """Return what leads to one key, or to several."""
    if len(keys) == 1:
        return keys[0]
    names = tuple(key for key in keys if isinstance(key, str))
    return Choice(text, partial(_list_several, keys), names, is_numbered=not names)


def _list_several(keys: Sequence[str | int], node: Json, root: Json) -> Iterable[str | int]:
    # By way of a dict: [0, -2] may be one element.
    return dict.fromkeys(key for want in keys for key in list_keys(node, want, root))


def _list_sliced(part: slice, node: Json, _: Json) -> Iterable[str | int]:
    return range(len(node))[part] if isinstance(node, list) else ()


def _list_filtered(holds: Condition, node: Any, root: Json) -> Iterable[str | int]:
    return [key for key in list_keys(node, None, root) if holds(node[key], root)]


def _join_conditions(join: Callable[[Iterable[bool]], bool], expressions: Iterable[Any]) -> Condition:
    conditions = [*map(_read_condition, expressions)]
    return lambda node, root: join(condition(node, root) for condition in conditions)


def _read_condition(expression: Any) -> Condition:
    """Return the function that says whether a condition holds of a node. Raises ValueError for what is none."""
    if (kind := type(expression).__name__) in {"And", "Or"}:
        return _join_conditions(all if kind == "And" else any, expression.operands)
    how, operand, look_up = expression.op, expression.value, _read_query(expression.target)
    if how in {None, "!"}:
        return lambda node, root: bool(look_up(node, root)) == (how is None)
    if how == "=~":
        search = re.compile(operand).search
        return lambda node, root: any(isinstance(value, str) and search(value) for value in look_up(node, root))
    is_plain = isinstance(operand, str | int | float | None)
    other: Query = (lambda *_: [operand]) if is_plain else _read_query(operand)
    return lambda node, root: _compare(look_up(node, root), how, other(node, root))


def _read_query(expression: Any) -> Query:
    """Return the function that looks values up, from a node or from the root. Raises ValueError."""
    steps, start = _read_steps(expression), expression
    while hasattr(start, "left"):
        start = start.left
    from_root = type(start).__name__ == "Root"
    if from_root and not all(isinstance(step.want, str | int) and not step.deep for step in steps):
        # Else each node that is asked would have the whole tree searched.
        raise ValueError("after $ in a filter come names and indexes alone")
    return lambda node, root: [value for _, value in find_places(steps, root if from_root else node, root)]


def _compare(values: list[Any], how: str, others: list[Any]) -> bool:
    """Return whether one of `values` is as an operator says beside one of `others`.

    As RFC 9535, section 2.3.5.2.2, has it: what is not there equals nothing but something else that is not there, and
    only two numbers or two texts have an order.
    """
    for value, other in ((value, other) for value in values for other in others):
        kinds = [float if type(side) is int else type(side) for side in (value, other)]
        ordered = kinds in ([float, float], [str, str])
        if _OPERATORS[how](value, other) if ordered else _holds_of_equal(how, canonical(value) == canonical(other)):
            return True
    return not (values and others) and _holds_of_equal(how, not values and not others)


def _holds_of_equal(how: str, equal: bool) -> bool:
    return not equal if how == "!=" else equal and "=" in how
