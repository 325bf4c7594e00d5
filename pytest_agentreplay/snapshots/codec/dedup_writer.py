"""Writes request bodies: each message, tool schema and long text stands in full where it is first sent, under an id.

Knows no provider: the elements of a top-level array of objects are items, and so is every long top-level value. The
key only chooses the letter of the id. What stood in the same place of an earlier request and has changed a little is a
version of it (`m3.2`), stored as edits where these are shorter.

The text of a JSON object is cut into its fields, and arrays of objects into their elements, without losing a byte. What
the recorder has seen before is recognised by comparing characters, so that a resent history is not parsed again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no public name (CPython 3.11-3.14, Lib/json/decoder.py)
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.snapshots.codec import dedup_reader
from pytest_agentreplay.snapshots.codec.dedup_reader import base, compress, count_shared
from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter, Style, guess
from pytest_agentreplay.snapshots.codec.values import NestedTooDeep, protect_text, write_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(slots=True)
class JsonPiece:
    """One value as it is written: `raw`, and the parsed `value`; or the `id` of a known element."""

    raw: str
    value: Any = None
    id: str = ""


@dataclass(slots=True)
class JsonField:
    """One top-level field: a `value`, or the `elements` of an array of objects."""

    key: str
    value: JsonPiece | None
    elements: Sequence[JsonPiece] = ()


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_scan = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]


def object_fields(text: str, eye: _MessageScanner) -> list[JsonField] | None:
    """Return the fields of the JSON object that `text` is, in order; None when it is anything else."""
    try:
        return _fields(text, eye)
    except (StopIteration, ValueError, RecursionError):
        return None


def _fields(text: str, eye: _MessageScanner) -> list[JsonField]:
    at = _skip_mark(text, 0, "{")
    fields: list[JsonField] = []
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            key, at = scanstring(text, _skip_mark(text, at, '"', space=False), True)
            at = _skip_mark(text, _skip_space(text, at), ":")
            field, at = _field(key, text, at, eye)
            fields.append(field)
            at = _skip_space(text, at)
            if text[at : at + 1] == "}":
                at += 1
                break
            at = _skip_mark(text, at, ",")
    if _skip_space(text, at) != len(text) or len({field.key for field in fields}) != len(fields):
        raise ValueError(text[at : at + 10])
    return fields


def _field(key: str, text: str, at: int, eye: _MessageScanner) -> tuple[JsonField, int]:
    if text[at : at + 1] == "[":
        first = _skip_space(text, at + 1)
        if text[first : first + 1] == "{":
            elements, end = _elements(key, text, first, eye)
            if elements is not None:
                return JsonField(key, None, elements), end
    value, end = _scan(text, at)
    return JsonField(key, JsonPiece(text[at:end], value)), end


def _elements(key: str, text: str, at: int, eye: _MessageScanner) -> tuple[list[JsonPiece] | None, int]:
    """Return the objects of an array and where it ends; None when one of its elements is not an object."""
    elements: list[JsonPiece] = []
    previous = ""
    while text[at : at + 1] == "{":
        # An object's text is never the beginning of another one's, so equal characters are the same element.
        element = eye.find_next(key, previous, text, at)
        if element is not None:
            previous, raw = element
            elements.append(JsonPiece(raw, None, previous))
            at += len(raw)
        else:
            value, end = _scan(text, at)
            raw = text[at:end]
            previous = eye.find_id(raw)
            elements.append(JsonPiece(raw, value, previous))
            previous, at = previous or "?", end
        at = _skip_space(text, at)
        if text[at : at + 1] == "]":
            return elements, at + 1
        at = _skip_mark(text, at, ",")
    return None, at


def _skip_mark(text: str, at: int, mark: str, *, space: bool = True) -> int:
    at = _skip_space(text, at) if space else at
    if text[at : at + 1] != mark:
        raise ValueError(text[at : at + 10])
    return _skip_space(text, at + 1) if space else at + 1


def _skip_space(text: str, at: int) -> int:
    if text[at : at + 1] not in " \t\n\r":
        return at
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


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

    def write_body(self, text: str) -> tuple[dict[str, Any], Style] | None:
        """Return a request body that is a JSON object, as stored, with its style; None for any other text."""
        style = guess(text)
        fields = object_fields(text, _MessageScanner(self, manner_of(style, depth=2)))
        if fields is None:
            return None
        as_written = [(f.key, f.value.raw if f.value else [piece.raw for piece in f.elements]) for f in fields]
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
        """Return what stood after `previous`, newest first, as (id, text)."""
        return self._after.get((manner, previous), [])

    def find_id(self, manner: str, raw: str) -> str:
        """Return the id of what is written as `raw`; "" when it is new."""
        return self._ids.get((manner, raw), "")


@dataclass(slots=True)
class _MessageScanner:
    """Recognises known elements in a text, most of them without parsing: history is resent in the same order."""

    interner: Interner
    manner: str

    def find_next(self, key: str, previous: str, text: str, at: int) -> tuple[str, str] | None:
        """Id and text of the known element that stands in `text` at `at`; `previous` ("" for none) is its neighbour."""
        for ident, raw in self.interner.followers(self.manner, previous or "^" + key):
            if text.startswith(raw, at):
                return ident, raw
        return None

    def find_id(self, raw: str) -> str:
        """Return the id of the known element that is written as `raw`; "" when it is new."""
        return self.interner.find_id(self.manner, raw)


@dataclass(slots=True)
class _MessageWriter:
    """Writes the fields of one body in one style."""

    interner: Interner
    style: Style

    def field(self, f: JsonField) -> Any:
        """Return one top-level value as stored."""
        if f.value is not None:
            return self._write_value(f.key, f.value)
        return list(self._array(f))

    def _write_value(self, key: str, piece: JsonPiece) -> Any:
        """Return a value that is no array of objects: in place when short, else as an item."""
        if len(piece.raw) >= LONG and isinstance(piece.value, str | list | dict):
            place = "=" + key
            ident, definition = self._item(key, piece, place, depth=1)
            self.interner.follow(manner_of(self.style, depth=1), place, ident, piece.raw)
            return {"$item": ident if definition is _MISSING else {ident: definition}}
        stored = self._write_exact(piece, depth=1)
        if stored is _MISSING:
            return {"$raw": protect_text(piece.raw, self.interner.blobs)}
        return {"$list": stored} if isinstance(stored, list) and stored else stored

    def _array(self, f: JsonField) -> Iterator[Any]:
        waiting: list[str] = []
        manner = manner_of(self.style, depth=2)
        previous = "^" + f.key
        for piece in f.elements:
            ident, definition = (piece.id, _MISSING) if piece.id else self._item(f.key, piece, previous, depth=2)
            self.interner.follow(manner, previous, ident, piece.raw)
            previous = ident
            if definition is _MISSING:
                waiting.append(ident)
            else:
                yield from compress(waiting, self._newest_before(ident))
                waiting.clear()
                yield {ident: definition}
        yield from compress(waiting, self.interner.newest)

    def _newest_before(self, ident: str) -> dict[str, str]:
        """Return the newest versions as they were before `ident` was defined, a moment ago."""
        first = base(ident)
        if first == ident:
            return self.interner.newest
        number = int(ident.partition(".")[2]) - 1
        return {**self.interner.newest, first: f"{first}.{number}" if number > 1 else first}

    def _item(self, key: str, piece: JsonPiece, previous: str, depth: int) -> tuple[str, Any]:
        """Return the id of `piece` and, when it is new, its definition."""
        interner = self.interner
        manner = manner_of(self.style, depth)
        if ident := interner.find_id(manner, piece.raw):
            return ident, _MISSING
        stored = self._write_exact(piece, depth)
        if stored is _MISSING:
            ident = self._new_id(key, "")
            definition: Any = {"$raw": protect_text(piece.raw, interner.blobs)}
        else:
            same = json.dumps(piece.value)
            ident = interner._same.get(same, "")
            if ident:
                interner._ids[manner, piece.raw] = ident
                return ident, _MISSING
            neighbours = self._list_neighbours(manner, previous)
            definition, model = self._define(piece, stored, neighbours)
            ident = self._new_id(key, model)
            interner._same[same] = ident
            interner.values[ident] = piece.value
        interner._ids[manner, piece.raw] = ident
        return ident, definition

    def _write_exact(self, piece: JsonPiece, depth: int) -> Any:
        """Return the stored form of a value that is written in the body's style; else _MISSING."""
        try:
            if self.style.dumps(piece.value, depth) != piece.raw:
                return _MISSING
            return write_value(piece.value, self.interner.blobs)
        except (NestedTooDeep, ValueError, RecursionError):
            return _MISSING

    def _list_neighbours(self, manner: str, previous: str) -> list[str]:
        """Return ids of what stood in this place before, newest first."""
        followers = self.interner.followers(manner, previous) or self.interner.followers(manner, base(previous))
        return [ident for ident, _ in followers if ident in self.interner.values]

    def _define(self, piece: JsonPiece, stored: Any, neighbours: list[str]) -> tuple[Any, str]:
        """Return the definition of a new item, and the id of what it is a version of ("" for none)."""
        interner = self.interner
        best: tuple[int, str, Any] | None = None
        for model in dict.fromkeys(
            name for ident in neighbours for name in (base(ident), ident) if name in interner.values
        ):
            changes = list(dedup_reader.edits(interner.values[model], piece.value, interner.blobs))
            cost = len(json.dumps(changes))
            # An older model that costs little more is better to read: no chain to follow.
            if best is None or cost * 5 < best[0] * 4:
                best = cost, model, changes
        if best is not None and best[0] * 2 < len(piece.raw):
            definition = {"$like": best[1], "edits": best[2]}
            if self._is_exact(definition, piece):
                return definition, best[1]
        if neighbours and are_alike(interner.values[neighbours[0]], piece.value):
            return stored, neighbours[0]
        return stored, ""

    def _is_exact(self, definition: dict[str, Any], piece: JsonPiece) -> bool:
        reader = BlobReader(self.interner.blobs.table)
        value = dedup_reader.apply_edits(self.interner.values[definition["$like"]], definition["edits"], reader)
        text = json.dumps(definition, ensure_ascii=False)
        return json.dumps(value) == json.dumps(piece.value) and text.encode(errors="replace").decode() == text

    def _new_id(self, key: str, model: str) -> str:
        interner = self.interner
        if model:
            first = base(model)
            number = interner._versions[first] = interner._versions.get(first, 1) + 1
            ident = interner.newest[first] = f"{first}.{number}"
            return ident
        letter = LETTERS.get(key, "x")
        number = interner._counts[letter] = interner._counts.get(letter, 0) + 1
        return f"{letter}{number}"


