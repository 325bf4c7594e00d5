"""Writes request bodies: each message, tool schema and long text stands in full where it is first sent, under an id.

Knows no provider: the elements of a top-level array of objects are items, and so is every long top-level value. The
key only chooses the letter of the id. What stood in the same place of an earlier request and has changed a little is a
version of it (`m3.2`), stored as edits where these are shorter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec.dedup import edits
from pytest_agentreplay.codec.dedup.blobs import BlobReader, BlobWriter
from pytest_agentreplay.codec.dedup.id_ranges import base, compress
from pytest_agentreplay.codec.lexical import JsonField, JsonPiece, object_fields
from pytest_agentreplay.codec.styles import Style, guess
from pytest_agentreplay.codec.values import NestedTooDeep, marked, protect_text

if TYPE_CHECKING:
    from collections.abc import Iterator

LETTERS = {
    **dict.fromkeys(("messages", "input", "contents"), "m"),
    **dict.fromkeys(("tools", "functions"), "t"),
    **dict.fromkeys(("system", "instructions"), "s"),
}
LONG = 200
"""Characters from which on a top-level value gets an id."""

_SUCCESSORS = 4
_MISSING = object()


@dataclass(slots=True)
class Interner:
    """The items of one file while it is written, in order of the exchanges."""

    blobs: BlobWriter
    values: dict[str, Any] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _ids: dict[tuple[str, str], str] = field(default_factory=dict)
    _same: dict[str, str] = field(default_factory=dict)
    _after: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)

    def written(self, text: str) -> tuple[dict[str, Any], Style] | None:
        """A request body that is a JSON object, as stored, with its style; None for any other text."""
        style = guess(text)
        fields = object_fields(text, _MessageScanner(self, manner_of(style, depth=2)))
        if fields is None:
            return None
        as_written = [(f.key, f.whole.raw if f.whole else [piece.raw for piece in f.elements]) for f in fields]
        if style.compose(as_written) != text:
            return None
        pen = _MessageWriter(self, style)
        try:
            # A key that UTF-8 cannot hold has no place in a file; such a body is kept as text.
            "".join(f.key for f in fields).encode()
        except UnicodeEncodeError:
            return None
        return {"$" + f.key if f.key[:1] == "$" else f.key: pen.field(f) for f in fields}, style

    def follow(self, manner: str, previous: str, ident: str, raw: str) -> None:
        """Remember that the item `ident`, written as `raw`, stood after `previous`."""
        seen = self._after.setdefault((manner, previous), [])
        if seen and seen[0][0] == ident:
            return
        seen[:] = [(ident, raw), *(entry for entry in seen if entry[0] != ident)][:_SUCCESSORS]

    def followers(self, manner: str, previous: str) -> list[tuple[str, str]]:
        """What stood after `previous`, newest first, as (id, text)."""
        return self._after.get((manner, previous), [])

    def named(self, manner: str, raw: str) -> str:
        """The id of what is written as `raw`; "" when it is new."""
        return self._ids.get((manner, raw), "")


@dataclass(slots=True)
class _MessageScanner:
    """Recognises known elements in a text, most of them without parsing: history is resent in the same order."""

    known: Interner
    manner: str

    def next(self, key: str, previous: str, text: str, at: int) -> tuple[str, str] | None:
        """The follower of `previous` that stands here."""
        for ident, raw in self.known.followers(self.manner, previous or "^" + key):
            if text.startswith(raw, at):
                return ident, raw
        return None

    def named(self, raw: str) -> str:
        """The id of `raw`, or ""."""
        return self.known.named(self.manner, raw)


@dataclass(slots=True)
class _MessageWriter:
    """Writes the fields of one body in one style."""

    known: Interner
    style: Style

    def field(self, f: JsonField) -> Any:
        """One top-level value as stored."""
        if f.whole is not None:
            return self._whole(f.key, f.whole)
        return list(self._array(f))

    def _whole(self, key: str, piece: JsonPiece) -> Any:
        """A value that is no array of objects: in place when short, else as an item."""
        if len(piece.raw) >= LONG and isinstance(piece.value, str | list | dict):
            place = "=" + key
            ident, definition = self._item(key, piece, place, depth=1)
            self.known.follow(manner_of(self.style, depth=1), place, ident, piece.raw)
            return {"$item": ident if definition is _MISSING else {ident: definition}}
        stored = self._faithful(piece, depth=1)
        if stored is _MISSING:
            return {"$raw": protect_text(piece.raw, self.known.blobs)}
        return {"$list": stored} if isinstance(stored, list) and stored else stored

    def _array(self, f: JsonField) -> Iterator[Any]:
        waiting: list[str] = []
        manner = manner_of(self.style, depth=2)
        previous = "^" + f.key
        for piece in f.elements:
            ident, definition = (piece.id, _MISSING) if piece.id else self._item(f.key, piece, previous, depth=2)
            self.known.follow(manner, previous, ident, piece.raw)
            previous = ident
            if definition is _MISSING:
                waiting.append(ident)
            else:
                yield from compress(waiting, self._newest_before(ident))
                waiting.clear()
                yield {ident: definition}
        yield from compress(waiting, self.known.newest)

    def _newest_before(self, ident: str) -> dict[str, str]:
        """The newest versions as they were before `ident` was defined, a moment ago."""
        first = base(ident)
        if first == ident:
            return self.known.newest
        number = int(ident.partition(".")[2]) - 1
        return {**self.known.newest, first: f"{first}.{number}" if number > 1 else first}

    def _item(self, key: str, piece: JsonPiece, previous: str, depth: int) -> tuple[str, Any]:
        """The id of `piece` and, when it is new, its definition."""
        known = self.known
        manner = manner_of(self.style, depth)
        if ident := known.named(manner, piece.raw):
            return ident, _MISSING
        stored = self._faithful(piece, depth)
        if stored is _MISSING:
            ident = self._new_id(key, "")
            definition: Any = {"$raw": protect_text(piece.raw, known.blobs)}
        else:
            same = json.dumps(piece.value)
            ident = known._same.get(same, "")
            if ident:
                known._ids[manner, piece.raw] = ident
                return ident, _MISSING
            near = self._near(manner, previous)
            definition, model = self._like(piece, stored, near)
            ident = self._new_id(key, model)
            known._same[same] = ident
            known.values[ident] = piece.value
        known._ids[manner, piece.raw] = ident
        return ident, definition

    def _faithful(self, piece: JsonPiece, depth: int) -> Any:
        """The stored form of a value that is written in the body's style; else _MISSING."""
        try:
            if self.style.dumps(piece.value, depth) != piece.raw:
                return _MISSING
            return marked(piece.value, self.known.blobs)
        except (NestedTooDeep, ValueError, RecursionError):
            return _MISSING

    def _near(self, manner: str, previous: str) -> list[str]:
        """Ids of what stood in this place before, newest first."""
        found = self.known.followers(manner, previous) or self.known.followers(manner, base(previous))
        return [ident for ident, _ in found if ident in self.known.values]

    def _like(self, piece: JsonPiece, stored: Any, near: list[str]) -> tuple[Any, str]:
        """The definition of a new item, and the id of what it is a version of ("" for none)."""
        known = self.known
        best: tuple[int, str, Any] | None = None
        for model in dict.fromkeys(name for ident in near for name in (base(ident), ident) if name in known.values):
            changes = list(edits.edits(known.values[model], piece.value, known.blobs))
            cost = len(json.dumps(changes))
            # An older model that costs little more is better to read: no chain to follow.
            if best is None or cost * 5 < best[0] * 4:
                best = cost, model, changes
        if best is not None and best[0] * 2 < len(piece.raw):
            definition = {"$like": best[1], "edits": best[2]}
            if self._proven(definition, piece):
                return definition, best[1]
        if near and akin(known.values[near[0]], piece.value):
            return stored, near[0]
        return stored, ""

    def _proven(self, definition: dict[str, Any], piece: JsonPiece) -> bool:
        reader = BlobReader(self.known.blobs.table)
        value = edits.applied(self.known.values[definition["$like"]], definition["edits"], reader)
        text = json.dumps(definition, ensure_ascii=False)
        return json.dumps(value) == json.dumps(piece.value) and text.encode(errors="replace").decode() == text

    def _new_id(self, key: str, model: str) -> str:
        known = self.known
        if model:
            first = base(model)
            number = known._versions[first] = known._versions.get(first, 1) + 1
            ident = known.newest[first] = f"{first}.{number}"
            return ident
        letter = LETTERS.get(key, "x")
        number = known._counts[letter] = known._counts.get(letter, 0) + 1
        return f"{letter}{number}"


def manner_of(style: Style, depth: int) -> str:
    """What the text of a value depends on, besides the value."""
    return f"{style.layout}{style.escape}{depth if style.indent else 0}"


def akin(a: Any, b: Any) -> bool:
    """Whether two values share nearly all the text of the shorter one."""
    ours, theirs = set(_texts(a)), set(_texts(b))
    shared = sum(map(len, ours & theirs))
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
