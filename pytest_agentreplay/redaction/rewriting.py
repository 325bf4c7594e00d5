"""Rewriters: they put one set of findings into calls, outcomes and trees, whichever shape the text has there.

A search says which bytes of a text are replaced; a `Rewriter` knows where texts are: bodies under a content coding,
chunk cuts, header values, leaves and keys of JSON trees, archives. What does not change is returned as the same object,
so that a caller sees by `is` whether something did.
"""

from __future__ import annotations

import base64
import json
import operator
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pytest_agentreplay.model import content_coding
from pytest_agentreplay.model.content_coding import UNMARKED
from pytest_agentreplay.model.exchanges import Body, Failure, FramesReply, ToolCall, ToolReply
from pytest_agentreplay.redaction.encodings import as_bytes, as_text
from pytest_agentreplay.redaction.headers import DIGESTS
from pytest_agentreplay.redaction.spans import divide_span, merge_disjoint, recut, splice

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.model.exchanges import (
        Call,
        Headers,
        Json,
        Outcome,
        WireCall,
    )
    from pytest_agentreplay.redaction.channels import Pieces, Records
    from pytest_agentreplay.redaction.spans import Part, Span

    T = TypeVar("T", bound=Call | Outcome)
    FindInPieces: TypeAlias = Callable[[bytes, Pieces], list[Span]]
    Rewritten: TypeAlias = tuple[bytes, tuple[int, ...], bool]
    """The bytes of a body, the sizes of its chunks, and whether its content coding still holds."""

BYTES = frozenset(("$bytes", "$bytearray"))
TEXTS = frozenset(("$str", "$path", "$posixpath", "$windowspath"))
"""Tags of leaves that are read from any text."""

EVENT_FRAMES = "application/vnd.amazon.eventstream"

# Eight digits, as the shortest text that may be known; ids and counts have fewer.
SHORTEST_NUMBER = 10_000_000

# Searching a word of two letters costs as much as searching a header.
STANDARD_REASONS = frozenset({"", "OK", "Created", "Accepted", "Bad Request", "Not Found", "Too Many Requests"})
"""Reason phrases that are no text of a server's own, and need not be searched."""