def manner_of(style: Style, depth: int) -> str:
    """Return what the text of a value depends on, besides the value."""
    return f"{style.layout}{style.escape}{depth if style.indent else 0}"


def are_alike(a: Any, b: Any) -> bool:
    """Return whether two values share nearly all the text of the shorter one."""
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


_SMALL = 2048


def parts(old: bytes, new: bytes) -> Iterator[tuple[int, int] | bytes]:
    """Yield what `new` is made of: pairs keep old[i:j], bytes are new. Linear in both.

    Finds what stayed at both ends and, where much lies between, the pieces that stayed: elements of arrays, or lines.
    """
    top, end = count_shared(old, new)
    if top:
        yield 0, top
    before, after = old[top : len(old) - end], new[top : len(new) - end]
    if min(len(before), len(after)) < _SMALL:
        if after:
            yield after
    else:
        yield from _pieces(before, after, top)
    if end:
        yield len(old) - end, len(old)


def _pieces(before: bytes, after: bytes, shift: int) -> Iterator[tuple[int, int] | bytes]:
    mark = max((b"},", b"\n"), key=after.count)
    offsets: dict[bytes, int] = {}
    at = shift
    for piece in before.split(mark):
        offsets.setdefault(piece, at)
        at += len(piece) + len(mark)
    last = at - len(mark)
    begin = end = 0
    new: list[bytes] = []
    pieces = after.split(mark)
    for number, piece in enumerate(pieces):
        text = piece + mark if number < len(pieces) - 1 else piece
        at = offsets.get(piece, -1)
        if end > begin and before.startswith(text, end - shift):
            end += len(text)
        elif at >= 0 and at + len(text) <= last:
            if new:
                yield b"".join(new)
                new.clear()
            if end > begin:
                yield begin, end
            begin, end = at, at + len(text)
        else:
            if end > begin:
                yield begin, end
            begin = end = 0
            new.append(text)
    if new:
        yield b"".join(new)
    if end > begin:
        yield begin, end
