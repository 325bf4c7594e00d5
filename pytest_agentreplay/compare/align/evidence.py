"""For which of two recorded calls the content of a changed call is evidence.

Only what tells the two recorded calls apart counts: of two requests that share a system prompt and ask "Paris?" and
"Rome?", an edit of the system prompt decides nothing, and the word Rome does. Whole values are looked at first, then
words, then neighbouring words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.compare.matching.address import content, split
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.model.exchanges import Call, Json

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
    if first is None or second is None:
        share = second if first is None else first
        sign = -1 if first is None else 1
        assert share is not None
        return sign if share >= MOST else -sign if share <= FEW else 0
    if first >= MOST and second <= FEW:
        return 1
    return -1 if second >= MOST and first <= FEW else 0


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
