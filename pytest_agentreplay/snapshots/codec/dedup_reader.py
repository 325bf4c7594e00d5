"""Reads request bodies that name their messages, tools and texts by id.

Nothing is restored before it is asked for; then each item is written once per style and shared by all bodies.

`m7` is the seventh message of the file, `m7.2` its second version. A run "m1..m14" names first versions; "m1..m14~"
names each one's newest version that stands above, or left of, the run. Runs keep a request short whose history was
touched here and there (a cache mark that moves on).

A value may be `like` an earlier one but for a few places. An edit says where (`at`, a path of keys and indices) and
what: `{"gone": true}`, `{"now": value}`, or, for a text, `{"lines": [[0, 3], "a new line", [4, 90]]}`: pairs are lines
kept from the earlier text, from and up to. A long line that keeps some of its words is told in the same way:
`{"line": 3, "pieces": [[0, 210], "10:00:01 ", [211, 520]]}`, counted in the words of `values.cut_words`. Files of older
versions have `words` there, which are what stands between spaces.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_agentreplay.snapshots.codec.values import Malformed, cut_words, join_lines, reveal, reveal_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import JoinedTexts
    from pytest_agentreplay.snapshots.codec.styles import BlobReader, Style

# Nine digits: more than a file has room for, and no number that takes long to parse.
_ID = re.compile(r"([a-z])([1-9][0-9]{0,8})(?:\.([1-9][0-9]{0,8}))?", re.ASCII)
_RUN = re.compile(r"([a-z])([1-9][0-9]{0,8})\.\.\1([1-9][0-9]{0,8})(~?)", re.ASCII)


def base(ident: str) -> str:
    """Return the id of the first version of `ident`."""
    return ident.partition(".")[0]


def is_id(text: str) -> bool:
    """Return whether `text` is the id of one item."""
    return _ID.fullmatch(text) is not None


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
            blobs.spend(8 * value.count("\n"))  # the list of them
            return _join_parts(value.split("\n"), "\n", parts, blobs)
        case _:
            raise Malformed("an edit of a `$like` says neither `now` nor `lines` nor `gone`")


def _join_parts(units: list[str], separator: str, parts: list[Any], blobs: BlobReader) -> str:
    """Return the text that keeps some lines, or words, of those of another."""
    joined: list[str] = []
    for part in parts:
        match part:
            case [int(begin), int(end)]:
                kept = units[begin:end]
                blobs.spend(sum(map(len, kept)) + 8 * len(kept))
                joined += kept
            case {"line": int(number)} if separator == "\n":
                blobs.spend(3 * len(units[number]))  # and the list of its words
                joined.append(_join_words(units[number], part, blobs))
            case _:
                joined.append(join_lines([part]))
    return separator.join(joined)


def _join_words(line: str, words: dict[str, Any], blobs: BlobReader) -> str:
    """Return the line that keeps some words of another. Raises Malformed."""
    match words:
        case {"pieces": list(parts)} if len(words) == 2:
            return _join_parts(cut_words(line), "", parts, blobs)
        case {"words": list(parts)} if len(words) == 2:
            return _join_parts(line.split(" "), " ", parts, blobs)
        case _:
            raise Malformed("a line of an edit has neither `pieces` nor `words`")


_NAMING = 32
"""What naming an item costs of the budget, however short it is: a run of ids names thousands in a few letters.

