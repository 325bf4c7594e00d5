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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.redaction.views import View, unescaped_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Records: TypeAlias = Sequence[tuple[int, int]]
"""Where each record of a body begins and ends."""

Pieces: TypeAlias = Literal["none", "whole", "any"] | Records
"""Whether text may stand in pieces: not in a single text; in a body, by its shape; in records that are known.

In a "whole" body, that of a request, a list is no stream.
"""

Locate: TypeAlias = Callable[[int, int], tuple[int, int]]
"""Returns the bytes of a body that spell a part of a text in it: `(start, end)`."""

# The last string of a body that was cut off has no quote behind it.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
# https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream; "message" is of some servers.
_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry|message):|:[^\n]*\n\s*(?:data|event|id):)")
_BLANK = re.compile(rb"\r?\n(?:\r?\n)+|\r\r+")
_FIELD = re.compile(rb"(?P<name>[A-Za-z]{0,16}):[ \t]?(?P<value>[^\r\n]*)")
_NEXT_DATA = re.compile(rb"\r?\n(?:data:[ \t]?)?")
_LINE = re.compile(rb"[^\r\n]+")
_PREFIXED = re.compile(rb"[ \t,\x1e\0]*(?:(?P<prefix>[\w.-]{0,32}:)[ \t]*)?(?P<value>[\[{\"].*)")
_WHOLE = re.compile(rb"^[ \t,\x1e\0]*(?:[\w.-]{0,32}:[ \t]*)?[\[{\"][^\r\n]*[\]}\"][ \t,]*\r?$", re.MULTILINE)
# An index, an id or the name of an event; whatever is longer is text, and tells no channels apart.
_LONGEST_LABEL = 64
# The bytes of UTF-8; a list with any other number is an embedding or the ids of tokens.
_PRINTABLE = frozenset((*b"\t\n\r", *range(32, 127), *range(128, 256)))
_DEEPEST = 64
_PARTS = re.compile(rb"(?:\A|[._-])(?:delta|DELTA)\Z|[a-z]Delta\Z|\A(?:candidates|logprobs)\Z")
"""A member or the type of an event whose texts are parts: `delta`, `content_block_delta`, `candidates`, `logprobs`."""
_OF_CHANNEL = re.compile(rb"index\Z|(?<!event_)id\Z", re.IGNORECASE)
"""A label that may tell channels apart: the place of a choice or block, the id of an item."""


@dataclass(slots=True, eq=False)
class Container:
    """An object, a list or a record while it is read: what stands beside and above a piece.

    Attributes:
        above: What it stands in.
        path: The names of the members that lead here; None for an item of a list.
        is_object: Whether its members have names.
        positions: The positions in lists of what it stands in, outermost first.
        position: How many commas have been read.
        labels: Its scalar members by name.
        numbers: Where the numbers of a list of bytes stand; None as soon as it is none.
    """

    above: Container | None
    path: tuple[Any, ...] = ()
    is_object: bool = False
    positions: tuple[int, ...] = ()
    position: int = 0
    labels: dict[Any, Any] = field(default_factory=dict)
    numbers: list[tuple[int, int]] | None = None

    def list_positions(self) -> tuple[int, ...]:
        """Return the positions in lists of what is read next."""
        return self.positions if self.is_object else (*self.positions, self.position)


@dataclass(slots=True, eq=False)
class ChannelPiece:
    """The text of a piece, the bytes that spell it, and the positions in lists, outermost first.

    `name` is that of the member, b"" for none. `numbers` are the places of the numbers that spell it, where it is a
    list of bytes.
    """

    start: int
    end: int
    text: bytes
    within: Container
    positions: tuple[int, ...] = ()
    name: bytes = b""
    numbers: tuple[tuple[int, int], ...] | None = None


Channel: TypeAlias = Sequence[ChannelPiece]

Labelled: TypeAlias = tuple[ChannelPiece, dict[Any, Any]]
"""A piece, and the labels beside and above it."""


def shape_of(data: bytes) -> tuple[Records | None, Any]:
    """Return how a body is read: by the records of a stream, or as the one JSON value that it is.

    A list of objects may be either, and text is neither.
    """
    if data.lstrip()[:1] not in (b"{", b"["):
        if _EVENTS.match(data) is not None:
            return list(events(data)), None
        first = _WHOLE.search(data)
        return (None if first is None or _WHOLE.search(data, first.end()) is None else list(lines(data))), None
    try:
        tree = json.loads(data)
    except json.JSONDecodeError as error:
        by_line = is_json(data.lstrip().partition(b"\n")[0])
        return (list(lines(data) if by_line else objects(data)) if error.pos else None), None
    # Too deep for `json`, or no UTF-8: the reader here minds neither.
    except (ValueError, RecursionError):
        return [(0, len(data))], None
    if isinstance(tree, list) and len(tree) > 1 and all(isinstance(item, dict) for item in tree):
        return list(objects(data)), tree
    return None, tree


