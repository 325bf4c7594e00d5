r"""Channels: text that arrives in pieces, found by the shape of what carries it and by no list of fields.

A body is cut into records: server-sent events, lines of JSON, JSON values one after the other, the messages of a
connection, or the one value that it is. The strings that stand at the same path of successive records may be the pieces
of one channel. What tells channels apart is a value beside a piece: an index, an id, the position in a list, or any
that comes back after another one has stood there.

Records may as well be whole: rows, log lines, the messages of a chat. The pieces of a channel are parts of one text if
a name says so ("delta"). They are taken for such, too, if words end where pieces do: whole texts seldom begin or end
with a space.

A piece is a string as it stands, still escaped; a list of bytes (`[115, 107]`), which is the text that it spells; or a
name whose value is a fraction, as some log probabilities are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pytest_agentreplay.redaction.views import View, unescaped_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.redaction.placeholders import Span

Records: TypeAlias = Sequence[tuple[int, int]]
"""Where each record of a body begins and ends."""

Pieces: TypeAlias = Literal["none", "whole", "any"] | Records
"""Whether text may stand in pieces: not in a single text; in a body, by its shape; in records that are known.

In a "whole" body, that of a request, a list is no stream.
"""

Finder: TypeAlias = "Callable[[bytes, Pieces], list[Span]]"

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry|message):|:[^\n]*\n\s*(?:data|event|id):)")
_BLANK = re.compile(rb"\r?\n(?:\r?\n)+|\r\r+")
_FIELD = re.compile(rb"(?P<name>[A-Za-z]{0,16}):[ \t]?(?P<value>[^\r\n]*)")
_NEXT_DATA = re.compile(rb"\r?\n(?:data:[ \t]?)?")
_LINE = re.compile(rb"[^\r\n]+")
_PREFIXED = re.compile(rb"[ \t,\x1e\0]*(?:(?P<prefix>[\w.-]{0,32}:)[ \t]*)?(?P<value>[\[{\"].*)")
_WHOLE = re.compile(rb"^[ \t,\x1e\0]*(?:[\w.-]{0,32}:[ \t]*)?[\[{\"][^\r\n]*[\]}\"][ \t,]*\r?$", re.MULTILINE)
_LONGEST_LABEL = 64
_PRINTABLE = frozenset((*b"\t\n\r", *range(32, 127), *range(128, 256)))
_DEEPEST = 64
_PARTS = re.compile(rb"(?:\A|[._-])(?:delta|DELTA)\Z|[a-z]Delta\Z|\A(?:candidates|logprobs)\Z")
"""A member or the type of an event whose texts are parts: `delta`, `content_block_delta`, `candidates`, `logprobs`."""
_OF_CHANNEL = re.compile(rb"index\Z|(?<!event_)id\Z", re.IGNORECASE)
"""A label that may tell channels apart: the place of a choice or block, the id of an item."""


@dataclass(slots=True)
class Scope:
    """An object or a list that a piece stands in: its scalar members by name, and the position in a list."""

    above: Scope | None
    labels: dict[Any, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Node:
    """One path, list positions left open; the pieces that stand there, in order."""

    below: dict[Any, Node] = field(default_factory=dict)
    pieces: list[ChannelPiece] = field(default_factory=list)
    holds_parts: bool = False

    def child(self, name: Any) -> Node:
        """Return the path of a member."""
        node = self.below.get(name)
        if node is None:
            is_part = isinstance(name, bytes) and _PARTS.search(name) is not None
            node = self.below[name] = Node(holds_parts=self.holds_parts or is_part)
        return node

    def walk(self) -> Iterator[Node]:
        """Yield this path and all below it."""
        nodes = [self]
        while nodes:
            node = nodes.pop()
            yield node
            nodes.extend(reversed(node.below.values()))


@dataclass(slots=True)
class ChannelPiece:
    """The text of a piece, the bytes that spell it, and the positions in lists, outermost first.

    `name` is that of the member, b"" for none. `numbers` are the places of the numbers that spell it, where it is a
    list of bytes.
    """

    start: int
    end: int
    text: bytes
    scope: Scope
    positions: tuple[int, ...] = ()
    name: bytes = b""
    numbers: tuple[tuple[int, int], ...] | None = None


Channel: TypeAlias = Sequence[ChannelPiece]

Labelled: TypeAlias = tuple[ChannelPiece, dict[Any, Any]]
"""A piece, and the labels beside and above it."""


class ChannelShape(NamedTuple):
    """How a body is read: by the records of a stream, or as the one JSON value that it is; neither where it is text.

    A list of objects may be either.
    """

    records: Records | None = None
    tree: Any = None


def shape_of(data: bytes) -> ChannelShape:
    """Return how a body is read."""
    if _EVENTS.match(data) is not None:
        return ChannelShape(list(events(data)))
    if data.lstrip()[:1] in (b"{", b"["):
        return _of_json(data)
    seen = _WHOLE.search(data)
    return ChannelShape(None if seen is None or _WHOLE.search(data, seen.end()) is None else list(lines(data)))


def _of_json(data: bytes) -> ChannelShape:
    try:
        tree = json.loads(data)
    except json.JSONDecodeError as error:
        by_line = is_json(data.lstrip().partition(b"\n")[0])
        return ChannelShape(list(lines(data) if by_line else objects(data)) if error.pos else None)
    except (ValueError, RecursionError):
        return ChannelShape([(0, len(data))])
    several = isinstance(tree, list) and len(tree) > 1 and all(isinstance(item, dict) for item in tree)
    return ChannelShape(list(objects(data)) if several else None, tree)


def objects(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each object begins and ends that stands in a list, or behind another one; the last may be cut off."""
    text, end = data.decode("latin-1"), 0
    while (start := text.find("{", end)) >= 0:
        try:
            end = json.JSONDecoder(strict=False).raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            end = len(text)
        yield start, end


