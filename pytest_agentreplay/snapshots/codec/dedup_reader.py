"""Reads request bodies that name their messages, tools and texts by id.

Nothing is restored before it is asked for; then each item is written once per style and shared by all bodies.

`m7` is the seventh message of the file, `m7.2` its second version. A run "m1..m14" names first versions; "m1..m14~"
names each one's newest version that stands above, or left of, the run. Runs keep a request short whose history was
touched here and there (a cache mark that moves on).

A value may be `like` an earlier one but for a few places. An edit says where (`at`, a path of keys and indices) and
what: `{"gone": true}`, `{"now": value}`, or, for a text of many lines, `{"lines": [[0, 3], "a new line", [4, 90]]}`:
pairs are lines kept from the earlier text, from and up to.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_agentreplay.snapshots.codec.values import Malformed, join_lines, pieces, protect, reveal, reveal_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import JoinedTexts
    from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter, Style

_ID = re.compile(r"([a-z])([1-9][0-9]{0,8})(?:\.([1-9][0-9]{0,8}))?", re.ASCII)
_RUN = re.compile(r"([a-z])([1-9][0-9]{0,8})\.\.\1([1-9][0-9]{0,8})(~?)", re.ASCII)


def base(ident: str) -> str:
    """Return the id of the first version of `ident`."""
    return ident.partition(".")[0]


def is_id(text: str) -> bool:
    """Return whether `text` is the id of one item."""
    return _ID.fullmatch(text) is not None


def compress(ids: Sequence[str], newest: Mapping[str, str]) -> Iterator[str]:
    """Yield `ids` as single ids and runs. `newest` gives the newest version of each first version that has another."""
    at = 0
    while at < len(ids):
        end, mark = _run(ids, at, newest)
        yield ids[at] if end == at + 1 else f"{base(ids[at])}..{base(ids[end - 1])}{mark}"
        at = end


def _run(ids: Sequence[str], at: int, newest: Mapping[str, str]) -> tuple[int, str]:
    """Return where the longest run from `at` ends, and the mark that it needs."""
    first = base(ids[at])
    prefix, number = first[0], int(first[1:])
    plain = latest = True
    end = at
    while end < len(ids):
        ident = f"{prefix}{number}"
        is_plain = plain and ids[end] == ident
        is_latest = latest and ids[end] == newest.get(ident, ident)
        if not (is_plain or is_latest):
            break
        plain, latest = is_plain, is_latest
        number += 1
        end += 1
    return max(end, at + 1), "" if plain else "~"


def parse_run(text: str) -> tuple[str, int, int, bool]:
    """Return the letter, the first and the last number of a run of ids, and whether the newest versions are meant.

    Raises ValueError.
    """
    if (run := _RUN.fullmatch(text)) is None:
        raise ValueError(f"{text[:40]!r} is neither an id nor a run of ids")
    return run[1], int(run[2]), int(run[3]), bool(run[4])


_FEW_LINES = 3
_MANY_LINES = 600


def edits(old: Any, new: Any, blobs: BlobWriter, at: tuple[str | int, ...] = ()) -> Iterator[dict[str, Any]]:
    """Yield what turns `old` into `new`, in an order in which it can be applied."""
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


def count_shared(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return how many items two texts or lists have in common at the head, and then at the tail without counting twice.

    By halves: a loop in Python takes 50 times as long.
    """
    end, last = len(old), len(new)
    head, most = 0, min(end, last)
    while head < most:
        middle = (head + most + 1) // 2
        if old[head:middle] == new[head:middle]:
            head = middle
        else:
            most = middle - 1
    tail, most = 0, min(end, last) - head
    while tail < most:
        middle = (tail + most + 1) // 2
        if old[end - middle : end - tail] == new[last - middle : last - tail]:
            tail = middle
        else:
            most = middle - 1
    return head, tail


def kept_and_new(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, int, int]]:
    """Yield what `new` is made of: (True, i, j) keeps old[i:j], (False, i, j) is new[i:j]."""
    top, end = count_shared(old, new)
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


def apply_edits(old: Any, changes: Any, blobs: BlobReader) -> Any:
    """Return `old` after `changes`; `old` itself is left alone. Raises Malformed, KeyError, IndexError or TypeError."""
    if not isinstance(changes, list):
        raise Malformed("the edits of a `$like` are no list")
    for change in changes:
        old = _apply_edit(old, change["at"], change, blobs)
    return old


