"""Puts what stands elsewhere in a file back where it belongs: `volatile_writer` says what that is.

Ids are those of the whole file; all other names are of their exchange alone. What an exchange needs at once is put back
when the file is loaded, the names in its bodies when a body is read.

A text of a reply that the agent sends back in its next request stands once in the file, in the reply:

    {"role": "assistant", "content": {"$reply_text": 1}}

The number counts the texts of the replies of the lane, short ones too, from the last one back. So it is the same in
each recording of a conversation, a changed answer is one change of the file, and an edit that shortens a text moves no
number. Of a stream a text is what the rows of a template say one after the other.

What a tool returned stands once too: `{"$result": 1}` is the text that the last tool of the lane returned, and
`{"$result": [1, "pa"]}` the JSON text of its value, in a style.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.fields import check_header, read_header
from pytest_agentreplay.snapshots.codec.styles import BlobReader, guess, parse_style
from pytest_agentreplay.snapshots.codec.values import Malformed, join_lines, lines_of, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Headers

Stored = dict[str, Any]

LINES, RUN = "volatile", "recording"
"""The keys of a file for what is set apart from the exchanges, one line each, and from the header."""

OF_KIT = ("git", "trace", "clock", "order", "body", "after", "served", "servers")
OF_EXCHANGE = ("order", "ms", "ns", "suspended", "parent", "parts", "at_once")
MESSAGES = {"request": "request", "frame": "request", "response": "response", "frames": "response"}
"""The keys of an exchange that may hold a body -> the key of its line for the size and the sha256."""
_OF_LINE = frozenset({*OF_EXCHANGE, *MESSAGES.values(), "cuts", "headers", "values"})
ROWS = frozenset({"events", "lines"})
"""The keys of a stored body that may hold rows of templates."""

_NAME = re.compile("⟦(?:(⟦)|([^⟦⟧]*)⟧)")

REPLY, RESULT = "$reply_text", "$result"
LONG_REPLY = "$reply"
"""What files had before: it counts the long texts alone, eight of them."""
LONG = 60
"""Characters of a text that is worth a reference, which takes some twenty and a look upwards."""
_REACH = 64
"""So many texts back a reference goes: an agent sends the last reply back, with its reasoning and its tool calls. A
reply of a chat has some fifteen texts."""
_RESULTS = 16
"""So many results back: a model asks for several tools at once."""


def put_back_recording(doc: Stored) -> None:
    """Put what was set apart from the header of a file back into it. Raises Malformed."""
    run, header = doc.pop(RUN, {}), doc.get("header")
    if not (isinstance(run, dict) and isinstance(run.get("kit", {}), dict)):
        raise Malformed("it must be an object, and its `kit` too")
    if isinstance(header, dict):
        doc["header"] = {**run, **header, "kit": {**run.get("kit", {}), **header.get("kit", {})}}


def take_lines(doc: Stored) -> list[Stored]:
    """Take from a file what was set apart from its exchanges, and return the line of each. Raises Malformed."""
    lines, exchanges = doc.pop(LINES), doc["exchanges"]
    if not (isinstance(lines, list) and all(isinstance(line, dict) for line in lines)):
        raise Malformed(f"`{LINES}` must be a list of objects")
    if len(lines) != len(exchanges):
        longer = "exchanges" if len(exchanges) > len(lines) else LINES
        copy = _find_copy(longer, exchanges if longer == "exchanges" else lines)
        raise Malformed(f"`{LINES}` must have one line for each exchange, {len(exchanges)}, not {len(lines)}{copy}")
    return lines


def _find_copy(name: str, items: list[Any]) -> str:
    """Return as the end of a message which of `items`, the list of that name, is like an earlier one; "" if none is."""
    numbers: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        if (first := numbers.setdefault(json.dumps(item), number)) != number:
            return f"; number {number} of `{name}` is a copy of number {first}"
    return ""


@dataclass(slots=True)
class LaneTexts:
    """What a request may refer to: the texts of the replies of its lane, and what tools of the lane returned.

    Replies are kept as they stand in the file, and their texts are looked for when one is named. Results are values,
    None for a generator.
    """

    replies: list[Stored] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    _newest: dict[int, list[Any]] = field(default_factory=lambda: {0: []})

    def list_newest(self, count: int) -> list[Any]:
        """Return the last texts of the first `count` replies, newest first."""
        # By number: two threads that read bodies at once find the same.
        for at in range(len(self._newest), count + 1):
            self._newest[at] = [*reversed(_list_texts_of(self.replies[at - 1])), *self._newest[at - 1]][:_REACH]
        return self._newest[count]

    def list_newest_long(self, count: int) -> list[Any]:
        """Return the same as files had it before."""
        texts = (text for body in self.replies[:count][::-1] for text in reversed(_list_texts_of(body)))
        return [*islice(filter(is_text, texts), 8)]

    def list_results(self, count: int) -> list[Any]:
        """Return the last of the first `count` results, newest first."""
        return self.results[max(0, count - _RESULTS) : count][::-1]

    def find(self, stored: Any, text: Any) -> Stored | None:
        """Return what refers to a text, None where nothing does: `text` as it stands in the file, `stored` before."""
        if is_text(text) and text in (texts := self.list_newest(len(self.replies))):
            return {REPLY: texts.index(text) + 1}
        if not is_text(stored):
            return None
        results = self.list_results(len(self.results))
        if stored in results:
            return {RESULT: results.index(stored) + 1}
        joined = stored if isinstance(stored, str) else join_lines(stored["$text"])
        code = guess(joined).code
        numbered = enumerate(results if joined.startswith(("{", "[")) else (), 1)
        return next(({RESULT: [number, code]} for number, value in numbered if _dump(value, code) == joined), None)


def _dump(stored: Any, code: str) -> str | None:
    """Return the JSON text of a stored value; None where it has none without the blobs of the file."""
    try:
        return parse_style(code).dumps(reveal(stored, BlobReader()))
    except ValueError:
        return None


def is_text(stored: Any) -> bool:
    """Return whether a stored value is a text that is long enough."""
    if isinstance(stored, str):
        return len(stored) >= LONG
    return isinstance(stored, dict) and len(stored) == 1 and "$text" in stored


def _list_texts_of(body: Stored) -> list[Any]:
    return [*_list_texts(body.get("json"), []), *_join_rows(body)]


def _list_texts(stored: Any, texts: list[Any]) -> list[Any]:
    """Return `texts` with those of a stored value, in order. As a generator this takes twice as long."""
    if isinstance(stored, str) or is_text(stored):
        texts.append(stored)
    elif isinstance(stored, dict | list):
        for item in stored.values() if isinstance(stored, dict) else stored:
            _list_texts(item, texts)
    return texts


def _join_rows(body: Stored) -> Iterator[Any]:
    """Yield what the rows of each template say, hole by hole; values that are no texts say nothing."""
    columns: dict[tuple[str, int], list[str]] = {}
    for key in sorted(ROWS & body.keys()):
        for name, *rows in (row for row in body[key] if isinstance(row, list)):
            for row in rows:
                for hole, cell in enumerate(row if isinstance(row, list) else [row]):
                    if isinstance(cell, str):
                        columns.setdefault((name, hole), []).append(cell)
    yield from (lines_of("".join(cells)) for cells in columns.values())


def _may_name(stored: Any) -> bool:
    kind = type(stored)
    return "⟦" in stored if kind is str else kind is dict or kind is list


@dataclass(slots=True)
class NamedValues:
    """What stands for the names of one exchange.

    Args:
        ids: The ids of the whole file.
        own: The values of this exchange alone.
        lane: What is above the exchange in its lane, and below it.
        above: How many replies and how many results stand above it.
        blobs: Counts what is put in the place of names.
    """

    ids: Stored
    own: Stored
    lane: LaneTexts
    above: tuple[int, int]
    blobs: BlobReader

    def restore(self, stored: Any) -> Any:
        """Return a stored value with all values back in it. Raises Malformed, OverBudget and their kin."""
        if isinstance(stored, dict):
            if len(stored) == 1 and (mark := next(iter(stored))) in {REPLY, LONG_REPLY, RESULT}:
                return self._spend(self._follow(mark, stored[mark]))
            return {key: self.restore(item) if _may_name(item) else item for key, item in stored.items()}
        if isinstance(stored, list):
            return [self.restore(item) if _may_name(item) else item for item in stored]
        return self._restore_text(stored) if isinstance(stored, str) and "⟦" in stored else stored

    def _follow(self, mark: str, reference: Any) -> Any:
        """Return what a reference leads to."""
        replies, results = self.above
        if mark == RESULT:
            number, code = reference if isinstance(reference, list) else (reference, None)
            value = _pick(self.lane.list_results(results), mark, number)
            return value if code is None else parse_style(code).dumps(reveal(value, self.blobs))
        list_texts = self.lane.list_newest if mark == REPLY else self.lane.list_newest_long
        # Of names a text has ids alone: what is set apart of its exchange takes the place of the whole text.
        values_of_ids = NamedValues(self.ids, {}, self.lane, (0, 0), self.blobs)
        return values_of_ids.restore(_pick(list_texts(replies), mark, reference))

    def _restore_text(self, text: str) -> Any:
        match = _NAME.fullmatch(text)
        return _NAME.sub(self._replace, text) if match is None or match[1] else self._get(match[2])

    def _replace(self, match: re.Match[str]) -> str:
        value = match[1] or self._get(match[2])
        if not isinstance(value, str):
            raise Malformed(f"⟦{match[2]:.40}⟧ stands for no text, and stands in a longer one")
        return value

    def _get(self, name: str) -> Any:
        values = self.ids if ":" in name else self.own
        if name not in values:
            raise Malformed(f"nothing is set apart under the name {name!r:.40}")
        return self._spend(values[name])

    def _spend(self, value: Any) -> Any:
        """Count what stands in the place of a name, and return it. Raises OverBudget."""
        self.blobs.spend(len(value) if isinstance(value, str) else len(json.dumps(value)))
        return value


def _pick(above: Sequence[Any], mark: str, number: Any) -> Any:
    if type(number) is not int or not 0 < number <= len(above):
        raise Malformed(
            f"`{mark}` {number!r:.20} refers to nothing, of {len(above)} above: write its words in its place"
        )
    return above[number - 1]


class LineReader:
    """Puts back what an exchange needs at once, exchange by exchange in the order of the file."""

    def __init__(self, lines: list[Stored], blobs: BlobReader) -> None:
        # Ids alone have a colon.
        self._ids = {name: value for line in lines for name, value in line.get("values", {}).items() if ":" in name}
        self._blobs = blobs
        self._lanes: defaultdict[str, LaneTexts] = defaultdict(LaneTexts)
        self._shared_headers: dict[str, _HeaderList] = {}

    def put_back(self, stored: Stored, line: Stored) -> Callable[[Any], Any]:
        """Put what a line of the file holds back into its exchange, and return what does so for its bodies.

        Raises Malformed, OverBudget and their kin.
        """
        lane = self._lanes[str(stored.get("lane"))]
        above = len(lane.replies), len(lane.results)
        names = NamedValues(self._ids, line.get("values", {}), lane, above, self._blobs)
        headers = _read_values(line)
        try:
            for key, value in stored.items():
                if key in MESSAGES and isinstance(value, dict):
                    self._put_back_message(value, line, MESSAGES[key], names, headers)
                else:
                    stored[key] = names.restore(value)
        except StopIteration:
            raise Malformed("`headers` of its line has fewer values than its headers have holes") from None
        if isinstance(result := stored.get("result"), dict):
            lane.results.append(result.get("value"))
        if next(headers, None) is not None:
            raise Malformed("`headers` of its line has more values than its headers have holes")
        if not _OF_LINE.issuperset(line):
            raise Malformed(f"unknown key {min(line.keys() - _OF_LINE)!r:.40} in its line")
        _put(stored, {key: line[key] for key in OF_EXCHANGE if key in line})
        return names.restore

    def _put_back_message(
        self, message: Stored, line: Stored, side: str, names: NamedValues, headers: Iterator[Any]
    ) -> None:
        for key, value in message.items():
            if key == "headers":
                message[key] = self._get_headers(value).fill(names, headers)
            elif key != "body":
                message[key] = names.restore(value)
        if side in line:
            size, sha256 = line[side]
            _put(message["body"], {"size": size, "sha256": sha256})
        if side == "response" and "body" in message:
            names.lane.replies.append(message["body"])
        if side == "response" and "cuts" in line:
            _put(message, {"cuts": line["cuts"]})

    def _get_headers(self, stored: Any) -> _HeaderList:
        """Return a list of headers, which may stand in the file under a name."""
        if isinstance(stored, str):
            if stored not in self._shared_headers:
                raise Malformed(f"no headers are called {stored!r:.20}")
            return self._shared_headers[stored]
        if isinstance(stored, dict):
            ((name, lines),) = stored.items()
            self._shared_headers[name] = _HeaderList(lines, self._blobs)
            return self._shared_headers[name]
        return _HeaderList(stored, self._blobs)


class _HeaderList:
    """A list of headers, of which some are others in each exchange."""

    def __init__(self, lines: list[Any], blobs: BlobReader) -> None:
        self._holes: list[tuple[int, str]] = []
        self._named: list[int] = []
        for at, line in enumerate(lines):
            name, _, value = line.partition(": ") if isinstance(line, str) else ("", "", "")
            if value == "⟦⟧":
                self._holes.append((at, name))
            elif not isinstance(line, str) or "⟦" in line:
                self._named.append(at)
        self._headers = [line if at in self._named else read_header(line, blobs) for at, line in enumerate(lines)]
        self._sizes = [at for at, name in self._holes if name.lower() == "content-length"]

    def fill(self, names: NamedValues, values: Iterator[str]) -> Headers:
        """Return the headers of one exchange. Raises Malformed, or StopIteration where `values` end."""
        headers = list(self._headers)
        for at, name in self._holes:
            headers[at] = name, next(values)
        for at in self._named:
            headers[at] = read_header(names.restore(headers[at]), names.blobs)
        for at in self._sizes:
            check_header(*headers[at])
        return tuple(headers)


def _read_values(line: Stored) -> Iterator[str]:
    """Return the values of headers in a line. To check them one by one would take a tenth of a load."""
    try:
        check_header("of its line", "".join(line.get("headers", ())))
    except TypeError:
        raise Malformed("`headers` of its line must be a list of texts") from None
    return iter(line.get("headers", ()))


def _put(stored: Stored, members: Stored) -> None:
    """Add members to a stored object. Raises Malformed for one that is there already: which of the two would count?"""
    if not stored.keys().isdisjoint(members):
        raise Malformed(f"{min(stored.keys() & members.keys())!r} stands in the exchange and in its line")
    stored |= members
