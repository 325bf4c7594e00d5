"""Streams as people read them: server-sent events one an item, and lines of JSON, those of one shape as a template.

    "templates": {"e1": {"data": {"choices": [{"delta": {"content": {"$hole": 0}}}]}}},
    "events": [{"data": {...}}, ["e1", "Your", " order", " has"], {"data": "[DONE]"}]
    "lines": [{"type": "response.created"}, ["e1", "Your", " order", " has"], "no JSON"]

Lines are the frames of a lasting connection, or a stream of JSON lines. A list is a row of events or lines: the
template's name, then one value an event, or a list of values where it has several holes. A string is an event without
such fields, or a line that is no JSON object in the style of the body. That the bytes come back exactly is for the
caller to prove.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.styles import Style, escapes, guess, parse_style
from pytest_agentreplay.snapshots.codec.values import (
    DEEPEST,
    Malformed,
    NestedTooDeep,
    protect_text,
    reveal,
    reveal_text,
    write_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter

_NAMES = frozenset({"event", "data", "id", "retry"})
_ENOUGH = 3
_HOLES = 6

Event = dict[str, Any] | str


@dataclass(slots=True)
class _StreamShape:
    """Events that differ in their values only: the `leaves` of each, and the template once it is made."""

    events: list[list[Any]]
    name: str = ""
    holes: tuple[int, ...] = ()


def write_events(text: str, blobs: BlobWriter) -> dict[str, Any] | None:
    """Return `text` as stored events; None when it is no stream."""
    newline = "\r\n" if "\r\n\r\n" in text else "\n"
    blocks = text.split(newline * 2)
    if len(blocks) == 1:
        return None
    rest = blocks.pop()
    first = next((guess(block.partition("data: ")[2]) for block in blocks if "data: {" in block), Style())
    manner = Style(first.layout, escapes(text))
    events = [_parse_event(block, newline, manner) for block in blocks]
    head = {} if newline == "\n" else {"newline": newline}
    stored = _write_rows("events", events, manner, head, blobs)
    if stored is not None and rest:
        stored["rest"] = protect_text(rest, blobs)
    return stored


def write_lines(text: str, blobs: BlobWriter) -> dict[str, Any] | None:
    """Return `text` as stored lines; None when most of it is no JSON, or no newline ends it."""
    lines = text.split("\n")
    first = next((guess(line) for line in lines if line[:1] == "{"), None)
    if lines.pop() or first is None:
        return None
    manner = Style(first.layout, escapes(text))
    values = ((line, parsed_json(line, manner)) for line in lines)
    return _write_rows(
        "lines", [value if isinstance(value, dict) else line for line, value in values], manner, {}, blobs
    )


def _write_rows(
    key: str, events: list[Event], manner: Style, head: dict[str, str], blobs: BlobWriter
) -> dict[str, Any] | None:
    """Return `head`, the templates and under `key` the rows of events.

    None where most are texts, or no file can hold them.
    """
    if 2 * sum(isinstance(event, dict) for event in events) < len(events):
        return None
    templates: dict[str, Any] = {}
    try:
        stored = rows(events, templates, blobs)
        json.dumps(templates, ensure_ascii=False).encode()
    except (NestedTooDeep, UnicodeEncodeError):
        return None
    style_of = {} if manner == Style() else {"style": manner.code}
    return {**style_of, **head, **({"templates": templates} if templates else {}), key: stored}


def _parse_event(block: str, newline: str, manner: Style) -> Event:
    """Return the fields of an event in order; the text itself where fields would not give it back."""
    fields: dict[str, Any] = {}
    for line in block.split(newline):
        name, colon, value = line.partition(": ")
        if name not in _NAMES or not colon or name in fields:
            return block
        fields[name] = parsed_json(value, manner) if name == "data" else value
    return fields


def parsed_json(text: str, manner: Style) -> Any:
    """Return the value of `text` where it is an object or array in this very style; else the text itself."""
    if text[:1] not in {"{", "["}:
        return text
    try:
        value = json.loads(text)
        return value if manner.dumps(value) == text else text
    except (ValueError, RecursionError):
        return text


def rows(events: list[Event], templates: dict[str, Any], blobs: BlobWriter) -> list[Any]:
    """Return the events as they are stored, rows of one template joined; fills `templates`."""
    outlines: list[str] = []
    shapes: dict[str, _StreamShape] = {}
    for event in events:
        leaves: list[Any] = []
        kind = event.get("event", "") if isinstance(event, dict) else ""
        outline = f"{kind} {_outline(event, leaves)}"
        outlines.append(outline)
        shapes.setdefault(outline, _StreamShape([])).events.append(leaves)
    rows: list[Any] = []
    for event, outline in zip(events, outlines, strict=True):
        shape = shapes[outline]
        if not shape.name:
            _settle(shape, event, templates, blobs)
        if shape.name == "-":
            rows.append(protect_text(event, blobs) if isinstance(event, str) else write_value(event, blobs))
            continue
        leaves = shape.events.pop(0)
        values = [write_value(leaves[hole], blobs) for hole in shape.holes]
        row = values[0] if len(values) == 1 else values
        if rows and isinstance(rows[-1], list) and rows[-1][0] == shape.name:
            rows[-1].append(row)
        else:
            rows.append([shape.name, row])
    return rows


def _settle(shape: _StreamShape, event: Event, templates: dict[str, Any], blobs: BlobWriter) -> None:
    """Decide whether a shape is worth a template, and make it."""
    first, *others = shape.events
    holes = tuple(at for at, leaf in enumerate(first) if any(repr(leaf) != repr(leaves[at]) for leaves in others))
    if len(shape.events) < _ENOUGH or len(holes) > _HOLES:
        shape.name = "-"
        return
    shape.name, shape.holes = f"e{len(templates) + 1}", holes
    templates[shape.name] = _template(event, iter(range(len(first))), holes, blobs)


def _outline(value: Any, leaves: list[Any], depth: int = 0) -> str:
    """Return what is left of a value without its leaves, which are collected. Raises TooDeep."""
    below = depth + 1
    match value:
        case dict() | list() if depth >= DEEPEST:
            raise NestedTooDeep
        case dict():
            return "{" + ",".join(f"{quoted(key)}:{_outline(item, leaves, below)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(_outline(item, leaves, below) for item in value) + "]"
        case _:
            leaves.append(value)
            return type(value).__name__[0]


def _template(value: Any, counter: Any, holes: tuple[int, ...], blobs: BlobWriter) -> Any:
    match value:
        case dict():
            return {
                "$" + key if key[:1] == "$" else key: _template(item, counter, holes, blobs)
                for key, item in value.items()
            }
        case list():
            return [_template(item, counter, holes, blobs) for item in value]
        case _:
            at = next(counter)
            return {"$hole": holes.index(at)} if at in holes else write_value(value, blobs)


def read_events(stored: dict[str, Any], blobs: BlobReader) -> str:
    """Return the text of stored events. Raises Malformed and its kin."""
    newline = str(stored.get("newline", "\n"))
    manner = parse_style(stored.get("style", "c"))
    texts = _read_rows(stored, "events", partial(_join_fields, newline, manner), blobs)
    return (newline * 2).join([*texts, reveal_text(stored.get("rest", ""), blobs)])


def _join_fields(newline: str, manner: Style, event: dict[str, Any]) -> str:
    return newline.join(
        f"{name}: {value if isinstance(value, str) else manner.dumps(value)}" for name, value in event.items()
    )


def read_lines(stored: dict[str, Any], blobs: BlobReader) -> str:
    """Return the text of stored lines. Raises Malformed and its kin."""
    return "\n".join([*_read_rows(stored, "lines", parse_style(stored.get("style", "c")).dumps, blobs), ""])


def _read_rows(
    stored: dict[str, Any], key: str, write: Callable[[dict[str, Any]], str], blobs: BlobReader
) -> Iterator[str]:
    """Yield the texts of the events or lines under `key`; `write` makes that of an object."""
    for value in _fill_rows(stored, key, blobs):
        if not isinstance(value, str | dict):
            raise Malformed("an event or a line must be an object or a text")
        text = value if isinstance(value, str) else write(value)
        blobs.spend(len(text))
        yield text


def _fill_rows(stored: dict[str, Any], key: str, blobs: BlobReader) -> Iterator[Any]:
    """Yield the events or lines under `key`, one by one."""
    templates, counts = stored.get("templates", {}), Counter[str]()
    for item in stored[key]:
        if isinstance(item, list):
            name, *rows = item
            for row in rows:
                yield _fill_template(templates[name], row, counts[name], blobs)
                counts[name] += 1
        else:
            yield reveal(item, blobs)


def _fill_template(template: Any, row: Any, number: int, blobs: BlobReader) -> Any:
    """Return a template with the values of one row in its holes, the `number`th of this template.

    A hole whose values stand apart holds them all. Raises Malformed and its kin.
    """
    match template:
        case {"$hole": int(at), **rest} if not rest:
            return reveal((row if isinstance(row, list) else (row,))[at], blobs)
        case {"$hole": list(column), **rest} if not rest:
            return reveal(column[number], blobs)
        case dict() if next(iter(template), "")[:1] != "$" or next(iter(template))[:2] == "$$":
            return {
                key[1:] if key[:1] == "$" else key: _fill_template(item, row, number, blobs)
                for key, item in template.items()
            }
        case list():
            return [_fill_template(item, row, number, blobs) for item in template]
        case _:
            return reveal(template, blobs)
