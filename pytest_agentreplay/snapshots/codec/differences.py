"""What turns one value into another, as edits of its places, its lines and the words of its long lines.

An earlier text is a list of units: lines, words, or pieces of JSON. The later one keeps runs of them and has new ones
between. The journal uses the same for whole bodies. `dedup_reader.apply_edits` is the way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.dedup_reader import count_shared
from pytest_agentreplay.snapshots.codec.values import LINE, cut_words, pieces, protect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.snapshots.codec.styles import BlobWriter

_SHORTEST = 24
"""Characters of a run that is worth keeping: `[120, 131], ` and the quotes of the texts beside it take as many."""


def list_edits(old: Any, new: Any, blobs: BlobWriter, at: tuple[str | int, ...] = ()) -> Iterator[dict[str, Any]]:
    """Yield what turns `old` into `new`, in an order in which it can be applied."""
    if isinstance(old, dict) and isinstance(new, dict):
        kept = [key for key in old if key in new]
        if list(new)[: len(kept)] == kept:
            yield from ({"at": [*at, key], "gone": True} for key in old if key not in new)
            for key in kept:
                yield from list_edits(old[key], new[key], blobs, (*at, key))
            yield from ({"at": [*at, key], "now": protect(new[key], blobs)} for key in new if key not in old)
            return
    elif isinstance(old, list) and isinstance(new, list):
        # From the end, so that the places of those before stay.
        yield from ({"at": [*at, index], "gone": True} for index in range(len(old) - 1, len(new) - 1, -1))
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from list_edits(before, after, blobs, (*at, index))
        yield from ({"at": [*at, n], "now": protect(new[n], blobs)} for n in range(len(old), len(new)))
        return
    elif isinstance(old, str) and isinstance(new, str) and old != new:
        lines = list(_list_lines(old.split("\n"), new.split("\n")))
        if any(_keeps(line) for line in lines):
            yield {"at": list(at), "lines": lines}
            return
    if type(old) is not type(new) or repr(old) != repr(new):
        yield {"at": list(at), "now": protect(new, blobs)}


def _list_lines(old: list[str], new: list[str]) -> Iterator[Any]:
    """Yield the lines of a text: pairs for lines that are kept, new lines, and long lines by their words."""
    gap = 0
    for is_kept, begin, end in list_parts(old, new):
        if is_kept:
            yield [begin, end]
            gap = end
        else:
            # A line that changed stands where the earlier one stood, unless lines came or went before it.
            for number, line in enumerate(new[begin:end], gap):
                words = _list_words(old[number], line) if len(line) > LINE and number < len(old) else None
                yield pieces(line) if words is None else {"line": number, "pieces": words}


def _keeps(line: Any) -> bool:
    """Return whether an entry of `lines` keeps some of the earlier text: new lines are texts, or lists of texts."""
    return not isinstance(line, str) and (isinstance(line, dict) or not isinstance(line[0], str))


def _list_words(old: str, new: str) -> list[Any] | None:
    """Return a line by the words that it keeps of an earlier one; None where more than half of it is new."""
    words = cut_words(new)
    parts = [[i, j] if is_kept else "".join(words[i:j]) for is_kept, i, j in list_parts(cut_words(old), words)]
    if 2 * sum(len(part) for part in parts if isinstance(part, str)) > len(new):
        return None
    return [pieces(part) if isinstance(part, str) else part for part in parts]


def list_parts(old: Sequence[str] | Sequence[bytes], new: Sequence[Any]) -> Iterator[tuple[bool, int, int]]:
    """Yield what `new` is made of: (True, i, j) keeps old[i:j], (False, i, j) is new[i:j]. Linear in both."""
    at = 0
    for begin, end, place in _find_shared(old, new):
        if sum(map(len, old[begin:end])) + end - begin >= _SHORTEST:
            if at < place:
                yield False, at, place
            yield True, begin, end
            at = place + end - begin
    if at < len(new):
        yield False, at, len(new)


def _find_shared(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[int, int, int]]:
    """Yield runs old[begin:end] with their place in `new`, in the order of `new`: head, what lies between, and tail.

    Between the two a run grows around a unit that the earlier text has only once there: lines such as `}`, and words
    such as "the", begin none. A run may come from anywhere, so what moved is found too.
    """
    head, tail = count_shared(old, new)
    yield 0, head, 0
    last, end = len(new) - tail, len(old) - tail
    # difflib took 78 ms for 600 lines of which some are repeated, and 1.3 s for 2,400; this takes 0.2 and 0.6 ms.
    places: dict[Any, int] = {}
    for number in range(head, end):
        places[old[number]] = -1 if old[number] in places else number
    at = free = head
    while at < last:
        begin = places.get(new[at], -1)
        if begin < 0:
            at += 1
            continue
        place, stop = at, begin
        while place > free and begin > 0 and old[begin - 1] == new[place - 1]:
            place, begin = place - 1, begin - 1
        while at < last and stop < len(old) and old[stop] == new[at]:
            at, stop = at + 1, stop + 1
        yield begin, stop, place
        free = at
    yield end, len(old), last
