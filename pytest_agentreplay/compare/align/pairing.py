"""Which exchange of one run stands for which of the other: an alignment of two lanes on what each exchange added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diff import texts

if TYPE_CHECKING:
    from pytest_agentreplay.compare.align.local import Item

Pair = tuple["Item | None", "Item | None"]


def align(recorded: list[Item], now: list[Item]) -> list[Pair]:
    """Return the items of one lane beside those that stand for them, in order; None beside those that stand alone.

    The matcher is not symmetric, so it always sees the two runs the same way round.
    """
    keys = [item.added for item in recorded], [item.added for item in now]
    if keys[0] > keys[1]:
        return [(x, y) for y, x in _align_oriented(now, recorded, (keys[1], keys[0]))]
    return _align_oriented(recorded, now, keys)


def _align_oriented(xs: list[Item], ys: list[Item], keys: tuple[list[str], list[str]]) -> list[Pair]:
    head = next((i for i, (x, y) in enumerate(zip(*keys, strict=False)) if x != y), min(len(xs), len(ys)))
    codes = texts.opcodes(keys[0][head:], keys[1][head:])
    if codes is None:
        codes = [("replace", 0, len(xs) - head, 0, len(ys) - head)]
    pairs: list[Pair] = []
    i, j = 0, 0
    for _, i1, i2, j1, j2 in (*codes, ("end", len(xs) - head, len(xs) - head, len(ys) - head, len(ys) - head)):
        pairs += zip(xs[i : head + i1], ys[j : head + j1], strict=True)
        pairs += _pair_block(xs[head + i1 : head + i2], ys[head + j1 : head + j2])
        i, j = head + i2, head + j2
    return pairs


def _pair_block(xs: list[Item], ys: list[Item]) -> list[Pair]:
    """Pair the items that were changed where none is in the other run; leave alone what came or went."""
    anchors = _find_joined(xs, ys) or [(i, j) for j, i in _find_joined(ys, xs)]
    pairs: list[Pair] = []
    i, j = 0, 0
    for at_x, at_y in (*anchors, (len(xs), len(ys))):
        pairs += _pair_alike(xs[i:at_x], ys[j:at_y])
        if at_x < len(xs):
            pairs.append((xs[at_x], ys[at_y]))
        i, j = at_x + 1, at_y + 1
    return pairs


def _find_joined(xs: list[Item], ys: list[Item]) -> list[tuple[int, int]]:
    """Where several model calls of `xs` together added what one of `ys` added: the last of them stands for it."""
    models = [i for i, x in enumerate(xs) if x.sort == "model"]
    anchors: list[tuple[int, int]] = []
    for j, y in enumerate(ys):
        added = [y.messages[k] for k in y.new]
        for at, first in enumerate(models):
            if anchors and first <= anchors[-1][0]:
                continue
            had: list[str] = []
            for i in models[at:]:
                had += [xs[i].messages[k] for k in xs[i].new]
                if len(had) >= len(added):
                    break
            if had and had == added and i != first:
                anchors.append((i, j))
                break
    return anchors


def _pair_alike(xs: list[Item], ys: list[Item]) -> list[Pair]:
    """Pair calls of one name, then a tool with another tool that stands in its place."""
    names = [[(x.sort, "" if x.sort == "model" else x.name) for x in side] for side in (xs, ys)]
    codes = texts.opcodes(*names)
    if codes is None:
        codes = [("replace", 0, len(xs), 0, len(ys))]
    pairs: list[Pair] = []
    i, j = 0, 0
    for _, i1, i2, j1, j2 in (*codes, ("end", len(xs), len(xs), len(ys), len(ys))):
        pairs += zip(xs[i:i1], ys[j:j1], strict=True)
        lost, gained = xs[i1:i2], ys[j1:j2]
        while lost and gained and lost[0].sort == gained[0].sort:
            pairs.append((lost.pop(0), gained.pop(0)))
        pairs += [(x, None) for x in lost]
        pairs += [(None, y) for y in gained]
        i, j = i2, j2
    return pairs


def find_moves(pairs: list[Pair]) -> dict[int, tuple[Item, Item]]:
    """Calls that came at another place: the earlier of the two positions, with both; the later one with none."""
    moved: dict[int, tuple[Item, Item]] = {}
    gained = [(at, y) for at, (x, y) in enumerate(pairs) if x is None and y is not None and y.sort != "model"]
    for at, (x, y) in enumerate(pairs):
        if x is None or y is not None or x.sort == "model":
            continue
        for place in gained:
            if place[1].added == x.added and abs(place[1].ordinal - x.ordinal) <= 1:
                gained.remove(place)
                moved[min(at, place[0])] = x, place[1]
                moved[max(at, place[0])] = x, x
                break
    return moved


def is_unordered(x: Item, y: Item, pairs: list[Pair]) -> bool:
    """Return whether the call overlapped another one in either run, so that no order was ever fixed."""
    return any(
        other is not None and other is not mine and other.sort != "model" and other.overlaps(mine)
        for mine, side in ((x, 0), (y, 1))
        for other in (pair[side] for pair in pairs)
    )
