"""The events of a streamed reply, read and written: server-sent, as lines of JSON, as Amazon's binary frames.

Server-sent events are read as the HTML standard says (https://html.spec.whatwg.org/multipage/server-sent-events.html),
frames by `model.event_frames`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import canonical, parse
from pytest_agentreplay.providers.lenient import dump_json, obj, objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.model.event_frames import EventFrame
    from pytest_agentreplay.model.exchanges import Json, JsonObject


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
    """Return the events of a stream; of one that the end of the stream cuts off, as much as came."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    parsed_events: list[ServerSentEvent] = []
    # The standard drops an event that no empty line ends; here it shows how far a broken stream came.
    for block in text.split("\n\n"):
        fields = [line.partition(":") for line in block.split("\n")]
        lines = [value.removeprefix(" ") for name, _, value in fields if name == "data"]
        names = [value.removeprefix(" ") for name, _, value in fields if name == "event"]
        if lines:
            parsed_events.append(ServerSentEvent("".join(names[-1:]) or "message", "\n".join(lines)))
    return parsed_events


def is_stream(content_type: str, data: bytes) -> bool:
    """Return whether a reply is an event stream, by its type or, if it has none, by how it begins."""
    if content_type:
        return content_type.partition(";")[0].strip().lower() == "text/event-stream"
    return data.startswith((b"data:", b"event:"))


_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-json-stream"})


def split_events(content_type: str, data: bytes) -> list[ServerSentEvent] | None:
    """Return the events of a stream as far as it came; None for a reply in one piece."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/vnd.amazon.eventstream":
        from pytest_agentreplay.model.event_frames import read_frames, read_headers

        # What was redacted by others may not fit its checksums.
        frames = read_frames(data, is_checked=False)
        return [_read_frame(frame, read_headers(frame.headers)) for frame in frames]
    if kind in _LINES:
        return [
            ServerSentEvent("message", line) for line in data.decode("utf-8", "replace").splitlines() if line.strip()
        ]
    return events(data) if is_stream(content_type, data) else None


def list_events(tree: Json) -> list[ServerSentEvent]:
    """Return the elements of an array as events: what an API streams that was not asked for server-sent events."""
    return [ServerSentEvent("message", canonical(item)) for item in objects(tree)]


def _read_frame(frame: EventFrame, headers: Mapping[str, str]) -> ServerSentEvent:
    """Return what a frame says, by its type or that of its exception; a `chunk` holds the event of another API."""
    name = headers.get(":event-type") or headers.get(":exception-type") or headers.get(":error-code") or "message"
    is_chunk = name == "chunk" and frame.wrapped
    data = frame.line if is_chunk else frame.payload
    return ServerSentEvent("message" if is_chunk else name, data.decode("utf-8", "replace"))


# Fields that come whole, also where each piece of a stream repeats them: gateways send name and role with every delta.
_NAMES = frozenset({"id", "name", "role", "type"})


def grow(target: JsonObject, piece: JsonObject) -> None:
    """Add a piece of a stream to what has come: texts and lists grow, objects by their fields; names stay.

    What the piece leaves open (null) stays as it is.
    """
    for name, value in piece.items():
        before = target.get(name)
        if isinstance(value, str) and isinstance(before, str):
            target[name] = before or value if name in _NAMES else before + value
        elif isinstance(value, list) and isinstance(before, list):
            target[name] = [*before, *value]
        elif isinstance(value, dict):
            inner: JsonObject = {**obj(before)}
            grow(inner, value)
            target[name] = inner
        elif value is not None:
            target[name] = value


class IndexedPieces(dict[int, "JsonObject"]):
    """What the events of a stream say by an index: blocks, choices, output items."""

    def find_piece(self, index: Any) -> JsonObject:
        """Return what has come under an index; a new object for an event without one, which is about none of them."""
        return self.setdefault(index, {}) if isinstance(index, int) else {}

    def list_pieces(self) -> list[Json]:
        """Return the objects by their index."""
        return [self[index] for index in sorted(self)]


def write_events(events: Iterable[tuple[str, Any]], *, done: bool = False) -> tuple[bytes, ...]:
    """Return the bytes of each server-sent event, by name ("" for none) and data; `done` adds OpenAI's last one."""
    heads = ((f"event: {name}\n" if name else "", data) for name, data in events)
    lines = [f"{head}data: {dump_json(data)}\n\n".encode() for head, data in heads]
    return (*lines, b"data: [DONE]\n\n") if done else tuple(lines)


def write_frame(kind: str, payload: dict[str, Any]) -> bytes:
    """Return one event of application/vnd.amazon.eventstream."""
    from pytest_agentreplay.model.event_frames import make_frame, write_headers

    fields = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return make_frame(write_headers(fields), dump_json(payload).encode())
