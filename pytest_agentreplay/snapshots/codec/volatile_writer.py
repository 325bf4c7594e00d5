"""What each recording has anew stands apart from what was said, so that the diff of two recordings shows what changed.

Times, sizes, digests, chunks and whatever a model's server mints for each reply (ids, dates, fingerprints, usage) move
from an exchange to its line of `volatile`, at the end of the file. In their place stands a name, the same in each
recording:

    "headers": ["date: ⟦⟧"], "json": {"id": "⟦chatcmpl:1⟧", "created": "⟦created⟧", ...}

A name with a colon is an id: its value has the same name wherever it comes back in the file. Any other name is of its
exchange alone; the values of headers have none, and stand in their order. A text that is one name stands for its value,
be it a number or an object; inside of a longer text a name stands for a text. A `⟦` of the run itself is doubled. Lists
of headers that are the same stand once, under a name.

Reading is the exact inverse of writing, whatever the document: which values are set apart is only a matter of what
people read.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from pytest_agentreplay.snapshots.codec.volatile_reader import (
    LINES,
    MESSAGES,
    OF_EXCHANGE,
    OF_KIT,
    ROWS,
    RUN,
    LaneTexts,
    is_text,
)

Stored = dict[str, Any]

_OF_HEADER = ("recorded", "clock")
_WORD = re.compile(r"[A-Za-z0-9_-]{6,}")
_PREFIX = re.compile(r"([a-z]{2,12})[-_]")
"""The kind of an id, before what is drawn. With capitals it would be found in one of ten ids of base64."""
_LOOPBACK = re.compile(r"(?<=(?:127\.0\.0\.1|localhost):)\d+|(?<=\[::1\]:)\d+")

_STABLE_HEADERS = re.compile(
    "content-type|content-encoding|retry-after.*|location|link|server|via|alt-svc|cache-control|connection|keep-alive"
    "|strict-transport-security|www-authenticate|vary|.*version"
)
"""Headers of replies that may hold a digit and are the same in each recording, or mean something to the client."""
_CHANGING = re.compile(r"(?!\[\[).*\d")
"""The value of a header that may be another in each recording: dates, ids and counts have digits. Not a placeholder."""

# How fields of replies that a server fills anew are called, by OpenAI, Anthropic, Gemini, Bedrock, Cohere and Ollama.
_ID = re.compile(r"(?:^|_)id$|Id$")
_SIGNED = re.compile(r"[sS]ignature$|^encrypted_content$")
_TIME = re.compile(r"^created|_at$|At$|_time$|Time$|[dD]uration|[lL]atency|fingerprint$|^obfuscation$|eval_count$")
_COUNTS = re.compile(r"^(?:usage|usage_?[mM]etadata|metrics|billed_units|tokens|logprobs|avgLogprobs|.*[mM]etrics)$")
_COUNT = re.compile("[cC]ount$|tokens$|Tokens$")
_SHORTEST = 6
"""Characters of an id: a shorter one is as good a name as ours, and is found inside of words."""

_OF_AGENT = frozenset({"input", "arguments", "args", "parameters", "tools", "metadata", "content_filter_results"})
"""Fields of a reply that repeat the request or hold what the model wrote, whatever their members are called."""


def set_apart(doc: Stored) -> Stored:
    """Return `doc` with what each recording has anew at its end; its exchanges are changed in place."""
    names = _Ids()
    lines = [_Exchange(stored, names).set_apart() for stored in doc["exchanges"]]
    header = doc["header"]
    run: Stored = {}
    if "capture" not in header["kit"]:  # a captured run is recorded once, and lists read only its beginning
        run = {key: header.pop(key) for key in _OF_HEADER}
        kit = {key: header["kit"].pop(key) for key in OF_KIT if key in header["kit"]}
        run |= {"kit": kit} if kit else {}
    return {**doc, LINES: lines, **({RUN: run} if run else {})}


@dataclass(slots=True)
class _Ids:
    """The ids that replies minted so far, and the lists of headers, by their names in the file."""

    names: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    lanes: defaultdict[str, LaneTexts] = field(default_factory=lambda: defaultdict(LaneTexts))
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, key: str, value: str) -> str:
        """Return the name of a new id that the field `key` holds: for "call_9f0c" it is "call:1"."""
        match = None if _SIGNED.search(key) else _PREFIX.match(value)
        kind = match[1] if match else _clean(key)
        number = self._counts[kind] = self._counts.get(kind, 0) + 1
        self.names[value] = f"{kind}:{number}"
        return self.names[value]

    def share_headers(self, headers: list[Any]) -> Any:
        """Return a list of headers under a name where it stands first, and then its name alone."""
        if len(headers) < 2:
            return headers
        text = json.dumps(headers)
        if text in self.headers:
            return self.headers[text]
        name = self.headers[text] = f"h{len(self.headers) + 1}"
        return {name: headers}

    def name_ids(self, text: Any) -> Any:
        """Return a stored text with the names of ids in place of the ids."""
        if isinstance(text, dict):
            return {key: self.name_ids(lines) for key, lines in text.items()}
        if isinstance(text, list):
            return [self.name_ids(line) for line in text]
        if not isinstance(text, str):
            return text
        if "⟦" in text:
            text = text.replace("⟦", "⟦⟦")
        if text in self.names:
            return f"⟦{self.names[text]}⟧"
        if self.names and len(text) > 6 and not self.names.keys().isdisjoint(_WORD.findall(text)):
            return _WORD.sub(lambda word: f"⟦{self.names[word[0]]}⟧" if word[0] in self.names else word[0], text)
        return text


def _clean(key: str) -> str:
    """Return a key as a name, in which no colon stands."""
    return re.sub(r"[^\w.-]", "_", key)[:40] or "value"


@dataclass(slots=True)
class _Exchange:
    """One exchange on its way into a file; `values` is what is set apart from its texts, by name."""

    stored: Stored
    ids: _Ids
    values: Stored = field(default_factory=dict)
    headers: list[str] = field(default_factory=list)

    def set_apart(self) -> Stored:
        """Take from the exchange what each recording has anew, and return its line."""
        line = {key: self.stored.pop(key) for key in OF_EXCHANGE if key in self.stored}
        is_model = _is_model_call(self.stored)
        result = self.stored.get("result")
        for key, value in self.stored.items():
            if key in MESSAGES:
                line |= self._message(value, MESSAGES[key], is_model=is_model)
            else:
                self.stored[key] = self._rename(value)
        if result is not None:
            self._get_lane().results.append(result.get("value"))
        line |= {"headers": self.headers} if self.headers else {}
        return line | ({"values": self.values} if self.values else {})

    def _message(self, message: Stored, side: str, *, is_model: bool) -> Stored:
        """Take the same from a request or a reply, and return what its line has of it."""
        line: Stored = {}
        for key, value in message.items():
            if key == "body":
                line[side] = [value.pop("size"), value.pop("sha256")]
                message[key] = self._reply_body(value) if is_model and side == "response" else self._rename(value)
                if side == "response":
                    self._get_lane().replies.append(message[key])
            elif key == "headers":
                message[key] = self.ids.share_headers([self._header(header, side) for header in value])
            elif key == "url":
                message[key] = self._port(self._rename(value))
            elif key != "cuts":
                message[key] = self._rename(value)
        return line | ({"cuts": message.pop("cuts")} if "cuts" in message else {})

    def _header(self, header: Any, side: str) -> Any:
        if not isinstance(header, str):
            return self._rename(header)
        name, colon, value = header.partition(": ")
        kind = name.lower()
        if side == "response" and _CHANGING.match(value) and not _STABLE_HEADERS.fullmatch(kind):
            if "session" in kind:  # a client sends it back with each request
                return name + colon + self._id(kind, value)
            self.headers.append(value)
            return name + colon + "⟦⟧"
        return self._port(self._rename(header)) if kind == "host" else self._rename(header)

    def _port(self, text: Any) -> Any:
        """Return an address whose port of the loopback interface, which the system picks, is set apart."""
        return _LOOPBACK.sub(lambda port: self._apart("port", port[0]), text) if isinstance(text, str) else text

    def _reply_body(self, body: Stored) -> Stored:
        """Return the body of a model's reply without what the server minted for it."""
        body = dict(body)
        rows: dict[str, list[Any]] = {}
        for key in ROWS & body.keys():
            for row in body[key]:
                if isinstance(row, list):
                    rows.setdefault(row[0], []).extend(row[1:])
        cells = {}
        for name, template in body.get("templates", {}).items():
            columns = _Columns([row if isinstance(row, list) else [row] for row in rows.get(name, ())])
            body["templates"] = body["templates"] | {name: self._mint(template, "", columns)}
            cells[name] = iter([_join_row([self._rename(row[hole]) for hole in columns.kept]) for row in columns.rows])
        for key in ROWS & body.keys():
            body[key] = [
                [row[0], *(next(cells[row[0]]) for _ in row[1:])] if isinstance(row, list) else self._mint(row, "")
                for row in body[key]
            ]
        if "json" in body:
            body["json"] = self._mint(body["json"], "")
        return body | {key: self._rename(body[key]) for key in ("text", "rest") if key in body}

    def _mint(self, value: Any, key: str, columns: _Columns | None = None) -> Any:
        """Return what the field `key` of a reply holds, without what the server minted for it."""
        if value and isinstance(value, dict | list) and _COUNTS.search(key) and "$hole" not in json.dumps(value):
            return self._apart(key, value)
        if isinstance(value, dict):
            if columns is not None and "$hole" in value:
                return self._mint_column(value["$hole"], key, columns)
            if key in _OF_AGENT:
                return self._rename(value, columns)
            if next(iter(value), "")[:1] == "$" and next(iter(value))[:2] != "$$":
                return self._apart(key, value) if _TIME.search(key) or _SIGNED.search(key) else self._rename(value)
            return {name: self._mint(item, name, columns) for name, item in value.items()}
        if isinstance(value, list):
            return [self._mint(item, key, columns) for item in value]
        if isinstance(value, str) and _is_id(key, value):
            return self._id(key, value)
        may_be_time = type(value) in {int, float} or (isinstance(value, str) and value)
        return self._apart(key, value) if may_be_time and _TIME.search(key) else self._rename(value)

    def _mint_column(self, hole: int, key: str, columns: _Columns) -> Stored:
        """Return a hole of a template as it stands in the file: its column is kept in the rows, or set apart."""
        cells = [row[hole] for row in columns.rows]
        for cell in cells:
            if isinstance(cell, str) and _is_id(key, cell):
                self._id(key, cell)
        is_count = all(type(cell) is int for cell in cells) and _COUNT.search(key)
        return {"$hole": self._apart(key, cells)} if _TIME.search(key) or is_count else columns.keep(hole)

    def _rename(self, value: Any, columns: _Columns | None = None) -> Any:
        """Return a stored value with the names of ids in place of the ids, and references to texts of replies.

        The holes of a template stay, and so do their columns.
        """
        if isinstance(value, str) or is_text(value):
            text = self.ids.name_ids(value)
            return self._get_lane().find(value, text) or text
        if isinstance(value, dict):
            if columns is not None and "$hole" in value:
                return columns.keep(value["$hole"])
            return {key: self._rename(item, columns) for key, item in value.items()}
        return [self._rename(item, columns) for item in value] if isinstance(value, list) else value

    def _get_lane(self) -> LaneTexts:
        return self.ids.lanes[str(self.stored.get("lane"))]

    def _id(self, key: str, value: str) -> str:
        """Return the name of an id, which is set apart where it stands first."""
        if value not in self.ids.names:
            self.values[self.ids.add(key, value)] = value
        return f"⟦{self.ids.names[value]}⟧"

    def _apart(self, key: str, value: Any) -> str:
        """Set a value apart under a name of this exchange, and return what stands in its place."""
        name, count = _clean(key), 1
        while name in self.values and repr(self.values[name]) != repr(value):
            count += 1
            name = f"{_clean(key)}_{count}"
        self.values[name] = value
        return f"⟦{name}⟧"


