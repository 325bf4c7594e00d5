"""Reads request bodies that name their messages, tools and texts by id.

Nothing is restored before it is asked for; then each item is written once per style and shared by all bodies.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec.dedup.edits import applied
from pytest_agentreplay.codec.dedup.id_ranges import base, expand, is_id
from pytest_agentreplay.codec.values import Malformed, reveal, reveal_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.codec.dedup.blobs import BlobReader
    from pytest_agentreplay.codec.styles import Style

_NAMING = 256
"""What naming an item costs of the budget, however short it is: a run of ids names thousands in a few letters."""


@dataclass(slots=True)
class Items:
    """All items of a file. `define` the bodies in order of the file, then `text` gives any of them."""

    blobs: BlobReader
    _stored: dict[str, Any] = field(default_factory=dict)
    _born: dict[str, int] = field(default_factory=dict)
    _versions: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _values: dict[str, Any] = field(default_factory=dict)
    _texts: dict[tuple[str, Style, int], str] = field(default_factory=dict)

    def define(self, body: dict[str, Any]) -> int:
        """Take in what `body` defines; gives how many items stood before it. Raises Malformed."""
        before = len(self._born)
        for entry in _entries(body):
            if isinstance(entry, dict):
                ((ident, stored),) = entry.items()
                if ident in self._born or not is_id(ident):
                    msg = f"item {ident[:20]!r} is defined twice, or is no id"
                    raise Malformed(msg)
                self._stored[ident] = stored
                self._born[ident] = len(self._born)
                self._versions.setdefault(base(ident), []).append((self._born[ident], ident))
        return before

    def text(self, body: dict[str, Any], style: Style, before: int) -> str:
        """The JSON text of a stored body, `before` being what `define` gave for it. Raises Malformed and its kin."""
        fields: list[tuple[str, str | list[str]]] = []
        for key, stored in body.items():
            name = key[1:] if key[:1] == "$" else key
            if isinstance(stored, list):
                fields.append((name, list(self._array(stored, style, before))))
                before += sum(isinstance(entry, dict) for entry in stored)
            else:
                fields.append((name, self._whole(stored, style)))
                before += isinstance(stored, dict) and isinstance(stored.get("$item"), dict)
        return style.compose(fields)

    def _whole(self, stored: Any, style: Style) -> str:
        match stored:
            case {"$item": str(ident)}:
                return self._item(ident, style, 1)
            case {"$item": dict(definition)} if len(definition) == 1:
                return self._item(next(iter(definition)), style, 1)
            case {"$raw": raw}:
                return reveal_text(raw, self.blobs)
            case {"$list": list(items)}:
                return style.dumps(reveal(items, self.blobs), 1)
            case _:
                return style.dumps(reveal(stored, self.blobs), 1)

    def _array(self, entries: list[Any], style: Style, before: int) -> Iterator[str]:
        for entry in entries:
            if isinstance(entry, dict):
                before += 1
                yield self._item(next(iter(entry)), style, 2)
            elif isinstance(entry, str):
                for ident, newest in expand(entry):
                    yield self._item(self._newest(ident, before) if newest else ident, style, 2)
            else:
                msg = f"an array of items holds {entry!r:.40}"
                raise Malformed(msg)

    def _newest(self, first: str, before: int) -> str:
        versions = self._versions.get(first, [])
        at = bisect_left(versions, (before,))
        return versions[at - 1][1] if at else first

    def _item(self, ident: str, style: Style, depth: int) -> str:
        name = (ident, style, depth if style.indent else 0)
        found = self._texts.get(name)
        if found is None:
            stored = self._known(ident)
            if isinstance(stored, dict) and "$raw" in stored:
                found = reveal_text(stored["$raw"], self.blobs)
            else:
                found = style.dumps(self.value(ident), depth)
            self._texts[name] = found
        self.blobs.spend(len(found) + _NAMING)
        return found

    def value(self, ident: str) -> Any:
        """The value of an item, through all that it is like."""
        chain = []
        while ident not in self._values:
            stored = self._known(ident)
            chain.append((ident, stored))
            if not (isinstance(stored, dict) and "$like" in stored):
                break
            model = stored["$like"]
            if not isinstance(model, str) or self._born.get(model, len(self._born)) >= self._born[ident]:
                msg = f"item {ident} is like {model!r:.20}, which does not stand before it"
                raise Malformed(msg)
            ident = model
        value = self._values.get(ident)
        for name, stored in reversed(chain):
            if isinstance(stored, dict) and "$like" in stored:
                value = applied(value, stored.get("edits"), self.blobs)
            else:
                value = reveal(stored, self.blobs)
            self._values[name] = value
        return value

    def _known(self, ident: str) -> Any:
        try:
            return self._stored[ident]
        except KeyError:
            msg = f"item {ident} is not defined in the file"
            raise Malformed(msg) from None


def _entries(body: dict[str, Any]) -> Iterable[Any]:
    """The entries of a stored body that may define items: ids, runs and definitions."""
    for stored in body.values():
        if isinstance(stored, list):
            yield from stored
        elif isinstance(stored, dict) and "$item" in stored:
            yield stored["$item"]
