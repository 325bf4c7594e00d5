"""What a tolerance is, and the engine: two trees side by side, and at each place the tolerance that holds there.

What is near enough comes out as it was recorded, so that near means equal and what is left differs. Each place that is
left is kept with the rule that was broken. Paths lead through frozen values as through what JSON has: classes are their
fields, tuples and sets are lists.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pytest_agentreplay.errors import AgentReplayError, RunnerError
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT
from pytest_agentreplay.model.json_paths import Selector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_agentreplay.model.divergence import Absent
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.json_paths import Place


Side: TypeAlias = Literal["result", "arguments"]
Hooks: TypeAlias = "Mapping[str, Callable[..., Any]]"

LISTS = frozenset({"unordered", "set", "superset", "subset", "subsequence"})
MORE = frozenset({"superset", "subsequence", "type"})
FEWER = frozenset({"subset", "type"})
TOOLS: Place = ("tools",)
# A sign of a script without spaces is a word of its own.
_WORD = re.compile(r"[\u2e80-\uffdc]|[^\W\u2e80-\uffdc]+")
_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}


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


# An object in place of None: whoever asks a place for its rule gets one.
UNSAID = Tolerance("", Selector("$", ()), "exact", level=Level.SHIPPED)
"""What holds where nobody says anything."""


class BrokenRule(NamedTuple):
    """One place where `now` is not near enough to `recorded`, by which rule, and why."""

    place: Place
    rule: Tolerance
    recorded: Json | Absent
    now: Json | Absent
    reason: str = ""


class Comparison:
    """One comparison: `settled` is what is there now, `broken` are the places that differ."""

    def __init__(self, old: Json, new: Json, rules: Callable[[Json], Mapping[Any, Tolerance]], hooks: Hooks) -> None:
        """`rules` gives those of the places of either side, `hooks` are functions of the project by key."""
        self.broken: list[BrokenRule] = []
        self._recorded, self._now, self._hooks = rules(old), rules(new), hooks
        # What is ignored is looked into all the same where another rule holds further down.
        self._inner = {place[:n] for place in (*self._recorded, *self._now) for n in range(len(place))}
        self.settled = self._settle(old, new, (), (), UNSAID)

    def _settle(self, old: Json, new: Json, old_at: Place, new_at: Place, above: Tolerance) -> Json:
        """Return `new`, which stands at `new_at`, with what is near enough as in `old`; `above` holds so far."""
        rule = self._rule(old_at, new_at, above)
        if rule.how == "ignore" and not {old_at, new_at} & self._inner:
            return old
        (wrapped, inner, _), (wraps, now, wrap) = unwrap(old), unwrap(new)
        if wrapped == wraps and not rule.hook:
            if isinstance(inner, list) and isinstance(now, list):
                is_plain_set = wrapped in {"$set", "$frozenset"} and rule.how not in LISTS
                how = "unordered" if is_plain_set else rule.how
                return wrap(self._elements(inner, now, old_at, new_at, how=how, rule=rule))
            if wrapped:
                return wrap(self._settle(inner, now, old_at, new_at, above))
            if isinstance(old, dict) and isinstance(new, dict) and not (is_leaf(old) or is_leaf(new)):
                return self._members(rule, old, new, old_at, new_at)
        if (reason := distance(rule, old, new, self._hooks)) is None:
            return old
        self.broken.append(BrokenRule(new_at, rule, old, new, reason))
        return new

    def _rule(self, old_at: Place | None, new_at: Place | None, above: Tolerance) -> Tolerance:
        """Return what holds at a place; None stands for the side on which it is not there."""
        own = self._recorded.get(old_at) or self._now.get(new_at) or above
        return above if above.level > own.level else own

    def _leave(self, old_at: Place | None, new_at: Place | None, above: Tolerance, value: Json) -> bool:
        """Return whether nobody minds that `value` stands on one side alone; where not, the place is broken."""
        rule = self._rule(old_at, new_at, above)
        if rule.how == "ignore":
            return True
        sides = (value, ABSENT) if new_at is None else (ABSENT, value)
        self.broken.append(BrokenRule(new_at or old_at or (), rule, *sides))
        return False

    def _members(self, rule: Tolerance, old: JsonObject, new: JsonObject, old_at: Place, new_at: Place) -> Json:
        settled = {
            key: self._settle(old[key], value, (*old_at, key), (*new_at, key), rule) if key in old else value
            for key, value in new.items()
            if key in old or not self._leave(None, (*new_at, key), rule, value)
        }
        missing = (key for key in old if key not in new)
        return settled | {key: old[key] for key in missing if self._leave((*old_at, key), None, rule, old[key])}

    def _elements(
        self, old: list[Json], new: list[Json], old_at: Place, new_at: Place, *, how: str, rule: Tolerance
    ) -> list[Json]:
        """Return the elements in the order in which those that they are near to were recorded; the others behind."""
        # How a list is compared says nothing of its elements; any other rule holds for them too.
        below = UNSAID if rule.how in LISTS else rule
        olds, news = ([_without_result(item) for item in side] if old_at == TOOLS else side for side in (old, new))

        @cache
        def is_near(at: int, to: int) -> bool:
            count = len(self.broken)
            self._settle(olds[at], news[to], (*old_at, at), (*new_at, to), below)
            differ = self.broken[count:]
            del self.broken[count:]
            return not differ

        key = rule.values[0] if rule.how == "unordered" and rule.values else None
        pairs, settled = pair_elements(how, key, olds, news, is_near), []
        for at, item in enumerate(old):
            count = len(self.broken)
            if (to := pairs.get(at)) is not None:
                settled.append(self._settle(item, new[to], (*old_at, at), (*new_at, to), below))
                if old_at == TOOLS and how not in LISTS and self._is_other_call(count):
                    return settled + new[to + 1 :]
                continue
            fewer = how in FEWER or (how == "set" and any(is_near(at, to) for to in range(len(new))))
            if fewer or self._leave((*old_at, at), None, rule, item):
                settled.append(item)
        for to in sorted({*range(len(new))} - {*pairs.values()}):
            more = how in MORE or (how == "set" and any(is_near(at, to) for at in range(len(old))))
            if not more and not self._leave(None, (*new_at, to), rule, new[to]):
                settled.append(new[to])
        return settled

    def _is_other_call(self, count: int) -> bool:
        """Return whether this is another call: then what came of it, and after it, is no matter."""
        calls = [broken for broken in self.broken[count:] if broken.place[2:3] != ("result",)]
        if calls:
            self.broken[count:] = [broken for broken in calls if broken.place[2:] == ("name",)] or calls
        return bool(calls)


def _without_result(call: Json) -> Json:
    """Return a call of a tool without what came of it."""
    return {key: value for key, value in call.items() if key != "result"} if isinstance(call, dict) else call


def pair_elements(
    how: str, key: str | None, old: list[Json], new: list[Json], near: Callable[[int, int], bool]
) -> dict[int, int]:
    """Return the index in `new` of what stands beside each element of `old`, by the member `key` where there is one."""
    if how not in LISTS:
        return {at: at for at in range(min(len(old), len(new)))}
    if how == "subsequence":
        pairs, start = dict[int, int](), 0
        for at in range(len(old)):
            if (to := next((to for to in range(start, len(new)) if near(at, to)), None)) is not None:
                pairs[at], start = to, to + 1
        return pairs
    # Paired by a member, two elements stand beside each other however much else of them differs.
    was, now = (
        [canonical(item.get(key, item) if isinstance(item, dict) and key else item) for item in side]
        for side in (old, new)
    )
    pairs = match_elements(was, now, (lambda *_: False) if key else near)
    if how == "unordered" and not key:
        spare = sorted({*range(len(new))} - {*pairs.values()})
        pairs |= dict(zip(sorted({*range(len(old))} - {*pairs}), spare, strict=False))
    return pairs


def match_elements(old: Sequence[str], new: Sequence[str], near: Callable[[int, int], bool]) -> dict[int, int]:
    """Return as many pairs as there can be: index in `old` to index in `new`, `near` both. Equal texts come first."""
    # Equal texts need no search: what is left goes through Kuhn's algorithm for bipartite matching.
    waiting: dict[str, list[int]] = defaultdict(list)
    for to, text in reversed([*enumerate(new)]):
        waiting[text].append(to)
    owners = {waiting[text].pop(): at for at, text in enumerate(old) if waiting[text]}

    def take(at: int, tried: set[int]) -> bool:
        """Find a partner for `at`, one without a partner first; else another element may have to move on."""
        for to in sorted(range(len(new)), key=owners.__contains__):
            if to not in tried and near(at, to):
                tried.add(to)
                if to not in owners or take(owners[to], tried):
                    owners[to] = at
                    return True
        return False

    for at in sorted({*range(len(old))} - {*owners.values()}):
        take(at, set())
    return {at: to for to, at in owners.items()}


def distance(rule: Tolerance, old: Json, new: Json, hooks: Hooks) -> str | None:
    """Return why `new` is not near `old`, "" where the values say it; None where it is near.

    What is equal is near, but for a pattern or a list of values, which are about now alone.
    """
    match rule.how, rule.values:
        case "regex", [pattern] if isinstance(new, str):
            return None if pattern.search(new) else "the pattern is not found"
        case "one_of", values if not isinstance(new, dict | list):
            return None if (new if isinstance(new, str) else canonical(new)) in values else "none of these"
        case how, _ if how == "ignore" or canonical(old) == canonical(new):
            return None
        case "type", _:
            kind, other = (_KINDS.get(type(value), "null") for value in (old, new))
            return None if kind == other else f"{other} and not {kind}"
        case "number", [absolute, relative] if (size := number_of(old)) is not None and (
            now := number_of(new)
        ) is not None:
            return None if abs(size - now) <= max(absolute, abs(size) * relative) else ""
        case "text", [least] if isinstance(old, str) and isinstance(new, str):
            return (
                None if (share := shared_words(old, new)) >= float(least) else f"{share:.2f} of the words are the same"
            )
        case "embed" | "judge", _:
            return ask_hook(rule, hooks, old, new)
    return ""


def shared_words(old: str, new: str) -> float:
    """Return the share of the words of both texts that stand in both, in whatever order; 1 for two texts of none."""
    was, now = (Counter(_WORD.findall(text.lower())) for text in (old, new))
    return 2 * (was & now).total() / (was.total() + now.total() or 1) if was or now else 1.0


def number_of(value: object) -> Decimal | None:
    """Return a number, a Decimal too; exact, so that 0.81 and 0.80 are 0.01 apart. None for what is none."""
    if isinstance(value, dict) and value.keys() == {"$decimal"}:
        number = Decimal(str(value["$decimal"]))
        return number if number.is_finite() else None
    return Decimal(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def ask_hook(rule: Tolerance, hooks: Hooks, old: Json, new: Json) -> str | None:
    """Return what a function of the project says. Raises RunnerError where it fails.

    One that embeds takes a text and gives numbers; a judge takes `recorded`, `now` and `rubric` and gives True, False
    or why it is not near.
    """
    key, criterion = rule.values
    try:
        if rule.how == "judge":
            answer = hooks[key](recorded=old, now=new, rubric=criterion)
            return None if answer is True else str(answer or "the judge says no")
        was, now = ([*hooks[key](value if isinstance(value, str) else canonical(value))] for value in (old, new))
        cosine = sum(a * b for a, b in zip(was, now, strict=True)) / (math.hypot(*was) * math.hypot(*now) or 1)
    except AgentReplayError:
        raise
    except Exception as error:  # whatever the project's function does
        raise RunnerError(f"{rule.text}: {error!r}") from error
    return None if cosine >= float(criterion) else f"the cosine is {cosine:.2f}"


def view(data: Json) -> Json:
    """Return frozen `data` as its paths lead through it."""
    wrapped, inner, _ = unwrap(data)
    if wrapped:
        return view(inner)
    if isinstance(data, dict) and not is_leaf(data):
        return {key: view(value) for key, value in data.items()}
    return [view(item) for item in data] if isinstance(data, list) else data


def unwrap(data: Json) -> tuple[str, Json, Callable[[Json], Json]]:
    """Return what a value is wrapped in, as a text, what is inside, and what wraps something else likewise."""
    if isinstance(data, dict) and len(data) == 1:
        ((tag, payload),) = data.items()
        match tag, payload:
            case ("$tuple" | "$set" | "$frozenset" | "$awaited", _) | ("$object", dict()):
                return tag, payload, lambda inner: {tag: inner}
            case "$deque", [list(items), size]:
                return f"{tag} {size}", items, lambda inner: {tag: [inner, size]}
            case "$object" | "$enum" | "$codec" | "$arm", [*names, inner] if len(names) == 1 + (tag == "$arm"):
                return " ".join(map(str, (tag, *names))), inner, lambda inner: {tag: [*names, inner]}
    return "", data, lambda inner: inner


def is_leaf(data: dict[str, Json]) -> bool:
    """Return whether a tagged value is one as a whole: a date, some bytes, a Decimal."""
    return len(data) == 1 and next(iter(data)).startswith("$") and not next(iter(data)).startswith("$$")