def _join_row(cells: list[Any]) -> Any:
    """Return the values of one event as a row holds them: a single one without a list."""
    return cells[0] if len(cells) == 1 else cells


@dataclass(slots=True)
class _Columns:
    """The rows of one template: a list of values for each event. `kept` are the holes whose values stay there."""

    rows: list[list[Any]]
    kept: list[int] = field(default_factory=list)

    def keep(self, hole: int) -> Stored:
        """Return a hole whose values stay in the rows, with its number there."""
        self.kept.append(hole)
        return {"$hole": len(self.kept) - 1}


def _is_id(key: str, value: str) -> bool:
    """Return whether the field `key` of a reply holds an id that the server drew."""
    looks_drawn = len(value) >= 16 or any(map(str.isdigit, value))
    return len(value) >= _SHORTEST and bool(_SIGNED.search(key) or (looks_drawn and _ID.search(key)))


def _is_model_call(stored: Stored) -> bool:
    """Return whether a model answers a stored exchange, as far as its address and the names of its fields say."""
    if "frame" in stored:
        return re.search("model|realtime|BidiGenerate", str(stored["frame"].get("url"))) is not None
    request = stored.get("request", {})
    content = request.get("body", {}).get("json")
    named = isinstance(content, dict) and "model" in content
    return named or re.search(r"/(?:models?|deployments)/", str(request.get("url"))) is not None
