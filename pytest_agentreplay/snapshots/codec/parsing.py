"""The text of a snapshot -> plain JSON, strictly; and the digest over what it says.

What cannot be read is SnapshotUnreadable with its place. Depth and size are counted before anything is parsed; no key
may stand twice. What is wrong is looked for, token by token, only in a text that is refused.

A few bytes of a hostile file can ask for a thousand times their size once they are parsed, or for a deeper stack than
there is. Brackets and commas outside of strings say so at once, a piece of the text at a time.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from contextlib import suppress
from itertools import islice
from typing import Any, NoReturn

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.model.paths import quote_word

RUN_OF_CASE = "run.snapshot.json"
DEEPEST = 64
"""Levels of nesting in a file. What a run holds beyond its share of them is stored as text."""

FULLEST = 3_200_000
"""Brackets and commas in a file: about 256 MB when they are lists, objects and values."""

DEEP = "nested too deep"

_PIECE = 1 << 20
_MARKS = b'"[]{},'
_OTHER = bytes(set(range(256)) - set(_MARKS))
_BRACKETS = bytes.maketrans(b"[{]}", b"(())")


def explain_excess(data: bytes, *, deepest: int = DEEPEST, fullest: int = FULLEST) -> str:
    """Return why `data` is too much to be parsed, "" when it is not."""
    marks = at = 0
    inside = False
    carry = brackets = b""
    while at < len(data):
        piece = carry + data[at : at + _PIECE]
        at += _PIECE
        odd = (len(piece) - len(piece.rstrip(b"\\"))) % 2 and at < len(data)  # an escape is not cut in two
        text, carry = (piece[:-1], piece[-1:]) if odd else (piece, b"")
        # A quote that is escaped ends no string; a backslash that is escaped escapes no quote.
        if b"\\" in text:  # to look for the two pairs takes a third of the time that all else takes here
            text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        # Two quotes with nothing between them leave what follows inside or outside, as it was.
        parts = text.translate(None, _OTHER).replace(b'""', b"").split(b'"')
        marks_here = b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
        marks += len(marks_here)
        if marks > fullest:
            return f"more than {fullest:,} brackets and commas"
        brackets += marks_here.translate(_BRACKETS, b",")
    # Each round takes the innermost pairs away. To add levels up, bracket by bracket, takes five times as long.
    for _ in range(deepest):
        brackets = brackets.replace(b"()", b"")
    return DEEP if b"()" in brackets or brackets.count(b"(") > deepest else ""


CONFLICT = "unresolved merge conflict"
LFS = "version https://git-lfs.github.com/spec/"

_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>|\|\|\|\|\|\|\|)( |$)", re.MULTILINE)
_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>[{}\[\],:])|(?P<number>-?\d[\d.eE+-]*)|(?P<word>-?[A-Za-z]+)|[ \t\r\n]+'
)
_DIGITS = 4300
_TOKENS = 400_000
"""Tokens that are looked at for the place of what is wrong: half a second."""


def to_bytes(text: str | bytes) -> bytes:
    """Return the bytes of a file, which all places in errors count."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def parse_object(data: bytes, file: str) -> dict[str, Any]:
    """Return the JSON object that a file is. Raises SnapshotUnreadable."""
    text = _decode(data, file)
    if why := explain_excess(data):
        if why == DEEP:
            strict(data, file)
        raise SnapshotUnreadable(f"too much to be read: {why}; restore the file from git", file=file)
    try:
        value = decode(text)
    except json.JSONDecodeError as error:
        if mark := _CONFLICT.search(text):
            msg = f"{CONFLICT}; take one side (git checkout --ours {quote_word(file)}) or delete it, and record again"
            raise SnapshotUnreadable(msg, file=file, place=_place(text, mark.start())) from None
        msg = f"not JSON any more ({error.msg}); {advise_restoring(file)}"
        raise SnapshotUnreadable(msg, file=file, place=f"{error.lineno}:{error.colno}") from None
    except (ValueError, RecursionError):
        strict(data, file)
        # What lies far in a large file, or a full stack, has no place.
        msg = "nested too deep, or a doubled key, half a character or no number far in it"
        raise SnapshotUnreadable(msg, file=file) from None
    if not isinstance(value, dict):
        raise SnapshotUnreadable("a snapshot is a JSON object; this is something else", file=file, place="1:1")
    return value


