"""A value that is `like` an earlier one: the few places where it differs.

An edit says where (`at`, a path of keys and indices) and what: `{"gone": true}`, `{"now": value}`, or, for a text of
many lines, `{"lines": [[0, 3], "a new line", [4, 90]]}`: pairs are lines kept from the earlier text, from and up to.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec.values import Malformed, joined, pieces, protect, reveal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.codec.dedup.blobs import BlobReader, BlobWriter

_FEW_LINES = 3
_MANY_LINES = 600


def edits(old: Any, new: Any, blobs: BlobWriter, at: tuple[str | int, ...] = ()) -> Iterator[dict[str, Any]]:
    """What turns `old` into `new`, in an order in which it can be applied."""
    if isinstance(old, dict) and isinstance(new, dict):
        kept = [key for key in old if key in new]
        if list(new)[: len(kept)] == kept:
            yield from ({"at": [*at, key], "gone": True} for key in old if key not in new)
            for key in kept:
                yield from edits(old[key], new[key], blobs, (*at, key))
            yield from ({"at": [*at, key], "now": protect(new[key], blobs)} for key in new if key not in old)
            return
    elif isinstance(old, list) and isinstance(new, list):
        yield from ({"at": [*at, index], "gone": True} for index in range(len(old) - 1, len(new) - 1, -1))
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from edits(before, after, blobs, (*at, index))
        yield from ({"at": [*at, n], "now": protect(new[n], blobs)} for n in range(len(old), len(new)))
        return
    elif isinstance(old, str) and isinstance(new, str) and old != new:
        before_lines, after_lines = old.split("\n"), new.split("\n")
        if min(len(before_lines), len(after_lines)) >= _FEW_LINES:
            yield {"at": list(at), "lines": list(_lines(before_lines, after_lines))}
            return
    if type(old) is not type(new) or repr(old) != repr(new):
        yield {"at": list(at), "now": protect(new, blobs)}


def _lines(old: list[str], new: list[str]) -> Iterator[Any]:
    for keep, begin, end in kept_and_new(old, new):
        if keep:
            yield [begin, end]
        else:
            yield from (pieces(line) for line in new[begin:end])


def kept_and_new(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, int, int]]:
    """What `new` is made of: (True, i, j) keeps old[i:j], (False, i, j) is new[i:j]."""
    top = 0
    while top < min(len(old), len(new)) and old[top] == new[top]:
        top += 1
    end = 0
    while end < min(len(old), len(new)) - top and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[top : len(old) - end], new[top : len(new) - end]
    if top:
        yield True, 0, top
    if len(middle_old) > _MANY_LINES or len(middle_new) > _MANY_LINES:
        yield False, top, len(new) - end
    else:
        at = 0
        for i, j, size in SequenceMatcher(None, middle_old, middle_new, autojunk=False).get_matching_blocks():
            if j > at:
                yield False, top + at, top + j
            if size:
                yield True, top + i, top + i + size
            at = j + size
    if end:
        yield True, len(old) - end, len(old)


def applied(old: Any, changes: Any, blobs: BlobReader) -> Any:
    """`old` after `changes`; `old` itself is left alone. Raises Malformed, KeyError, IndexError or TypeError."""
    if not isinstance(changes, list):
        msg = "the edits of a `$like` are no list"
        raise Malformed(msg)
    for change in changes:
        old = _changed(old, change["at"], change, blobs)
    return old


def _changed(value: Any, at: Sequence[str | int], change: dict[str, Any], blobs: BlobReader) -> Any:
    if not at:
        return _at_the_place(value, change, blobs)
    key, rest = at[0], at[1:]
    blobs.spend(8 * len(value) if isinstance(value, list | dict) else 0)  # it is copied
    if isinstance(value, list) and isinstance(key, int) and 0 <= key <= len(value):
        items: list[Any] = list(value)
        if not rest and "gone" in change:
            del items[key]
        else:
            items[key : key + 1] = [_changed(value[key] if key < len(value) else None, rest, change, blobs)]
        return items
    if not isinstance(value, dict) or not isinstance(key, str):
        msg = f"an edit of a `$like` points nowhere: {key!r}"
        raise Malformed(msg)
    fields = dict(value)
    if not rest and "gone" in change:
        del fields[key]
    else:
        fields[key] = _changed(value.get(key), rest, change, blobs)
    return fields


def _at_the_place(value: Any, change: dict[str, Any], blobs: BlobReader) -> Any:
    match change:
        case {"now": now}:
            return reveal(now, blobs)
        case {"lines": list(parts)} if isinstance(value, str):
            old = value.split("\n")
            found: list[str] = []
            for part in parts:
                match part:
                    case [int(begin), int(end)]:
                        kept = old[begin:end]
                        blobs.spend(sum(map(len, kept)) + 8 * len(kept))
                        found += kept
                    case _:
                        found.append(joined([part]))
            return "\n".join(found)
        case _:
            msg = "an edit of a `$like` says neither `now` nor `lines` nor `gone`"
            raise Malformed(msg)
