"""What a word cannot want, whatever its type: what is no path, what contradicts itself, what is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.checks.values import COMPARISONS, LONGEST_PATH
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.rules import compile_path
from pytest_agentreplay.redaction.linear import Slow
from pytest_agentreplay.redaction.regexes import RefusedPattern, quick

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.model.rules import Place

    Complaint = tuple[Place, str]

LIMITED = frozenset({"turns", "tokens", "cost", "duration"})


def wrong(word: str, wanted: Any) -> Iterator[Complaint]:
    """What is wrong with what a word wants: where in it, and what to write instead."""
    if word == "tool_order":
        yield from _order(wanted)
    elif word == "no_identity_but" and isinstance(wanted, str):
        yield from _path((), wanted, deep=False)
    elif word == "no_secret_in_output" and wanted is False:
        yield (), "is true, and nothing else"
    if not isinstance(wanted, dict):
        return
    if "path" in wanted:
        yield from _path(("path",), wanted["path"], deep=word != "no_identity_but")
    if isinstance(named := wanted.get("arguments"), dict):
        for name in named:
            if name.startswith("$"):
                yield from _path(("arguments", name), name)
    if "matches" in wanted:
        yield from _regex(wanted["matches"])
    yield from _bounds(word, wanted)
    if word in {"output", "exchange"} and not any(name in wanted for name in COMPARISONS):
        yield (), f"says nothing of it: add {', '.join(COMPARISONS[:-1])} or {COMPARISONS[-1]}"
    if word == "exchange" and wanted.get("at") in {0, ""}:
        yield ("at",), "is the number of a turn (1 is the first, -1 the last), or the name of a tool"
    if word == "error" and not wanted.get("class") and not wanted.get("text"):
        yield (), "says nothing of it: add class or text"


def _order(wanted: Any) -> Iterator[Complaint]:
    if len(wanted) != 1:
        yield (), "is one of equal, subsequence and multiset"
    for how, items in wanted.items():
        for at, item in enumerate(items):
            yield from ((((how, at, *place)), what) for place, what in wrong("tool_called", item))


def _bounds(word: str, wanted: Mapping[str, Any]) -> Iterator[Complaint]:
    least, most = wanted.get("at_least"), wanted.get("at_most")
    if least is not None and most is not None and least > most:
        yield ("at_least",), f"is more than at_most, which is {most}"
    if "times" in wanted and (least is not None or most is not None):
        yield ("times",), "says both bounds: leave at_least and at_most out"
    if word == "tool_called" and least is None and most == 0:
        yield ("at_most",), "is none: write tool_not_called"
    if word in LIMITED and least is None and most is None:
        yield (), "says nothing of it: add at_most or at_least"


def _path(place: Place, text: str, *, deep: bool = True) -> Iterator[Complaint]:
    if len(text) > LONGEST_PATH:
        yield place, f"is longer than {LONGEST_PATH} characters"
        return
    try:
        steps = compile_path(text).steps
    except SettingsError as error:
        yield place, str(error)
        return
    if sum(step.deep for step in steps) > deep:
        yield place, f"{text!r:.60} holds more `..` than {'one' if deep else 'it may, which is none'}: name the way"
    elif not deep and (not steps or not isinstance(steps[-1].want, str)):
        yield place, f"{text!r:.60} ends in no name: write the field that says whose a record is, like $.user_id"


def _regex(text: str) -> Iterator[Complaint]:
    try:
        quick(text)
    except (RefusedPattern, Slow) as error:
        yield ("matches",), f"the pattern {text!r:.60}: {error}"
