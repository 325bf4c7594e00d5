"""Puts what stands elsewhere in a file back where it belongs: `volatile_writer` says what that is.

Ids are those of the whole file; all other names are of their exchange alone.

A text of a reply that the agent sends back in its next request stands once in the file, in the reply:

    {"role": "assistant", "content": {"$reply": 1}}

The number counts the long texts of the replies of the lane, from the last one back. So it is the same in each recording
of a conversation, and a changed answer is one change of the file. Of a stream a text is what the rows of a template say
one after the other.

What a tool returned stands once too: `{"$result": 1}` is the text that the last tool of the lane returned, and
`{"$result": [1, "pa"]}` the JSON text of its value, in a style.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.styles import LARGEST, BlobReader, OverBudget, guess, parse_style
from pytest_agentreplay.snapshots.codec.values import Malformed, join_lines, lines_of, reveal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Stored = dict[str, Any]

LINES, RUN = "volatile", "recording"
"""The keys of a file for what is set apart from the exchanges, one line each, and from the header."""

OF_KIT = ("git", "trace", "clock", "body", "after", "served", "servers")
OF_EXCHANGE = ("order", "ms", "ns", "suspended", "parent", "parts", "at_once")
MESSAGES = {"request": "request", "frame": "request", "response": "response", "frames": "response"}
"""The keys of an exchange that may hold a body -> the key of its line for the size and the sha256."""
_OF_LINE = frozenset({*OF_EXCHANGE, *MESSAGES.values(), "cuts", "headers", "values"})
ROWS = frozenset({"events", "lines"})
"""The keys of a stored body that may hold rows of templates."""

_NAME = re.compile("⟦(?:(⟦)|([^⟦⟧]*)⟧)")

REPLY, RESULT = "$reply", "$result"
LONG = 60
"""Characters of a text that is worth a reference, which takes some twenty and a look upwards."""
_REACH = 8
"""So many texts back a reference goes: an agent sends the last reply back, with its reasoning and its tool calls."""
_RESULTS = 16
"""So many results back: a model asks for several tools at once."""


def take_lines(doc: Stored) -> list[Stored]:
    """Take from a file what was set apart, and return the line of each exchange. Of the header it is put back here.

    Raises Malformed.
    """
    lines, run = doc.pop(LINES), doc.pop(RUN, None)
    if not (isinstance(lines, list) and all(isinstance(line, dict) for line in lines)):
        raise Malformed(f"`{LINES}` must be a list of objects")
    exchanges = doc["exchanges"]
    if len(lines) != len(exchanges):
        longer = "exchanges" if len(exchanges) > len(lines) else LINES
        copy = _find_copy(longer, exchanges if longer == "exchanges" else lines)
        raise Malformed(f"`{LINES}` must have one line for each exchange, {len(exchanges)}, not {len(lines)}{copy}")
    if isinstance(run, dict) and isinstance(header := doc.get("header"), dict):
        kit = run.pop("kit", {})
        doc["header"] = {**run, **header, "kit": {**kit, **header.get("kit", {})}}
    return lines


def _find_copy(name: str, items: list[Any]) -> str:
    """Return as the end of a message which of `items`, the list of that name, is like an earlier one; "" if none is."""
    numbers: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        if (first := numbers.setdefault(json.dumps(item), number)) != number:
            return f"; number {number} of `{name}` is a copy of number {first}"
    return ""


def collect_ids(lines: list[Stored]) -> Stored:
    """Return the ids of a file by their names, which alone have a colon."""
    return {name: value for line in lines for name, value in line.get("values", {}).items() if ":" in name}


def join_row(cells: list[Any]) -> Any:
    """Return the values of one event as a row holds them: a single one without a list."""
    return cells[0] if len(cells) == 1 else cells


@dataclass(slots=True)
class ReplyTexts:
    """The last texts of the replies of each lane, and what its tools returned, as they are stored, newest first."""

    _lanes: dict[str, list[Any]] = field(default_factory=dict)
    _results: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, lane: str, body: Any) -> None:
        """Remember the long texts of a stored reply."""
        if isinstance(body, dict):
            texts: list[Any] = []
            _add_texts(body.get("json"), texts)
            texts += _join_rows(body)
            if texts:
                self._lanes[lane] = [*reversed(texts), *self._lanes.get(lane, ())][:_REACH]

    def add_result(self, lane: str, result: Any) -> None:
        """Remember the value of a stored result, if it is a long text, an object or a list."""
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict | list) or is_text(value):
            self._results[lane] = [value, *self._results.get(lane, ())][:_RESULTS]

    def find(self, lane: str, stored: Any) -> Stored | None:
        """Return what refers to a stored text of the lane; None where nothing does."""
        for mark, values in ((REPLY, self._lanes.get(lane, ())), (RESULT, self._results.get(lane, ()))):
            if stored in values:
                return {mark: values.index(stored) + 1}
        text = stored if isinstance(stored, str) else join_lines(stored["$text"])
        code = guess(text).code
        results = self._results.get(lane, ()) if text.startswith(("{", "[")) else ()
        return next(({RESULT: [n, code]} for n, value in enumerate(results, 1) if _dump(value, code) == text), None)

    def get(self, lane: str, number: Any) -> Any:
        """Return the stored text with this number. Raises Malformed."""
        return _pick(self._lanes.get(lane, ()), number, f"{LONG} characters and more in the replies above")

    def get_result(self, lane: str, reference: Any) -> Any:
        """Return the stored text of a result, by its number, and of a value by a style. Raises Malformed."""
        results = self._results.get(lane, ())
        match reference:
            case [number, str(code)]:
                if (text := _dump(_pick(results, number, "a result of a tool above"), code)) is not None:
                    return text
                raise Malformed(f"no text of a result is {reference!r:.40}")
            case number:
                return _pick(results, number, "a result of a tool above")


def _pick(texts: Sequence[Any], number: Any, kind: str) -> Any:
    if type(number) is not int or not 0 < number <= len(texts):
        raise Malformed(f"there is no text {number!r:.20} of {kind}, but {len(texts)}: write the words in its place")
    return texts[number - 1]


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


def _add_texts(stored: Any, texts: list[Any]) -> None:
    """Add the long texts of a stored value, in order."""
    if isinstance(stored, str):
        if len(stored) >= LONG:
            texts.append(stored)
    elif isinstance(stored, dict | list):
        if is_text(stored):
            texts.append(stored)
        else:
            for item in stored.values() if isinstance(stored, dict) else stored:
                _add_texts(item, texts)


def _join_rows(body: dict[str, Any]) -> Iterator[Any]:
    """Yield what the rows of each template say, hole by hole; values that are no texts say nothing."""
    columns: dict[tuple[str, int], list[str]] = {}
    for key in ("events", "lines"):
        for name, *rows in (row for row in body.get(key) or () if isinstance(row, list)):
            for row in rows:
                for hole, cell in enumerate(row if isinstance(row, list) else [row]):
                    if isinstance(cell, str):
                        columns.setdefault((name, hole), []).append(cell)
    yield from filter(is_text, (lines_of("".join(cells)) for cells in columns.values()))


_MISSING = object()


@dataclass(slots=True)
class LineReader:
    """Puts values back where they belong, exchange by exchange in the order of the file.

    Args:
        ids: The ids of the whole file, by name.
    """

    ids: Stored
    _shared_headers: dict[str, list[Any]] = field(default_factory=dict)
    _texts: ReplyTexts = field(default_factory=ReplyTexts)
    _lane: str = ""
    _own: Stored = field(default_factory=dict)
    _headers: Iterator[Any] = field(default_factory=lambda: iter(()))
    _used: set[int] = field(default_factory=set)
    _spent: int = 0

    def put_back(self, stored: Stored, line: Stored) -> None:
        """Put what a line of the file holds back into its exchange. Raises Malformed, OverBudget and their kin."""
        self._own, self._headers = line.get("values", {}), iter(line.get("headers", ()))
        self._lane = str(stored.get("lane"))
        for key, value in stored.items():
            if key in MESSAGES and isinstance(value, dict):
                self._message(value, line, MESSAGES[key])
            else:
                stored[key] = self._restore(value)
        self._texts.add_result(self._lane, stored.get("result"))
        if next(self._headers, _MISSING) is not _MISSING:
            raise Malformed("`headers` of its line has more values than its headers have names")
        if not _OF_LINE.issuperset(line):
            raise Malformed(f"unknown key {min(line.keys() - _OF_LINE)!r:.40} in its line")
        _put(stored, {key: line[key] for key in OF_EXCHANGE if key in line})

    def _message(self, message: Stored, line: Stored, side: str) -> None:
        for key, value in message.items():
            if key == "headers":
                message[key] = [self._header(header) for header in self._shared(value)]
            elif key == "body" and isinstance(value, dict) and isinstance(value.get("templates"), dict):
                message[key] = self._fill_columns(self._restore(value))
            else:
                message[key] = self._restore(value)
        if side == "response":
            self._texts.add(self._lane, message.get("body"))
        if side in line:
            size, sha256 = line[side]
            _put(message["body"], {"size": size, "sha256": sha256})
        if side == "response" and "cuts" in line:
            _put(message, {"cuts": line["cuts"]})

    def _shared(self, headers: Any) -> Any:
        """Return a list of headers, which may stand in the file under a name."""
        if isinstance(headers, dict):
            ((name, headers),) = headers.items()
            self._shared_headers[name] = headers
        elif isinstance(headers, str):
            if headers not in self._shared_headers:
                raise Malformed(f"no headers are called {headers!r:.20}")
            headers = self._shared_headers[headers]
        return headers

    def _header(self, header: Any) -> Any:
        if isinstance(header, str) and header.endswith(": ⟦⟧"):  # most are; a regular expression takes thrice as long
            return header[:-2] + self._replace_name("")
        return self._restore(header)

    def _fill_columns(self, body: Stored) -> Stored:
        """Return a stored body with the columns of its templates, which were set apart, in its rows again."""
        templates = {}
        fillers: dict[str, Any] = {}
        for name, template in body["templates"].items():
            columns: list[Any] = []
            templates[name] = _renumber(template, columns)
            fillers[name] = _fill_rows(columns)
            next(fillers[name])
        for key in [key for key in ROWS & body.keys() if isinstance(body[key], list)]:
            body[key] = [
                [row[0], *map(fillers[row[0]].send, row[1:])] if isinstance(row, list) else row for row in body[key]
            ]
        return {**body, "templates": templates}

    def _restore(self, value: Any) -> Any:
        """Return a stored value with all values back in it. In place: copies would take half of the time of a load."""
        if isinstance(value, str):
            return self._text(value) if "⟦" in value else value
        if isinstance(value, dict):
            if len(value) == 1 and REPLY in value:
                return self._spend(self._texts.get(self._lane, value[REPLY]))
            if len(value) == 1 and RESULT in value:
                return self._spend(self._texts.get_result(self._lane, value[RESULT]))
            items: Iterable[tuple[Any, Any]] = value.items()
        elif isinstance(value, list):
            items = enumerate(value)
        else:
            return value
        for place, item in items:
            kind = type(item)
            if kind is str:
                if "⟦" in item:
                    value[place] = self._text(item)
            elif kind is dict or kind is list:
                value[place] = self._restore(item)
        return value

    def _text(self, text: str) -> Any:
        match = _NAME.fullmatch(text)
        return self._value(match[2]) if match and match[2] else _NAME.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        return match[1] or self._replace_name(match[2])

    def _replace_name(self, name: str) -> str:
        value = self._value(name)
        if not isinstance(value, str):
            raise Malformed(f"⟦{name:.40}⟧ stands for no text, and stands in a longer one")
        return value

    def _value(self, name: str) -> Any:
        values = self.ids if ":" in name else self._own
        value = values.get(name, _MISSING) if name else next(self._headers, _MISSING)
        if value is _MISSING:
            raise Malformed(f"nothing is set apart under the name {name!r:.40}")
        if id(value) not in self._used:  # what stands once in the file is no more than the file
            self._used.add(id(value))
            return value
        return self._spend(value)

    def _spend(self, value: Any) -> Any:
        """Count what stands in the place of a name, and return it. Raises OverBudget."""
        self._spent += len(value) if isinstance(value, str) else len(json.dumps(value))
        if self._spent > LARGEST:
            raise OverBudget(f"what is set apart unfolds to more than {LARGEST >> 20} MB")
        return value


def _put(stored: Stored, members: Stored) -> None:
    """Add members to a stored object. Raises Malformed for one that is there already: which of the two would count?"""
    if both := stored.keys() & members.keys():
        raise Malformed(f"{min(both)!r} stands in the exchange and in its line")
    stored |= members


def _renumber(value: Any, columns: list[Any]) -> Any:
    """Return a template whose holes are numbered in their order, and add to `columns` where each gets its values from.

    That is its number in the rows of the file, or the list of all its values.
    """
    if isinstance(value, dict):
        if "$hole" in value:
            columns.append(value["$hole"])
            return {"$hole": len(columns) - 1}
        return {key: _renumber(item, columns) for key, item in value.items()}
    return [_renumber(item, columns) for item in value] if isinstance(value, list) else value


def _fill_rows(columns: list[Any]) -> Any:
    """Take the rows of a template one by one, and give each with the values of all columns."""
    filled = None
    for number in itertools.count():
        row = yield filled
        cells = row if isinstance(row, list) else [row]
        filled = join_row([column[number] if isinstance(column, list) else cells[column] for column in columns])