def advise_restoring(file: str) -> str:
    """Return what to do about a damaged snapshot. That of a case is no test's, so no recording writes it."""
    if file.replace("\\", "/").rpartition("/")[2] == RUN_OF_CASE:
        return f"restore it: git restore {quote_word(file)}, or make the case again with agentreplay case new"
    return "restore the file from git, or delete it and record again"


def _decode(data: bytes, file: str) -> str:
    """Return the text of a file.

    Raises SnapshotUnreadable for what is not plain UTF-8, is empty, or only points elsewhere.
    """
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\0" in data[:4]:
        msg = "this is UTF-16 or UTF-32; snapshots are UTF-8. Save it as UTF-8, or restore it from git"
        raise SnapshotUnreadable(msg, file=file, place="offset 0")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        msg = "this byte is not UTF-8; restore the file from git"
        raise SnapshotUnreadable(msg, file=file, place=f"offset {error.start}") from None
    if text[:1] == "\ufeff":
        msg = "the file begins with a byte order mark; save it as UTF-8 without one"
        raise SnapshotUnreadable(msg, file=file, place="1:1")
    if not text or text.isspace():
        msg = f"the file is empty; {advise_restoring(file)}"
        raise SnapshotUnreadable(msg, file=file)
    if text.startswith(LFS):
        msg = "this is a Git LFS pointer, not the snapshot; fetch it with: git lfs pull"
        raise SnapshotUnreadable(msg, file=file, place="1:1")
    return text


def too_deep(file: str) -> SnapshotUnreadable:
    """Return the error for what no stack has room for, at the place from where it was read."""
    return SnapshotUnreadable("nested too deep to be read from here", file=file)


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(pairs)
    return members


decode = json.JSONDecoder(parse_constant=_parse_float, parse_float=_parse_float, object_pairs_hook=_no_key_twice).decode
"""Returns the value of a JSON text. Raises ValueError for what no file may hold, such as a key that stands twice."""

_canonical = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def canonical_digest(value: Any) -> str:
    """Return the sha256 over `value` as compact ASCII JSON.

    The order of keys counts, as it does in bodies. Raises ValueError.
    """
    return hashlib.sha256(b"agentreplay/snapshot/v1\0" + _canonical(value).encode("ascii")).hexdigest()


def strict(data: bytes, file: str) -> None:
    """Look at every token: refuse doubled keys, half characters, bad numbers and depth, with their place."""
    text = data.decode("utf-8", "surrogatepass")
    levels: list[set[str] | None] = []  # the keys of each open object, None for a list
    mark = ""
    for token in islice(_TOKEN.finditer(text), _TOKENS):
        word = token.group()
        match token.lastgroup:
            case "mark":
                mark = word
                if mark in "{[":
                    levels.append(set() if mark == "{" else None)
                elif mark in "}]" and levels:
                    levels.pop()
                if len(levels) > DEEPEST:
                    _refuse(text, token, "nested too deep", file)
            case "text":
                value = word
                with suppress(ValueError):
                    value = str(json.loads(word))
                if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
                    _refuse(text, token, "half of a surrogate pair is no text", file)
                keys = levels[-1] if levels and mark != ":" else None
                if keys is not None:
                    if value in keys:
                        _refuse(text, token, f"the key {value[:40]!r} stands twice in one object", file)
                    keys.add(value)
            case "number" if len(word) > _DIGITS or _is_infinite(word):
                _refuse(text, token, "no such number: too many digits, or beyond all bounds", file)
            case "word" if word not in {"true", "false", "null"}:
                _refuse(text, token, f"{word[:20]} is not a JSON value", file)


def _is_infinite(number: str) -> bool:
    with suppress(ValueError):
        return math.isinf(float(number))
    return False


def _refuse(text: str, token: re.Match[str], message: str, file: str) -> NoReturn:
    raise SnapshotUnreadable(f"{message}; restore the file from git", file=file, place=_place(text, token.start()))


def _place(text: str, at: int) -> str:
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"