def objects(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each object begins and ends that stands in a list, or behind another one; the last may be cut off."""
    # One character for each byte, so that positions are those of bytes.
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
    for start, end in (*(blank.span() for blank in _BLANK.finditer(data)), (len(data), len(data))):
        if at < start:
            yield at, start
        at = end


def lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Return where each line begins and ends."""
    return (line.span() for line in _LINE.finditer(data))


def channels(data: bytes, records: Records) -> Iterator[tuple[Channel, bool]]:
    """Yield the channels of a body, those that take turns together and apart; and whether each is one text."""
    reader = ChannelReader()
    for start, end in records:
        reader.read_record(data, start, end)
    for path, pieces in reader.pieces.items():
        first = pieces[0]
        if all(piece.text == first.text for piece in pieces) and (len(pieces) > 1 or first.numbers is None):
            continue  # the same text each time is no part of one: a role, the name of a model
        has_parts = any(isinstance(name, bytes) and _PARTS.search(name) for name in path)
        labelled = [(piece, labels_of(piece)) for piece in pieces]
        several = list(split_channels(labelled))
        yield pieces, not several and is_one_text(labelled, has_parts)
        for channel in several:
            yield [piece for piece, _ in channel], is_one_text(channel, has_parts)


def split_channels(labelled: list[Labelled]) -> Iterator[list[Labelled]]:
    """Yield the channels that take turns or follow each other at one path; nothing where there is only one."""
    all_labels = [labels for _, labels in labelled]
    every = [*dict.fromkeys(chain.from_iterable(all_labels))]
    done: list[list[Any]] = [[]]
    for is_telling in (is_of_channel, comes_back):
        keys = [key for key in every if is_telling(key, all_labels)]
        split: dict[tuple[Any, ...], list[Labelled]] = {}
        for piece, labels in labelled if keys not in done else ():
            split.setdefault(tuple(labels.get(key) for key in keys), []).append((piece, labels))
        done.append(keys)
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
    within: Container | None = piece.within
    depth = 0
    while within is not None:
        labels.update(((depth, name), value) for name, value in within.labels.items())
        within, depth = within.above, depth + 1
    # What a piece itself says tells nothing of its channel.
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
    values = [labels[key] for labels in all_labels if labels.get(key) is not None]
    # More changes of the value than there are values: one of them has come back.
    changes = sum(value != after for value, after in pairwise(values))
    return changes >= len(set(values)) > 0 and 2 * len(set(values)) <= len(values) + 1


class ChannelReader:
    """Reads records, one after the other; what is at one path of any of them comes together in `pieces`."""

    def __init__(self) -> None:
        """Begin with no record."""
        self.pieces: dict[tuple[Any, ...], list[ChannelPiece]] = {}

    def _add(self, path: tuple[Any, ...], piece: ChannelPiece) -> None:
        self.pieces.setdefault(path, []).append(piece)

    def read_record(self, data: bytes, start: int, end: int) -> None:
        """Read one event, line or value."""
        # A record may be megabytes long: only its beginning is copied.
        head = data[start : start + 64].lstrip()
        if head[:1] in (b"{", b"["):
            self._read_value(data, (start, end), keep_span, Container(None))
        elif (line := _PREFIXED.fullmatch(data, start, end)) is not None:
            self._read_value(data, line.span("value"), keep_span, Container(None, (line["prefix"] or b"",)))
        elif _FIELD.match(data, start, end) is not None or head[:1] == b":":
            self._read_event(data, start, end)
        else:
            self._read_raw(data, (start, end), b"", Container(None))

    def _read_event(self, data: bytes, start: int, end: int) -> None:
        """Read a server-sent event: its name is a label, its lines of data are one value."""
        event = Container(None, (b"data:",))
        values = []
        for line in _LINE.finditer(data, start, end):
            member = _FIELD.fullmatch(data, *line.span())
            if member is None or member["name"] in (b"data", b""):
                values.append(line.span() if member is None else member.span("value"))
            elif len(member["value"]) <= _LONGEST_LABEL:
                event.labels[member["name"] + b":"] = member["value"]
        if not values:
            return
        first, last = values[0][0], values[-1][1]
        if data[first : first + 1] not in (b"{", b"[", b'"'):
            for value in values:
                self._read_raw(data, value, b"data", event)
        elif len(values) == 1:
            self._read_value(data, (first, last), keep_span, event)
        else:
            # Several lines of data are one value, with a line end for each border.
            top = View(data[first:last])
            view = View(_NEXT_DATA.sub(b"\n", top.text), top, _NEXT_DATA, lambda _: b"\n")

            def locate(start: int, end: int) -> tuple[int, int]:
                start, end = view.map_back(start, end)
                return start + first, end + first

            self._read_value(view.text, (0, len(view.text)), locate, event)

    def _read_raw(self, data: bytes, span: tuple[int, int], name: bytes, within: Container) -> None:
        start, end = span
        if start < end:
            self._add(((name,),), ChannelPiece(start, end, data[start:end], within))

    def _read_value(self, text: bytes, span: tuple[int, int], locate: Locate, record: Container) -> None:
        """Read the strings of a JSON value.

        Nothing is refused: of what is cut off or no JSON, the strings are read as far as they go.
        """
        top, depth, skipped = record, 0, 0
        key: tuple[int, int] | None = None
        after_colon = False
        for token in _TOKEN.finditer(text, *span):
            first, last = token.span()
            match text[first : first + 1]:
                case b'"':
                    place = first + 1, last - (last > first + 1 and text.endswith(b'"', first, last))
                    if top.is_object and not after_colon:
                        key = place
                        continue
                    self._read_string(text, place, locate, top, key)
                case b":":
                    after_colon = key is not None
                    continue
                case b"{" | b"[" if depth == _DEEPEST:
                    skipped += 1
                case b"{" | b"[" as sign:
                    name = None if key is None else text[slice(*key)]
                    top.numbers = None
                    top = Container(top, (*top.path, name), sign == b"{", top.list_positions())
                    top.numbers = [] if sign == b"[" else None
                    depth += 1
                case b"}" | b"]" if skipped:
                    skipped -= 1
                case b"}" | b"]" as sign:
                    if sign == b"]" and top.numbers:
                        self._read_bytes(text, locate, top, top.numbers)
                    if depth and top.above is not None:
                        top, depth = top.above, depth - 1
                case b",":
                    top.position += 1
                case _:
                    self._read_scalar(text, (first, last), locate, top, key)
            key, after_colon = None, False

    def _read_string(
        self, text: bytes, place: tuple[int, int], locate: Locate, top: Container, key: tuple[int, int] | None
    ) -> None:
        top.numbers = None
        value = text[slice(*place)]
        name = b"" if key is None else text[slice(*key)]
        if key is not None and len(value) <= _LONGEST_LABEL:
            top.labels[name] = value
        if value:
            piece = ChannelPiece(*locate(*place), value, top, top.list_positions(), name)
            self._add((*top.path, None if key is None else name), piece)

    def _read_scalar(
        self, text: bytes, place: tuple[int, int], locate: Locate, top: Container, key: tuple[int, int] | None
    ) -> None:
        word = text[slice(*place)]
        if word.isdigit() and key is not None:
            if len(word) <= _LONGEST_LABEL:
                top.labels[text[slice(*key)]] = word
        elif top.numbers is not None and word.isdigit() and len(word) <= 3 and int(word) in _PRINTABLE:
            top.numbers.append(place)
        else:
            top.numbers = None
            if key is not None and b"." in word and (name := text[slice(*key)]):
                positions = (*top.positions, top.position)
                self._add((*top.path, ("names",)), ChannelPiece(*locate(*key), name, top, positions))

    def _read_bytes(self, text: bytes, locate: Locate, top: Container, numbers: list[tuple[int, int]]) -> None:
        """Read a list of numbers that are bytes."""
        spelled = bytes(int(text[start:end]) for start, end in numbers)
        places = tuple(locate(start, end) for start, end in numbers)
        piece = ChannelPiece(places[0][0], places[-1][1], spelled, top, top.positions, numbers=places)
        self._add((*top.path, ("bytes",)), piece)


def keep_span(start: int, end: int) -> tuple[int, int]:
    """Return the bytes of the body itself."""
    return start, end


def list_scattered_texts(tree: Any) -> list[list[str]]:
    """Return the texts of one JSON value that stand at the same path, in order, where it has several.

    Texts that lists of bytes spell come behind an empty one.
    """
    scattered: list[list[str]] = []
    groups: list[list[Any]] = [[tree]]
    while groups:
        group = groups.pop()
        if len(group) == 1 and type(group[0]) is dict:
            # What stands alone at its path is in one piece, as most texts of a tree are.
            groups += [[member] for member in group[0].values() if type(member) in (dict, list)]
            continue
        texts: list[str] = []
        spelled = [""]
        items: list[Any] = []
        members: dict[str, list[Any]] = {}
        for value in group:
            kind = type(value)
            if kind is str:
                texts.append(value)
            elif kind is dict:
                for name, member in value.items():
                    members.setdefault(name, []).append(member)
            elif kind is list and value:
                if type(value[0]) is int and all(type(item) is int and item in _PRINTABLE for item in value):
                    spelled.append(bytes(value).decode("latin-1"))
                else:
                    items += value
        scattered += [group for group in (texts, spelled) if len(group) > 1]
        groups += members.values()
        if items:
            groups.append(items)
    return scattered


def inner_stream(text: bytes) -> tuple[View, Records] | None:
    """Return what the text of a channel reads as, and its records, where that is a stream again."""
    if b"data:" not in text and b"{" not in text:
        return None
    view = unescaped_view(text)
    records = shape_of(view.text)[0]
    return None if records is None else (view, records)
