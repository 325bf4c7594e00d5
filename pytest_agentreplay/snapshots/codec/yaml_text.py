"""JSON values as YAML that people read and `strict_yaml` reads back, equal.

Short containers of plain values stand on one line, texts of several lines as they are, under `|`. A text that could be
taken for anything else stands in quotes.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

from pytest_agentreplay.snapshots.codec.strict_yaml import FORBIDDEN, NUMBER, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json

WIDTH = 110
SENTENCE = 40
"""A text in a list that is longer has a line of its own."""
LONGEST_KEY = 500
"""Readers of YAML look so far for the colon, and a bit further."""
_PLAIN = re.compile(r"[A-Za-z_$/][\w $./()+'-]*(?<! )", re.ASCII)
_TAKEN = re.compile(r"(?:true|false|null|yes|no|on|off|y|n|~)", re.IGNORECASE)
"""What readers of other versions of YAML take for something else than text."""
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
_BLOCK = re.compile(r"[^\n\x85\u2028\u2029\t]*\S[^\n\x85\u2028\u2029\t]*")


def dump(value: Json) -> str:
    """Return the text of a value, ending in a newline. Raises ValueError for what cannot be said so: nan, U+0000."""
    return "".join(f"{line}\n" for line in _lines(value, 0))


def format_inline(value: Json) -> str:
    """Return the text of a value on one line, for flow style. Raises ValueError."""
    match value:
        case dict():
            return f"{{{', '.join(f'{_key(name)}: {format_inline(item)}' for name, item in value.items())}}}"
        case list():
            return f"[{', '.join(map(format_inline, value))}]"
        case str():
            return format_scalar(value)
        case None:
            return "null"
        case _:
            return _number(value)


def format_scalar(text: str) -> str:
    """Return a text, plain where nothing else can be meant."""
    if _PLAIN.fullmatch(text) and not (text in WORDS or NUMBER.fullmatch(text) or _TAKEN.fullmatch(text)):
        return text
    return quote(text)


def quote(text: str) -> str:
    """Return a text in double quotes. Raises ValueError for U+0000 and lone surrogates."""
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("U+0000 and lone surrogates are no characters of a text")
    text_in_json = json.dumps(text, ensure_ascii=False)
    return _BREAKS.sub(_escape, FORBIDDEN.sub(_escape, text_in_json))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(value: bool | float) -> str:
    if not math.isfinite(value):
        raise ValueError("nan and infinity are no JSON")
    return json.dumps(value)


def _key(name: str) -> str:
    if len(name) > LONGEST_KEY:
        raise ValueError("a name of so many characters is no key")
    return format_scalar(name)


def _lines(value: Json, indent: int) -> Iterator[str]:
    """Yield the lines of a value that stands on lines of its own."""
    pad = " " * indent
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _entry(f"{pad}{_key(name)}:", item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _item(pad, item, indent)
    else:
        yield f"{pad}{format_inline(value)}"


def _entry(head: str, item: Json, indent: int) -> Iterator[str]:
    if (block := _block(item, indent + 2)) is not None:
        yield f"{head} {block[0]}"
        yield from block[1:]
    elif _is_one_line(item, len(head) + 1):
        yield f"{head} {format_inline(item)}"
    else:
        yield head
        yield from _lines(item, indent + 2)


def _item(pad: str, item: Json, indent: int) -> Iterator[str]:
    if (block := _block(item, indent + 2)) is not None:
        yield f"{pad}- {block[0]}"
        yield from block[1:]
        return
    if _is_one_line(item, len(pad) + 2) and not (isinstance(item, dict) and len(item) == 1):
        yield f"{pad}- {format_inline(item)}"
        return
    first, *others = _lines(item, indent + 2)
    yield f"{pad}- {first.lstrip()}"
    yield from others


def _is_one_line(value: Json, used: int) -> bool:
    """Return whether a value stands on one line: a scalar, or a container of few plain values."""
    if not isinstance(value, dict | list) or not value:
        return True
    items = value.values() if isinstance(value, dict) else value
    if isinstance(value, list) and any(isinstance(item, str) and len(item) > SENTENCE for item in items):
        return False
    flat = all(_is_flat(item) if isinstance(item, dict | list) else _block(item, 0) is None for item in items)
    return flat and used + len(format_inline(value)) <= WIDTH


def _is_flat(value: dict[str, Json] | list[Json]) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return not any((isinstance(item, dict | list) and item) or _block(item, 0) is not None for item in items)


def _block(value: Json, indent: int) -> list[str] | None:
    """Return a text of several lines under `|`, where that says it exactly."""
    if not isinstance(value, str) or "\n" not in value.strip("\n") or value.startswith((" ", "\n")):
        return None
    body = value.rstrip("\n")
    lines = body.split("\n")
    if FORBIDDEN.search(value) or "\r" in value or not all(not line or _BLOCK.fullmatch(line) for line in lines):
        return None
    chomping = {0: "-", 1: ""}.get(len(value) - len(body))
    if chomping is None:
        return None
    return [f"|{chomping}", *(f"{' ' * indent}{line}" if line else "" for line in lines)]
