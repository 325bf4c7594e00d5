"""Tolerances: when two results, or two runs, are near enough. One language for verified tools, cases and live runs.

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

`parse` reads a line, a `TolerancePolicy` is the lines that hold together, with the shipped ones behind them, and
`comparing` walks through two trees under them.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.compare.diff.texts import shorten
from pytest_agentreplay.compare.live_result import Drift
from pytest_agentreplay.compare.tolerance.comparing import BrokenRule, Comparison, Level, Tolerance, number_of, view
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Absent
from pytest_agentreplay.model.json_paths import Selector, Step, show
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.redaction.regexes import compile_linear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.compare.tolerance.comparing import Hooks, Side
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.json_paths import Place

__all__ = ["Level", "Reach", "Tolerance", "TolerancePolicy", "find_reach", "is_named", "parse", "view"]

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
    # Of what a tool returned `exact` can be asked.
    if word == "exact" and not tool.strip() and _covers_text(selector):
        raise SettingsError(f"{place} = {how}: {EXACT_TEXT}")
    return Tolerance(tool.strip(), selector, word, values, side, level, source, f"{place.strip()} = {how.strip()}")


def is_named(tool: str, pattern: str) -> bool:
    """Return whether `pattern` names the tool: "*" stands for any letters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), tool) is not None


def _leads_into_run(path: Selector, side: Side) -> bool:
    """Return whether a path begins with a part of a run; of a case with its tools: all else it says by its checks."""
    first = path.steps[0] if path.steps else Step(None)
    return first.want == "tools" or (
        side == "result" and (first.deep or (not first.is_numbered and {*first.names} <= {*PARTS}))
    )


def _covers_text(path: Selector) -> bool:
    """Return whether text of a model stands at a place of the path, or in what stands there."""
    # EXAMPLE has one turn: any number or filter may mean one like it.
    names = (step if step.names else Step(None, step.deep) for step in path.steps)
    texts = (("turns", 0, "text"), ("final",))
    return any(text[: len(place)] == place for place, _ in Selector("", (*names,)).find(EXAMPLE) for text in texts)


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


# Of 36 answers and a paraphrase of each the least share of equal words was 0.40 (half of them: over 0.76); of 36
# answers and another one to the same question (a refusal, a failure, the opposite) the largest was 0.33.
RATIO = 0.35
_LINES = {
    "$.turns": "ignore",
    "$.turns[*].text": "type",
    "$.final": f"text({RATIO})",
    "$.outcome": "ignore",
    "$.usage": "ignore",
}
SHIPPED = tuple(parse(place, how, level=Level.SHIPPED) for place, how in _LINES.items())
"""What holds in a comparison of two runs where nobody says otherwise; tools, arguments and results are exact."""
EVERYTHING = compile_path("$..*")
BOUNDS = frozenset({"at most", "forbidden"})
_PLACEHOLDER = re.compile(r"\[\[redacted:([\w-]+):\d+\]\]")


class TolerancePolicy:
    """All tolerances that hold together: the higher level wins, then the more specific path, then the later one."""

    def __init__(self, rules: Iterable[Tolerance] = ()) -> None:
        """Nothing is looked at before it is needed."""
        self.rules = tuple(rules)
        self._plain = tuple(rule for rule in self.rules if not rule.hook)
        # One call alone is not the third of its run: a path that names it by its number is no matter there.
        self._of_calls = tuple(
            rule for rule in self._plain if rule.tool or not any(step.is_numbered for step in rule.path.steps[1:2])
        )

    def settle(self, tool: str, recorded: Json, now: Json, side: Side = "result") -> Json:
        """Return `now`, of one call of `tool`, with what is near enough to `recorded` as it was recorded.

        No judge is asked here: nobody has a model to ask where models are frozen.
        """
        recorded, now = _strip_numbers(recorded), _strip_numbers(now)
        if not self._of_calls or canonical(recorded) == canonical(now):
            return now
        was: Json = {"tools": [{"name": tool, side: recorded}]}
        here: Json = {"tools": [{"name": tool, side: now}]}
        settled: Any = Comparison(was, here, partial(_rank_rules, self._of_calls), {}).settled
        return settled["tools"][0][side]  # type: ignore[no-any-return]

    def is_near(self, tool: str, recorded: Json, now: Json, side: Side = "result") -> bool:
        """Return whether one may stand for the other."""
        return canonical(_strip_numbers(recorded)) == canonical(self.settle(tool, recorded, now, side))

    def compare(
        self, recorded: JsonObject, now: JsonObject, hooks: Hooks | None = None, turns: Sequence[str] = ()
    ) -> tuple[Drift, ...]:
        """Return where `now` leaves `recorded`; both are what a run shows (`backends.budget`).

        `turns` say of each call of a tool now which turn asked for it. `hooks` are the functions of the project by key:
        what they call crosses the boundary as an agent's calls do. Without any no judge is asked. Raises RunnerError
        for one that fails.
        """
        rules = (*SHIPPED, *(self._plain if hooks is None else self.rules))
        sides = (_strip_numbers(recorded), _strip_numbers(now))
        broken = Comparison(*sides, partial(_rank_rules, rules), hooks or {}).broken
        return (*self.find_exceeded(recorded, now, turns), *map(_make_drift, broken))

    def find_exceeded(self, recorded: JsonObject, now: JsonObject, turns: Sequence[str] = ()) -> tuple[Drift, ...]:
        """Return the budgets that are exceeded and the calls that are forbidden; these hold beside all other rules."""
        was, here = view(_strip_numbers(recorded)), view(_strip_numbers(now))
        return tuple(map(_make_drift, _list_exceeded(self.rules, was, here, turns)))


