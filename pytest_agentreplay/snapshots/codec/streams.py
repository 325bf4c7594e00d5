"""Server-sent events as people read them: one event an item, and events of one shape as a template and its values.

    "templates": {"e1": {"data": {"choices": [{"delta": {"content": {"$hole": 0}}}]}}},
    "events": [{"data": {...}}, ["e1", "Your", " order", " has"], {"data": "[DONE]"}]

A list is a row of events: the template's name, then one value an event, or a list of values where it has several
holes. A string is an event that no fields could tell. That the bytes come back exactly is for the caller to prove.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.styles import Style, escapes, guess, style
from pytest_agentreplay.snapshots.codec.values import DEEPEST, Malformed, NestedTooDeep, marked, protect_text, reveal

if TYPE_CHECKING:
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


def told(text: str, blobs: BlobWriter) -> dict[str, Any] | None:
    """`text` as stored events; None when it is no stream."""
    newline = "\r\n" if "\r\n\r\n" in text else "\n"
    blocks = text.split(newline * 2)
    if len(blocks) == 1:
        return None
    rest = blocks.pop()
    first = next((guess(block.partition("data: ")[2]) for block in blocks if "data: {" in block), Style())
    manner = Style(first.layout, escapes(text))
    events = [_parsed(block, newline, manner) for block in blocks]
    head = {"style": manner.code} if manner != Style() else {}
    if newline != "\n":
        head["newline"] = newline
    found = stored_as("events", events, head, blobs)
    if found is not None and rest:
        found["rest"] = protect_text(rest, blobs)
    return found


def stored_as(key: str, events: list[Event], head: dict[str, str], blobs: BlobWriter) -> dict[str, Any] | None:
    """`head`, the templates and under `key` the rows of events; None where most are texts, or no file can hold them."""
    if 2 * sum(isinstance(event, dict) for event in events) < len(events):
        return None
    templates: dict[str, Any] = {}
    try:
        stored = rows(events, templates, blobs)
        json.dumps(templates, ensure_ascii=False).encode()
    except (NestedTooDeep, UnicodeEncodeError):
        return None
    return {**head, **({"templates": templates} if templates else {}), key: stored}


def _parsed(block: str, newline: str, manner: Style) -> Event:
    """The fields of an event in order; the text itself where fields would not give it back."""
    fields: dict[str, Any] = {}
    for line in block.split(newline):
        name, colon, value = line.partition(": ")
        if name not in _NAMES or not colon or name in fields:
            return block
        fields[name] = parsed_json(value, manner) if name == "data" else value
    return fields


def parsed_json(text: str, manner: Style) -> Any:
    """The value of `text` where it is an object or array in this very style; else the text itself."""
    if text[:1] not in {"{", "["}:
        return text
    try:
        value = json.loads(text)
        return value if manner.dumps(value) == text else text
    except (ValueError, RecursionError):
        return text


def rows(events: list[Event], templates: dict[str, Any], blobs: BlobWriter) -> list[Any]:
    """The events as they are stored, rows of one template joined; fills `templates`."""
    outlines: list[str] = []
    shapes: dict[str, _StreamShape] = {}
    for event in events:
        leaves: list[Any] = []
        kind = event.get("event", "") if isinstance(event, dict) else ""
        outline = f"{kind} {_outline(event, leaves)}"
        outlines.append(outline)
        shapes.setdefault(outline, _StreamShape([])).events.append(leaves)
    found: list[Any] = []
    for event, outline in zip(events, outlines, strict=True):
        shape = shapes[outline]
        if not shape.name:
            _settle(shape, event, templates, blobs)
        if shape.name == "-":
            found.append(protect_text(event, blobs) if isinstance(event, str) else marked(event, blobs))
            continue
        leaves = shape.events.pop(0)
        values = [marked(leaves[hole], blobs) for hole in shape.holes]
        row = values[0] if len(values) == 1 else values
        if found and isinstance(found[-1], list) and found[-1][0] == shape.name:
            found[-1].append(row)
        else:
            found.append([shape.name, row])
    return found


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
    """What is left of a value without its leaves, which are collected. Raises TooDeep."""
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
            return {"$hole": holes.index(at)} if at in holes else marked(value, blobs)


def text_of(stored: dict[str, Any], blobs: BlobReader) -> str:
    """The text of stored events. Raises Malformed and its kin."""
    newline = str(stored.get("newline", "\n"))
    manner = style(stored.get("style", "c"))
    templates = stored.get("templates", {})
    found: list[str] = []
    for item in stored["events"]:
        if isinstance(item, list):
            template = templates[item[0]]
            found += (_event(filled(template, row, blobs), newline, manner, blobs) for row in item[1:])
        else:
            found.append(_event(reveal(item, blobs), newline, manner, blobs))
    found.append(reveal_rest(stored, blobs))
    return (newline * 2).join(found)


def reveal_rest(stored: dict[str, Any], blobs: BlobReader) -> str:
    """What came after the last whole event."""
    rest = reveal(stored.get("rest", ""), blobs)
    if not isinstance(rest, str):
        raise Malformed("the rest of a stream is no text")
    return rest


def _event(event: dict[str, Any] | str, newline: str, manner: Style, blobs: BlobReader) -> str:
    if isinstance(event, str):
        text: str = event
    else:
        lines = (f"{name}: {value if isinstance(value, str) else manner.dumps(value)}" for name, value in event.items())
        text = str(newline.join(lines))
    blobs.spend(len(text))
    return text


def filled(template: Any, row: Any, blobs: BlobReader) -> Any:
    """A template with the values of one row in its holes. Raises Malformed and its kin."""
    match template:
        case {"$hole": int(at), **rest} if not rest:
            return reveal((row if isinstance(row, list) else (row,))[at], blobs)
        case dict() if next(iter(template), "")[:1] != "$" or next(iter(template))[:2] == "$$":
            return {key[1:] if key[:1] == "$" else key: filled(item, row, blobs) for key, item in template.items()}
        case list():
            return [filled(item, row, blobs) for item in template]
        case _:
            return reveal(template, blobs)
