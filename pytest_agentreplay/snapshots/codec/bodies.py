"""One body <-> how it stands in the file, by what its bytes are; whatever is not proven exact is kept as plain text.

    {"json": ...}      a JSON text in a known style; in a request its messages, tools and long texts are items
    {"events": [...]}  a stream of server-sent events
    {"lines": [...]}   lines of JSON
    {"text": ...}      any other UTF-8
    {"base64": ...}    any other bytes

Each comes with its `size` in bytes and the first half of the `sha256` that the restored bytes must have. An empty body
is left out.

The bodies of a file are restored when they are read, and proven by their sha256. Until then a body keeps the stored
bodies alive, and nothing else of the parsed file.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.model.canonical_json import parse
from pytest_agentreplay.model.content_coding import LIMIT, bomb
from pytest_agentreplay.model.exchanges import DIGITS, Body
from pytest_agentreplay.snapshots.codec import streams
from pytest_agentreplay.snapshots.codec.dedup_reader import Items, Unshared
from pytest_agentreplay.snapshots.codec.fields import may_be_coded, read_headers
from pytest_agentreplay.snapshots.codec.parsing import advise_restoring
from pytest_agentreplay.snapshots.codec.styles import (
    BlobReader,
    BlobWriter,
    Style,
    guess,
    join_pieces,
    parse_style,
    wrap,
)
from pytest_agentreplay.snapshots.codec.values import (
    Malformed,
    NestedTooDeep,
    protect_text,
    reveal,
    reveal_text,
    unbase64,
    write_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_agentreplay.model.exchanges import JoinedTexts
    from pytest_agentreplay.snapshots.codec.dedup_writer import Interner

Stored = dict[str, Any]


@dataclass(slots=True)
class BodyWriter:
    """Writes the bodies of one file in order. `plain` names those that need plain text, as (exchange, place)."""

    plain: frozenset[tuple[int, str]] = frozenset()
    blobs: BlobWriter = field(default_factory=BlobWriter)
    _items: Interner = field(init=False)

    def __post_init__(self) -> None:
        from pytest_agentreplay.snapshots.codec.dedup_writer import Interner

        self._items = Interner(self.blobs)

    def request(self, number: int, lane: str, body: Body) -> Stored:  # noqa: ARG002  a journal writes by lanes
        """Return the body of the request of exchange `number`."""
        return self._write((number, "request"), body, self._request_json)

    def reply(self, number: int, body: Body) -> Stored:
        """Return the body of the response of exchange `number`."""
        return self._write((number, "response"), body, self._json_or_events)

    def _write(self, place: tuple[int, str], body: Body, structure: Callable[[str], Stored | None]) -> Stored:
        """Return a body as stored: by its `structure` or as lines, if it has one of them."""
        stored = None
        try:
            text = body.data.decode()
        except UnicodeDecodeError:
            stored = self._bytes(body)
        else:
            if place not in self.plain:
                stored = structure(text) or streams.write_lines(text, self.blobs)
            stored = stored or {"text": protect_text(text, self.blobs)}
        return {"size": len(body.data), "sha256": body.digest, **stored}

    def _request_json(self, text: str) -> Stored | None:
        written = self._items.write_body(text)
        return None if written is None else _with_style({"json": written[0]}, written[1])

    def _json_or_events(self, text: str) -> Stored | None:
        if text[:1] not in {"{", "["}:
            return streams.write_events(text, self.blobs)
        try:
            value = json.loads(text)
            # Servers write in one of these; any other reply is kept as text, exact too.
            for manner in (guess(text), Style("p"), Style("c")):
                if manner.dumps(value) + "\n" * manner.newline == text:
                    return _with_style({"json": write_value(value, self.blobs)}, manner)
        except (NestedTooDeep, ValueError, RecursionError):
            pass
        return None

    def _bytes(self, body: Body) -> Stored:
        text = base64.b64encode(body.data).decode()
        return {"base64": self.blobs.store_blob(text) or wrap(text)}


def _with_style(content: Stored, manner: Style) -> Stored:
    # Most SDKs write compact JSON, which needs no word.
    return content if manner == Style() else {"style": manner.code, **content}


SMALL = 512
"""Bytes of a reply that is restored together with its exchange, whose parts are at hand then."""

DAMAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError)
"""What reading damaged content raises; all of it becomes SnapshotUnreadable where the exchange is known."""


@dataclass(slots=True)
class BodyReader:
    """Restores the bodies of `file`. `requests` are the stored bodies by number of the exchange, in order.

    A message is the stored request or response that holds a body.
    """

    file: str
    requests: Mapping[int, Stored]
    blobs: BlobReader
    _items: Items | None = None
    _before: dict[int, int] = field(default_factory=dict)

    def body(self, number: int, place: str, message: Stored) -> Body:
        """Return a body; a small reply awake, since it costs less now than at the moment when it is served."""
        size = message["body"].get("size")
        if place == "request" or not isinstance(size, int) or size > SMALL:
            return self.restore_later(number, place, message)
        data = self.restore_proven(number, place, message)
        if len(data) != size:
            raise ValueError(f"a body of {len(data)} bytes says that it has {size}")
        return Body(data, digest=read_digest(message))

    def restore_later(self, number: int, place: str, message: Stored) -> Body:
        """Return a body that is restored when it is read."""
        is_shared = place == "request" and isinstance(message["body"].get("json"), dict)
        return Body(
            digest=read_digest(message),
            restore=partial(self.restore_proven, number, place, message),
            shared=SharedRequest(self, number, message) if is_shared else None,
        )

    def restore_proven(self, number: int, place: str, message: Stored) -> bytes:
        """Return the bytes of a body, as they were recorded. Raises SnapshotUnreadable."""
        data = self.restore(number, place, message)
        if Body(data).digest != read_digest(message):
            what = f"the body of this {place} does not come back as it was recorded"
            raise make_unreadable(self.file, what, f"exchange {number}, {place}")
        return data

    def restore(self, number: int, place: str, message: Stored) -> bytes:
        """Return the bytes of a body, unproven. Raises SnapshotUnreadable."""
        try:
            data = self.read_content(message["body"], number if place == "request" else 0)
            # A short body may decode to gigabytes: it is refused before a client decodes it.
            headers = message.get("headers", [])
            for name, value in read_headers(headers, "headers", self.blobs) if may_be_coded(headers) else ():
                if name.lower() == "content-encoding" and bomb(value, data):
                    what = f"the body of this {place} decodes to more than {LIMIT >> 20} MB, or is coded twice"
                    raise make_unreadable(self.file, what, f"exchange {number}, {place}")
        except DAMAGE as error:
            raise make_unreadable(self.file, explain(error), f"exchange {number}, {place}") from None
        return data

    def read_content(self, stored: Stored, number: int) -> bytes:
        """Return the bytes of a body; `number` says of which request, 0 of none. Raises Malformed and its kin."""
        # A budget for each body: a file of many large ones is fine, one body without end is not.
        self.blobs.spent = 0
        match stored:
            case {"json": _} if number:
                return join_pieces(self.pieces(number)).encode()
            case {"json": content}:
                manner = parse_style(stored.get("style", "c"))
                return (manner.dumps(reveal(content, self.blobs)) + "\n" * manner.newline).encode()
            case {"events": list()}:
                return streams.read_events(stored, self.blobs).encode()
            case {"lines": list()}:
                return streams.read_lines(stored, self.blobs).encode()
            case {"text": text}:
                return reveal_text(text, self.blobs).encode()
            case {"base64": list(rows)}:
                return unbase64("".join(rows))
            case {"base64": blob}:
                return unbase64(reveal_text(blob, self.blobs))
            case _:
                raise Malformed(f"a body of no known kind ({', '.join(stored)[:60]})")

    def tree(self, number: int) -> dict[str, Any]:
        """Return the value of the request of exchange `number`. Raises Unshared, Malformed and their kin."""
        self.blobs.spent = 0
        return self._all_items().tree(self.requests[number]["json"], self._before[number])

    def pieces(self, number: int) -> list[str | JoinedTexts]:
        """Return the text of the request of exchange `number`. Raises Malformed and its kin."""
        self.blobs.spent = 0
        stored = self.requests[number]
        return self._all_items().pieces(stored["json"], parse_style(stored.get("style", "c")), self._before[number])

    def _all_items(self) -> Items:
        if self._items is None:
            # Of all requests at once: an item may be defined in any of those above.
            items = Items(self.blobs)
            for number, stored in self.requests.items():
                if isinstance(content := stored.get("json"), dict):
                    self._before[number] = items.define(content)
            self._items = items
        return self._items


class SharedRequest(NamedTuple):
    """The body of a request that names its messages, tools and texts."""

    reader: BodyReader
    number: int
    message: Stored

    def tree(self) -> dict[str, Any]:
        """Return the JSON value. Raises SnapshotUnreadable."""
        try:
            return self.reader.tree(self.number)
        except Unshared:
            value = parse(self.reader.restore_proven(self.number, "request", self.message), exact=True)
            assert isinstance(value, dict)
            return value
        except DAMAGE as error:
            raise make_unreadable(self.reader.file, explain(error), f"exchange {self.number}, request") from None

    def pieces(self) -> list[str | JoinedTexts]:
        """Return the text in pieces. Raises SnapshotUnreadable."""
        try:
            return self.reader.pieces(self.number)
        except DAMAGE as error:
            raise make_unreadable(self.reader.file, explain(error), f"exchange {self.number}, request") from None


def read_digest(message: Stored) -> str:
    """Return the digest that stands beside a body; files had all of its digits once. Raises ValueError."""
    digest = message["body"].get("sha256")
    if not (isinstance(digest, str) and len(digest) in {DIGITS, 64}):
        raise ValueError("a body has no sha256")
    return digest[:DIGITS]


def make_unreadable(file: str, message: str, place: str) -> SnapshotUnreadable:
    """Return the error for a file that does not say what it should."""
    return SnapshotUnreadable(f"{message}; {advise_restoring(file)}", file=file, place=place)


def explain(error: Exception) -> str:
    """Return the message about something that reading raised."""
    match error:
        case KeyError():
            return f"{error.args[0]!r:.60} is missing"
        case RecursionError():
            return "nested too deep"
        case _:
            return str(error)[:200] or type(error).__name__