def is_json(data: bytes) -> bool:
    """Return whether a text is one JSON value."""
    try:
        json.loads(data.decode("latin-1"))
    except (ValueError, RecursionError):
        return False
    return True


def events(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each server-sent event begins and ends."""
    at = 0
    for blank in _BLANK.finditer(data):
        if at < blank.start():
            yield at, blank.start()
        at = blank.end()
    if at < len(data):
        yield at, len(data)


def lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Return where each line begins and ends."""
    return (line.span() for line in _LINE.finditer(data))


def channels(data: bytes, records: Records) -> Iterator[tuple[Channel, bool]]:
    """Return the channels of a body, those that take turns together and apart; and whether each is one text."""
    reader = ChannelReader()
    for start, end in records:
        reader.record(data, start, end)
    for node in reader.root.walk():
        pieces = node.pieces
        if not pieces or (len(pieces) == 1 and pieces[0].numbers is None):
            continue
        if len(pieces) > 1 and all(piece.text == pieces[0].text for piece in pieces):
            continue
        labelled = [(piece, labels_of(piece)) for piece in pieces]
        several = list(split_channels(labelled))
        yield pieces, not several and is_one_text(labelled, node.holds_parts)
        yield from (([piece for piece, _ in channel], is_one_text(channel, node.holds_parts)) for channel in several)


def split_channels(labelled: list[Labelled]) -> Iterator[list[Labelled]]:
    """Yield the channels that take turns or follow each other at one path; nothing where there is only one."""
    all_labels = [labels for _, labels in labelled]
    every = [*dict.fromkeys(chain.from_iterable(all_labels))]
    done: set[frozenset[Any]] = set()
    for is_telling in (is_of_channel, comes_back):
        keys = [key for key in every if is_telling(key, all_labels)]
        split: dict[tuple[Any, ...], list[Labelled]] = {}
        for piece, labels in labelled if keys and frozenset(keys) not in done else ():
            split.setdefault(tuple(labels.get(key) for key in keys), []).append((piece, labels))
        done.add(frozenset(keys))
        yield from (channel for channel in split.values() if len(channel) > 1)


def is_one_text(labelled: list[Labelled], has_parts_name: bool) -> bool:
    """Return whether the pieces of a channel are parts of one text; where their name says so, they are."""
    pieces, all_labels = [piece for piece, _ in labelled], [labels for _, labels in labelled]
    if has_parts_name or any(isinstance(label, bytes) and _PARTS.search(label) for label in all_labels[0].values()):
        return not any(is_of_channel(key, all_labels, counts=True) for key in {*chain.from_iterable(all_labels)})
    spaced = sum(piece.text[-1:] == b" " or after.text[:1] == b" " for piece, after in pairwise(pieces))
    return spaced > 1 and 2 * spaced > len(pieces) - 1


def labels_of(piece: ChannelPiece) -> dict[tuple[int, Any], Any]:
    """Return what stands beside a piece and above it, by depth and name; and its positions in lists."""
    labels: dict[tuple[int, Any], Any] = {(-1, depth): at for depth, at in enumerate(piece.positions)}
    scope: Scope | None = piece.scope
    depth = 0
    while scope is not None:
        labels.update(((depth, name), value) for name, value in scope.labels.items())
        scope, depth = scope.above, depth + 1
    labels.pop((0, piece.name), None)
    return labels


def is_of_channel(key: Any, all_labels: Iterable[dict[Any, Any]], *, counts: bool = False) -> bool:
    """Return whether a label says by its name or place which channel a piece is of, and has several values.

    One that has another value beside each piece `counts` if it is to; it may as well count the pieces.
    """
    if not isinstance(key[1], int) and _OF_CHANNEL.search(key[1]) is None:
        return False
    values = [labels[key] for labels in all_labels if key in labels]
    return 1 < len(set(values)) <= len(values) - (not counts)


def comes_back(key: Any, all_labels: Iterable[dict[Any, Any]]) -> bool:
    """Return whether a label has a value again after another one, and few values: a text beside another has many."""
    last: Any = None
    again = False
    seen: set[Any] = set()
    count = 0
    for labels in all_labels:
        value = labels.get(key)
        if value is None:
            continue
        count += 1
        if value != last:
            again = again or value in seen
            seen.add(value)
            last = value
    return again and 2 * len(seen) <= count + 1


@dataclass(slots=True)
class Value:
    """A JSON value in `view.text[start:end]`; the view begins at `offset` of the body."""

    view: View
    start: int
    end: int
    offset: int = 0

    def map_back(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the body that spell a part of the view."""
        start, end = self.view.map_back(start, end)
        return start + self.offset, end + self.offset


class ChannelReader:
    """Reads records, one after the other; what is at one path of any of them comes together in `root`."""

    def __init__(self) -> None:
        """Begin with no record."""
        self.root = Node()

    def record(self, data: bytes, start: int, end: int) -> None:
        """One event, line or value."""
        head = data[start : start + 64].lstrip()
        if head[:1] in (b"{", b"["):
            self._read_value(Value(View(data), start, end), self.root, Scope(None))
        elif (line := _PREFIXED.fullmatch(data, start, end)) is not None:
            self._read_prefixed(data, line)
        elif _FIELD.match(data, start, end) is not None or head[:1] == b":":
            self._read_event(data, start, end)
        else:
            self._read_raw(data, (start, end), b"", Scope(None))

    def _read_prefixed(self, data: bytes, line: re.Match[bytes]) -> None:
        self._read_value(Value(View(data), *line.span("value")), self.root.child(line["prefix"] or b""), Scope(None))

    def _read_event(self, data: bytes, start: int, end: int) -> None:
        """A server-sent event: its name is a label, its lines of data are one value."""
        scope = Scope(None)
        values = []
        for line in _LINE.finditer(data, start, end):
            field = _FIELD.fullmatch(data, *line.span())
            if field is None or field["name"] in (b"data", b""):
                values.append(line.span() if field is None else field.span("value"))
            elif len(field["value"]) <= _LONGEST_LABEL:
                scope.labels[field["name"] + b":"] = field["value"]
        if not values:
            return
        first, last = values[0][0], values[-1][1]
        if data[first : first + 1] not in (b"{", b"[", b'"'):
            for value in values:
                self._read_raw(data, value, b"data", scope)
        elif len(values) == 1:
            self._read_value(Value(View(data), first, last), self.root.child(b"data:"), scope)
        else:
            top = View(data[first:last])
            text = View(_NEXT_DATA.sub(b"\n", top.text), top, _NEXT_DATA, lambda _: b"\n")
            self._read_value(Value(text, 0, len(text.text), first), self.root.child(b"data:"), scope)

    def _read_raw(self, data: bytes, span: tuple[int, int], name: bytes, scope: Scope) -> None:
        start, end = span
        if start < end:
            self.root.child((name,)).pieces.append(ChannelPiece(start, end, data[start:end], scope))

    def _read_value(self, span: Value, node: Node, scope: Scope) -> None:
        """The strings of a JSON value.

        Nothing is refused: of what is cut off or no JSON, the strings are read as far as they go.
        """
        text = span.view.text
        stack: list[_Open] = [_Open(node, scope)]
        key: tuple[int, int] | None = None
        after_colon, skipped = False, 0
        for token in _TOKEN.finditer(text, span.start, span.end):
            first, last = token.span()
            sign = text[first]
            top = stack[-1]
            if sign == 0x22:  # a string
                stop = last - 1 if last > first + 1 and text[last - 1] == 0x22 else last
                if top.is_object and not after_colon:
                    key = first + 1, stop
                    continue
                self._read_string(span, (first + 1, stop), top, key)
            elif sign == 0x3A:
                after_colon = key is not None
                continue
            elif sign in b"{[" and len(stack) > _DEEPEST:
                skipped += 1
            elif sign in b"}]" and skipped:
                skipped -= 1
            elif sign in b"{[":
                member, scope = top.member(text, key), Scope(top.scope)
                stack.append(_Open(member, scope, is_object=sign == 0x7B, positions=top.inside()))
            elif sign in b"}]":
                if len(stack) > 1:
                    stack.pop()
                if sign == 0x5D and top.numbers:
                    self._read_bytes(span, top)
            elif sign == 0x2C:
                top.position += 1
            else:
                self._read_scalar(span, (first, last), top, key)
            key, after_colon = None, False

    def _read_string(self, span: Value, place: tuple[int, int], top: _Open, key: tuple[int, int] | None) -> None:
        top.numbers = None
        start, end = place
        text = span.view.text[start:end]
        name = b"" if key is None else span.view.text[key[0] : key[1]]
        if key is not None and len(text) <= _LONGEST_LABEL:
            top.scope.labels[name] = text
        if start < end:
            piece = ChannelPiece(*span.map_back(start, end), text, top.scope, top.inside(), name)
            top.member(span.view.text, key).pieces.append(piece)

    def _read_scalar(self, span: Value, place: tuple[int, int], top: _Open, key: tuple[int, int] | None) -> None:
        word = span.view.text[place[0] : place[1]]
        if word.isdigit() and key is not None:
            if len(word) <= _LONGEST_LABEL:
                top.scope.labels[span.view.text[key[0] : key[1]]] = word
        elif top.numbers is not None and word.isdigit() and len(word) <= 3 and int(word) in _PRINTABLE:
            top.numbers.append(place)
        else:
            top.numbers = None
            if key is not None and b"." in word and key[0] < key[1]:
                text, positions = span.view.text[key[0] : key[1]], (*top.positions, top.position)
                top.node.child(("names",)).pieces.append(ChannelPiece(*span.map_back(*key), text, top.scope, positions))

    def _read_bytes(self, span: Value, top: _Open) -> None:
        """A list of numbers that are bytes."""
        assert top.numbers
        text = bytes(int(span.view.text[start:end]) for start, end in top.numbers)
        numbers = tuple(span.map_back(start, end) for start, end in top.numbers)
        piece = ChannelPiece(numbers[0][0], numbers[-1][1], text, top.scope, top.positions, numbers=numbers)
        top.node.child(("bytes",)).pieces.append(piece)


class _Open:
    """An object or a list that is being read."""

    __slots__ = ("is_object", "node", "numbers", "position", "positions", "scope")

    def __init__(
        self, node: Node, scope: Scope, *, is_object: bool | None = None, positions: tuple[int, ...] = ()
    ) -> None:
        self.node = node
        self.scope = scope
        self.is_object = bool(is_object)
        self.position = 0
        self.positions = positions
        self.numbers: list[tuple[int, int]] | None = [] if is_object is False else None

    def member(self, text: bytes, key: tuple[int, int] | None) -> Node:
        """Return the path of what is read next: a member of an object, or an item."""
        if self.numbers is not None:
            self.numbers = None
        return self.node.child(None if key is None else text[key[0] : key[1]])

    def inside(self) -> tuple[int, ...]:
        """Return the positions in lists of what is read next."""
        return self.positions if self.is_object else (*self.positions, self.position)


def group_texts(tree: Any) -> Iterator[list[str]]:
    """Return the texts of one JSON value by path, in order; those of paths where more than one stands.

    Texts that lists of bytes spell come behind an empty one.
    """
    places: dict[tuple[Any, ...], list[str]] = {}
    stack: list[tuple[tuple[Any, ...], Any]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            places.setdefault(path, []).append(value)
        elif isinstance(value, dict):
            stack += [((*path, name), member) for name, member in reversed(value.items()) if member]
        elif isinstance(value, list) and value:
            if all(type(item) is int and item in _PRINTABLE for item in value):
                places.setdefault((*path, b"bytes"), [""]).append(bytes(value).decode("latin-1"))
            else:
                stack += [((*path, None), item) for item in reversed(value)]
    return (texts for texts in places.values() if len(texts) > 1)


def inner_stream(text: bytes) -> tuple[View, Records] | None:
    """Return what the text of a channel reads as where that is a stream again, and its records.

    None where it is none.
    """
    if b"data:" not in text and b"{" not in text:
        return None
    view = unescaped_view(text)
    records = shape_of(view.text).records
    return None if records is None else (view, records)
