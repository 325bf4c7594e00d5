"""Cuts the text of a JSON object into its fields, and arrays of objects into their elements, without losing a byte.

What the recorder has seen before is recognised by comparing characters, so that a resent history is not parsed again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no public name (CPython 3.11-3.14, Lib/json/decoder.py)
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPACE = re.compile(r"[ \t\n\r]*")


class Scanner(Protocol):
    """Recognises elements that are known already."""

    def next(self, key: str, previous: str, text: str, at: int) -> tuple[str, str] | None:
        """Id and text of the known element that stands in `text` at `at`; `previous` ("" for none) is its neighbour."""

    def named(self, raw: str) -> str:
        """The id of the known element that is written as `raw`; "" when it is new."""


@dataclass(slots=True)
class JsonPiece:
    """One value as it is written: `raw`, and the parsed `value`; or the `id` of a known element."""

    raw: str
    value: Any = None
    id: str = ""


@dataclass(slots=True)
class JsonField:
    """One top-level field: a `whole` value, or the `elements` of an array of objects."""

    key: str
    whole: JsonPiece | None
    elements: Sequence[JsonPiece] = ()


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_scan = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]


def object_fields(text: str, eye: Scanner) -> list[JsonField] | None:
    """The fields of the JSON object that `text` is, in order; None when it is anything else."""
    try:
        return _fields(text, eye)
    except (StopIteration, ValueError, RecursionError):
        return None


def _fields(text: str, eye: Scanner) -> list[JsonField]:
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


def _field(key: str, text: str, at: int, eye: Scanner) -> tuple[JsonField, int]:
    if text[at : at + 1] == "[":
        first = _blank(text, at + 1)
        if text[first : first + 1] == "{":
            elements, end = _elements(key, text, first, eye)
            if elements is not None:
                return JsonField(key, None, elements), end
    value, end = _scan(text, at)
    return JsonField(key, JsonPiece(text[at:end], value)), end


def _elements(key: str, text: str, at: int, eye: Scanner) -> tuple[list[JsonPiece] | None, int]:
    """The objects of an array and where it ends; None when one of its elements is not an object."""
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
