"""Writes request bodies: each message, tool schema and long text stands in full where it is first sent, under an id.

Knows no provider: the elements of a top-level array of objects are items, and so is every long top-level value. The
key only chooses the letter of the id. What stood in the same place of an earlier request and has changed a little is a
version of it (`m3.2`), stored as edits where these are shorter.

The text of a JSON object is cut into its fields, and arrays of objects into their elements, without losing a byte. What
the recorder has seen before is recognised by comparing characters, so that a resent history is not parsed again. A text
that is no JSON is stored as what it keeps of an earlier one: `[[0, 120], "new text", [130, 900]]`, in characters.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no public name (CPython 3.11-3.14, Lib/json/decoder.py)
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.snapshots.codec import dedup_reader
from pytest_agentreplay.snapshots.codec.dedup_reader import base, compress, count_shared, kept_and_new
from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter, Style, guess
from pytest_agentreplay.snapshots.codec.values import NestedTooDeep, marked, protect_text

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
    whole: JsonPiece | None
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
    at = _past(text, 0, "{")
    found: list[JsonField] = []
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            key, at = scanstring(text, _past(text, at, '"', space=False), True)
            at = _past(text, _blank(text, at), ":")
            field, at = _field(key, text, at, eye)
            found.append(field)
            at = _blank(text, at)
            if text[at : at + 1] == "}":
                at += 1
                break
            at = _past(text, at, ",")
    if _blank(text, at) != len(text) or len({field.key for field in found}) != len(found):
        raise ValueError(text[at : at + 10])
    return found


def _field(key: str, text: str, at: int, eye: _MessageScanner) -> tuple[JsonField, int]:
    if text[at : at + 1] == "[":
        first = _blank(text, at + 1)
        if text[first : first + 1] == "{":
            elements, end = _elements(key, text, first, eye)
            if elements is not None:
                return JsonField(key, None, elements), end
    value, end = _scan(text, at)
    return JsonField(key, JsonPiece(text[at:end], value)), end


def _elements(key: str, text: str, at: int, eye: _MessageScanner) -> tuple[list[JsonPiece] | None, int]:
    """Return the objects of an array and where it ends; None when one of its elements is not an object."""
    found: list[JsonPiece] = []
    previous = ""
    while text[at : at + 1] == "{":
        # An object's text is never the beginning of another one's, so equal characters are the same element.
        known = eye.next(key, previous, text, at)
        if known is not None:
            previous, raw = known
            found.append(JsonPiece(raw, None, previous))
            at += len(raw)
        else:
            value, end = _scan(text, at)
            raw = text[at:end]
            previous = eye.named(raw)
            found.append(JsonPiece(raw, value, previous))
            previous, at = previous or "?", end
        at = _blank(text, at)
        if text[at : at + 1] == "]":
            return found, at + 1
        at = _past(text, at, ",")
    return None, at


def _past(text: str, at: int, mark: str, *, space: bool = True) -> int:
    at = _blank(text, at) if space else at
    if text[at : at + 1] != mark:
        raise ValueError(text[at : at + 10])
    return _blank(text, at + 1) if space else at + 1


def _blank(text: str, at: int) -> int:
    if text[at : at + 1] not in " \t\n\r":
        return at
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


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
        """Return a request body that is a JSON object, as stored, with its style; None for any other text."""
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
        """Return what stood after `previous`, newest first, as (id, text)."""
        return self._after.get((manner, previous), [])

    def named(self, manner: str, raw: str) -> str:
        """Return the id of what is written as `raw`; "" when it is new."""
        return self._ids.get((manner, raw), "")


@dataclass(slots=True)
class _MessageScanner:
    """Recognises known elements in a text, most of them without parsing: history is resent in the same order."""

    known: Interner
    manner: str

    def next(self, key: str, previous: str, text: str, at: int) -> tuple[str, str] | None:
        """Id and text of the known element that stands in `text` at `at`; `previous` ("" for none) is its neighbour."""
        for ident, raw in self.known.followers(self.manner, previous or "^" + key):
            if text.startswith(raw, at):
                return ident, raw
        return None

    def named(self, raw: str) -> str:
        """Return the id of the known element that is written as `raw`; "" when it is new."""
        return self.known.named(self.manner, raw)


@dataclass(slots=True)
class _MessageWriter:
    """Writes the fields of one body in one style."""

    known: Interner
    style: Style

    def field(self, f: JsonField) -> Any:
        """Return one top-level value as stored."""
        if f.whole is not None:
            return self._whole(f.key, f.whole)
        return list(self._array(f))

    def _whole(self, key: str, piece: JsonPiece) -> Any:
        """Return a value that is no array of objects: in place when short, else as an item."""
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
        """Return the newest versions as they were before `ident` was defined, a moment ago."""
        first = base(ident)
        if first == ident:
            return self.known.newest
        number = int(ident.partition(".")[2]) - 1
        return {**self.known.newest, first: f"{first}.{number}" if number > 1 else first}

    def _item(self, key: str, piece: JsonPiece, previous: str, depth: int) -> tuple[str, Any]:
        """Return the id of `piece` and, when it is new, its definition."""
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
        """Return the stored form of a value that is written in the body's style; else _MISSING."""
        try:
            if self.style.dumps(piece.value, depth) != piece.raw:
                return _MISSING
            return marked(piece.value, self.known.blobs)
        except (NestedTooDeep, ValueError, RecursionError):
            return _MISSING

    def _near(self, manner: str, previous: str) -> list[str]:
        """Return ids of what stood in this place before, newest first."""
        found = self.known.followers(manner, previous) or self.known.followers(manner, base(previous))
        return [ident for ident, _ in found if ident in self.known.values]

    def _like(self, piece: JsonPiece, stored: Any, near: list[str]) -> tuple[Any, str]:
        """Return the definition of a new item, and the id of what it is a version of ("" for none)."""
        known = self.known
        best: tuple[int, str, Any] | None = None
        for model in dict.fromkeys(name for ident in near for name in (base(ident), ident) if name in known.values):
            changes = list(dedup_reader.edits(known.values[model], piece.value, known.blobs))
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
        value = dedup_reader.applied(self.known.values[definition["$like"]], definition["edits"], reader)
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
    """Return what the text of a value depends on, besides the value."""
    return f"{style.layout}{style.escape}{depth if style.indent else 0}"


