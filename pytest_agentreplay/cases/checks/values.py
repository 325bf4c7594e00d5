"""What a word says of a run; values held against what a check wants: exists, equals, contains, not_contains, matches.

Paths are those of `model.json_paths`, with at most one `..`, so that looking costs what the tree is long. Where a path
finds several values, one that fits is enough, and what must not be there may be in none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.cases.turn import clip, short
from pytest_agentreplay.compare.diff.texts import brief
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.redaction.regexes import compile_linear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.json_paths import Selector


class AnswerCheck(NamedTuple):
    """`holds` is None where the evidence says nothing; `lines` are then why, else expected, there, nearest."""

    holds: bool | None
    lines: tuple[str, ...] = ()


HOLDS = AnswerCheck(holds=True)


def fails(head: str, expected: str, there: str, *more: str) -> AnswerCheck:
    """It does not hold."""
    return AnswerCheck(False, (head, f"  expected  {expected}", f"  there     {there}", *more))


def unknown(why: str) -> AnswerCheck:
    """Nobody can say."""
    return AnswerCheck(None, (f"cannot say: {why}",))


def combine_answers(answers: Iterable[AnswerCheck]) -> AnswerCheck:
    """Return that all of them hold; else the first that fails, else the first of which nobody can say."""
    all_answers = list(answers)
    return next(
        (answer for answer in all_answers if answer.holds is False),
        next((answer for answer in all_answers if answer.holds is None), HOLDS),
    )


COMPARISONS = ("exists", "equals", "contains", "not_contains", "matches")
LONGEST_PATH = 500


def compare_values(
    what: str, values: Sequence[Any], expectation: Mapping[str, Any], nearest: str = "", *, there: bool
) -> AnswerCheck:
    """Return whether the `values` of `what` are as `expectation`; `there`: what holds them exists."""
    return combine_answers(
        _compare_by(what, values, name, expectation[name], nearest=nearest, there=there)
        for name in COMPARISONS
        if name in expectation
    )


def compare_at(what: str, path: str, tree: Any, expectation: Mapping[str, Any]) -> AnswerCheck:
    """Return whether what stands at `path` of `tree`, which is called `what`, is as `expectation`."""
    selector = compile_path(path)
    nearest = describe_reach(selector, tree)[2]
    return compare_values(what, selector.list_values(tree), expectation, nearest, there=True)


def _compare_by(what: str, values: Sequence[Any], name: str, want: Any, *, nearest: str, there: bool) -> AnswerCheck:
    if name == "exists":
        if bool(values) is want:
            return HOLDS
        if want:
            return fails(f"{what} is not there", "something", "nothing", *_line(nearest))
        return fails(f"{what} is there", "nothing", short(values[0]))
    if not values and (not there or name == "not_contains"):
        return unknown(f"there is no {what}")
    if not values:
        return fails(f"{what} is not there", short(want), "nothing", *_line(nearest))
    match name:
        case "equals" if not any(is_same(want, value) for value in values):
            return fails(f"{what} is something else", short(want), short(values[0]), *differing(want, values[0]))
        case "contains" if not any(want in text for value in values for text in texts(value)):
            return fails(f"{what} does not say it", f"{short(want)} in it", short(values[0]), *find_alike(want, values))
        case "not_contains" if hit := next((text for value in values for text in texts(value) if want in text), ""):
            return fails(f"{what} says it", f"no {short(want)} in it", _clip_around(hit, want))
        case "matches" if not any(compile_linear(want).search(text) for value in values for text in texts(value)):
            return fails(f"{what} does not match", f"/{want}/", short(values[0]))
    return HOLDS


def find_values(path: str, tree: Any) -> list[Any]:
    """Return the values at a path, or at a name of the top."""
    return compile_path(path if path.startswith("$") else show((path,))).list_values(tree)


def describe_reach(path: Selector, tree: Any) -> tuple[str, str, str]:
    """Return how far a path leads, and what stands there: "$.order", "has", "id, status"."""
    start, values = path.reach(tree)
    match values[0]:
        case dict() as fields:
            return start.text, "has", clip(", ".join(map(str, fields))) or "no fields"
        case list() as items:
            return start.text, "has", f"{len(items)} items"
        case value:
            return start.text, "is", short(value)


def texts(value: Any) -> Iterator[str]:
    """A text itself; of anything else each text, number, word and name in it, in order, names after their values."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                waiting += reversed([*fields.values(), *fields])
            case list() | tuple() | set() | frozenset() as items:
                waiting += reversed([*items])
            case None | bool() | int() | float() as plain:
                yield json.dumps(plain)
            case other:
                yield str(other)


def is_same(a: Any, b: Any) -> bool:
    """Whether two values mean the same JSON: true is not 1, a tuple is a list. What is no JSON is asked by `==`."""
    if isinstance(a, bool | int | float) and isinstance(b, bool | int | float):
        return isinstance(a, bool) == isinstance(b, bool) and a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(value, b[name]) for name, value in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    return bool(a == b)


def _line(nearest: str) -> list[str]:
    return [f"  nearest   {nearest}"] if nearest else []


def differing(want: Any, there: Any) -> list[str]:
    """Return where two texts differ, on a line; nothing for what is no text."""
    return [f"  differs   {brief(want, there)}"] if isinstance(want, str) and isinstance(there, str) else []


def _clip_around(text: str, want: str) -> str:
    at = text.index(want)
    return short(text[max(0, at - 20) : at + len(want) + 20])


def find_alike(want: str, values: Sequence[Any]) -> list[str]:
    """Return the text itself but for case or spaces, where it stands."""
    for text in (text for value in values for text in texts(value)):
        if (at := text.lower().find(want.lower())) >= 0:
            return _line(f"{short(text[at : at + len(want)])} (other case)")
        if " ".join(want.lower().split()) in " ".join(text.lower().split()):
            return _line(f"{short(want)} with other spaces or lines")
    return []