class Reach(NamedTuple):
    """How far the path of a tolerance leads into what a run shows.

    `values` stand at its places. Where there is none, `missing` is the step that leads nowhere, and `members` are the
    names that stand there instead; `open` says that it is something empty, or a list that is too short: another run
    may have the place.
    """

    values: list[Json]
    open: bool = True
    missing: str = ""
    members: frozenset[str] = frozenset()


def find_reach(rule: Tolerance, observation: JsonObject) -> Reach:
    """Return how far the path of `rule` leads into what a run shows (`backends.budget`)."""
    trees = [value for _, value in _find_spots(replace(rule, path=Selector("$", ())), view(observation))]
    start, values = rule.path.reach(*trees)
    if start.steps == rule.path.steps:
        return Reach(values)
    step = rule.path.steps[len(start.steps)]
    holders = [*values, *(inner for value in values if step.deep for inner in EVERYTHING.list_values(value))]
    # Which elements there are, or what a filter finds, may be otherwise in another run.
    is_open = not values or not (step.names or step.want is None) or any(value in ([], {}, None) for value in holders)
    members = frozenset(name for value in values if isinstance(value, dict) for name in value)
    return Reach([], is_open, ", ".join(step.names) or str(step.want), members)


def _find_spots(rule: Tolerance, tree: Any) -> list[tuple[Place, Json]]:
    """Return each place that a rule names in what a run shows, with what stands there."""
    if not rule.tool:
        return rule.path.find(tree)
    return [
        (("tools", at, rule.side, *place), value)
        for at, call in enumerate(tree["tools"])
        if rule.side in call and is_named(call["name"], rule.tool)
        for place, value in rule.path.find(call[rule.side])
    ]


def _rank_rules(rules: Iterable[Tolerance], data: Json) -> dict[Place, Tolerance]:
    """Return the rule that wins at each place that one names."""
    tree = view(data)
    ranked = sorted((rule for rule in rules if rule.how not in BOUNDS), key=lambda rule: rule.rank)
    return {place: rule for rule in ranked for place, _ in _find_spots(rule, tree)}


def _list_exceeded(rules: Iterable[Tolerance], recorded: Json, now: Json, turns: Sequence[str]) -> Iterator[BrokenRule]:
    budgets: dict[Place, tuple[Tolerance, Json]] = {}
    for rule in sorted((rule for rule in rules if rule.how in BOUNDS), key=lambda rule: rule.rank):
        for place, value in _find_spots(rule, now):
            if rule.how == "at most":
                budgets[place] = rule, value
            for at, item in enumerate(value if isinstance(value, list) and rule.how == "forbidden" else ()):
                name = str(item.get("name") if isinstance(item, dict) else item)
                if any(is_named(name, pattern) for pattern in rule.values):
                    where = f" at {turns[at]}" if place == ("tools",) and at < len(turns) else ""
                    yield BrokenRule((*place, at), rule, ABSENT, item, f"{name} was called{where}")
    for place, (rule, value) in budgets.items():
        (amount, is_factor), was = rule.values, dict(_find_spots(rule, recorded)).get(place)
        used, base = number_of(value), number_of(was) if is_factor else 1
        if used is not None and base is not None and used > (limit := amount * base):
            yield BrokenRule(place, rule, was, value, f"{limit.normalize():f} is the most")


def _make_drift(broken: BrokenRule) -> Drift:
    place, rule, *sides, reason = broken
    was, now = (None if side is ABSENT else side for side in sides)
    change = " -> ".join("absent" if side is ABSENT else shorten(canonical(side), 60) for side in sides)
    layer = "tool" if place[:1] == ("tools",) and place[2:3] == ("result",) else "model"
    text = rule.text or f"{show(place)} = exact"
    turn = place[1] + 1 if place[:1] == ("turns",) and isinstance(place[1], int) else 0
    default = rule.level is Level.SHIPPED
    summary = (not reason and _describe_call(place, *sides)) or f"{show(place)} {change}{reason and f' ({reason})'}"
    summary = f"{text}: {reason}" if rule.how == "forbidden" else summary
    return Drift(layer, show(place), text, summary, was, now, turn=turn, default=default)


def _describe_call(place: Place, recorded: Json | Absent, now: Json | Absent) -> str:
    """Return in words that a whole call of a tool is missing or new; "" for any other place."""
    match place, recorded, now:
        case ("tools", _), {"name": name}, Absent():
            return f"tool {name} was not called"
        case ("tools", _), Absent(), {"name": name}:
            return f"tool {name} was called, which is not recorded"
    return ""


def _strip_numbers(data: Json) -> Any:
    """Return it without the numbers of placeholders: which secret was seen first is no matter of a result."""
    text = json.dumps(data)
    return json.loads(_PLACEHOLDER.sub(r"[[redacted:\1]]", text)) if "[[redacted:" in text else data
