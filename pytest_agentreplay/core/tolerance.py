"""When two results of one tool are near enough: exact, but for the places where somebody says otherwise.

`settled` gives the result of now with everything that is near enough as it was recorded, so that near means equal and
what is left differs. Paths lead through classes, tuples and sets as through what JSON has.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.rules import Selector, compile_path
from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_agentreplay.core.model import Json
    from pytest_agentreplay.core.rules import Place

_PLACEHOLDER = re.compile(r"\[\[redacted:([\w-]+):\d+\]\]")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(%?)", re.IGNORECASE)
_SETS = ("$set", "$frozenset")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What may differ at the places of `path` in the results of `tool` (a name; "*" stands for any letters).

    "ignore": everything; "unordered": the order of a list; "number": all numbers there and below, by `absolute` or by
    `relative` of the recorded one; "exact": nothing, where a tolerance above says otherwise.
    """

    tool: str
    path: Selector
    how: Literal["ignore", "unordered", "number", "exact"]
    absolute: float = 0.0
    relative: float = 0.0


def parse(place: str, how: str) -> Tolerance:
    """The tolerance that somebody wrote: "search $[*].score", "0.01". Raises SettingsError for what is invalid."""
    tool, dollar, path = place.partition("$")
    if not tool.strip() or not dollar:
        raise SettingsError(f"{place!r} is no tool and place; write it like lookup_order $.updated_at")
    selector = compile_path(f"${path.strip()}")
    match how.strip():
        case "ignore" | "unordered" | "exact" as word:
            return Tolerance(tool.strip(), selector, word)
        case text if found := _NUMBER.fullmatch(text):
            size = float(found[1])
            return Tolerance(tool.strip(), selector, "number", *((0.0, size / 100) if found[2] else (size, 0.0)))
    raise SettingsError(f"{place} = {how}: write ignore, unordered, exact, a number (0.01) or a share (1%)")


class Tolerances:
    """All tolerances of a project; where several name one place, the last one holds."""

    def __init__(self, rules: Iterable[Tolerance] = ()) -> None:
        """Nothing is looked at before it is needed."""
        self._rules = tuple(rules)

    def settled(self, tool: str, recorded: Json, now: Json) -> Json:
        """`now` with what is near enough to `recorded` as it was recorded; equal to it when all is."""
        recorded, now = _unnumbered(recorded), _unnumbered(now)
        rules = [rule for rule in self._rules if is_named(tool, rule.tool)]
        if not rules or canonical(recorded) == canonical(now):
            return now
        return _Settling(_places(rules, recorded), _places(rules, now)).settle(recorded, now, (), (), None)

    def near(self, tool: str, recorded: Json, now: Json) -> bool:
        """Whether one may stand for the other."""
        return canonical(_unnumbered(recorded)) == canonical(self.settled(tool, recorded, now))


