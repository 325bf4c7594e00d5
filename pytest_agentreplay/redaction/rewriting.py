"""Apply one set of findings to calls, outcomes and trees, whichever shape the text has there.

A `Finder` returns which bytes of a text are replaced; this module knows where texts are: bodies under a content coding,
chunk cuts, header values, leaves and keys of JSON trees. What does not change is returned as the same object.
It is long because each shape is taken apart and put together again by one pair of functions that belong together.

Event frames, the binary streams of Amazon (application/vnd.amazon.eventstream), are read as lines of JSON. A frame is:
its length, the length of its headers, a checksum of these two, headers, payload, a checksum of all before
(https://smithy.io/2.0/aws/amazon-eventstream.html). A payload that only wraps base64, `{"bytes": "..."}`, is opened.

What is found in the joined text of a channel becomes spans of the body that carries the pieces. The replacement goes
into the first piece that held a part; the other parts become empty. Records, their order and their ids stay.
"""

from __future__ import annotations

import base64
import binascii
import json
import operator
import struct
import zlib
from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, cast

from pytest_agentreplay.model import content_coding
from pytest_agentreplay.model.content_coding import UNMARKED
from pytest_agentreplay.model.exchanges import Body, Failure, FramesReply, ToolCall, ToolReply
from pytest_agentreplay.redaction import packed
from pytest_agentreplay.redaction.channels import channels, inner_stream
from pytest_agentreplay.redaction.channels import lines as lines_in
from pytest_agentreplay.redaction.encodings import as_bytes, as_text
from pytest_agentreplay.redaction.headers import DIGESTS
from pytest_agentreplay.redaction.placeholders import divide_spans, merge_disjoint, recut, splice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Call, Headers, Json, JsonObject, Outcome, WireCall
    from pytest_agentreplay.redaction.channels import Channel, ChannelPiece, Finder, Pieces, Records
    from pytest_agentreplay.redaction.known import Secret
    from pytest_agentreplay.redaction.placeholders import Part, Span

    SpanFinder = Callable[[bytes], list[Span]]

KIND = "application/vnd.amazon.eventstream"
_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")


class EventFrame(NamedTuple):
    """One frame: where it stands, its headers, its payload, and the line that the payload says."""

    start: int
    end: int
    headers: bytes
    payload: bytes
    line: bytes
    wrapped: bool

    def saying(self, line: bytes) -> bytes:
        """Return the frame with another line in it."""
        payload = json.dumps({**json.loads(self.payload), "bytes": base64.b64encode(line).decode()}).encode()
        return make_frame(self.headers, payload if self.wrapped else line)


def frames(data: bytes) -> list[EventFrame]:
    """Return the frames that a body begins with, up to one that was cut off or does not fit its checksums."""
    frames_read = []
    at = 0
    while at < len(data):
        if len(data) - at < _PRELUDE.size + _CHECKSUM.size:
            break
        size, headers, checksum = _PRELUDE.unpack_from(data, at)
        end = at + size
        body = at + _PRELUDE.size + headers
        if end > len(data) or body > end - _CHECKSUM.size or zlib.crc32(data[at : at + 8]) != checksum:
            break
        if _CHECKSUM.unpack_from(data, end - _CHECKSUM.size)[0] != zlib.crc32(data[at : end - _CHECKSUM.size]):
            break
        payload = data[body : end - _CHECKSUM.size]
        line = unwrap_payload(payload)
        frames_read.append(
            EventFrame(at, end, data[at + _PRELUDE.size : body], payload, line or payload, line is not None)
        )
        at = end
    return frames_read


