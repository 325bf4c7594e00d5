"""Cuts the text of a JSON object into its fields, and arrays of objects into their elements, without losing a byte.

What the recorder has seen before is recognised by comparing characters, so that a resent history is not parsed again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUCCESSORS = 4
"""Elements that are remembered after one: those of two conversations, with and without a mark that moves on."""

# JSON allows these four characters between tokens, and no others.
_BEGIN = re.compile(r"[ \t\n\r]*[\[{:][ \t\n\r]*").match
_END = re.compile(r"[ \t\n\r]*([,}\]])[ \t\n\r]*").match


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


@dataclass(slots=True)
class ElementIndex:
    """The elements that were written in one style, and which stood after which: a history is resent in its order."""

    ids: dict[str, str] = field(default_factory=dict)
    _after: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def follow(self, previous: str, ident: str, raw: str) -> None:
        """Remember that the item `ident`, written as `raw`, stood after `previous`."""
        followers = self._after.setdefault(previous, [])
        if not followers or followers[0][0] != ident:
            others = [follower for follower in followers if follower[0] != ident]
            followers[:] = [(ident, raw), *others][:_SUCCESSORS]

    def list_followers(self, previous: str) -> list[tuple[str, str]]:
        """Return what stood after `previous`, newest first, as (id, text)."""
        return self._after.get(previous, [])

    def find_next(self, previous: str, text: str, at: int) -> tuple[str, str] | None:
        """Return id and text of the element that stood after `previous` before, and stands in `text` at `at`."""
        for ident, raw in self.list_followers(previous):
            if text.startswith(raw, at):
                return ident, raw
        return None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_scan = json.JSONDecoder(parse_constant=_refuse).raw_decode


def cut_object(text: str, index: ElementIndex) -> list[JsonField] | None:
    """Return the fields of the JSON object that `text` is, in order; None when it is anything else.

    White space is left out: whoever needs the bytes composes the object again and compares.
    """
    try:
        return _cut_fields(text, index)
    except (ValueError, RecursionError):
        return None


def _cut_fields(text: str, index: ElementIndex) -> list[JsonField]:
    fields: list[JsonField] = []
    at = _skip_mark(text, 0, "{")
    mark = ","
    if text[at : at + 1] == "}":
        mark, at = _skip_end(text, at)
    while mark == ",":
        if text[at : at + 1] != '"':
            raise ValueError(text[at : at + 10])
        # raw_decode also reads a key: scanstring, which reads nothing else, is no public name of json.
        key, at = _scan(text, at)
        field, at = _cut_field(key, text, _skip_mark(text, at, ":"), index)
        fields.append(field)
        mark, at = _skip_end(text, at)
    # A key that stands twice would be lost in a dict: such a body is kept as text.
    if mark != "}" or at != len(text) or len({field.key for field in fields}) != len(fields):
        raise ValueError(text[at : at + 10])
    return fields


def _cut_field(key: str, text: str, at: int, index: ElementIndex) -> tuple[JsonField, int]:
    if text[at : at + 1] == "[":
        elements, end = _cut_elements(key, text, _skip_mark(text, at, "["), index)
        if elements:
            return JsonField(key, None, elements), end
    value, end = _scan(text, at)
    return JsonField(key, JsonPiece(text[at:end], value)), end


def _cut_elements(key: str, text: str, at: int, index: ElementIndex) -> tuple[list[JsonPiece], int]:
    """Return the objects of an array and where it ends; none when one of its elements is not an object."""
    elements: list[JsonPiece] = []
    previous = "^" + key
    mark = ","
    while mark == ",":
        if text[at : at + 1] != "{":
            return [], at
        # An object's text is never the beginning of another one's, so equal characters are the same element.
        element = index.find_next(previous, text, at)
        if element is not None:
            previous, raw = element
            elements.append(JsonPiece(raw, None, previous))
            at += len(raw)
        else:
            value, end = _scan(text, at)
            raw, at = text[at:end], end
            ident = index.ids.get(raw, "")
            elements.append(JsonPiece(raw, value, ident))
            previous = ident or "?"
        mark, at = _skip_end(text, at)
    if mark != "]":
        raise ValueError(mark)
    return elements, at


def _skip_mark(text: str, at: int, mark: str) -> int:
    """Return where what follows the bracket or colon at `at` begins. Raises ValueError."""
    match = _BEGIN(text, at)
    if match is None or match[0].strip() != mark:
        raise ValueError(text[at : at + 10])
    return match.end()


def _skip_end(text: str, at: int) -> tuple[str, int]:
    """Return the comma or bracket that follows a value, and where what follows it begins. Raises ValueError."""
    match = _END(text, at)
    if match is None:
        raise ValueError(text[at : at + 10])
    return match[1], match.end()
