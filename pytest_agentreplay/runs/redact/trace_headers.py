"""Credentials in the headers of a trace file, found in its parsed data.

A trace keeps the headers of a request in whatever shape its tool prefers: an object whose values are strings or lists,
a list of `{"name": ..., "value": ...}` (HAR), a list of pairs, Node's flat `rawHeaders`, OpenTelemetry attributes
(`http.request.header.x-api-key`), YAML with folded or block scalars, JSON in a string of JSON. A search by line misses
all values but the first, so the file is parsed, and each scalar keeps its position in the text: only the credentials
are replaced, and the rest of the file stays as it is, byte for byte.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.redaction.encodings import DEEPEST
from pytest_agentreplay.redaction.headers import CREDENTIALS, NEVER, SESSIONS, hidden_in_traces
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.codec.strict_yaml import events_until_invalid
from pytest_agentreplay.traces.opening import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Redact: TypeAlias = Callable[[str, str], str]
    """What is stored of the value of a header, by the header's name; the value itself where nothing is redacted."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_ATTRIBUTE = re.compile(r"(?:.*[._])?headers?\.(?P<name>[^.]+)", re.IGNORECASE)
"""`http.request.header.<name>` is OpenTelemetry's; others flatten `request.headers.<name>`."""
_CGI = re.compile(r"HTTP_(?P<name>[A-Z0-9_]+)")
"""PEP 3333: how a WSGI environment names the headers of a request."""
_KNOWN = CREDENTIALS | NEVER | SESSIONS
_PAIR = 2
_NO_STRINGS = frozenset(("", "~", "null", "true", "false"))


@dataclass(frozen=True, slots=True)
class Edit:
    """What replaces `text[start:end]`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A string or a number, where it is written, and how a replacement is written there."""

    text: str
    start: int
    end: int
    written: Callable[[str], str]


class Members(list["tuple[str, Node]"]):
    """The members of an object, in order; a key that is written twice stands here twice."""

    key: str | None = None
    """While the object is read: the key whose value comes next."""


Node: TypeAlias = "Scalar | Members | list[Node] | None"
State: TypeAlias = Literal["", "headers", "items", "flat"]
"""Where a node stands: anywhere; below a member for headers; in a list there; in a list of names and values in turn."""


def without_credentials(text: str, redact: Redact) -> str:
    """Return the trace file `text` with the credentials in its headers redacted; what cannot be parsed is unchanged."""
    return _apply_edits(text, edits(text, redact))


def edits(text: str, redact: Redact, depth: int = 0) -> list[Edit]:
    """Return the replacements for the credentials in the headers of a trace file, in order of position.

    Args:
        text: JSON, JSON Lines or YAML.
        redact: What is stored of the value of a header.
        depth: In how many strings of JSON the text is nested; beyond `DEEPEST` nothing is parsed.
    """
    done: dict[int, Edit] = {}
    is_json = depth or rows_of(text)[0] is not None
    for document in _json_documents(text) if is_json else _yaml_documents(text):
        for name, scalar in _credentials(document):
            if (value := redact(name, scalar.text)) != scalar.text:
                done[scalar.start] = Edit(scalar.start, scalar.end, scalar.written(value))
        for scalar in _scalars(document):
            if scalar.start in done or depth >= DEEPEST or scalar.text.lstrip()[:1] not in {"{", "["}:
                continue
            inner = _apply_edits(scalar.text, edits(scalar.text, redact, depth + 1))
            if inner != scalar.text:
                done[scalar.start] = Edit(scalar.start, scalar.end, scalar.written(inner))
    return [done[start] for start in sorted(done)]


def _apply_edits(text: str, changes: Sequence[Edit]) -> str:
    parts, at = [], 0
    for edit in changes:
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*parts, text[at:]))


def _credentials(document: Node) -> Iterator[tuple[str, Scalar]]:
    """(header name, value) of each header in `document` that carries a credential."""
    waiting: list[tuple[Node, State]] = [(document, "")]
    seen: set[tuple[int, State]] = set()
    while waiting:
        node, state = waiting.pop()
        if node is None or isinstance(node, Scalar) or (id(node), state) in seen:  # YAML's aliases share a node
            continue
        seen.add((id(node), state))
        if not isinstance(node, Members):
            waiting += [(item, "items" if state else "") for item in node]
            headers = _listed_headers(node, state)
        elif (header := _named_value(node)) is not None:
            headers = [header]
        else:
            waiting += [(value, _state_below(key)) for key, value in node]
            headers = [(name, value) for key, value in node if (name := _header_name(key, state))]
        yield from ((name, scalar) for name, value in headers if hidden_in_traces(name) for scalar in _scalars(value))


def _header_name(key: str, state: State) -> str:
    """Return the name of the header, in lower case, that a member of an object is; "" for a member that is none."""
    if flattened := _ATTRIBUTE.fullmatch(key) or _CGI.fullmatch(key):
        return flattened["name"].replace("_", "-").lower()
    return key.lower() if state or key.lower() in _KNOWN else ""