def akin(a: Any, b: Any) -> bool:
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
    known: dict[bytes, int] = {}
    at = shift
    for piece in before.split(mark):
        known.setdefault(piece, at)
        at += len(piece) + len(mark)
    last = at - len(mark)
    begin = end = 0
    fresh: list[bytes] = []
    pieces = after.split(mark)
    for number, piece in enumerate(pieces):
        whole = piece + mark if number < len(pieces) - 1 else piece
        at = known.get(piece, -1)
        if end > begin and before.startswith(whole, end - shift):
            end += len(whole)
        elif at >= 0 and at + len(whole) <= last:
            if fresh:
                yield b"".join(fresh)
                fresh.clear()
            if end > begin:
                yield begin, end
            begin, end = at, at + len(whole)
        else:
            if end > begin:
                yield begin, end
            begin = end = 0
            fresh.append(whole)
    if fresh:
        yield b"".join(fresh)
    if end > begin:
        yield begin, end


WORTH = 200
"""Characters below which a text is kept whole."""

_WORD = re.compile(r"[^\s,;&<>]*[\s,;&<>]+|[^\s,;&<>]+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MANY = 2000
_CRUMB = 24


def spliced(old: str, new: str, blobs: BlobWriter) -> list[Any] | None:
    """Return the parts that make `new` of `old`; None when that is hardly shorter than `new`."""
    if min(len(old), len(new)) < WORTH:
        return None
    parts = [
        [part[0], part[1]] if isinstance(part, tuple) else protect_text(part, blobs)
        for part in _joined(_parts(old, new))
    ]
    return parts if len(json.dumps(parts)) * 10 < len(new) * 7 else None


def _parts(old: str, new: str) -> Iterator[tuple[int, int] | str]:
    top, end = count_shared(old, new)
    yield 0, top
    before, after = old[top : len(old) - end], new[top : len(new) - end]
    for unit in (_WORD, _LINE):
        ours, theirs = unit.findall(before), unit.findall(after)
        if max(len(ours), len(theirs)) <= _MANY:
            at = [top]
            for word in ours:
                at.append(at[-1] + len(word))
            for keep, i, j in kept_and_new(ours, theirs):
                if keep and at[j] - at[i] >= _CRUMB:
                    yield at[i], at[j]
                else:
                    yield "".join((ours if keep else theirs)[i:j])
            break
    else:
        yield after
    yield len(old) - end, len(old)


def _joined(parts: Iterator[tuple[int, int] | str]) -> list[tuple[int, int] | str]:
    """Return neighbouring texts as one, empty parts left out."""
    found: list[tuple[int, int] | str] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, str):
            if isinstance(last, str):
                found[-1] = last + part
            elif part:
                found.append(part)
        elif part[0] < part[1]:
            found.append(part)
    return found
