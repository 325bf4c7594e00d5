"""JSON values <-> how they stand in the file: long texts as lines, blobs by name, and nothing that JSON cannot say.

A mark is an object with one key that begins with a single "$"; keys of the user that begin with "$" are doubled.

    {"$text": [line, [piece, piece], ...]}   a text; lines are joined by a newline, the pieces of one line by nothing
    {"$blob": sha256, "prefix": "data:..."}  base64 that stands once in the blobs table
    {"$utf8": base64}                        a text that UTF-8 cannot hold (lone surrogates)
    {"$float": "nan"}  {"$int": "0x..."}     numbers that JSON cannot hold, or that readers refuse
    {"$pairs": [[key, value], ...]}          an object one of whose keys UTF-8 cannot hold
    {"$json": text}                          a value that is nested too deep for comfort

Status and headers are checked by recorder and reader alike: what could not be read again is not written, and a file
that says otherwise would have a client read another message.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from contextlib import suppress
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter

DEEPEST = 48
"""Nesting beyond this is stored as text: readers recurse, and the file around a value is nested too."""

LINE = 100
"""Columns of a line of text in the file, after escaping and without its indent."""

_CHATTY = 40
_PLAIN = frozenset({str, int, float, bool, type(None)})
_HUGE_INT_BITS = 13_000
_ENDS = r"\s,;\u3001\u3002\uff01\uff0c\uff1b\uff1f\u3041-\u3093"
"""What a word ends with: white space, commas and semicolons; those of Chinese and Japanese, full stops, hiragana."""
_WORD = re.compile(f"[^{_ENDS}]*[{_ENDS}]+|[^{_ENDS}]+")


class Malformed(ValueError):
    """The file does not say what it should. Becomes SnapshotUnreadable where the place is known."""


class NestedTooDeep(ValueError):
    """A value is nested deeper than `DEEPEST`."""


def protect(value: Json, blobs: BlobWriter) -> Json:
    """Return `value` as it stands in the file. Raises TypeError for what is not JSON."""
    try:
        return write_value(value, blobs)
    except NestedTooDeep:
        return {"$json": lines_of(json.dumps(value))}


def write_value(value: Json, blobs: BlobWriter, depth: int = 0) -> Json:
    """Return `value` as it stands in the file; raises TooDeep instead of storing text."""
    match value:
        case str():
            return protect_text(value, blobs)
        case None | bool():
            return value
        case int():
            return value if value.bit_length() < _HUGE_INT_BITS else {"$int": hex(value)}
        case float():
            return value if math.isfinite(value) else {"$float": repr(value)}
        case list() | dict() if depth >= DEEPEST:
            raise NestedTooDeep
        case list():
            return [write_value(item, blobs, depth + 1) for item in value]
        case dict():
            return _write_object(value, blobs, depth)
        case _:
            raise TypeError(f"a {type(value).__name__} is not a JSON value")


def _write_object(value: dict[str, Json], blobs: BlobWriter, depth: int) -> Json:
    if all(key.isascii() or is_encodable(key) for key in value):
        return {
            "$" + key if key[:1] == "$" else key: write_value(item, blobs, depth + 1) for key, item in value.items()
        }
    return {"$pairs": [[protect_text(key, blobs), write_value(item, blobs, depth + 3)] for key, item in value.items()]}


def protect_text(text: str, blobs: BlobWriter) -> Json:
    """Return a text as it stands in the file: itself when it is short, else as lines or as the name of a blob."""
    if not (text.isascii() or is_encodable(text)):
        return {"$utf8": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}
    if len(text) > LINE or (len(text) > _CHATTY and "\n" in text):
        return blobs.store_blob(text) or lines_of(text)
    return text


def lines_of(text: str) -> Json:
    """Return `text` as {"$text": lines}, or itself where that would not make it shorter across."""
    lines: list[Json] = [pieces(line) for line in text.split("\n")]
    return text if len(lines) == 1 and isinstance(lines[0], str) else {"$text": lines}


def pieces(line: str) -> str | list[Json]:
    """Return one line, cut after words where it is too long. Words stay whole: people search them."""
    if len(line) <= LINE and len(quoted(line)) <= LINE:
        return line
    pieces: list[Json] = []
    width = begin = at = 0
    for word in cut_words(line):
        cost = len(word) if word.isalnum() else len(quoted(word)) - 2
        if width and width + cost > LINE:
            pieces.append(line[begin:at])
            begin, width = at, 0
        width += cost
        at += len(word)
    pieces.append(line[begin:])
    return pieces if len(pieces) > 1 else line


def cut_words(line: str) -> list[str]:
    """Return a line in words, each with what ends it. Files count them: the ends of words never change."""
    return _WORD.findall(line)


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can hold a text: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def reveal(value: Any, blobs: BlobReader) -> Any:
    """Return the value that `protect` was given. Raises Malformed."""
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else reveal(item, blobs) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in "".join(value):
        return {key: item if type(item) in _PLAIN else reveal(item, blobs) for key, item in value.items()}
    lines = value.get("$text")
    if lines is not None and len(value) == 1:
        return join_lines(lines)
    members = {}
    for key, item in value.items():
        if key[:1] == "$":
            if key[1:2] != "$":
                return _read_mark(value, blobs)
            members[key[1:]] = reveal(item, blobs)
        else:
            members[key] = item if type(item) in _PLAIN else reveal(item, blobs)
    return members


def _read_mark(value: dict[str, Any], blobs: BlobReader) -> Any:
    match value:
        case {"$blob": str(name), **rest} if not rest.keys() - {"prefix"}:
            return _check_text(rest.get("prefix", "")) + blobs.text(name)
        case {"$utf8": str(text), **rest} if not rest:
            return unbase64(text).decode("utf-8", "surrogatepass")
        case {"$float": "nan" | "inf" | "-inf" as name, **rest} if not rest:
            return float(name)
        case {"$int": str(digits), **rest} if not rest and digits[:3].removeprefix("-")[:2] == "0x":
            return int(digits, 16)
        case {"$pairs": list(pairs), **rest} if not rest:
            return {_check_text(reveal(key, blobs)): reveal(item, blobs) for key, item in pairs}
        case {"$json": text, **rest} if not rest:
            return json.loads(_check_text(reveal(text, blobs)))
        case _:
            raise Malformed(f"the mark {next((key for key in value if key[:1] == '$'), '')!r} means nothing here")


def join_lines(lines: Any) -> str:
    """Return the text whose lines, some of them in pieces, are `lines`. Raises Malformed."""
    if isinstance(lines, list) and {str, list}.issuperset(map(type, lines)):
        with suppress(TypeError):
            return "\n".join([line if isinstance(line, str) else "".join(line) for line in lines])
    raise Malformed("the lines of a text are strings, or lists of the pieces of one line")


def reveal_text(stored: Any, blobs: BlobReader) -> str:
    """Return a stored text; Malformed when it is something else."""
    return stored if isinstance(stored, str) else _check_text(reveal(stored, blobs))


def unbase64(text: str) -> bytes:
    """Return the bytes of strict base64. Raises Malformed."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed(f"this is not base64: {error}") from None


def _check_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Malformed(f"a text belongs here, not {type(value).__name__}")


STATUSES = range(100, 600)

_BREAKS = re.compile(r"[\r\n\0]")


def wrong_status(status: int) -> str:
    """Return what is wrong with the status of a reply, "" for nothing."""
    return "" if status in STATUSES else f"status {status} is none of {STATUSES.start} to {STATUSES.stop - 1}"


def wrong_header(name: str, value: str) -> str:
    """Return what is wrong with a header, "" for nothing."""
    if _BREAKS.search(name) or _BREAKS.search(value):
        return f"the header {name:.40} holds a line break"
    if name.lower() == "content-length" and value.lstrip().startswith("-"):
        return f"content-length {value:.20} is no size"
    return ""