@dataclass(frozen=True)
class Rewriter:
    """Puts what a search finds into whatever holds text.

    Attributes:
        find: Returns the spans to replace in a text that stands in such pieces: `(data, pieces)`.
        count: Counts the spans that were put in.
        opaque: Returns what stands for a body that cannot be read; None: such a body is left as it is.
        change_tree: Replaces what a tree itself tells, by its names and paths, before its texts are searched.
        joined: Finds what only the joined text of several strings shows: `(data, records)`; no records in one value.
        part: See `spans.divide_span`; None: what a chunk's end cuts goes whole to the first chunk.
    """

    find: FindInPieces
    count: Callable[[list[Span]], None] = lambda _: None
    opaque: Callable[[bytes], bytes] | None = None
    change_tree: Callable[[Json], Json] = lambda tree: tree
    joined: Callable[[bytes, Records | None], list[Span]] | None = None
    part: Part | None = None

    def call(self, call: Call) -> Call:
        """Return a call with its arguments, or its URL, header values and body rewritten."""
        if not isinstance(call, ToolCall):
            return self.call_body(change_fields(call, url=self.text(call.url), headers=self.headers(call.headers)))
        arguments = self.tree(self._rewrite_joined((call.arguments,))[0])
        facts = call.facts and self.tree(call.facts)
        # A tool's name is code; that of a model may be the path of its file.
        name = self.text(call.name) if call.boundary == "model" else call.name
        return change_fields(call, arguments=arguments, facts=facts, name=name)

    def call_body(self, call: WireCall) -> WireCall:
        """Return a request with its body alone rewritten."""
        # The text of a request is kept in place of its body under several codings: nobody sends it again.
        undo = self.opaque is not None
        body, _, headers = self.body(call.body, (len(call.body),), call.headers, "whole", undo=undo)
        return change_fields(call, headers=headers, body=body)

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return an outcome with its texts rewritten; chunk cuts and Content-Length follow the body."""
        if isinstance(outcome, Failure):
            return self.failure(outcome)
        failure = outcome.failure and self.failure(outcome.failure)
        if isinstance(outcome, ToolReply):
            [value] = self._rewrite_joined((outcome.value,))
            items = outcome.items and self._trees(self._rewrite_joined(outcome.items, is_stream=True))
            value, sent = self.tree(value), self._trees(outcome.sent)
            return change_fields(outcome, value=value, items=items, failure=failure, sent=sent)
        headers = self.headers(outcome.headers)
        if isinstance(outcome, FramesReply):
            body, sizes, _ = self.body(outcome.body, outcome.sizes, (), list_frames(outcome))
            cuts = None if outcome.cuts is None else sizes
            closed = outcome.closed and replace(outcome.closed, reason=self.text(outcome.closed.reason))
            return change_fields(outcome, headers=headers, body=body, cuts=cuts, closed=closed, failure=failure)
        body, sizes, headers = self.body(outcome.body, outcome.cuts, headers)
        reason = outcome.reason if outcome.reason in STANDARD_REASONS else self.text(outcome.reason)
        return change_fields(outcome, headers=headers, body=body, cuts=sizes, failure=failure, reason=reason)

    def failure(self, failure: Failure) -> Failure:
        """Return an exception with its message and arguments rewritten."""
        return change_fields(failure, message=self.text(failure.message), args=self._trees(failure.args))

    def text(self, text: str) -> str:
        """Return one text rewritten."""
        data = as_bytes(text)
        spans = self.find(data, "none")
        return as_text(self._put_in(data, spans)) if spans else text

    def tree(self, tree: Json) -> Json:
        """Return a JSON tree with its strings and keys rewritten. All its texts are looked at in one go first."""
        # Bytes first: as base64 in a tree they would be searched as text.
        tree = self.change_tree(self._rewrite_bytes(tree))
        texts = list_texts(tree)
        if not texts or not self.find(as_bytes("\n".join(texts)), "none"):
            return tree
        return map_texts(tree, self.text)

    def _trees(self, trees: tuple[Json, ...] | None) -> Any:
        return trees and tuple(map(self.tree, trees))

    def headers(self, headers: Headers) -> Headers:
        """Return headers with their values rewritten."""
        if not headers:
            return headers
        _, values = zip(*headers, strict=True)
        if not self.find(as_bytes("\n".join(values)), "none"):
            return headers
        return tuple((name, self.text(value)) for name, value in headers)

    def body(
        self, body: Body, cuts: tuple[int, ...], headers: Headers, pieces: Pieces = "any", *, undo: bool = False
    ) -> tuple[Body, tuple[int, ...], Headers]:
        """Return a body with its cuts and headers, rewritten under its content coding.

        Args:
            body: The body.
            cuts: The sizes of its chunks.
            headers: The headers of the call or reply that it is of.
            pieces: In which pieces its text may stand.
            undo: Whether the text is returned in place of a body under several codings.
        """
        if not (data := body.data):
            return body, cuts, headers
        coding = kind = ""
        for name, value in headers:
            match name.lower():
                case "content-encoding":
                    coding = value
                case "content-type":
                    kind = value.partition(";")[0].strip().lower()
        if content_coding.is_coded(coding):
            changed = self._rewrite_coded(data, cuts, coding, pieces, content_coding.layers(coding) if undo else [])
        else:
            spans = self._find_in_frames(data) if kind == EVENT_FRAMES else self._find_in_body(data, pieces, cuts)
            changed = (splice(data, spans), recut(cuts, spans), True) if spans else None
        if changed is None:
            return body, cuts, headers
        text, cuts, keeps_coding = changed
        return Body(text), cuts, refit_headers(headers, len(text) - len(data), keeps_coding=keeps_coding)

    def _find_in_body(self, data: bytes, pieces: Pieces, cuts: tuple[int, ...] = ()) -> list[Span]:
        """Return what is replaced in a body, and in the archives that it is or carries; it is counted."""
        spans = self.find(data, pieces)
        if self.part is not None and len(cuts) > 1 and spans:
            ends = list(accumulate(cuts))
            spans = [part for span in spans for part in divide_span(span, ends, self.part)]
        # JSON is no archive: a tar file alone may begin with a brace, and has bytes of zero behind its first name.
        if self.opaque is not None and not (data[:1] in (b"{", b"[") and isinstance(pieces, str) and b"\0" not in data):
            from pytest_agentreplay.redaction.packed import find_archives, find_in_archives

            archives = find_archives(data, () if isinstance(pieces, str) else pieces)
            changed = find_in_archives(data, archives, lambda text: self.find(text, "any"), self.opaque)
            spans = merge_disjoint(changed, spans)
        if spans:
            self.count(spans)
        return spans

    def _find_in_frames(self, data: bytes) -> list[Span]:
        """Return the event frames that change, with what stands instead; what is found in their lines is counted.

        What follows the last whole frame is looked at as it stands.
        """
        from pytest_agentreplay.model.event_frames import read_frames
        from pytest_agentreplay.redaction.channels import lines

        frames = read_frames(data)
        end_of_frames = frames[-1].end if frames else 0
        before = b"\n".join(frame.line.replace(b"\n", b" ") for frame in frames)
        inside = self.find(before, list(lines(before)))
        behind = self.find(data[end_of_frames:], "none")
        self.count([*inside, *behind])
        # Where nothing is found, a line that held a line end is not changed for that.
        after = splice(before, inside).split(b"\n") if inside else []
        return [
            *(
                (frame.start, frame.end, frame.with_line(new))
                for frame, old, new in zip(frames, before.split(b"\n"), after, strict=False)
                if new != old
            ),
            *((start + end_of_frames, end + end_of_frames, text) for start, end, text in behind),
        ]

    def _rewrite_coded(
        self, data: bytes, cuts: tuple[int, ...], coding: str, pieces: Pieces, layers: list[str]
    ) -> Rewritten | None:
        """Return the rewritten coded body, of several `layers` the text under them; None when nothing changes."""
        try:
            if layers:
                text, complete = content_coding.text_of_layers(layers, data), True
                decoded_cuts: tuple[int, ...] = (len(text),)
            else:
                text, decoded_cuts, complete = content_coding.decode(coding, data, cuts)
        except content_coding.Opaque:
            if self.opaque is None:
                return None
            text = self.opaque(data)
            return text, (len(text), *(0 for _ in cuts[1:])), False
        spans = self._find_in_body(text, pieces, decoded_cuts)
        rewritten, sizes = splice(text, spans), recut(decoded_cuts, spans)
        if layers:
            return rewritten, sizes, False
        # What broke off, and may have been no coded body at all, is kept as far as it was read.
        if not spans and (complete or coding.strip().lower() not in UNMARKED):
            return None
        changed, sizes = content_coding.encode(coding, rewritten, sizes, complete=complete)
        return None if changed == data else (changed, sizes, True)

    def _rewrite_joined(self, trees: tuple[Json, ...], *, is_stream: bool = False) -> tuple[Json, ...]:
        """Return values without what only several of their strings together show: of each, or of a stream of them."""
        if self.joined is None or (len(trees) < 2 if is_stream else not isinstance(trees[0], dict | list)):
            return trees
        from pytest_agentreplay.redaction.channels import lines

        trees = tuple(map(self._rewrite_bytes, trees))
        data = b"\n".join(as_bytes(json.dumps(tree, ensure_ascii=False)) for tree in trees)
        spans = self.joined(data, list(lines(data)) if is_stream else None)
        return tuple(json.loads(as_text(line)) for line in self._put_in(data, spans).split(b"\n")) if spans else trees

    def _rewrite_bytes(self, tree: Json) -> Json:
        """Return a tree with its frozen bytes rewritten as bytes; the same where nothing is found in them."""

        def rewrite(_: str | None, value: Json) -> Json:
            match value:
                case {"$bytes": [str(text)]} | {"$bytearray": [str(text)]} if tag_of(value):
                    from pytest_agentreplay.values.tags import write_bytes

                    data = base64.b64decode(text)
                    spans = self._find_in_body(data, "any")
                    return {tag_of(value): write_bytes(splice(data, spans))} if spans else value
                case _:
                    return value

        return map_tree(tree, rewrite)

    def _put_in(self, data: bytes, spans: list[Span]) -> bytes:
        self.count(spans)
        return splice(data, spans)


def change_fields(before: T, /, **fields: Any) -> T:
    """Return a call, an outcome or a failure with these fields; the same object where each is as it was."""
    for name, new in fields.items():
        old = getattr(before, name)
        # Bodies are equal by their digests: one that is the same object needs none.
        if old is not new and old != new:
            return replace(before, **fields)
    return before


def map_tree(tree: Json, change: Callable[[str | None, Json], Json], name: str | None = None) -> Json:
    """Return a tree with each value changed, innermost first; the same object where none is.

    Args:
        tree: The tree.
        change: Returns the new value of one: `(name, value)`, the name that of its member, None for an item.
        name: The name of the tree itself.
    """
    if isinstance(tree, dict):
        members = {key: map_tree(value, change, key) for key, value in tree.items()}
        if any(members[key] is not value for key, value in tree.items()):
            tree = members
    elif isinstance(tree, list | tuple):
        items = [map_tree(value, change) for value in tree]
        if any(map(operator.is_not, items, tree)):
            tree = type(tree)(items)
    return change(name, tree)


def map_texts(tree: Json, change: Callable[[str], str]) -> Json:
    """Return a tree with every text of it changed: strings, keys, and numbers long enough to be a secret."""
    if (tag := tag_of(tree)) in BYTES:
        return tree  # base64 is no text
    match tree:
        case str():
            return change(tree)
        case dict() if tag and tag not in TEXTS:
            # What no longer is the text of a number, a date or an id is thawed as the text that it is.
            return next((new for text in list_texts(tree[tag]) if (new := change(text)) != text), tree)
        case dict():
            return {change(key): map_texts(value, change) for key, value in tree.items()}
        case list():
            return [map_texts(value, change) for value in tree]
        case int() if is_long(tree) and (text := change(str(tree))) != str(tree):
            return text
        case _:
            return tree


def list_texts(tree: Json) -> list[str]:
    """Return every text of a tree that `map_texts` would change."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    map_texts(tree, note)
    return texts