def _apply_edit(value: Any, at: Sequence[str | int], change: dict[str, Any], blobs: BlobReader) -> Any:
    if not at:
        return _edit_value(value, change, blobs)
    key, rest = at[0], at[1:]
    blobs.spend(8 * len(value) if isinstance(value, list | dict) else 0)  # it is copied
    if isinstance(value, list) and isinstance(key, int) and 0 <= key <= len(value):
        items: list[Any] = list(value)
        if not rest and "gone" in change:
            del items[key]
        else:
            items[key : key + 1] = [_apply_edit(value[key] if key < len(value) else None, rest, change, blobs)]
        return items
    if not isinstance(value, dict) or not isinstance(key, str):
        raise Malformed(f"an edit of a `$like` points nowhere: {key!r}")
    fields = dict(value)
    if not rest and "gone" in change:
        del fields[key]
    else:
        fields[key] = _apply_edit(value.get(key), rest, change, blobs)
    return fields


def _edit_value(value: Any, change: dict[str, Any], blobs: BlobReader) -> Any:
    match change:
        case {"now": now}:
            return reveal(now, blobs)
        case {"lines": list(parts)} if isinstance(value, str):
            old = value.split("\n")
            lines: list[str] = []
            for part in parts:
                match part:
                    case [int(begin), int(end)]:
                        kept = old[begin:end]
                        blobs.spend(sum(map(len, kept)) + 8 * len(kept))
                        lines += kept
                    case _:
                        lines.append(join_lines([part]))
            return "\n".join(lines)
        case _:
            raise Malformed("an edit of a `$like` says neither `now` nor `lines` nor `gone`")


_NAMING = 32
"""What naming an item costs of the budget, however short it is: a run of ids names thousands in a few letters.

A separator and the reference of a list take less. With more, a run of 1,000 turns would be beyond the budget by the
names of its messages alone.
"""


class Unshared(ValueError):
    """A body holds a number that no Python value writes back: its text alone says what it is."""


T = TypeVar("T")


