"""The structural difference of two JSON values: few places, each with a path, both sides and a short note.

Rules of this module:
- Strict: true is not 1, 1 is not 1.0; key order of objects carries nothing, order of lists does.
- Lists are anchored on whole equal elements, so that one inserted message is one difference and not a hundred.
- Linear for what people send: each value is written out once per level; what would cost more is told as a whole.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.divergence import ABSENT, INSIDE, Absent, Difference
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.redaction.placeholders import describe_exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject

# Values visited before the rest is told as a whole. So many, of which each fourth differs, take 0.15 s.
NODES = 20_000
SCALARS = 8  # changed numbers or words of one list that are still told one by one
ORDERED = 12  # elements of a list whose new order is written out

_SELF = ("tool_call_id", "tool_use_id", "call_id", "toolUseId", "id", "name")


def diff(recorded: Json, now: Json, *, path: str = "$") -> tuple[Difference, ...]:
    """All places where two JSON values differ, in the order of the recorded one; empty when they are the same."""
    walk = _Walk()
    try:
        walk.visit(recorded, now, path)
    except RecursionError:
        return (Difference(path, recorded, now, "nested too deeply to compare in parts"),)
    return tuple(walk.differences)


def step(path: str, key: str) -> str:
    """Return the path of a member."""
    return path + show((key,))[1:]


class _Walk:
    """One comparison under way: what was found, and how many values may still be visited."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.left = NODES

    def add(self, path: str, recorded: Json | Absent, now: Json | Absent, note: str = "") -> None:
        self.differences.append(Difference(path, recorded, now, note))

    def visit(self, recorded: Json, now: Json, path: str) -> None:
        # Bodies of one recording share their parts, so most of a long history is the same object.
        if recorded is now:
            return
        self.left -= 1
        if self.left < 0:
            if canonical(recorded) != canonical(now):
                self.add(path, recorded, now, "too large to compare in parts")
        elif isinstance(recorded, dict) and isinstance(now, dict):
            self.visit_members(recorded, now, path)
        elif isinstance(recorded, list) and isinstance(now, list):
            self.visit_elements(recorded, now, path)
        elif isinstance(recorded, str) and isinstance(now, str):
            if recorded != now:
                self.visit_texts(recorded, now, path)
        elif canonical(recorded) != canonical(now):
            self.add(path, recorded, now)

    def visit_texts(self, recorded: str, now: str, path: str) -> None:
        """Compare files by hash, JSON by member, the rest by words."""
        old, new = (str(media.read_media(text) or text) for text in (recorded, now))
        if note := media.swap(old, new) or describe_exchange(recorded, now):
            self.add(path, old, new, note)
            return
        inside = read_json(recorded), read_json(now)
        if None in inside:
            places = texts.count_places(recorded, now)
            self.differences.append(Difference(path, recorded, now, texts.brief(recorded, now), places))
            return
        outside, self.differences = self.differences, []
        self.visit(*inside, "$")
        members = [each._replace(path=f"{path}{INSIDE}{each.path[1:].lstrip('.') or '$'}") for each in self.differences]
        self.differences = outside + (members or [Difference(path, recorded, now, "the same JSON, written otherwise")])

    def visit_members(self, recorded: JsonObject, now: JsonObject, path: str) -> None:
        for key, value in recorded.items():
            if key in now:
                self.visit(value, now[key], step(path, key))
            else:
                self.add(step(path, key), value, ABSENT)
        for key, value in now.items():
            if key not in recorded:
                self.add(step(path, key), ABSENT, value)

    def visit_elements(self, recorded: list[Json], now: list[Json], path: str) -> None:
        before, after = [canonical(element) for element in recorded], [canonical(element) for element in now]
        if before == after:
            return
        head, tail = texts.count_common_ends(before, after)
        middle = slice(head, len(before) - tail)
        old, new = before[middle], after[head : len(after) - tail]
        if len(before) == len(after) and Counter(old) == Counter(new):
            places = _list_places(before, after)
            # Of a long list only what lies between the first and the last element that moved.
            if len(recorded) > ORDERED:
                path = f"{path}{_format_span(range(len(before))[middle])}"
                recorded, now, places = recorded[middle], now[middle], places[middle]
            order = ", ".join(map(str, places[:ORDERED]))
            self.add(path, recorded, now, f"reordered [{order}{', ...' if len(places) > ORDERED else ''}]")
            return
        codes = texts.opcodes(old, new)
        if codes is None:
            self.add(path, recorded, now, f"too different to align: {len(recorded)} and {len(now)} elements")
            return
        for _, i1, i2, j1, j2 in codes:
            self.visit_ranges(recorded, now, path, range(head + i1, head + i2), range(head + j1, head + j2))

    def visit_ranges(self, recorded: list[Json], now: list[Json], path: str, lost: range, gained: range) -> None:
        """Pair the elements of two ranges that stand for each other; the others were dropped or added."""
        old, new = [recorded[i] for i in lost], [now[j] for j in gained]
        became = {lost[i]: gained[j] for i, j in _pair_elements(old, new)}
        if len(became) > SCALARS and all(_is_short(recorded[i]) and _is_short(now[j]) for i, j in became.items()):
            i, j = next(iter(became.items()))
            note = f"{len(became)} elements changed, the first: {recorded[i]} -> {now[j]}"
            self.add(f"{path}{_format_span(lost)}", old, new, note)
            return
        name = re.split(r"[.\]]", path)[-1].strip("$") or "elements"
        for is_paired, run in groupby(lost, became.__contains__):
            if is_paired:
                for i in run:
                    self.visit(recorded[i], now[became[i]], f"{path}[{i}]")
            else:
                where, value = _take_run(recorded, [*run])
                self.add(f"{path}{where}", value, ABSENT, f"{name}{where} dropped")
        taken = set(became.values())
        for is_paired, run in groupby(gained, taken.__contains__):
            if not is_paired:
                where, value = _take_run(now, [*run])
                self.add(f"{path}{where}", ABSENT, value, f"{name}{where} added")


