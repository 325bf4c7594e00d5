"""Credentials in the headers of a trace file, found in its parsed data.

A trace keeps the headers of a request in whatever shape its tool prefers: an object whose values are strings or lists,
a list of `{"name": ..., "value": ...}` (HAR), a list of pairs, Node's flat `rawHeaders`, OpenTelemetry attributes
(`http.request.header.x-api-key`), YAML with folded or block scalars, JSON in a string of JSON. A search by line misses
all values but the first, so the file is parsed. A document in which there is a credential is written anew, as JSON: its
spacing, and YAML as such, are lost. All other text stays as it is, byte for byte.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.model.json_paths import Place, show
from pytest_agentreplay.redaction.encodings import DEEPEST
from pytest_agentreplay.redaction.headers import CREDENTIALS, NEVER, SESSIONS, hidden_in_traces
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.traces import opening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_agentreplay.model.exchanges import Json

    Redact: TypeAlias = Callable[[str, str], str]
    """What is stored of the value of a header, by the header's name; the value itself where nothing is redacted."""

State: TypeAlias = Literal["", "headers", "items", "flat"]
"""Where a node stands: anywhere; below a member for headers; in a list there; in a list of names and values in turn."""

# `http.request.header.<name>` is OpenTelemetry's; others flatten `request.headers.<name>`.
ATTRIBUTE = re.compile(r"(?:.*[._])?headers?\.(?P<name>[^.]+)", re.IGNORECASE)
# PEP 3333: how a WSGI environment names the headers of a request.
CGI_VARIABLE = re.compile(r"HTTP_(?P<name>[A-Z0-9_]+)")
KNOWN_NAMES = CREDENTIALS | NEVER | SESSIONS


def without_credentials(text: str, redact: Redact) -> str:
    """Return the trace file `text` with the credentials in its headers redacted.

    What cannot be parsed, and a document without a credential, is unchanged. Raises TraceError for YAML whose aliases,
    written out, are larger than any file that is read.
    """
    return TraceHeaders(redact).redact_text(text)


def find_credentials(text: str, redact: Redact) -> list[str]:
    """Return where `without_credentials` would redact: line and column of the document, and the path in it."""
    search = TraceHeaders(redact)
    for start, _, tree in list_documents(text):
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        search.redact_node(tree, (f"{line}:{column}",))
    return [f"{document} {show(path)}" for document, *path in search.places]