def is_named(tool: str, pattern: str) -> bool:
    """Whether `pattern` names the tool: "*" stands for any letters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), tool) is not None


def view(data: Json) -> Json:
    """Frozen `data` as its paths lead through it: classes are their fields, tuples and sets are lists."""
    wrapped, inner = _open(data)
    if wrapped:
        return view(inner)
    if isinstance(data, dict) and not _is_leaf(data):
        return {key: view(value) for key, value in data.items()}
    return [view(item) for item in data] if isinstance(data, list) else data


def _open(data: Json) -> tuple[str, Json]:
    """What a value is wrapped in, as a text, and what is inside."""
    if not isinstance(data, dict) or len(data) != 1:
        return "", data
    ((tag, payload),) = data.items()
    match tag, payload:
        case "$tuple" | "$set" | "$frozenset" | "$awaited", _:
            return tag, payload
        case "$deque", [list(items), size]:
            return f"{tag} {size}", items
        case "$object" | "$enum" | "$codec", [str(name), inner]:
            return f"{tag} {name}", inner
        case "$object", dict():
            return tag, payload
        case "$arm", [index, spelled, inner]:
            return f"{tag} {index} {spelled}", inner
        case _:
            return "", data


def _is_leaf(data: dict[str, Json]) -> bool:
    """Whether a tagged value is one as a whole: a date, some bytes, a Decimal."""
    return len(data) == 1 and next(iter(data)).startswith("$") and not next(iter(data)).startswith("$$")


def _close(data: Json, inner: Json) -> Json:
    """`data` with something else inside."""
    if not isinstance(data, dict) or _open(data)[0] == "":
        return inner
    ((tag, payload),) = data.items()
    match tag:
        case "$deque":
            return {tag: [inner, payload[1]]}  # type: ignore[index]
        case "$object" | "$enum" | "$codec" | "$arm" if isinstance(payload, list):
            return {tag: [*payload[:-1], inner]}
        case _:
            return {tag: inner}


def _places(rules: Sequence[Tolerance], data: Json) -> dict[Place, Tolerance]:
    tree = view(data)
    return {place: rule for rule in rules for place, _ in rule.path.find(tree)}


class _Settling:
    """One comparison: which tolerance holds at which place of either side."""

    def __init__(self, recorded: dict[Place, Tolerance], now: dict[Place, Tolerance]) -> None:
        self.recorded = recorded
        self.now = now

    def settle(self, old: Json, new: Json, was: Place, here: Place, above: Tolerance | None) -> Json:
        """`new`, which stands at `here`, beside `old`, which stood at `was`; `above` is what holds so far."""
        rule = self.recorded.get(was) or self.now.get(here) or above
        if rule is not None and rule.how == "ignore":
            return old
        below = rule if rule is not None and rule.how == "number" else None
        (wrapped, inner), (wraps, now) = _open(old), _open(new)
        if wrapped != wraps:
            return new
        loose = wrapped in _SETS or (rule is not None and rule.how == "unordered")
        if isinstance(inner, list) and isinstance(now, list):
            return _close(new, (self._unordered if loose else self._elements)(inner, now, was, here, below))
        if wrapped:
            return _close(new, self.settle(inner, now, was, here, above))
        if isinstance(old, dict) and isinstance(new, dict) and not (_is_leaf(old) or _is_leaf(new)):
            return self._members(old, new, was, here, below)
        return old if below is not None and _close_by(old, new, below) else new

    def _members(
        self, old: dict[str, Json], new: dict[str, Json], was: Place, here: Place, above: Tolerance | None
    ) -> Json:
        found = {
            key: self.settle(old[key], value, (*was, key), (*here, key), above) if key in old else value
            for key, value in new.items()
            if key in old or not _ignores(self.now.get((*here, key)))
        }
        return found | {
            key: value for key, value in old.items() if key not in new and _ignores(self.recorded.get((*was, key)))
        }

    def _elements(self, old: list[Json], new: list[Json], was: Place, here: Place, above: Tolerance | None) -> Json:
        both = min(len(old), len(new))
        found = [self.settle(old[at], new[at], (*was, at), (*here, at), above) for at in range(both)]
        found += [new[at] for at in range(both, len(new)) if not _ignores(self.now.get((*here, at)))]
        return found + [old[at] for at in range(both, len(old)) if _ignores(self.recorded.get((*was, at)))]

    def _unordered(self, old: list[Json], new: list[Json], was: Place, here: Place, above: Tolerance | None) -> Json:
        """The elements in the order in which those that they are near to were recorded; the others behind."""
        known = [canonical(item) for item in old]

        def near(at: int, to: int) -> bool:
            return canonical(self.settle(old[at], new[to], (*was, at), (*here, to), above)) == known[at]

        pairs = matched(known, [canonical(item) for item in new], near)
        spare = [to for to in range(len(new)) if to not in {*pairs.values()}]
        found = []
        for at, item in enumerate(old):
            if at in pairs:
                found.append(item)
            elif spare:
                to = spare.pop(0)
                found.append(self.settle(item, new[to], (*was, at), (*here, to), above))
        return found + [new[to] for to in spare]


def matched(old: Sequence[str], new: Sequence[str], near: Callable[[int, int], bool]) -> dict[int, int]:
    """As many pairs as there can be: index in `old` to index in `new`, `near` both. Equal texts are tried first."""
    waiting: dict[str, list[int]] = defaultdict(list)
    for to, text in reversed([*enumerate(new)]):
        waiting[text].append(to)
    pairs = {at: waiting[text].pop() for at, text in enumerate(old) if waiting[text]}
    owner = {to: at for at, to in pairs.items()}
    known: dict[tuple[int, int], bool] = {}
    for start in range(len(old)):
        if start in pairs:
            continue
        # The shortest way from one that has no partner to a free one, over those that could take another.
        reached: dict[int, int] = {}
        queue = [start]
        for at in queue:
            for to in range(len(new)):
                if to in reached or not known.setdefault((at, to), near(at, to) if (at, to) not in known else False):
                    continue
                reached[to] = at
                if to in owner:
                    queue.append(owner[to])
                    continue
                free: int | None = to
                while free is not None:
                    holder = reached[free]
                    owner[free] = holder
                    before = pairs.get(holder)
                    pairs[holder] = free
                    free = before
                queue.clear()
                break
            if start in pairs:
                break
    return pairs


def _ignores(rule: Tolerance | None) -> bool:
    return rule is not None and rule.how == "ignore"


def _close_by(old: Json, new: Json, rule: Tolerance) -> bool:
    was, now = _number(old), _number(new)
    if was is None or now is None:
        return False
    apart, size = abs(was - now), abs(was)
    return apart <= Decimal(str(rule.absolute)) or apart <= size * Decimal(str(rule.relative))


def _number(value: Json) -> Decimal | None:
    """A number, a Decimal too; exact, so that 0.81 and 0.80 are 0.01 apart."""
    if isinstance(value, dict) and value.keys() == {"$decimal"}:
        found = Decimal(str(value["$decimal"]))
        return found if found.is_finite() else None
    return Decimal(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _unnumbered(data: Json) -> Json:
    """Without the numbers of placeholders: which secret was seen first is no matter of a result."""
    match data:
        case str():
            return _PLACEHOLDER.sub(r"[[redacted:\1]]", data) if "[[redacted:" in data else data
        case list():
            return [_unnumbered(item) for item in data]
        case dict():
            return {key: _unnumbered(value) for key, value in data.items()}
        case _:
            return data
