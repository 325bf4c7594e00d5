"""The structural difference of two JSON values: few places, each with a path, both sides and a short note.

Rules of this module:
- Strict: true is not 1, 1 is not 1.0; key order of objects carries nothing, order of lists does.
- Lists are anchored on whole equal elements, so that one inserted message is one difference and not a hundred.
- Linear for what people send: each value is written out once per level; what would cost more is told as a whole.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.divergence import ABSENT, Difference
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.redaction.placeholders import describe_exchange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

NODES = 20_000  # values visited before the rest is told as a whole
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

    def add(self, path: str, recorded: object, now: object, note: str = "") -> None:
        self.differences.append(Difference(path, recorded, now, note))  # type: ignore[arg-type]

    def visit(self, recorded: Json, now: Json, path: str) -> None:
        if recorded is now:
            return
        self.left -= 1
        if self.left < 0:
            if canonical(recorded) != canonical(now):
                self.add(path, recorded, now, "too large to compare in parts")
        elif isinstance(recorded, dict) and isinstance(now, dict):
            self.members(recorded, now, path)
        elif isinstance(recorded, list) and isinstance(now, list):
            self.elements(recorded, now, path)
        elif isinstance(recorded, str) and isinstance(now, str):
            if recorded != now:
                self.differences.append(_text(recorded, now, path))
        elif canonical(recorded) != canonical(now):
            self.add(path, recorded, now)

    def members(self, recorded: JsonObject, now: JsonObject, path: str) -> None:
        for key, value in recorded.items():
            if key in now:
                self.visit(value, now[key], step(path, key))
            else:
                self.add(step(path, key), value, ABSENT)
        for key, value in now.items():
            if key not in recorded:
                self.add(step(path, key), ABSENT, value)

    def elements(self, recorded: list[Json], now: list[Json], path: str) -> None:
        before, after = [canonical(element) for element in recorded], [canonical(element) for element in now]
        if before == after:
            return
        head, tail = _ends(before, after)
        middle, fresh = before[head : len(before) - tail], after[head : len(after) - tail]
        if len(before) == len(after) and Counter(middle) == Counter(fresh):
            self.add_reordered(recorded, now, path, (head, tail), _order(before, after, head))
            return
        codes = texts.opcodes(middle, fresh)
        if codes is None:
            self.add(path, recorded, now, f"too different to align: {len(recorded)} and {len(now)} elements")
            return
        for _, i1, i2, j1, j2 in codes:
            self.block(recorded, now, path, range(head + i1, head + i2), range(head + j1, head + j2))

    def add_reordered(
        self, recorded: list[Json], now: list[Json], path: str, ends: tuple[int, int], order: list[int]
    ) -> None:
        head, tail = ends
        if len(recorded) > ORDERED:
            order = order[head : len(order) - tail]
            path = f"{path}{_span(range(head, len(recorded) - tail))}"
            recorded, now = recorded[head : len(recorded) - tail], now[head : len(now) - tail]
        places = ", ".join(map(str, order[:ORDERED]))
        self.add(path, recorded, now, f"reordered [{places}{', ...' if len(order) > ORDERED else ''}]")

    def block(self, recorded: list[Json], now: list[Json], path: str, lost: range, gained: range) -> None:
        """Pair the elements of two ranges that stand for each other; the others were dropped or added."""
        pairs = _pairs([recorded[i] for i in lost], [now[j] for j in gained])
        paired = [(lost[i], gained[j]) for i, j in pairs]
        if len(paired) > SCALARS and all(_scalar(recorded[i]) and _scalar(now[j]) for i, j in paired):
            note = f"{len(paired)} elements changed, the first: {recorded[paired[0][0]]} -> {now[paired[0][1]]}"
            self.add(f"{path}{_span(lost)}", [recorded[i] for i in lost], [now[j] for j in gained], note)
            return
        name = re.split(r"[.\]]", path)[-1].strip("$") or "elements"
        became = dict(paired)
        for run in _runs([i for i in lost if i not in became], apart=became):
            if run[0] in became:
                self.visit(recorded[run[0]], now[became[run[0]]], f"{path}[{run[0]}]")
                continue
            where, values = _span(run), [recorded[i] for i in run]
            self.add(f"{path}{where}", values if len(run) > 1 else values[0], ABSENT, f"{name}{where} dropped")
        for run in _runs([j for j in gained if j not in set(became.values())]):
            where, values = _span(run), [now[j] for j in run]
            self.add(f"{path}{where}", ABSENT, values if len(run) > 1 else values[0], f"{name}{where} added")


def _text(recorded: str, now: str, path: str) -> Difference:
    """Two different texts: files by hash, JSON inside by its own first difference, the rest by words."""
    old, new = (str(media.read_media(text) or text) for text in (recorded, now))
    if other := media.swap(old, new):
        return Difference(path, old, new, other)
    if other := describe_exchange(recorded, now):
        return Difference(path, recorded, now, other)
    inside = _inside(recorded), _inside(now)
    if inside[0] is not None and inside[1] is not None:
        deeper = diff(inside[0], inside[1])
        if not deeper:
            return Difference(path, recorded, now, "the same JSON, written otherwise")
        first = deeper[0]
        more = f" (and {len(deeper) - 1} more)" if len(deeper) > 1 else ""
        return Difference(path, recorded, now, f"in it {first.path}: {first.note or _format_change(first)}{more}")
    return Difference(path, recorded, now, texts.brief(recorded, now))


def _format_change(difference: Difference) -> str:
    recorded, now = ("absent" if side is ABSENT else canonical(side) for side in (difference.recorded, difference.now))
    return " -> ".join(texts.shorten_pair(recorded, now))


def _inside(text: str) -> Json:
    """Return the object or list that a text holds as JSON, else None."""
    if text[:1] not in {"{", "["} or text[-1:] not in {"}", "]"}:
        return None
    value = parse(text, exact=True)
    return None if isinstance(value, NotJson) else value


def _ends(before: list[str], after: list[str]) -> tuple[int, int]:
    """Return how many elements are the same at the start and at the end."""
    short = min(len(before), len(after))
    head = next((i for i in range(short) if before[i] != after[i]), short)
    tail = next((i for i in range(short - head) if before[-1 - i] != after[-1 - i]), short - head)
    return head, tail


def _order(before: list[str], after: list[str], head: int) -> list[int]:
    """For each element now, the place (from 1) that it had when recorded."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for i, text in enumerate(before[head:], head + 1):
        places[text].append(i)
    return [*range(1, head + 1), *(places[text].popleft() for text in after[head:])]