def unwrap_payload(payload: bytes) -> bytes | None:
    """Return what a payload wraps in base64, or None."""
    if b'"bytes"' not in payload:
        return None
    try:
        return base64.b64decode(json.loads(payload)["bytes"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None


def make_frame(headers: bytes, payload: bytes) -> bytes:
    """Return a frame of these headers and this payload."""
    sizes = struct.pack(">II", _PRELUDE.size + len(headers) + len(payload) + _CHECKSUM.size, len(headers))
    frame = sizes + _CHECKSUM.pack(zlib.crc32(sizes)) + headers + payload
    return frame + _CHECKSUM.pack(zlib.crc32(frame))


def find_framed(data: bytes, find: Finder) -> tuple[list[Span], list[Span]]:
    """Return the frames that change, with what stands instead, and what `find` has found in the lines of all of them.

    What follows the last whole frame is looked at as it stands.
    """
    frames_read = frames(data)
    rest = frames_read[-1].end if frames_read else 0
    before = b"\n".join(frame.line.replace(b"\n", b" ") for frame in frames_read)
    spans = find(before, list(lines_in(before)))
    lines = zip(frames_read, before.split(b"\n"), splice(before, spans).split(b"\n"), strict=True) if spans else ()
    changed = [(frame.start, frame.end, frame.saying(new)) for frame, old, new in lines if new != old]
    after = find(data[rest:], "none")
    return [*changed, *((start + rest, end + rest, text) for start, end, text in after)], [*spans, *after]


BYTES = frozenset(("$bytes", "$bytearray"))
TEXTS = frozenset(("$str", "$path", "$posixpath", "$windowspath"))
"""Tags of leaves that are read from any text."""

SHORTEST_NUMBER = 10_000_000

STANDARD_REASONS = frozenset({"", "OK", "Created", "Accepted", "Bad Request", "Not Found", "Too Many Requests"})
"""Reason phrases that are no text of a server's own, and need not be searched."""


class Rewriting(NamedTuple):
    """`find(data, pieces)` returns the spans to replace, `applied(spans)` counts those that were.

    `opaque(data)` returns what stands for a body that cannot be read.

    Without `opaque` such a body is left as it is. A header value without `sign` holds nothing to find.
    """

    find: Finder
    applied: Callable[[list[Span]], None]
    opaque: Callable[[bytes], bytes] | None = None
    sign: str = ""
    replace_member: Callable[[str, Json], Json] | None = None
    """Return what replaces the value of a member because of its name: `(name, value)`; the same value for nothing."""
    joined: Callable[[bytes, Records | None], list[Span]] | None = None
    """Return what only the joined text of several strings shows: `(data, records)`, in records or in one value."""
    part: Part | None = None
    """Return what replaces a part of what `text` replaces: `(text, start, end)`; None where that has no parts."""
    undo: bool = False
    """Whether the text of a request is kept in place of its body under several codings or in chunks."""
    placed: Callable[[Json], Json] | None = None
    """Return a tree without the values that a policy names by their paths."""

    def call(self, call: Call) -> Call:
        """Return a call with its arguments, or its URL, header values and body rewritten."""
        if isinstance(call, ToolCall):
            arguments = cast("JsonObject", self.tree(self._rewrite_scattered(call.arguments)))
            facts = cast("JsonObject", self.tree(call.facts)) if call.facts else call.facts
            if arguments is not call.arguments or facts is not call.facts:
                call = replace(call, arguments=arguments, facts=facts)
            # A tool's name is code; that of a model may be the path of its file.
            name = self.text(call.name) if call.boundary == "model" else call.name
            return call if name == call.name else replace(call, name=name)
        url, kept = self.text(call.url), self.values(call.headers)
        if url is not call.url or kept is not call.headers:
            call = replace(call, url=url, headers=kept)
        return self.call_body(call)

    def call_body(self, call: WireCall) -> WireCall:
        """Return a request with its body alone rewritten."""
        body, _, kept = self.body(call.body, (len(call.body),), call.headers, "whole", request=True)
        return call if body is call.body else replace(call, headers=kept, body=body)

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return an outcome with its texts rewritten; chunk cuts and Content-Length follow the body."""
        if isinstance(outcome, Failure):
            return self.failure(outcome)
        failure = outcome.failure and self.failure(outcome.failure)
        if isinstance(outcome, ToolReply):
            value = self._rewrite_scattered(outcome.value)
            items = outcome.items and self._rewrite_items(outcome.items)
            items = items and cast("tuple[Json, ...]", tuple(self._same_or_new(items)))
            value = self.tree(value)
            sent = outcome.sent and cast("tuple[Json, ...]", tuple(self._same_or_new(outcome.sent)))
            same = items == outcome.items and sent == outcome.sent
            if value is outcome.value and same and failure is outcome.failure:
                return outcome
            return replace(outcome, value=value, items=items, failure=failure, sent=sent)
        kept = self.values(outcome.headers)
        if isinstance(outcome, FramesReply):
            body, sizes, _ = self.body(outcome.body, outcome.sizes, (), frames_in(outcome))
            cuts = None if outcome.cuts is None else sizes
            closed = outcome.closed and replace(outcome.closed, reason=self.text(outcome.closed.reason))
            changed = replace(outcome, headers=kept, body=body, cuts=cuts, closed=closed, failure=failure)
            return outcome if changed == outcome else changed
        body, cuts, kept = self.body(outcome.body, outcome.cuts, kept)
        reason = outcome.reason if outcome.reason in STANDARD_REASONS else self.text(outcome.reason)
        if body is outcome.body and kept is outcome.headers and failure is outcome.failure and reason == outcome.reason:
            return outcome
        return replace(outcome, headers=kept, body=body, cuts=cuts, failure=failure, reason=reason)

    def failure(self, failure: Failure) -> Failure:
        """Return an exception with its message and arguments rewritten."""
        message = self.text(failure.message)
        args = tuple(self._same_or_new(failure.args))
        if message is failure.message and args == failure.args:
            return failure
        return replace(failure, message=message, args=args)

    def text(self, text: str) -> str:
        """Return one text rewritten."""
        data = as_bytes(text)
        spans = self.find(data, "none")
        return as_text(self._replace_spans(data, spans)) if spans else text

    def tree(self, tree: Json) -> Json:
        """Return a JSON tree with its strings and keys rewritten. All its texts are looked at in one go first."""
        tree = self._rewrite_frozen_bytes(tree)
        if self.placed is not None:
            tree = self.placed(tree)
        if self.replace_member is not None:
            tree = self._rewrite_members(tree, self.replace_member)
        texts = list(leaves(tree))
        if not texts or not self.find(as_bytes("\n".join(texts)), "none"):
            return tree
        return self._leaf(tree)

    def _rewrite_items(self, items: tuple[Json, ...]) -> tuple[Json, ...]:
        """Return the items of a generator without what only their joined text shows."""
        if self.joined is None or len(items) < 2:
            return items
        items = cast("tuple[Json, ...]", tuple(map(self._rewrite_frozen_bytes, items)))
        lines = [as_bytes(json.dumps(item, ensure_ascii=False)) for item in items]
        ends = list(accumulate(len(line) + 1 for line in lines))
        records = [(end - len(line) - 1, end - 1) for end, line in zip(ends, lines, strict=True)]
        data = b"\n".join(lines)
        spans = self.joined(data, records)
        if not spans:
            return items
        new = self._replace_spans(data, spans).split(b"\n")
        return tuple(json.loads(as_text(line)) for line in new)

    def _rewrite_scattered(self, tree: Json) -> Json:
        """Return a tree without what only several of its strings together show."""
        if self.joined is None or not isinstance(tree, dict | list):
            return tree
        tree = self._rewrite_frozen_bytes(tree)
        data = as_bytes(json.dumps(tree, ensure_ascii=False))
        spans = self.joined(data, None)
        return cast("Json", json.loads(as_text(self._replace_spans(data, spans)))) if spans else tree

    def _rewrite_members(self, tree: Json, replace_member: Callable[[str, Json], Json]) -> Json:
        """Return the tree with what its names give away replaced; the same if nothing is."""
        if isinstance(tree, dict):
            members = {
                name: replace_member(name, self._rewrite_members(value, replace_member)) for name, value in tree.items()
            }
            return members if any(members[name] is not value for name, value in tree.items()) else tree
        if isinstance(tree, list):
            items = [self._rewrite_members(value, replace_member) for value in tree]
            return items if any(map(operator.is_not, items, tree)) else tree
        return tree

    def _rewrite_frozen_bytes(self, tree: Json) -> Json:
        """Return a tree with its frozen bytes rewritten as bytes; the same where nothing is found in them."""
        match tree:
            case {"$bytes": [str(text)], **rest} if not rest:
                return self._bytes("$bytes", base64.b64decode(text)) or tree
            case {"$bytearray": [str(text)], **rest} if not rest:
                return self._bytes("$bytearray", base64.b64decode(text)) or tree
            case dict():
                members = {name: self._rewrite_frozen_bytes(value) for name, value in tree.items()}
                return members if any(members[name] is not value for name, value in tree.items()) else tree
            case list():
                items = [self._rewrite_frozen_bytes(value) for value in tree]
                return items if any(map(operator.is_not, items, tree)) else tree
            case _:
                return tree

    def _bytes(self, tag: str, data: bytes) -> Json:
        from pytest_agentreplay.values.tags import write_bytes

        spans = self._find_spans(data, "any")
        return {tag: write_bytes(self._replace_spans(data, spans))} if spans else None

    def _leaf(self, tree: Json) -> Json:
        if (tag := tag_of(tree)) in BYTES:
            return tree
        match tree:
            case dict() if tag and tag not in TEXTS:
                # What no longer is the text of a number, a date or an id is thawed as the text that it is.
                changed = next((new for old, new in self._texts_of(tree[tag]) if new != old), None)
                return tree if changed is None else changed
            case str():
                return self.text(tree)
            case dict():
                return {self.text(key): self._leaf(value) for key, value in tree.items()}
            case list():
                return [self._leaf(value) for value in tree]
            case int() if not isinstance(tree, bool) and abs(tree) >= SHORTEST_NUMBER:
                digits = str(tree)
                return tree if (text := self.text(digits)) is digits else text
            case _:
                return tree

    def _texts_of(self, tree: Json) -> Iterator[tuple[str, str]]:
        """Return the texts below a tag, each with itself rewritten."""
        return ((text, self.text(text)) for text in leaves(tree))

    def _replace_spans(self, data: bytes, spans: list[Span]) -> bytes:
        self.applied(spans)
        return splice(data, spans)

    def _same_or_new(self, items: tuple[Json, ...]) -> Iterator[Json]:
        return (self.tree(item) for item in items)

    def values(self, headers: Headers) -> Headers:
        """Return headers with their values rewritten."""
        signed = [value for _, value in headers if self.sign in value]
        if not signed or not self.find(as_bytes("\n".join(signed)), "none"):
            return headers
        return tuple((name, self.text(value)) for name, value in headers)

    def body(
        self, body: Body, cuts: tuple[int, ...], headers: Headers, pieces: Pieces = "any", *, request: bool = False
    ) -> tuple[Body, tuple[int, ...], Headers]:
        """Return a body with its cuts and headers, rewritten under its content coding."""
        if not len(body):
            return body, cuts, headers
        data = body.data
        by_name = {name.lower(): value for name, value in headers}
        coding = by_name.get("content-encoding", "")
        if content_coding.is_coded(coding):
            nested = content_coding.layers(coding) if self.undo and request else []
            changed = self._rewrite_nested(data, nested) if nested else self._rewrite_coded(data, cuts, coding, pieces)
        elif by_name.get("content-type", "").partition(";")[0].strip().lower() == KIND:
            spans, counted = find_framed(data, self.find)
            self.applied(counted)
            changed = (splice(data, spans), recut(cuts, spans), True) if spans else None
        else:
            spans = self._find_spans(data, pieces, cuts)
            changed = (self._replace_spans(data, spans), recut(cuts, spans), True) if spans else None
        if changed is None:
            return body, cuts, headers
        text, cuts, keeps_coding = changed
        return Body(text), cuts, refit_headers(headers, len(text) - len(data), keeps_coding=keeps_coding)

    def _find_spans(self, data: bytes, pieces: Pieces, cuts: tuple[int, ...] = ()) -> list[Span]:
        """Return what stands to be replaced in a body, and in the archives that it is or carries."""
        spans = self.find(data, pieces)
        if self.part is not None and len(cuts) > 1 and spans:
            spans = divide_spans(spans, cuts, self.part)
        if self.opaque is None or not (places := packed.find_archives(data, () if isinstance(pieces, str) else pieces)):
            return spans
        return merge_disjoint(
            packed.find_in_archives(data, places, lambda text: self.find(text, "any"), self.opaque), spans
        )

    def _rewrite_nested(self, data: bytes, names: list[str]) -> tuple[bytes, tuple[int, ...], bool]:
        """Return the rewritten text under several codings, without any."""
        try:
            text = content_coding.text_of_layers(names, data)
        except content_coding.Opaque:
            text = self.opaque(data) if self.opaque is not None else data
        else:
            text = self._replace_spans(text, self._find_spans(text, "whole"))
        return text, (len(text),), False

    def _rewrite_coded(
        self, data: bytes, cuts: tuple[int, ...], coding: str, pieces: Pieces
    ) -> tuple[bytes, tuple[int, ...], bool] | None:
        """Return the rewritten coded body, its cuts, and whether the coding still holds; None when nothing changes."""
        try:
            decoded = content_coding.decode(coding, data, cuts)
        except content_coding.Opaque:
            if self.opaque is None:
                return None
            text = self.opaque(data)
            return text, cut_as_first(cuts, text), False
        spans = self._find_spans(decoded.text, pieces, decoded.cuts)
        # What broke off, and may have been no coded body at all, is kept as far as it was read.
        if not spans and (decoded.complete or coding.strip().lower() not in UNMARKED):
            return None
        text, sizes = self._replace_spans(decoded.text, spans), recut(decoded.cuts, spans)
        changed, cuts = content_coding.encode(coding, text, sizes, complete=decoded.complete)
        return None if changed == data else (changed, cuts, True)


def may_hold_marks(outcome: Outcome) -> bool:
    """Return whether the mark of a place may stand in an outcome: in its text, or under a coding of its body."""
    if isinstance(outcome, ToolReply):
        text = repr((outcome.value, outcome.items, outcome.sent, outcome.failure))
        return "{{" in text or "$byte" in text
    if isinstance(outcome, Failure | FramesReply) or b"{{" in outcome.body.data:
        return True
    text = repr((outcome.headers, outcome.reason, outcome.failure)).lower()
    return "{{" in text or "content-encoding" in text or KIND in text


def frames_in(reply: FramesReply) -> list[tuple[int, int]]:
    """Return where each frame of a connection begins and ends, without its line end."""
    ends = list(accumulate(reply.sizes))
    return [(end - size, end - 1) for end, size in zip(ends, reply.sizes, strict=True)]


def cut_as_first(cuts: tuple[int, ...], text: bytes) -> tuple[int, ...]:
    """Return as many chunk sizes as before, all of the text in the first."""
    return (len(text), *(0 for _ in cuts[1:]))


def refit_headers(headers: Headers, grown: int, *, keeps_coding: bool) -> Headers:
    """Return the headers of a body that grew by so many bytes: length corrected, digests of the old text left out."""
    kept = []
    for name, value in headers:
        lower = name.lower()
        if lower == "content-length" and value.strip().isdigit():
            kept.append((name, str(max(0, int(value) + grown))))
        elif lower in DIGESTS or (lower == "content-encoding" and not keeps_coding):
            continue
        else:
            kept.append((name, value))
    return tuple(kept)


def tag_of(tree: Json) -> str:
    """Return the tag of a frozen leaf (`values.tags`), "" for what is none; bytes that are text count as that text."""
    if not isinstance(tree, dict) or len(tree) != 1:
        return ""
    [(name, value)] = tree.items()
    if not name.startswith("$"):
        return ""
    from pytest_agentreplay.values.tags import is_leaf_tag

    return name if is_leaf_tag(name) and not (name in BYTES and isinstance(value, str)) else ""


def leaves(tree: Json) -> Iterator[str]:
    """Yield every text of a tree: strings, keys, and numbers long enough to be a secret. Base64 of bytes is none."""
    if isinstance(tree, dict) and tag_of(tree) in BYTES:
        return
    match tree:
        case str():
            yield tree
        case dict():
            for key, value in tree.items():
                yield key
                yield from leaves(value)
        case list():
            for value in tree:
                yield from leaves(value)
        case int() if not isinstance(tree, bool) and abs(tree) >= SHORTEST_NUMBER:
            yield str(tree)
        case _:
            return


DOTS = "..."
ENDS = 8
"""So many characters of a value in a row are its own."""


def redact_torn(text: str, secrets: Iterable[Secret], instead: Callable[[str, str], str]) -> str:
    """Return `text` without the heads and tails of `secrets` that stand around an ellipsis."""
    at = text.find(DOTS)
    while at >= 0:
        start, end = at, at + len(DOTS)
        for secret in secrets:
            begin, stop = head(text, at, secret.value), tail(text, end, secret.value)
            if stop - begin > len(DOTS):
                placeholder = instead(secret.category, secret.value)
                text, end = text[:begin] + placeholder + text[stop:], begin + len(placeholder)
                break
        at = text.find(DOTS, max(end, start))
    return text


def head(text: str, at: int, value: str) -> int:
    """Return where the beginning of `value` begins that ends at `at`; `at` where there is none."""
    begin = text.rfind(value[:ENDS], max(0, at - len(value)), at)
    return begin if begin >= 0 and value.startswith(text[begin:at]) else at


def tail(text: str, at: int, value: str) -> int:
    """Return where the end of `value` ends that begins at `at`; `at` where there is none."""
    place = text.find(value[-ENDS:], at, at + len(value))
    stop = place + ENDS
    return stop if place >= 0 and value.endswith(text[at:stop]) else at


DEEPEST = 2
"""Streams in the text of streams that are looked into: a tool that yields the lines of a model's stream is one."""


class JoinedSpans(NamedTuple):
    """What runs over the border of a piece, and what stands within one but is found by what stands in others."""

    interception: list[Span]
    inside: list[Span]


class StreamFinders(NamedTuple):
    """What is looked for in joined text: of parts `all` there is, of what may be whole what is `exact` or `sure`.

    What is `exact` has a fixed length; a key that is `sure` may be of any, and would run on into the next text. Without
    `all` nothing is parts of one text, and only what is `exact` is looked for. `part`: see `placeholders.divide_spans`.
    """

    all: SpanFinder | None
    exact: SpanFinder
    sure: SpanFinder
    part: Part


def find_joined(data: bytes, records: Records, finders: StreamFinders, depth: int = 0) -> JoinedSpans:
    """Return what stands in the joined text of each channel, as spans of `data`."""
    find, exact, sure, part = finders
    interception: list[Span] = []
    inside: list[Span] = []
    for channel, is_one_text in channels(data, records):
        starts = [0]
        for piece in channel:
            starts.append(starts[-1] + len(piece.text))
        text = b"".join(piece.text for piece in channel)
        if find is not None and is_one_text:
            hits = find(text)
        else:
            hits = [hit for hit in (exact if find is None else sure)(text) if crosses(channel, starts, hit)]
            if hits and find is not None:
                open_ended = [hit for hit in hits if not is_run_on(channel, starts, hit, sure)]
                hits = [hit for hit in merge_disjoint(exact(text), open_ended) if crosses(channel, starts, hit)]
        if find is not None and depth < DEEPEST and (again := inner_stream(text)) is not None:
            view, within = again
            inner = find_joined(view.text, within, finders, depth + 1)
            hits = [
                *hits,
                *((*view.map_back(start, end), new) for start, end, new in (*inner.interception, *inner.inside)),
            ]
        for hit in hits:
            spans = list(carry_hit(channel, starts, hit, part))
            (interception if len(spans) > 1 or crosses(channel, starts, hit) else inside).extend(spans)
    return JoinedSpans(merge_spans(interception), merge_spans(inside))


def is_run_on(channel: Channel, starts: list[int], hit: Span, sure: SpanFinder) -> bool:
    """Return whether a hit crosses the border of a piece that alone holds a key there."""
    first, after = bisect_right(starts, hit[0]) - 1, bisect_left(starts, hit[1])
    return after - first > 1 and any(
        hit[0] < starts[nth] + end and starts[nth] + start < hit[1]
        for nth in range(first, after)
        for start, end, _ in sure(channel[nth].text)
    )


def crosses(channel: Channel, starts: list[int], hit: Span) -> bool:
    """Return whether a hit stands in more than one piece, or in a list of bytes, which no other search reads."""
    first = bisect_right(starts, hit[0]) - 1
    return hit[1] > starts[first + 1] or channel[first].numbers is not None


def carry_hit(channel: Channel, starts: list[int], hit: Span, part: Part) -> Iterator[Span]:
    """Yield a hit in the joined text as spans of the pieces."""
    begin, finish, instead = hit
    for nth in range(bisect_right(starts, begin) - 1, len(channel)):
        low, high = max(begin, starts[nth]), min(finish, starts[nth + 1])
        if low >= finish:
            break
        if low < high:
            is_whole_hit = (low, high) == (begin, finish)
            new = None if is_whole_hit else part(hit[2], low - begin, high - begin if high < finish else None)
            yield place_span(channel[nth], low - starts[nth], high - starts[nth], instead if new is None else new)
            instead = b""


def place_span(piece: ChannelPiece, low: int, high: int, instead: bytes) -> Span:
    """Return bytes of the text of a piece as a span of the body."""
    numbers = piece.numbers
    if numbers is None:
        return piece.start + low, piece.start + high, instead
    if instead:
        return numbers[low][0], numbers[high - 1][1], ", ".join(map(str, instead)).encode()
    # With the numbers goes the comma that parts them from those that stay.
    start = numbers[low - 1][1] if low else numbers[low][0]
    end = numbers[high][0] if not low and high < len(numbers) else numbers[high - 1][1]
    return start, end, b""


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order.

    Of those that overlap one, as wide as all of them, with what the first says stands there.
    """
    merged: list[Span] = []
    for start, end, text in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and (start < merged[-1][1] or (start, end) == merged[-1][:2]):
            before = merged[-1]
            merged[-1] = before[0], max(before[1], end), before[2] or text
        else:
            merged.append((start, end, text))
    return merged
