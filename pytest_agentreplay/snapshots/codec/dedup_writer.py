"""Writes request bodies: each message, tool schema and long text stands in full where it is first sent, under an id.

Knows no provider: the elements of a top-level array of objects are items, and so is every long top-level value. The
key only chooses the letter of the id. What stood in the same place of an earlier request and has changed a little is a
version of it (`m3.2`), stored as edits where these are shorter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.dedup_reader import apply_edits, base
from pytest_agentreplay.snapshots.codec.differences import list_edits
from pytest_agentreplay.snapshots.codec.json_pieces import ElementIndex, cut_object
from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter, Style, guess
from pytest_agentreplay.snapshots.codec.values import NestedTooDeep, is_encodable, protect_text, write_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_agentreplay.snapshots.codec.json_pieces import JsonField, JsonPiece

LETTERS = {
    **dict.fromkeys(("messages", "input", "contents"), "m"),
    **dict.fromkeys(("tools", "functions"), "t"),
    **dict.fromkeys(("system", "instructions"), "s"),
}
LONG = 100
"""Characters from which on a top-level value gets an id."""

_MISSING = object()


@dataclass(slots=True)
class Interner:
    """The items of one file while it is written, in order of the exchanges."""

    blobs: BlobWriter
    values: dict[str, Any] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _indexes: dict[tuple[str, bool, int], ElementIndex] = field(default_factory=dict)

    def write_body(self, text: str) -> tuple[dict[str, Any], Style] | None:
        """Return a request body that is a JSON object, as stored, with its style; None for any other text."""
        style = guess(text)
        fields = cut_object(text, self.get_index(style, depth=2))
        if fields is None:
            return None
        as_written = [(f.key, f.value.raw if f.value else [piece.raw for piece in f.elements]) for f in fields]
        # The pieces say nothing of white space between them: composed again they must be the text.
        if style.compose(as_written) != text or not all(is_encodable(f.key) for f in fields):
            return None
        writer = _MessageWriter(self, style, {depth: self.get_index(style, depth) for depth in (1, 2)})
        return {"$" + f.key if f.key[:1] == "$" else f.key: writer.write_field(f) for f in fields}, style

    def get_index(self, style: Style, depth: int) -> ElementIndex:
        """Return what is known of values that are written in `style`, `depth` levels down: their text depends on it."""
        return self._indexes.setdefault((style.layout, style.escape, depth if style.indent else 0), ElementIndex())

    def make_id(self, key: str, model: str) -> str:
        """Return the id of a new version of `model`, or of a new item under `key`."""
        if model:
            first = base(model)
            number = self._versions[first] = self._versions.get(first, 1) + 1
            ident = f"{first}.{number}"
            self.newest = {**self.newest, first: ident}  # a new one: a run is written with those that stand above it
            return ident
        letter = LETTERS.get(key, "x")
        number = self._counts[letter] = self._counts.get(letter, 0) + 1
        return f"{letter}{number}"

    def define(self, value: Any, stored: Any, size: int, neighbours: Sequence[str]) -> tuple[Any, str]:
        """Return the definition of a new value of `size` characters, and what it is a version of ("" for nothing)."""
        best: tuple[int, str, Any] | None = None
        models = (name for ident in neighbours for name in (base(ident), ident) if name in self.values)
        for model in dict.fromkeys(models):
            changes = list(list_edits(self.values[model], value, self.blobs))
            cost = len(json.dumps(changes, ensure_ascii=False))
            # An older model that costs little more is better to read: no chain to follow.
            if best is None or cost * 5 < best[0] * 4:
                best = cost, model, changes
        # A version that is mostly new is easier to read in one place.
        if best is not None and best[0] * 2 < size and self._is_exact(value, best[1], best[2]):
            return {"$like": best[1], "edits": best[2]}, best[1]
        is_version = neighbours and are_alike(self.values[neighbours[0]], value)
        return stored, neighbours[0] if is_version else ""

    def _is_exact(self, value: Any, model: str, changes: list[Any]) -> bool:
        again = apply_edits(self.values[model], changes, BlobReader(self.blobs.table))
        text = json.dumps(changes, ensure_ascii=False)
        return json.dumps(again) == json.dumps(value) and text.encode(errors="replace").decode() == text


@dataclass(slots=True)
class _MessageWriter:
    """Writes the fields of one body in one style; `indexes` by how many levels down the values stand."""

    interner: Interner
    style: Style
    indexes: dict[int, ElementIndex]

    def write_field(self, f: JsonField) -> Any:
        """Return one top-level value as stored."""
        return list(self._write_array(f)) if f.value is None else self._write_value(f.key, f.value)

    def _write_value(self, key: str, piece: JsonPiece) -> Any:
        """Return a value that is no array of objects: in place when short, else as an item."""
        if len(piece.raw) >= LONG and isinstance(piece.value, str | list | dict):
            ident, definition = self._write_item(key, piece, 1, "=" + key)
            return {"$item": ident if definition is _MISSING else {ident: definition}}
        stored = self._write_exact(piece, depth=1)
        if stored is _MISSING:
            return {"$raw": protect_text(piece.raw, self.interner.blobs)}
        return {"$list": stored} if isinstance(stored, list) and stored else stored

    def _write_array(self, f: JsonField) -> Iterator[Any]:
        waiting: list[str] = []
        previous = "^" + f.key
        for piece in f.elements:
            newest = self.interner.newest
            previous, definition = self._write_item(f.key, piece, 2, previous)
            if definition is _MISSING:
                waiting.append(previous)
            else:
                yield from compress(waiting, newest)
                waiting.clear()
                yield {previous: definition}
        yield from compress(waiting, self.interner.newest)

    def _write_item(self, key: str, piece: JsonPiece, depth: int, previous: str) -> tuple[str, Any]:
        """Return the id of what stands after `previous` and, when it is new, its definition."""
        index = self.indexes[depth]
        ident, definition = piece.id or index.ids.get(piece.raw, ""), _MISSING
        if not ident:
            ident, definition = self._define_item(key, piece, depth, previous)
            index.ids[piece.raw] = ident
        index.follow(previous, ident, piece.raw)
        return ident, definition

    def _define_item(self, key: str, piece: JsonPiece, depth: int, previous: str) -> tuple[str, Any]:
        interner, index = self.interner, self.indexes[depth]
        stored = self._write_exact(piece, depth)
        if stored is _MISSING:
            return interner.make_id(key, ""), {"$raw": protect_text(piece.raw, interner.blobs)}
        text = json.dumps(piece.value)
        if text in interner.same:
            return interner.same[text], _MISSING
        followers = index.list_followers(previous) or index.list_followers(base(previous))
        neighbours = [name for name, _ in followers if name in interner.values]
        definition, model = interner.define(piece.value, stored, len(piece.raw), neighbours)
        ident = interner.same[text] = interner.make_id(key, model)
        interner.values[ident] = piece.value
        return ident, definition

    def _write_exact(self, piece: JsonPiece, depth: int) -> Any:
        """Return the stored form of a value that is written in the body's style; else _MISSING."""
        try:
            if self.style.dumps(piece.value, depth) != piece.raw:
                return _MISSING
            return write_value(piece.value, self.interner.blobs)
        except (NestedTooDeep, ValueError, RecursionError):
            return _MISSING


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


def are_alike(a: Any, b: Any) -> bool:
    """Return whether two values share nearly all the text of the shorter one."""
    ours, theirs = set(_texts(a)), set(_texts(b))
    shared = sum(map(len, ours & theirs))
    # A message that got a cache mark keeps all its text; with another text it is another message.
    return shared * 10 >= 9 * min(sum(map(len, ours)), sum(map(len, theirs))) > 0


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
