"""What changed between two results of one retrieval, chunk by chunk: gone, new, moved, scored otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.core.reading import Chunk


def chunks_moved(recorded: Sequence[Chunk], now: Sequence[Chunk]) -> tuple[str, ...]:
    """A sentence for each change, in the order of the recorded ranking, new chunks last; empty when nothing changed."""
    before, after = _rank_hits(recorded), _rank_hits(now)
    changes = tuple(_changes(before, after))
    same = {key: chunk for key, (_, chunk) in before.items()} == {key: chunk for key, (_, chunk) in after.items()}
    return (f"the chunks came in another order: {changes[0]}", *changes[1:]) if changes and same else changes


Ranked = dict[str, tuple[int, "Chunk"]]


def _rank_hits(chunks: Sequence[Chunk]) -> Ranked:
    """Each chunk with its place, by what it is known by; of two alike the better one."""
    ranked: Ranked = {}
    for place, chunk in enumerate(chunks, 1):
        ranked.setdefault(chunk.id or chunk.content, (place, chunk))
    return ranked


def _changes(recorded: Ranked, now: Ranked) -> Iterator[str]:
    for key, (was, old) in recorded.items():
        if key not in now:
            yield f"chunk {old.name} is gone, was {ordinal(was)}"
            continue
        place, new = now[key]
        if place != was:
            yield f"chunk {old.name} is {ordinal(place)} now, was {ordinal(was)}"
        if old.score != new.score:
            yield f"chunk {old.name}: score {_score(old)} recorded, {_score(new)} now"
        if old.content != new.content:
            yield f"chunk {old.name}: its content changed"
    for key, (place, new) in now.items():
        if key not in recorded:
            yield f"chunk {new.name} is {ordinal(place)} now, and was not there"


def _score(chunk: Chunk) -> str:
    return "none" if chunk.score is None else f"{chunk.score:.6g}"


def ordinal(place: int) -> str:
    """A place as people say it: "1st", "2nd", "11th"."""
    ending = "th" if 10 < place % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
