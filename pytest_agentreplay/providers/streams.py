"""The events of a streamed reply, whichever way they are framed: server-sent, as lines of JSON, as binary frames."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import canonical, parse
from pytest_agentreplay.providers.lenient import objects, string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject

_LINE_ENDS = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event: its `name` ("message" when the stream gives none) and its `data`, lines joined by LF."""

    name: str
    data: str

    @property
    def value(self) -> JsonObject | None:
        """The data as a JSON object; None when it is anything else, such as "[DONE]" or half of one."""
        value = parse(self.data)
        return value if isinstance(value, dict) else None


def events(data: bytes) -> list[ServerSentEvent]:
    """The events of a stream. One that the end of the stream cut off is given as far as it came."""
    parsed_events: list[ServerSentEvent] = []
    name, lines = "", list[str]()
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    for line in [*_LINE_ENDS.split(text), ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "" if not line:
                if lines:
                    parsed_events.append(ServerSentEvent(name or "message", "\n".join(lines)))
                name, lines = "", []
            case "event":
                name = value
            case "data":
                lines.append(value)
    return parsed_events


def is_stream(content_type: str, data: bytes) -> bool:
    """Whether a reply is an event stream, by its type or, where that is missing, by how it begins."""
    if content_type:
        return content_type.partition(";")[0].strip().lower() == "text/event-stream"
    return data.startswith((b"data:", b"event:"))


_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-json-stream"})
_PRELUDE = 12  # the sizes of the frame and of its headers, and their checksum
_STRING = 7
_WIDTHS = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


def split_events(content_type: str, data: bytes) -> list[ServerSentEvent] | None:
    """Return the events of a stream as far as it came; None for a reply in one piece."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/vnd.amazon.eventstream":
        return list(_binary(data))
    if kind in _LINES:
        return [
            ServerSentEvent("message", line) for line in data.decode("utf-8", "replace").splitlines() if line.strip()
        ]
    return events(data) if is_stream(content_type, data) else None


def list_events(tree: Json) -> list[ServerSentEvent]:
    """Return the elements of an array as events: what an API streams that was not asked for server-sent events."""
    return [ServerSentEvent("message", canonical(item)) for item in objects(tree)]


def _binary(data: bytes) -> Iterator[ServerSentEvent]:
    """The frames of application/vnd.amazon.eventstream, each by its type or that of its exception.

    Checksums are not looked at: a redacted frame has others.
    """
    at = 0
    while at + _PRELUDE <= len(data):
        size, head = (int.from_bytes(data[at + place : at + place + 4], "big") for place in (0, 4))
        start, end = at + _PRELUDE + head, at + size - 4
        if start > end or at + size > len(data):
            return
        headers = _headers(data[at + _PRELUDE : start])
        name = headers.get(":event-type") or headers.get(":exception-type") or headers.get(":error-code") or "message"
        yield _unwrap_chunk(ServerSentEvent(name, data[start:end].decode("utf-8", "replace")))
        at += size


def _headers(data: bytes) -> dict[str, str]:
    """The headers that are texts."""
    headers: dict[str, str] = {}
    at = 0
    while at < len(data):
        name = data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace")
        at += 1 + data[at]
        kind = data[at] if at < len(data) else -1
        width = _WIDTHS.get(kind)
        if width is None:
            if kind not in {6, _STRING} or at + 3 > len(data):
                break
            width = 2 + int.from_bytes(data[at + 1 : at + 3], "big")
            if kind == _STRING:
                headers[name] = data[at + 3 : at + 1 + width].decode("utf-8", "replace")
        at += 1 + width
    return headers


def _unwrap_chunk(event: ServerSentEvent) -> ServerSentEvent:
    """Return the event of another API that a `chunk` holds as base64."""
    if event.name != "chunk":
        return event
    try:
        text = base64.b64decode(string((event.value or {}).get("bytes")), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return event
    return ServerSentEvent("message", text)
