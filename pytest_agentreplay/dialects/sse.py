"""Server-sent events: the bytes of an event stream as its events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import parse

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import JsonObject

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
    found: list[ServerSentEvent] = []
    name, lines = "", list[str]()
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    for line in [*_LINE_ENDS.split(text), ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "" if not line:
                if lines:
                    found.append(ServerSentEvent(name or "message", "\n".join(lines)))
                name, lines = "", []
            case "event":
                name = value
            case "data":
                lines.append(value)
            case _:
                pass
    return found


def is_stream(content_type: str, data: bytes) -> bool:
    """Whether a reply is an event stream, by its type or, where that is missing, by how it begins."""
    if content_type:
        return content_type.partition(";")[0].strip().lower() == "text/event-stream"
    return data.startswith((b"data:", b"event:"))
