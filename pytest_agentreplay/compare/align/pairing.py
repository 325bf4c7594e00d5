"""Which call stands for which: of two runs, or of two recorded calls for a changed one.

Two lanes are aligned on what each exchange added (`align.local`): equal keys first, then calls of one name between
them, then one tool in the place of another.

For which of two recorded calls the content of a changed call is evidence, only what tells these two apart decides: of
two requests that share a system prompt and ask "Paris?" and "Rome?", an edit of the system prompt decides nothing, and
the word Rome does. Whole values are looked at first, then words, then neighbouring words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.compare.matching.address import content, split
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import Call, Json, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

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
    # Two runs agree from their start as a rule, and difflib looks at every equal pair: so their head is cut off first.
    head = next((i for i, (x, y) in enumerate(zip(*keys, strict=False)) if x != y), min(len(xs), len(ys)))
    pairs: list[Pair] = [*zip(xs[:head], ys[:head], strict=True)]
    rest_x, rest_y = xs[head:], ys[head:]
    for same_x, same_y, lost, gained in _split_blocks(rest_x, rest_y, keys[0][head:], keys[1][head:]):
        pairs += zip(same_x, same_y, strict=True)
        pairs += _pair_block(lost, gained)
    return pairs


def _split_blocks(
    xs: list[Item], ys: list[Item], x_keys: Sequence[Hashable], y_keys: Sequence[Hashable]
) -> Iterator[tuple[list[Item], list[Item], list[Item], list[Item]]]:
    """Yield the items of equal keys, side by side, and the others that follow them before the next equal ones."""
    codes = texts.opcodes(x_keys, y_keys)
    if codes is None:
        codes = [("replace", 0, len(xs), 0, len(ys))]
    i, j = 0, 0
    for _, i1, i2, j1, j2 in (*codes, ("end", len(xs), len(xs), len(ys), len(ys))):
        yield xs[i:i1], ys[j:j1], xs[i1:i2], ys[j1:j2]
        i, j = i2, j2


def _pair_block(xs: list[Item], ys: list[Item]) -> list[Pair]:
    """Pair the items that were changed where none is in the other run; leave alone what came or went."""
    anchors = _find_joined(xs, ys) or [(i, j) for j, i in _find_joined(ys, xs)]
    pairs: list[Pair] = []
    i, j = 0, 0
    for at_x, at_y in anchors:
        pairs += [*_pair_alike(xs[i:at_x], ys[j:at_y]), (xs[at_x], ys[at_y])]
        i, j = at_x + 1, at_y + 1
    return [*pairs, *_pair_alike(xs[i:], ys[j:])]


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
    x_names, y_names = ([(x.sort, "" if x.sort == "model" else x.name) for x in side] for side in (xs, ys))
    pairs: list[Pair] = []
    for same_x, same_y, lost, gained in _split_blocks(xs, ys, x_names, y_names):
        pairs += zip(same_x, same_y, strict=True)
        while lost and gained and lost[0].sort == gained[0].sort:
            pairs.append((lost.pop(0), gained.pop(0)))
        pairs += [(x, None) for x in lost]
        pairs += [(None, y) for y in gained]
    return pairs


def find_moves(pairs: list[Pair]) -> dict[int, tuple[Item, Item]]:
    """Calls that came at another place: the earlier of the two positions, with both; the later one with none."""
    moved: dict[int, tuple[Item, Item]] = {}
    gained = [(at, y) for at, (x, y) in enumerate(pairs) if x is None and y is not None and y.sort != "model"]
    for at, (x, y) in enumerate(pairs):
        if x is None or y is not None or x.sort == "model":
            continue
        for place in gained:
            # Farther than a turn away it is another call that happens to be the same.
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


MOST = 2 / 3
"""The share of what only one recorded call holds that a changed call must hold to be evidence for it."""
FEW = 1 / 3
"""The share of what only the other one holds that it may hold at most."""

Part: TypeAlias = tuple[str, str]

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Features:
    """What a call holds: values with the name of the member that holds them, words, and pairs of neighbouring words."""

    values: frozenset[Part]
    words: frozenset[str]
    phrases: frozenset[Part]


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """`favours` is 1 for the first recorded call, -1 for the second, 0 where nothing decides.

    `positive` says that the changed call holds what only the favoured one held, not merely that it lacks the rest.
    `parts` are a few of these things, to show.
    """

    favours: int
    positive: bool = False
    parts: tuple[str, ...] = ()


NONE = PairEvidence(0)

_SHOW: dict[str, Callable[[Any], str]] = {
    "values": itemgetter(1),
    "words": str,
    "phrases": lambda pair: " ".join(pair).strip(),
}


def features(call: Call) -> Features:
    """Return the features of a call: of its body or arguments, and of its query."""
    leaves = list(_leaves(call))
    texts = [_WORD.findall(text.casefold()) for _, text in leaves]
    return Features(
        frozenset(leaves),
        frozenset(word for words in texts for word in words),
        frozenset(pair for words in texts for pair in pairwise(["", *words, ""])),
    )


def compare(call: Features, first: Features, second: Features) -> PairEvidence:
    """Return whether `call` resembles `first` or `second`, by what only one of these two holds."""
    for level in ("values", "words", "phrases"):
        call_parts, ours, theirs = (getattr(side, level) for side in (call, first, second))
        only = ours - theirs, theirs - ours
        if not only[0] and not only[1]:
            continue
        hits = only[0] & call_parts, only[1] & call_parts
        if level == "values" and not hits[0] and not hits[1]:
            continue  # every value that tells them apart was edited; the words may tell
        favours = _favours(*(len(hit) / len(own) if own else None for hit, own in zip(hits, only, strict=True)))
        if favours:
            favoured = hits[0] if favours == 1 else hits[1]
            return PairEvidence(favours, bool(favoured), tuple(_SHOW[level](part) for part in sorted(favoured)[:3]))
        if level == "words" and (hits[0] or hits[1]):
            break  # it holds some of both
    return NONE


def _favours(first: float | None, second: float | None) -> int:
    """Return the side that holds most of its own where the other holds little; None: a side has nothing of its own."""
    mine, theirs = (0 if share is None else (share >= MOST) - (share <= FEW) for share in (first, second))
    if first is None or second is None:
        return mine if second is None else -theirs
    return mine if mine == -theirs else 0


def _leaves(call: Call) -> Iterator[Part]:
    if isinstance(call, ToolCall):
        yield from _scalars(call.tree)
        return
    body_content = content(call.headers, call.body)
    yield from split(call.url).query
    if body_content.tree is not None:
        yield from _scalars(body_content.tree)
    elif body_content.data:
        yield "", body_content.data.decode("utf-8", "replace")


def _scalars(tree: Json) -> Iterator[Part]:
    """Yield each scalar with the name of the nearest member that holds it; with a stack of its own, for deep trees."""
    stack: list[tuple[str, Json]] = [("", tree)]
    while stack:
        name, node = stack.pop()
        if isinstance(node, dict):
            stack.extend(node.items())
        elif isinstance(node, list):
            stack.extend((name, item) for item in node)
        else:
            yield name, node if isinstance(node, str) else canonical(node)