def _pairs(lost: list[Json], gained: list[Json]) -> list[tuple[int, int]]:
    """Return which lost element became which gained one: by its own name or id, then by shape and position."""
    own, new = _unique(lost), _unique(gained)
    pairs = [(own[key], new[key]) for key in own if key in new]
    rest_i = [i for i in range(len(lost)) if i not in {i for i, _ in pairs}]
    rest_j = [j for j in range(len(gained)) if j not in {j for _, j in pairs}]
    shapes_i, shapes_j = [_shape(lost[i]) for i in rest_i], [_shape(gained[j]) for j in rest_j]
    if shapes_i == shapes_j:
        pairs += zip(rest_i, rest_j, strict=True)
    else:
        queues: dict[object, deque[int]] = defaultdict(deque)
        for j, shape in zip(rest_j, shapes_j, strict=True):
            queues[shape].append(j)
        pairs += [(i, queues[s].popleft()) for i, s in zip(rest_i, shapes_i, strict=True) if queues[s]]
    return sorted(pairs)


def _unique(elements: list[Json]) -> dict[object, int]:
    """Return the position of each element that says who it is, where no other one says the same."""
    identities = [(_identity(element), i) for i, element in enumerate(elements)]
    counts = Counter(key for key, _ in identities)
    return {key: i for key, i in identities if key is not None and counts[key] == 1}


def _identity(element: Json) -> tuple[object, str, str] | None:
    if not isinstance(element, dict):
        return None
    function = element.get("function")
    inner = function if isinstance(function, dict) else element
    for holder, keys in ((element, _SELF[:4]), (inner, ("name",)), (element, _SELF[4:])):
        for key in keys:
            if isinstance(value := holder.get(key), str):
                return _shape(element), key, value
    return None


def _shape(element: Json) -> object:
    if isinstance(element, dict):
        return (str(element.get("role", "")), str(element.get("type", "")))
    return "list" if isinstance(element, list) else "value"


def _scalar(value: Json) -> bool:
    return not isinstance(value, (dict, list)) and (not isinstance(value, str) or len(value) < texts.SHOWN)


def _runs(indices: list[int], apart: Iterable[int] = ()) -> list[range]:
    """Consecutive indices as ranges, with those of `apart` one by one in between."""
    runs = [range(i, i + 1) for i in apart]
    for i in indices:
        if i != indices[0] and runs[-1].stop == i:
            runs[-1] = range(runs[-1].start, i + 1)
        else:
            runs.append(range(i, i + 1))
    return sorted(runs, key=lambda run: run.start)


def _span(run: range) -> str:
    return f"[{run[0]}]" if len(run) == 1 else f"[{run[0]}..{run[-1]}]"
