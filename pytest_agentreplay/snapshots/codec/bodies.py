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
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.model.canonical_json import parse
from pytest_agentreplay.model.content_coding import LIMIT, bomb
from pytest_agentreplay.model.exchanges import DIGITS, Body
from pytest_agentreplay.snapshots.codec import streams
from pytest_agentreplay.snapshots.codec.dedup_reader import Items, Restore, Unshared
from pytest_agentreplay.snapshots.codec.fields import read_headers
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
    from collections.abc import Callable

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
    """Restores the bodies of `file`; `proven` says whether they must be what their sha256 says."""

    file: str
    blobs: BlobReader
    proven: bool
    _requests: dict[int, tuple[Stored, Restore]] = field(default_factory=dict)
    _items: Items | None = None

    def body(self, number: int, restore_names: Restore, place: str, message: Stored) -> Body:
        """Return a body, asleep; a small reply awake, since it costs less now than at the moment when it is served.

        Args:
            number: That of its exchange.
            restore_names: Puts the values of the exchange in the place of their names.
            place: "request" or "response".
            message: The stored request or response that holds the body.

        Raises Malformed and its kin.
        """
        stored, digest = StoredBody(self, number, restore_names, place, message), read_digest(message)
        content, size = message["body"], message["body"]["size"]
        if place == "request":
            self._requests[number] = content, restore_names
        if not self.proven:
            return Body(restore=stored.restore)
        if place == "response" and isinstance(size, int) and size <= SMALL:
            data = stored.restore_proven()
            if len(data) != size:
                raise Malformed(f"a body of {len(data)} bytes says that it has {size}")
            return Body(data, digest=digest)
        is_shared = place == "request" and isinstance(content.get("json"), dict)
        return Body(digest=digest, restore=stored.restore_proven, shared=stored if is_shared else None)

    @property
    def items(self) -> Items:
        """The items of all requests: one may be defined in any of those above. Raises Malformed and its kin."""
        if self._items is None:
            items = Items(self.blobs)
            for number, (stored, restore_names) in self._requests.items():
                if isinstance(content := stored.get("json"), dict):
                    try:
                        items.define(number, content, restore_names)
                    except DAMAGE as error:  # not the fault of the body that is read
                        raise make_unreadable(self.file, error, f"exchange {number}, request") from None
            self._items = items
        return self._items


class StoredBody(NamedTuple):
    """The body in a stored `message`, as `BodyReader.body` was given it."""

    reader: BodyReader
    number: int
    restore_names: Restore
    place: str
    message: Stored

    def restore_proven(self) -> bytes:
        """Return the bytes of the body, as they were recorded. Raises SnapshotUnreadable."""
        data = self.restore()
        if Body(data).digest != read_digest(self.message):
            raise self._refuse(Malformed(f"the body of this {self.place} does not come back as it was recorded"))
        return data

    def restore(self) -> bytes:
        """Return the bytes of the body, unproven. Raises SnapshotUnreadable."""
        try:
            data = self.read_content()
            # A short body may decode to gigabytes: it is refused before a client decodes it.
            for name, value in read_headers(self.message.get("headers", ()), "headers", self.reader.blobs):
                if name.lower() == "content-encoding" and bomb(value, data):
                    most = f"{LIMIT >> 20} MB"
                    raise Malformed(f"the body of this {self.place} decodes to more than {most}, or is coded twice")
        except DAMAGE as error:
            raise self._refuse(error) from None
        return data

    def read_content(self) -> bytes:
        """Return the bytes of the body. Raises Malformed and its kin."""
        stored, blobs = self.message["body"], self.reader.blobs
        if self.place == "request" and "json" in stored:
            return join_pieces(self.pieces()).encode()
        # A budget for each body: a file of many large ones is fine, one body without end is not.
        blobs.spent = 0
        match self.restore_names(stored):
            case {"json": content}:
                manner = parse_style(stored.get("style", "c"))
                return (manner.dumps(reveal(content, blobs)) + "\n" * manner.newline).encode()
            case {"events": list()} as stream:
                return streams.read_events(stream, blobs).encode()
            case {"lines": list()} as stream:
                return streams.read_lines(stream, blobs).encode()
            case {"text": text}:
                return reveal_text(text, blobs).encode()
            case {"base64": list(rows)}:
                return unbase64("".join(rows))
            case {"base64": blob}:
                return unbase64(reveal_text(blob, blobs))
            case _:
                raise Malformed(f"a body of no known kind ({', '.join(stored)[:60]})")

    def tree(self) -> dict[str, Any]:
        """Return the value of a request that is a JSON object. Raises SnapshotUnreadable."""
        self.reader.blobs.spent = 0
        try:
            return self.reader.items.tree(self.number)
        except Unshared:
            value = parse(self.restore_proven(), exact=True)
            assert isinstance(value, dict)
            return value
        except DAMAGE as error:
            raise self._refuse(error) from None

    def pieces(self) -> list[str | JoinedTexts]:
        """Return the text of a request that is a JSON object, in pieces. Raises SnapshotUnreadable."""
        self.reader.blobs.spent = 0
        try:
            return self.reader.items.pieces(self.number, parse_style(self.message["body"].get("style", "c")))
        except DAMAGE as error:
            raise self._refuse(error) from None

    def _refuse(self, error: Exception) -> SnapshotUnreadable:
        return make_unreadable(self.reader.file, error, f"exchange {self.number}, {self.place}")


def read_digest(message: Stored) -> str:
    """Return the digest that stands beside a body; files had all of its digits once. Raises ValueError."""
    digest = message["body"].get("sha256")
    if not (isinstance(digest, str) and len(digest) in {DIGITS, 64}):
        raise ValueError("a body has no sha256")
    return digest[:DIGITS]


def make_unreadable(file: str, error: Exception, place: str) -> SnapshotUnreadable:
    """Return the error for a file that does not say what it should, of which reading raised `error`."""
    match error:
        case KeyError():
            message = f"{error.args[0]!r:.60} is missing"
        case RecursionError():
            message = "nested too deep"
        case _:
            message = str(error)[:200] or type(error).__name__
    return SnapshotUnreadable(f"{message}; {advise_restoring(file)}", file=file, place=place)
