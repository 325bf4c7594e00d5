"""Reading JSON paths: from a text to a `Selector`.

Names and indexes are read by one regular expression, since a replay reads those of its rules and shall not load
jsonpath-ng for them: 75 ms of CPU. What stands in any other bracket is parsed by jsonpath-ng, which knows the grammar
of filters, slices and unions, and turned into steps of our own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.json_paths import Comparison, Conditions, Filter, Query, Selector, Several, Span, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.json_paths import Condition, Want

STEPS = "Steps are .name  ..name  [0]  [*]  .*  ['x-y']  [1:3]  ['a', 'b']  [?(@.name == 'x')]"
LONGEST_BRACKET = 500
"""Characters of a filter. Filters in filters cost a stack frame each, and this keeps them far below Python's limit."""
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# Nine digits: `int` refuses a text of more than 4,300, and no list has so many elements.
_STEP = re.compile(
    rf"(?P<dots>\.\.?)?(?:\[(?P<inside>-?[0-9]{{1,9}}|\*|{_QUOTED})\]|(?(dots)(?P<bare>\*|[\w@$-]+|{_QUOTED})|(?!)))"
)
_BRACKET_PART = re.compile(rf"{_QUOTED}|[\[\]]", re.DOTALL)


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
        begin = at + len(text[at : at + 2]) - len(text[at : at + 2].lstrip("."))
        end = _find_bracket_end(text, begin)
        if not end:
            raise _make_error(text, at)
        try:
            want = _parse_bracket(text[begin:end], patterns=patterns)
        except ValueError as error:
            raise _make_error(text, begin, str(error)) from None
        steps.append(Step(want, deep=begin == at + 2))
        at = end
    inside = sum(_count_deep(step.want.condition) for step in steps if isinstance(step.want, Filter))
    if inside and inside + sum(step.deep for step in steps) > 1:
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
    from jsonpath_ng.ext.parser import parse

    try:
        (step,) = _read_steps(parse(f"${text}"), patterns=patterns)
    except Exception as error:  # jsonpath-ng raises several, some of them plain ones
        raise ValueError(str(error)) from None
    return step.want._replace(text=text) if isinstance(step.want, Filter) else step.want


def _read_steps(node: Any, *, patterns: bool, is_start: bool = True) -> tuple[Step, ...]:
    """Return the steps of an expression of jsonpath-ng. Raises ValueError for what leads to no places of a tree.

    Classes are told by their names, and absent fields allowed for: releases from 1.6 on are supported, and `Wildcard`,
    `Index.indices`, `And` and `Or` came later (https://github.com/h2non/jsonpath-ng/blob/master/History.md).
    """
    want: Want
    match type(node).__name__:
        case "This" | "Root" if is_start:
            return ()
        case "Child" | "Descendants" as kind:
            above = _read_steps(node.left, patterns=patterns, is_start=is_start)
            first, *others = _read_steps(node.right, patterns=patterns, is_start=False)
            return (*above, first._replace(deep=first.deep or kind == "Descendants"), *others)
        case "Wildcard":
            want = None
        case "Fields":
            want = _join_keys(node.fields)
        case "Index":
            want = _join_keys(node.indices if hasattr(node, "indices") else [node.index])
        case "Slice" if node.step != 0:
            want = Span(node.start, node.end, node.step)
        case "Filter":
            want = Filter(_read_conditions(node.expressions, patterns=patterns))
        case kind:
            raise ValueError(f"{kind.lower()} leads to no place")
    return (Step(want),)


def _join_keys(keys: Sequence[str | int]) -> Want:
    return keys[0] if len(keys) == 1 else Several(tuple(keys))


def _read_conditions(expressions: Sequence[Any], *, patterns: bool, every: bool = True) -> Condition:
    parts = tuple(_read_condition(expression, patterns=patterns) for expression in expressions)
    return parts[0] if len(parts) == 1 else Conditions(every, parts)


def _read_condition(node: Any, *, patterns: bool) -> Condition:
    """Return a condition of a filter. Raises ValueError for what is none."""
    if (kind := type(node).__name__) in {"And", "Or"}:
        return _read_conditions(node.operands, patterns=patterns, every=kind == "And")
    how, operand = {None: "", "=": "=="}.get(node.op, node.op), node.value
    if how == "=~" and not patterns:
        raise ValueError("=~ is for tests alone: a pattern of a file could take for ever")
    if how == "=~":
        operand = re.compile(operand)
    elif not isinstance(operand, str | int | float | None):
        operand = _read_query(operand, patterns=patterns)
    return Comparison(_read_query(node.target, patterns=patterns), how, operand)


def _read_query(node: Any, *, patterns: bool) -> Query:
    steps, start = _read_steps(node, patterns=patterns), node
    while hasattr(start, "left"):
        start = start.left
    query = Query(steps, type(start).__name__ == "Root")
    if query.from_root and not all(step.keys and not step.deep for step in steps):
        # Else each node that is asked would have the whole tree searched.
        raise ValueError("after $ in a filter come names and indexes alone")
    return query


def _count_deep(condition: Condition) -> int:
    """Return how many times a condition looks at any depth."""
    if isinstance(condition, Conditions):
        return sum(map(_count_deep, condition.parts))
    queries = [query for query in (condition.query, condition.operand) if isinstance(query, Query)]
    steps = [step for query in queries for step in query.steps]
    inside = sum(_count_deep(step.want.condition) for step in steps if isinstance(step.want, Filter))
    return inside + sum(step.deep for step in steps)