def read_json(text: str) -> Json:
    """Return the object or list that a text holds as JSON, else None."""
    text = text.strip()
    if text[:1] not in {"{", "["} or text[-1:] not in {"}", "]"}:
        return None
    value = parse(text, exact=True)
    return None if isinstance(value, NotJson) else value


def _list_places(before: list[str], after: list[str]) -> list[int]:
    """Return for each element now the place (from 1) that it had when recorded; of equal ones the first left."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for place, text in enumerate(before, 1):
        places[text].append(place)
    return [places[text].popleft() for text in after]


def _pair_elements(lost: list[Json], gained: list[Json]) -> list[tuple[int, int]]:
    """Return which lost element became which gained one: by its own name or id, then by shape and position."""
    own, new = _index_unique(lost), _index_unique(gained)
    pairs = {own[key]: new[key] for key in own if key in new}
    taken = set(pairs.values())
    rest_i = [i for i in range(len(lost)) if i not in pairs]
    rest_j = [j for j in range(len(gained)) if j not in taken]
    shapes_i, shapes_j = [_get_shape(lost[i]) for i in rest_i], [_get_shape(gained[j]) for j in rest_j]
    if shapes_i == shapes_j:
        pairs |= zip(rest_i, rest_j, strict=True)
    else:
        queues: dict[object, deque[int]] = defaultdict(deque)
        for j, shape in zip(rest_j, shapes_j, strict=True):
            queues[shape].append(j)
        pairs |= {i: queues[shape].popleft() for i, shape in zip(rest_i, shapes_i, strict=True) if queues[shape]}
    return sorted(pairs.items())


def _index_unique(elements: list[Json]) -> dict[object, int]:
    """Return the position of each element that says who it is, where no other one says the same."""
    identities = [_get_identity(element) for element in elements]
    counts = Counter(identities)
    return {key: i for i, key in enumerate(identities) if key is not None and counts[key] == 1}


def _get_identity(element: Json) -> tuple[object, str, str] | None:
    """Return by what an element is known: the first of the members _SELF that it has, a tool's name before an id."""
    if not isinstance(element, dict):
        return None
    function = element.get("function")
    inner = function if isinstance(function, dict) else element
    for holder, keys in ((element, _SELF[:4]), (inner, ("name",)), (element, _SELF[4:])):
        for key in keys:
            if isinstance(value := holder.get(key), str):
                return _get_shape(element), key, value
    return None


def _get_shape(element: Json) -> object:
    if isinstance(element, dict):
        return (str(element.get("role", "")), str(element.get("type", "")))
    return "list" if isinstance(element, list) else "value"


def _is_short(value: Json) -> bool:
    return not isinstance(value, dict | list) and (not isinstance(value, str) or len(value) < texts.SHOWN)


def _take_run(elements: list[Json], run: list[int]) -> tuple[str, Json]:
    """Return the path of consecutive elements, and these as a list; one alone as it is."""
    return _format_span(run), elements[run[0]] if len(run) == 1 else [elements[i] for i in run]


def _format_span(run: Sequence[int]) -> str:
    return f"[{run[0]}]" if len(run) == 1 else f"[{run[0]}..{run[-1]}]"