class TraceHeaders:
    """One pass over the documents of a trace file; `places` is where something was redacted."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._string_depth = 0
        self.places: list[Place] = []

    def redact_text(self, text: str, place: Place = ()) -> str:
        """Return a text of JSON or YAML with the documents that hold a credential written anew."""
        parts, at = [], 0
        for start, end, tree in list_documents(text, is_json=self._string_depth > 0):
            before = len(self.places)
            redacted = self.redact_node(tree, place)
            if len(self.places) > before:
                parts += [text[at:start], write_json(redacted, is_long="\n" in text[start:end])]
                at = end
        return "".join((*parts, text[at:]))

    def redact_node(self, node: Json, place: Place, state: State = "", header: str = "") -> Json:
        """Return a part of a document with the credentials in it redacted.

        `place` is where it stands, `header` the name of the header whose value it is, or a part of the value.
        """
        # Who reads a trace refuses a file that is nested deeper.
        if len(place) > opening.DEEPEST:
            return node
        match node:
            case dict():
                names = find_headers_of_object(node, state)
                return make_object(
                    (key, self.redact_node(value, (*place, key), get_state_below(key), header or names.get(key, "")))
                    for key, value in node.items()
                )
            case list():
                indexed = find_headers_of_list(node, state)
                below: State = "items" if state else ""
                return [
                    self.redact_node(value, (*place, at), below, header or indexed.get(at, ""))
                    for at, value in enumerate(node)
                ]
            case bool() | None:
                return node
            case _ if header and (redacted := self._redact(header, str(node))) != str(node):
                self.places.append(place)
                return redacted
            case str() if node.lstrip()[:1] in {"{", "["} and self._string_depth < DEEPEST:
                self._string_depth += 1
                text = self.redact_text(node, place)
                self._string_depth -= 1
                return text
            case _:
                return node


def find_headers_of_object(members: Mapping[str, Json], state: State) -> dict[str, str]:
    """Return which members are values of headers that are hidden: by key the name of the header, in lower case."""
    headers = {key: get_header_name(key, state) for key in members}
    # HAR and OpenTelemetry write name and value as two members, in any order.
    keys = {key.lower(): key for key in members}
    value = keys.get("value", keys.get("values"))
    if value is not None:
        if isinstance(name := members.get(keys.get("name", "")), str):
            headers = {value: name.lower()}
        elif isinstance(name := members.get(keys.get("key", "")), str) and (header := get_header_name(name, "")):
            headers = {value: header}
    return {key: header for key, header in headers.items() if hidden_in_traces(header)}


def find_headers_of_list(items: list[Json], state: State) -> dict[int, str]:
    """Return which items are such values, in a pair of name and value or in names and values in turn."""
    names = [item.lower() for item in items[::2] if isinstance(item, str)]
    if len(items) != 2 * len(names) or (len(items) != 2 and state != "flat"):
        return {}
    if state not in {"flat", "items"} and not {*names} & KNOWN_NAMES:
        return {}
    return {2 * at + 1: name for at, name in enumerate(names) if hidden_in_traces(name)}


def get_header_name(key: str, state: State) -> str:
    """Return the name of the header, in lower case, that a member of an object is; "" for a member that is none."""
    if flattened := ATTRIBUTE.fullmatch(key) or CGI_VARIABLE.fullmatch(key):
        return flattened["name"].replace("_", "-").lower()
    return key.lower() if state or key.lower() in KNOWN_NAMES else ""


def get_state_below(key: str) -> State:
    """Return whether a member of this name holds headers: `headers`, `requestHeaders`, `extra_headers`."""
    name = key.lower().rstrip("s")
    return "flat" if name == "rawheader" else "headers" if name.endswith("header") else ""


class DoubledObject(dict[str, "Json"]):
    """An object that gives a name twice, as it was written: who reads a trace chooses among the values."""

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        """Return every name with its value; `json` writes what this returns."""
        return self._pairs


def make_object(pairs: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object of its members, none of which is lost."""
    listed = [*pairs]
    members = dict(listed)
    return members if len(members) == len(listed) else DoubledObject(listed)


def list_documents(text: str, *, is_json: bool = False) -> Iterator[tuple[int, int, Json]]:
    """Yield the documents of a text, as (start, end, tree): of JSON each object and list that is not in another."""
    if not is_json and opening.rows_of(text)[0] is None:
        try:
            yield 0, len(text), strict_yaml.load_foreign(text, file="", error=TraceError)
        except TraceError:
            pass
        return
    decoder, at = json.JSONDecoder(strict=False, object_pairs_hook=make_object), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            if text[at] not in "{[":
                raise json.JSONDecodeError("", text, at)  # noqa: TRY301  handled as a line that is no JSON
            tree, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            # What was read is not read again: many broken lines would cost their square.
            line_end = text.find("\n", at)
            at = max(text.rfind("\n", at, error.pos), line_end) + 1 if line_end >= 0 else len(text)
            continue
        except (ValueError, RecursionError):
            return
        yield at, end, tree
        at = end


def write_json(tree: Json, *, is_long: bool) -> str:
    """Return a document as JSON: in lines where it `is_long`. Raises TraceError for more than the largest file."""
    size, waiting = 0, [tree]
    while waiting:
        match waiting.pop():
            case dict() as members:
                waiting += [*members, *members.values()]
            case list() as items:
                waiting += items
            case str() as text:
                size += len(text)
    # An alias of YAML takes two characters and stands for as much as any: five of them, one in the other, are a bomb.
    if size > opening.LARGEST:
        what = f"its aliases, written out, take more than {opening.LARGEST:,} characters"
        raise TraceError(what, file="a trace in YAML")
    text = json.dumps(tree, ensure_ascii=False, indent=2 if is_long else None)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character, as JSON escapes it, or bytes of YAML that are no text
        return json.dumps(tree, indent=2 if is_long else None)
    return text
