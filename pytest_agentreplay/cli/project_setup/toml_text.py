"""Values added to an array of a TOML file, whose other text stays as it is.

The standard library reads TOML and does not write it. This knows just enough of the grammar to find where a statement
and a value end: strings, comments and brackets. The caller parses the result.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\n|[^"\'#\[\]{}\n]+|.',
    re.DOTALL,
)
INDENT = "    "


class Statement(NamedTuple):
    """A table's header or a key with its value: where it begins, and where it ends (before its line's comment)."""

    start: int
    end: int
    text: str


def statements(text: str) -> Iterator[Statement]:
    """Return the statements of a valid document in order."""
    start = end = depth = 0
    for token in TOKEN.finditer(text):
        word = token[0]
        if word == "\n" and depth == 0:
            if end > start:
                yield Statement(start, end, text[start:end])
            start = end = token.end()
        elif word[0] != "#" and word.strip():
            if end == start:
                start = token.start() + len(word) - len(word.lstrip())
            end = token.start() + len(word.rstrip())
            depth += (word in "[{") - (word in "]}")
    if end > start:
        yield Statement(start, end, text[start:end])


def extended(text: str, table: Sequence[str], key: str, wanted: Sequence[str], added: Sequence[str]) -> str:
    """Return `text` with `added` in the array under `key` of `table`; either is made where it is missing.

    `wanted` is all that the array holds then: it takes the place of a string.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    inside, last = False, None
    for statement in statements(text):
        if statement.text.startswith("["):
            inside = is_header(statement.text, table)
            last = statement if inside else last
        elif inside:
            last = statement
            if name := re.match(
                rf"""(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')\s*=\s*""", statement.text
            ):
                start = statement.start + name.end()
                if text[start] == "[":
                    return with_values(text, start, statement.end, added, end)
                return text[:start] + inline(wanted) + text[statement.end :]
    lines = [f"{INDENT}{json.dumps(value, ensure_ascii=False)}," for value in added]
    new = end.join([f"{key} = [", *lines, "]", ""]) if len(added) > 1 else f"{key} = {inline(added)}{end}"
    if last is None:
        gap = "" if not text else end if text.endswith("\n") else end + end
        return f"{text}{gap}[{'.'.join(table)}]{end}{new}"
    at = text.find("\n", last.end) + 1
    return text[:at] + new + text[at:] if at else text + end + new


def is_header(text: str, table: Sequence[str]) -> bool:
    """Whether a statement is the header of `table`."""
    names = [part.strip().strip("\"'") for part in text.strip("[]").split(".")]
    return not text.startswith("[[") and names == list(table)


def with_values(text: str, start: int, stop: int, added: Sequence[str], end: str) -> str:
    """Return `text` with more values in the array between two offsets."""
    value = text[start:stop]
    close = stop - 1
    tokens = [token for token in TOKEN.finditer(text, start, close) if token[0][0] != "#" and token[0].strip()]
    last = tokens[-1].start() + len(tokens[-1][0].rstrip())
    comma = "" if text[last - 1] == "," or len(tokens) == 1 else ","
    if "\n" not in value:
        space = " " if len(tokens) > 1 else ""
        return text[:last] + comma + space + inline(added)[1:-1] + text[close:]
    line = text.rfind("\n", 0, close) + 1
    at = line if not text[line:close].strip() else close
    first = text[text.find("\n", start) + 1 :]
    indent = first[: len(first) - len(first.lstrip(" \t"))] if len(tokens) > 1 else INDENT
    new = "".join(f"{indent or INDENT}{json.dumps(value, ensure_ascii=False)},{end}" for value in added)
    before = text[:last] + comma + text[last:at]
    return before + (new if at == line else f"{end}{new}") + text[at:]


def inline(values: Sequence[str]) -> str:
    """Return an array in one line."""
    return json.dumps(list(values), ensure_ascii=False)