A separator and the reference of a list take less. With more, a run of 1,000 turns would be beyond the budget by the
names of its messages alone.
"""


class Unshared(ValueError):
    """A body holds a number that no Python value writes back: its text alone says what it is."""


T = TypeVar("T")
Restore = Callable[[Any], Any]
"""Returns what is stored in an exchange with values in the place of their names."""


class _Shelf(Generic[T]):
    """What `make` gives for items, made once; a run of first versions is cut out of a list."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._firsts: dict[str, list[T]] = {}
        self._others: dict[str, T] = {}

    def item(self, ident: str) -> T:
        """Return that of one item."""
        # Beyond the list's end a file may name any number: the list is not filled up to it.
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
    """All items of a file. `define` the bodies in order of the file, then `pieces` and `tree` give any of them."""

    blobs: BlobReader
    _bodies: dict[int, tuple[dict[str, Any], Restore, int]] = field(default_factory=dict)
    _stored: dict[str, tuple[Restore, Any]] = field(default_factory=dict)
    _born: dict[str, int] = field(default_factory=dict)
    _versions: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _values: dict[str, Any] = field(default_factory=dict)
    _trees: _Shelf[Any] = field(init=False)
    _texts: dict[tuple[Style, int], _Shelf[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._trees = _Shelf(self._value)

    def define(self, number: int, body: dict[str, Any], restore: Restore) -> None:
        """Take in the request of exchange `number`, in which `restore` replaces names. Raises Malformed."""
        self._bodies[number] = body, restore, len(self._born)
        for entry in _entries(body):
            # Born in order: a version can only be like what stands before it, so no edit builds on itself.
            if isinstance(entry, dict):
                ((ident, stored),) = entry.items()
                if ident in self._born or not is_id(ident):
                    raise Malformed(f"item {ident[:20]!r} is defined twice, or is no id")
                self._stored[ident] = restore, stored
                self._born[ident] = len(self._born)
                self._versions.setdefault(base(ident), []).append((self._born[ident], ident))

    def pieces(self, number: int, style: Style) -> list[str | JoinedTexts]:
        """Return the JSON text of the request of exchange `number` in pieces. Raises Malformed and its kin."""
        fields: list[tuple[str, str | list[str]]] = []
        for name, stored, elements in self._fields(number, self._shelf(style, 2)):
            # Paid where it is used, not where it is made: a short file may name one text a million times.
            self.blobs.spend(sum(map(len, elements or ())))
            fields.append((name, self._write_value(stored, style) if elements is None else elements))
        return list(style.pieces(fields))

    def tree(self, number: int) -> dict[str, Any]:
        """Return the value of the request of exchange `number`; its items are shared.

        Raises Unshared, Malformed and their kin.
        """
        fields = self._fields(number, self._trees)
        return {name: self._read_value(stored) if elements is None else elements for name, stored, elements in fields}

    def _fields(self, number: int, shelf: _Shelf[T]) -> Iterator[tuple[str, Any, list[T] | None]]:
        """Yield the name of each field, what is stored, and what the shelf has for it where it is an array of items."""
        body, restore, before = self._bodies[number]
        for key, stored in body.items():
            field_name = key[1:] if key[:1] == "$" else key
            match stored:
                case list():
                    entries = [entry if isinstance(entry, dict) else restore(entry) for entry in stored]
                    elements = self._list(entries, before, shelf)
                    self.blobs.spend(_NAMING * len(elements))
                    yield field_name, None, elements
                case {"$item": dict()}:
                    yield field_name, stored, None
                case _:
                    yield field_name, restore(stored), None
            before += sum(isinstance(entry, dict) for entry in _entries({key: stored}))

    def _write_value(self, stored: Any, style: Style) -> str:
        match stored:
            case {"$item": reference}:
                text = self._shelf(style, 1).item(_get_id(reference))
                self.blobs.spend(len(text) + _NAMING)
                return text
            case {"$raw": raw}:
                return reveal_text(raw, self.blobs)
            case _:
                return style.dumps(self._read_value(stored), 1)

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
            elif not isinstance(entry, str):
                raise Malformed(f"an array of items holds {entry!r:.40}")
            elif is_id(entry):
                elements.append(shelf.item(entry))
            elif (run := _RUN.fullmatch(entry)) is None:
                raise Malformed(f"{entry[:40]!r} is neither an id nor a run of ids")
            else:
                prefix, low, high, is_newest = run[1], int(run[2]), int(run[3]), run[4]
                if is_newest:
                    elements += [shelf.item(self._newest(f"{prefix}{n}", before)) for n in range(low, high + 1)]
                else:
                    elements += shelf.get_firsts(prefix, low, high)
        return elements

    def _newest(self, first: str, before: int) -> str:
        # Versions that stand below the run do not count: an item of a later turn changes no earlier request.
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
        restore, stored = self._get_stored(ident)
        if isinstance(stored, dict) and "$raw" in stored:
            return reveal_text(restore(stored["$raw"]), self.blobs)
        return style.dumps(self._value(ident), depth)

    def _value(self, ident: str) -> Any:
        """Return the value of an item, through all that it is like. Raises Unshared, Malformed and their kin."""
        # Without recursion: a version may be like the one before it, a thousand times.
        chain = []
        while ident not in self._values:
            restore, stored = self._get_stored(ident)
            chain.append((ident, restore, stored))
            if isinstance(stored, dict) and "$raw" in stored:
                raise Unshared
            if not (isinstance(stored, dict) and "$like" in stored):
                break
            model = stored["$like"]
            if not isinstance(model, str) or self._born.get(model, len(self._born)) >= self._born[ident]:
                raise Malformed(f"item {ident} is like {model!r:.20}, which does not stand before it")
            ident = model
        value = self._values.get(ident)
        for name, restore, stored in reversed(chain):
            if isinstance(stored, dict) and "$like" in stored:
                value = apply_edits(value, restore(stored.get("edits")), self.blobs)
            else:
                value = reveal(restore(stored), self.blobs)
            self._values[name] = value
        return value

    def _get_stored(self, ident: str) -> tuple[Restore, Any]:
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
