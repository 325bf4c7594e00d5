"""Lines of JSON as people read them: the frames of a lasting connection, or a stream of JSON lines; see `streams`.

    "lines": [{"type": "response.created"}, ["e1", "Your", " order", " has"], "no JSON"]

A list is a row of lines of one template, as events have them; a string is a line that is no JSON object in the style
of the body. That the bytes come back exactly is for the caller to prove.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.streams import Event, filled, parsed_json, stored_as
from pytest_agentreplay.snapshots.codec.styles import Style, escapes, guess, style
from pytest_agentreplay.snapshots.codec.values import Malformed, reveal

if TYPE_CHECKING:
    from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter


def told(text: str, blobs: BlobWriter) -> dict[str, Any] | None:
    """`text` as stored lines; None when most of it is no JSON, or no newline ends it."""
    lines = text.split("\n")
    if lines.pop():
        return None
    first = next((guess(line) for line in lines if line[:1] == "{"), None)
    if first is None:
        return None
    manner = Style(first.layout, escapes(text))
    events: list[Event] = [_object(line, manner) for line in lines]
    head = {"style": manner.code} if manner != Style() else {}
    return stored_as("lines", events, head, blobs)


def _object(line: str, manner: Style) -> Event:
    value = parsed_json(line, manner)
    return value if isinstance(value, dict) else line


def text_of(stored: dict[str, Any], blobs: BlobReader) -> str:
    """The text of stored lines. Raises Malformed and its kin."""
    manner, templates = style(stored.get("style", "c")), stored.get("templates", {})
    found: list[str] = []
    for item in stored["lines"]:
        if isinstance(item, list):
            found += (_line(filled(templates[item[0]], row, blobs), manner, blobs) for row in item[1:])
        else:
            found.append(_line(reveal(item, blobs), manner, blobs))
    return "\n".join([*found, ""])


def _line(value: Any, manner: Style, blobs: BlobReader) -> str:
    if not isinstance(value, str | dict):
        raise Malformed("a line must be an object or a text")
    text = value if isinstance(value, str) else manner.dumps(value)
    blobs.spend(len(text))
    return text