def is_long(number: int) -> bool:
    """Return whether a number is long enough to be a secret; a Boolean is none."""
    return not isinstance(number, bool) and abs(number) >= SHORTEST_NUMBER


def tag_of(tree: Json) -> str:
    """Return the tag of a frozen leaf (`values.tags`), "" for what is none; bytes that are text count as that text."""
    if not isinstance(tree, dict) or len(tree) != 1:
        return ""
    [(name, value)] = tree.items()
    if not name.startswith("$"):
        return ""
    from pytest_agentreplay.values.tags import is_leaf_tag

    return name if is_leaf_tag(name) and not (name in BYTES and isinstance(value, str)) else ""


def may_hold_marks(outcome: Outcome) -> bool:
    """Return whether the mark of a place may stand in an outcome: in its text, or under a coding of its body."""
    if isinstance(outcome, ToolReply):
        text = repr((outcome.value, outcome.items, outcome.sent, outcome.failure))
        return "{{" in text or "$byte" in text
    if isinstance(outcome, Failure | FramesReply) or b"{{" in outcome.body.data:
        return True
    # No `repr` of the headers, which takes three times as long: this is asked of each answer of a replay.
    texts = [outcome.reason, repr(outcome.failure), *chain.from_iterable(outcome.headers)]
    text = "\n".join(texts).lower()
    return "{{" in text or "content-encoding" in text or EVENT_FRAMES in text


def list_frames(reply: FramesReply) -> list[tuple[int, int]]:
    """Return where each frame of a connection begins and ends, without its line end."""
    ends = list(accumulate(reply.sizes))
    return [(end - size, end - 1) for end, size in zip(ends, reply.sizes, strict=True)]


def refit_headers(headers: Headers, grown: int, *, keeps_coding: bool) -> Headers:
    """Return the headers of a body that grew by so many bytes: length corrected, digests of the old text left out."""
    kept = []
    for name, value in headers:
        lower = name.lower()
        if lower == "content-length" and value.strip().isdigit():
            kept.append((name, str(max(0, int(value) + grown))))
        # A client that checks a digest of the old text would refuse the new one.
        elif lower not in DIGESTS and (lower != "content-encoding" or keeps_coding):
            kept.append((name, value))
    return tuple(kept)
