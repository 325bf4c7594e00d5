"""The language of tolerances: a place, and what may differ there.

    $.final = text(0.35)            a place of what a run shows (`backends.budget`)
    search $[*].score = 0.01        a place of each result of one tool, "*" in its name for any letters

exact, ignore, type                 nothing, everything, all but the JSON type; there and below
0.01, 1%, number(0.01, 1%)          numbers, by so much or by a share of the recorded one; there and below
text(0.35), regex(R), one_of(A, B)  texts by the share of words that are the same; by a pattern; one of these
unordered, unordered(id), set       a list in any order; paired by a member; repeats do not count
superset, subset, subsequence       more than the recorded elements, fewer, or more in between
forbidden(A, B)                     a list holds none of these, by name
at most 2000, at most 1.5x          a budget, or a multiple of what was recorded
embed(HOOK, 0.9), judge(HOOK, "R")  a function of the project says so
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.rules import Selector, Step, compile_path
from pytest_agentreplay.redaction.regexes import compile_linear

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json

Side: TypeAlias = Literal["result", "arguments"]

PARTS = ("turns", "tools", "final", "outcome", "usage")
"""The members of what a run shows."""
EXAMPLE: Json = {"turns": [{"text": ""}], "final": ""}
"""Where text of a model stands."""
EXACT_TEXT = (
    "a model does not write the same text twice (1,000 identical requests were seen to give 80 different answers), so "
    "a comparison that asks for it fails by chance: write text(0.35), type or ignore"
)
FORMS = (
    "write ignore, unordered, exact, a number (0.01) or a share (1%), or one of type, set, superset, subset, "
    "subsequence, unordered(KEY), number(0.01, 1%), text(0.35), regex(R), one_of(A, B), forbidden(NAME), at most 2000, "
    'at most 1.5x, embed(HOOK, 0.9), judge(HOOK, "rubric")'
)
_SIZE, _RATIO = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)", r"(0?\.\d*[1-9]\d*|1(?:\.0+)?)"
_PATTERNS = (
    r"(exact|ignore|type|set|superset|subset|subsequence|unordered)",
    r"(unordered)\(([^()]+)\)",
    rf"(number)\((?:{_SIZE}(?=\s*[,)]))?(?:,\s*)?(?:{_SIZE}\s*%)?\)",
    rf"(text)\({_RATIO}\)",
    rf"(embed)\(([^,()]+),\s*{_RATIO}\)",
    r'(judge)\(([^,()]+),\s*"?([^"]+)"?\)',
    r"(regex|one_of|forbidden)\((.+)\)",
    rf"(at most)\s+{_SIZE}\s*(x?)",
)


Level = IntEnum("Level", ["SHIPPED", "INI", "FILE", "TEST"])
"""Where a tolerance stands. A higher one wins; at one level the most specific path does, then the later line."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What may differ at the places of `path`: of what a run shows, or with a `tool` of what that gave or was given.

    `how` is a word of the language, `values` what stands in its brackets, `source` where it was written, for people.
    """

    tool: str
    path: Selector
    how: str
    values: tuple[Any, ...] = ()
    side: Side = "result"
    level: Level = Level.INI
    source: str = ""
    text: str = ""

    @property
    def rank(self) -> tuple[int, int, int]:
        """What of two that name one place counts: the level, then the steps that are named, then all of them."""
        fixed = sum(step.want is not None for step in self.path.steps) + (2 + ("*" not in self.tool)) * bool(self.tool)
        return self.level, fixed, sum(not step.deep for step in self.path.steps) + 3 * bool(self.tool)

    @property
    def written(self) -> str:
        """The line as people wrote it, with the file where that is known."""
        return f"{self.source}: {self.text}" if self.source else self.text

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it names: in front of its path, or as forbidden. A pattern may forbid what does not exist."""
        forbidden = self.values if self.how == "forbidden" and not self.tool else ()
        return (self.tool,) * bool(self.tool) + tuple(name for name in forbidden if "*" not in name)

    @property
    def hook(self) -> str:
        """The key of the function that is asked, "" for none."""
        return str(self.values[0]) if self.how in {"embed", "judge"} else ""


def parse(place: str, how: str, side: Side = "result", *, level: Level = Level.INI, source: str = "") -> Tolerance:
    """Return the tolerance that somebody wrote: "search $[*].score", "0.01". Raises SettingsError for what is none."""
    tool, dollar, path = place.partition("$")
    selector = compile_path(f"${path.strip()}") if dollar else None
    if selector is None or not (tool.strip() or _leads_into_run(selector, side)):
        raise SettingsError(
            f"{place!r} is no tool and place; write it like lookup_order $.updated_at, or a place of what the run "
            f"shows, which begins with $.{', $.'.join(PARTS)}"
        )
    word, values = _form(how.strip(), f"{place} = {how}")
    if word == "exact" and not tool.strip() and _covers_text(selector):
        raise SettingsError(f"{place} = {how}: {EXACT_TEXT}")
    return Tolerance(tool.strip(), selector, word, values, side, level, source, f"{place.strip()} = {how.strip()}")


def is_named(tool: str, pattern: str) -> bool:
    """Return whether `pattern` names the tool: "*" stands for any letters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), tool) is not None


def _leads_into_run(path: Selector, side: Side) -> bool:
    """Return whether a path begins with a part of a run; of a case with its tools: all else it says by its checks."""
    first = path.steps[0] if path.steps else Step(None, deep=False)
    return first.want == "tools" or (side == "result" and (first.deep or first.want in {None, *PARTS}))


def _covers_text(path: Selector) -> bool:
    """Return whether text of a model stands at a place of the path, or in what stands there."""
    anywhere = Selector("", tuple(Step(None, step.deep) if isinstance(step.want, int) else step for step in path.steps))
    texts = (("turns", 0, "text"), ("final",))
    return any(text[: len(place)] == place for place, _ in anywhere.find(EXAMPLE) for text in texts)


def _form(how: str, line: str) -> tuple[str, tuple[Any, ...]]:
    """Return the word and what stands in its brackets. Raises SettingsError."""
    how = f"number({how})" if how[:1].isdecimal() else {"equal": "exact", "multiset": "unordered"}.get(how, how)
    form = next(filter(None, (re.fullmatch(pattern, how, re.DOTALL) for pattern in _PATTERNS)), None)
    match form.groups() if form is not None and how != "number()" else ():
        case "number", absolute, share:
            return "number", (Decimal(absolute or 0), Decimal(share or 0) / 100)
        case "at most", limit, times:
            return "at most", (Decimal(limit), bool(times))
        case "regex", pattern:
            try:
                return "regex", (compile_linear(pattern),)
            except ValueError as wrong:
                raise SettingsError(f"{line}: the pattern {wrong}") from None
        case "one_of" | "forbidden" as word, values:
            return word, tuple(value.strip() for value in next(csv.reader([values], skipinitialspace=True)))
        case word, *values:
            return word, tuple(values)
    raise SettingsError(f"{line}: {FORMS}")
