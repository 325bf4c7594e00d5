"""One body <-> how it stands in the file, by what its bytes are; whatever is not proven exact is kept as plain text.

    {"json": ...}          a JSON text in a known style; in a request its messages, tools and long texts are items
    {"events": [...]}      a stream of server-sent events
    {"lines": [...]}       lines of JSON
    {"splice": n, "parts"} a text told by what it keeps of the request of exchange n
    {"text": ...}          any other UTF-8
    {"base64": ...}        any other bytes

Each comes with its `size` in bytes and the `sha256` that the restored bytes must have. An empty body is left out.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec import dedup_writer, lines, streams
from pytest_agentreplay.codec.dedup_reader import Items
from pytest_agentreplay.codec.dedup_writer import Interner
from pytest_agentreplay.codec.styles import BlobReader, BlobWriter, Style, guess, style, wrapped
from pytest_agentreplay.codec.values import (
    Malformed,
    NestedTooDeep,
    marked,
    protect_text,
    reveal,
    reveal_text,
    unbase64,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.core.model import Body

Stored = dict[str, Any]


@dataclass(slots=True)
class BodyWriter:
    """Writes the bodies of one file in order. `plain` names those that need plain text, as (exchange, place)."""

    plain: frozenset[tuple[int, str]] = frozenset()
    blobs: BlobWriter = field(default_factory=BlobWriter)
    _items: Interner = field(init=False)
    _last: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._items = Interner(self.blobs)

    def request(self, number: int, lane: str, body: Body) -> Stored:
        """The body of the request of exchange `number`."""
        text = _utf8(body.data)
        if text is None:
            return self._stamped(body, self._bytes(body))
        if (number, "request") not in self.plain:
            if (found := self._items.written(text)) is not None:
                content, manner = found
                return self._stamped(body, _with_style({"json": content}, manner))
            earlier, self._last[lane] = self._last.get(lane), (number, text)
            if earlier is not None and (parts := dedup_writer.spliced(earlier[1], text, self.blobs)) is not None:
                return self._stamped(body, {"splice": earlier[0], "parts": parts})
        return self._stamped(body, {"text": protect_text(text, self.blobs)})

    def reply(self, number: int, body: Body) -> Stored:
        """The body of the response of exchange `number`."""
        text = _utf8(body.data)
        if text is None:
            return self._stamped(body, self._bytes(body))
        found = None
        if (number, "response") not in self.plain:
            found = self._json(text) if text[:1] in {"{", "["} else streams.told(text, self.blobs)
            found = found or lines.told(text, self.blobs)
        return self._stamped(body, found or {"text": protect_text(text, self.blobs)})

    def _json(self, text: str) -> Stored | None:
        try:
            value = json.loads(text)
            for manner in (guess(text), Style("p"), Style("c")):
                if manner.dumps(value) + "\n" * manner.newline == text:
                    return _with_style({"json": marked(value, self.blobs)}, manner)
        except (NestedTooDeep, ValueError, RecursionError):
            pass
        return None

    def _bytes(self, body: Body) -> Stored:
        text = base64.b64encode(body.data).decode()
        return {"base64": self.blobs.named(text) or wrapped(text)}

    @staticmethod
    def _stamped(body: Body, content: Stored) -> Stored:
        return {"size": len(body.data), "sha256": body.sha256, **content}


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _with_style(content: Stored, manner: Style) -> Stored:
    return content if manner == Style() else {"style": manner.code, **content}


@dataclass(slots=True)
class BodyReader:
    """Restores the bodies of one file. `requests` are the stored bodies by number of the exchange, in order."""

    requests: Mapping[int, Stored]
    blobs: BlobReader
    _items: Items | None = None
    _before: dict[int, int] = field(default_factory=dict)
    _spliced: dict[int, str] = field(default_factory=dict)

    def request(self, number: int) -> bytes:
        """The bytes of the request of exchange `number`, unproven. Raises Malformed and its kin."""
        stored = self.requests[number]
        if "splice" in stored:
            return self._splice(number).encode()
        return self._content(stored, number)

    def reply(self, stored: Stored) -> bytes:
        """The bytes of a stored response body, unproven. Raises Malformed and its kin."""
        return self._content(stored, 0)

    def _content(self, stored: Stored, number: int) -> bytes:
        """The bytes of any body but a splice; `number` says of which request, 0 of none."""
        self.blobs.spent = 0
        match stored:
            case {"json": content}:
                manner = style(stored.get("style", "c"))
                if number:
                    return self._all_items().text(content, manner, self._before[number]).encode()
                return (manner.dumps(reveal(content, self.blobs)) + "\n" * manner.newline).encode()
            case {"events": list()}:
                return streams.text_of(stored, self.blobs).encode()
            case {"lines": list()}:
                return lines.text_of(stored, self.blobs).encode()
            case {"text": text}:
                return reveal_text(text, self.blobs).encode()
            case {"base64": list(rows)}:
                return unbase64("".join(rows))
            case {"base64": blob}:
                return unbase64(reveal_text(blob, self.blobs))
            case _:
                msg = f"a body of no known kind ({', '.join(stored)[:60]})"
                raise Malformed(msg)

    def _all_items(self) -> Items:
        if self._items is None:
            items = Items(self.blobs)
            for number, stored in self.requests.items():
                content = stored.get("json")
                if isinstance(content, dict):
                    self._before[number] = items.define(content)
            self._items = items
        return self._items

    def _splice(self, number: int) -> str:
        """The text of a spliced request, from the nearest one that is known, without recursion: chains are long."""
        chain = []
        while number not in self._spliced:
            stored = self.requests[number]
            if "splice" not in stored:
                self._spliced[number] = self._content(stored, number).decode()
                break
            base = stored["splice"]
            if not (isinstance(base, int) and base in self.requests and base < number):
                msg = f"exchange {number} is spliced from {base!r:.20}, which is no earlier request"
                raise Malformed(msg)
            chain.append(number)
            number = base
        text = self._spliced[number]
        for later in reversed(chain):
            self.blobs.spent = 0
            text = self._spliced[later] = dedup_writer.unspliced(text, self.requests[later].get("parts"), self.blobs)
        return text


def digest(data: bytes) -> str:
    """The sha256 of a body, as stored."""
    return hashlib.sha256(data).hexdigest()