class _Shelf(Generic[T]):
    """What `make` gives for items, made once; a run of first versions is cut out of a list."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._firsts: dict[str, list[T]] = {}
        self._others: dict[str, T] = {}

    def item(self, ident: str) -> T:
        """Return that of one item."""
        if "." not in ident and (number := int(ident[1:])) <= len(self._firsts.get(ident[0], ())) + 1:
            return self.get_firsts(ident[0], number, number)[0]
        if ident not in self._others:
            self._others[ident] = self._make(ident)
        return self._others[ident]

    def get_firsts(self, prefix: str, low: int, high: int) -> list[T]:
        """Return those of the first versions `low` to `high`."""
        firsts = self._firsts.setdefault(prefix, [])
        while len(firsts) < high:
            firsts.append(self._make(f"{prefix}{len(firsts) + 1}"))
        return firsts[low - 1 : high]


@dataclass(slots=True)
class Items:
    """All items of a file. `define` the bodies in order of the file, then `text` gives any of them."""

    blobs: BlobReader
    _stored: dict[str, Any] = field(default_factory=dict)
    _born: dict[str, int] = field(default_factory=dict)
    _versions: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _values: dict[str, Any] = field(default_factory=dict)
    _trees: _Shelf[Any] = field(init=False)
    _texts: dict[tuple[Style, int], _Shelf[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._trees = _Shelf(self._tree)

    def define(self, body: dict[str, Any]) -> int:
        """Take in what `body` defines, and return how many items stood before it. Raises Malformed."""
        before = len(self._born)
        for entry in _entries(body):
            if isinstance(entry, dict):
                ((ident, stored),) = entry.items()
                if ident in self._born or not is_id(ident):
                    raise Malformed(f"item {ident[:20]!r} is defined twice, or is no id")
                self._stored[ident] = stored
                self._born[ident] = len(self._born)
                self._versions.setdefault(base(ident), []).append((self._born[ident], ident))
        return before

    def pieces(self, body: dict[str, Any], style: Style, before: int) -> list[str | JoinedTexts]:
        """Return the JSON text of a stored body in pieces, `before` being what `define` gave for it.

        Raises Malformed and its kin.
        """
        fields: list[tuple[str, str | list[str]]] = []
        for key, stored in body.items():
            name = key[1:] if key[:1] == "$" else key
            if isinstance(stored, list):
                texts = self._list(stored, before, self._shelf(style, 2))
                self.blobs.spend(sum(map(len, texts)) + _NAMING * len(texts))
                fields.append((name, texts))
                before += sum(isinstance(entry, dict) for entry in stored)
            else:
                fields.append((name, self._write_value(stored, style)))
                before += isinstance(stored, dict) and isinstance(stored.get("$item"), dict)
        return list(style.pieces(fields))

    def tree(self, body: dict[str, Any], before: int) -> dict[str, Any]:
        """Return the value of a stored body; its items are shared. Raises Unshared, Malformed and their kin."""
        fields: dict[str, Any] = {}
        for key, stored in body.items():
            name = key[1:] if key[:1] == "$" else key
            if isinstance(stored, list):
                fields[name] = self._list(stored, before, self._trees)
                self.blobs.spend(_NAMING * len(fields[name]))
                before += sum(isinstance(entry, dict) for entry in stored)
            else:
                fields[name] = self._read_value(stored)
                before += isinstance(stored, dict) and isinstance(stored.get("$item"), dict)
        return fields

    def _write_value(self, stored: Any, style: Style) -> str:
        match stored:
            case {"$item": reference}:
                text = self._shelf(style, 1).item(_get_id(reference))
                self.blobs.spend(len(text) + _NAMING)
                return text
            case {"$raw": raw}:
                return reveal_text(raw, self.blobs)
            case {"$list": list(items)}:
                return style.dumps(reveal(items, self.blobs), 1)
            case _:
                return style.dumps(reveal(stored, self.blobs), 1)

    def _read_value(self, stored: Any) -> Any:
        match stored:
            case {"$item": reference}:
                return self._trees.item(_get_id(reference))
            case {"$raw": _}:
                raise Unshared
            case {"$list": list(items)}:
                return reveal(items, self.blobs)
            case _:
                return reveal(stored, self.blobs)

    def _list(self, entries: list[Any], before: int, shelf: _Shelf[T]) -> list[T]:
        """Return what the shelf has for the elements of an array."""
        elements: list[T] = []
        for entry in entries:
            if isinstance(entry, dict):
                before += 1
                elements.append(shelf.item(next(iter(entry))))
            elif isinstance(entry, str):
                if is_id(entry):
                    elements.append(shelf.item(entry))
                    continue
                prefix, low, high, newest = parse_run(entry)
                if newest:
                    elements += [shelf.item(self._newest(f"{prefix}{n}", before)) for n in range(low, high + 1)]
                else:
                    elements += shelf.get_firsts(prefix, low, high)
            else:
                raise Malformed(f"an array of items holds {entry!r:.40}")
        return elements

    def _newest(self, first: str, before: int) -> str:
        versions = self._versions.get(first, [])
        at = bisect_left(versions, (before,))
        return versions[at - 1][1] if at else first

    def _shelf(self, style: Style, depth: int) -> _Shelf[str]:
        """Return the texts of items in a style, `depth` levels down."""
        name = style, depth if style.indent else 0
        if name not in self._texts:
            self._texts[name] = _Shelf(partial(self._text, style, depth))
        return self._texts[name]

    def _text(self, style: Style, depth: int, ident: str) -> str:
        stored = self._get_stored(ident)
        if isinstance(stored, dict) and "$raw" in stored:
            return reveal_text(stored["$raw"], self.blobs)
        return style.dumps(self.value(ident), depth)

    def _tree(self, ident: str) -> Any:
        if isinstance(stored := self._get_stored(ident), dict) and "$raw" in stored:
            raise Unshared
        return self.value(ident)

    def value(self, ident: str) -> Any:
        """Return the value of an item, through all that it is like."""
        chain = []
        while ident not in self._values:
            stored = self._get_stored(ident)
            chain.append((ident, stored))
            if not (isinstance(stored, dict) and "$like" in stored):
                break
            model = stored["$like"]
            if not isinstance(model, str) or self._born.get(model, len(self._born)) >= self._born[ident]:
                raise Malformed(f"item {ident} is like {model!r:.20}, which does not stand before it")
            ident = model
        value = self._values.get(ident)
        for name, stored in reversed(chain):
            if isinstance(stored, dict) and "$like" in stored:
                value = apply_edits(value, stored.get("edits"), self.blobs)
            else:
                value = reveal(stored, self.blobs)
            self._values[name] = value
        return value

    def _get_stored(self, ident: str) -> Any:
        try:
            return self._stored[ident]
        except KeyError:
            raise Malformed(f"item {ident} is not defined in the file") from None


def _get_id(stored: Any) -> str:
    """Return the id of an item that is named, or defined and named at once."""
    if isinstance(stored, str) and is_id(stored):
        return stored
    if isinstance(stored, dict) and len(stored) == 1:
        return str(next(iter(stored)))
    raise Malformed(f"an item is named {stored!r:.40}")


def _entries(body: dict[str, Any]) -> Iterable[Any]:
    """Yield the entries of a stored body that may define items: ids, runs and definitions."""
    for stored in body.values():
        if isinstance(stored, list):
            yield from stored
        elif isinstance(stored, dict) and "$item" in stored:
            yield stored["$item"]