def _state_below(key: str) -> State:
    """Return whether a member of this name holds headers: `headers`, `requestHeaders`, `extra_headers`."""
    name = key.lower().rstrip("s")
    return "flat" if name == "rawheader" else "headers" if name.endswith("header") else ""


def _named_value(members: Members) -> tuple[str, Node] | None:
    """Return a header whose name and value are two members, in any order, as HAR and OpenTelemetry write it."""
    parts = {key.lower(): value for key, value in members}
    value = parts.get("value", parts.get("values"))
    if value is None:
        return None
    if isinstance(name := parts.get("name"), Scalar):
        return name.text.lower(), value
    if isinstance(name := parts.get("key"), Scalar) and (header := _header_name(name.text, "")):
        return header, value
    return None


def _listed_headers(items: list[Node], state: State) -> list[tuple[str, Node]]:
    """Return the headers in a list that is a pair of name and value, or names and values in turn."""
    if len(items) % 2 or (len(items) != _PAIR and state != "flat"):
        return []
    names = [item.text.lower() for item in items[::2] if isinstance(item, Scalar)]
    if len(names) != len(items) // 2 or not (state in {"flat", "items"} or {*names} & _KNOWN):
        return []
    return list(zip(names, items[1::2], strict=True))


def _scalars(node: Node) -> Iterator[Scalar]:
    """Every scalar below `node`, itself included; keys are none."""
    waiting, seen = [node], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scalar):
            yield node
        elif node is not None and id(node) not in seen:
            seen.add(id(node))
            waiting += [value for _, value in node] if isinstance(node, Members) else node


class _JsonTree:
    """A document as nodes, built while it is read."""

    def __init__(self) -> None:
        self.root: Node = None
        self._open: list[Members | list[Node]] = []

    @property
    def depth(self) -> int:
        """How many objects and lists are open."""
        return len(self._open)

    def add(self, node: Node) -> None:
        """Add a value, or the key of the next one."""
        parent = self._open[-1] if self._open else None
        if parent is None:
            self.root = node
        elif not isinstance(parent, Members):
            parent.append(node)
        elif parent.key is None:
            parent.key = node.text if isinstance(node, Scalar) else ""
        else:
            parent.append((parent.key, node))
            parent.key = None
        if isinstance(node, list):
            self._open.append(node)

    def close(self) -> None:
        """End the innermost object or list."""
        self._open.pop()


def _json_documents(text: str) -> Iterator[Node]:
    """Yield the objects and lists in a text: one document, one on each line, or one behind the other."""
    decoder, at = json.JSONDecoder(strict=False), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            if text[at] not in "{[":
                raise json.JSONDecodeError("", text, at)  # noqa: TRY301  handled as a line that is no JSON
            _, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            # What was read is not read again: many broken lines would cost their square.
            line_end = text.find("\n", at)
            at = max(text.rfind("\n", at, error.pos), line_end) + 1 if line_end >= 0 else len(text)
            continue
        except (ValueError, RecursionError):
            return
        yield _json_tree(text, at, end)
        at = end


def _json_tree(text: str, start: int, end: int) -> Node:
    """Return the JSON document `text[start:end]`, which is known to be valid, as nodes."""
    tree = _JsonTree()
    for token in _TOKEN.finditer(text, start, end):
        match token[0]:
            case "{":
                tree.add(Members())
            case "[":
                tree.add([])
            case "}" | "]":
                tree.close()
            case "," | ":":
                pass
            case "true" | "false" | "null":
                tree.add(None)
            case raw:
                written = functools.partial(json.dumps, ensure_ascii=raw.isascii())
                value = json.loads(raw, strict=False) if raw[0] == '"' else raw
                tree.add(Scalar(value, *token.span(), written))
    return tree.root


def _yaml_documents(text: str) -> Iterator[Node]:
    """Yield the documents of a YAML text, as nodes; none where it is no YAML, or larger than what is read of YAML."""
    tree = _JsonTree()
    anchors: dict[str | None, Node] = {}
    for count, event in enumerate(events_until_invalid(text)):
        # The reader refuses the file too.
        if count > 2 * strict_yaml.FOREIGN_MOST or tree.depth > strict_yaml.FOREIGN_DEEPEST:
            return
        match type(event).__name__:
            case "AliasEvent":
                tree.add(anchors.get(event.anchor))
            case "MappingEndEvent" | "SequenceEndEvent":
                tree.close()
            case "DocumentEndEvent":
                yield tree.root
                tree = _JsonTree()
            case "MappingStartEvent" | "SequenceStartEvent" | "ScalarEvent" as kind:
                node: Node = _yaml_scalar(text, event) if kind == "ScalarEvent" else Members() if kind[0] == "M" else []
                anchors[event.anchor] = node
                tree.add(node)


def _yaml_scalar(text: str, event: Any) -> Scalar | None:
    if not event.style and event.value in _NO_STRINGS:
        return None
    end = event.end_mark.index
    # A block scalar ends behind its last line break, where the next entry begins.
    breaks = "\n" if event.style in {"|", ">"} and text[end - 1 : end] == "\n" else ""
    return Scalar(str(event.value), event.start_mark.index, end, lambda value: json.dumps(value) + breaks)
