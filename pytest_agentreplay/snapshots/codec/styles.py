"""How a JSON text was serialised, as a short code, and the same serialisation again.

A code is a layout (`c` compact, `p` the standard library's default, `i2` indented by two, `it` by tabs), then `a` when
non-ASCII text is escaped, then `n` when a newline ends it: "c", "pa", "i2n". Nothing rests on the code being right:
whoever uses it compares the bytes.

The table of blobs: base64 of 4 kB and more stands once, at the end of the file, by the sha256 of its text.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model.exchanges import JoinedTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SMALLEST = 4096
"""Characters from which on base64 is worth a place of its own."""

LARGEST = 64 * 1024 * 1024
"""Characters that one body may unfold to; a small hostile file could name one blob a million times."""

TOGETHER = 8 * LARGEST
"""Characters that all bodies of a file may unfold to."""

COLUMNS = 108

_BLOB = re.compile(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,|)([A-Za-z0-9+/_-]{4096,}={0,2})", re.ASCII)


_ROW_ENDS = re.compile(rf'(?<=[A-Za-z0-9+/_-]{{{COLUMNS}}})",\s*"(?=[A-Za-z0-9+/_-]+={{0,2}}")', re.ASCII)


class OverBudget(ValueError):
    """A body that unfolds to more than `LARGEST`, or bodies to more than `TOGETHER`."""


@dataclass(slots=True)
class BlobWriter:
    """Collects the blobs of one file; `table` is what is stored."""

    table: dict[str, list[str]] = field(default_factory=dict)

    def store_blob(self, text: str) -> dict[str, Any] | None:
        """Return `{"$blob": name}` for a text that is one big base64 value, with `prefix` for data URLs; else None."""
        if not SMALLEST <= len(text) <= LARGEST // 4 or (match := _BLOB.fullmatch(text)) is None:
            return None
        prefix, content = match.groups()
        name = hashlib.sha256(content.encode()).hexdigest()
        if name not in self.table:
            self.table[name] = wrap(content)
        return {"$blob": name, "prefix": prefix} if prefix else {"$blob": name}


@dataclass(slots=True)
class BlobReader:
    """Return the texts of blobs by name, proven by their sha256, within the budgets of one body and of the file."""

    table: dict[str, Any] = field(default_factory=dict)
    spent: int = 0
    together: int = 0
    proven: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the base64 text called `name`. Raises ValueError when it is not there or not what its name says."""
        if name not in self.proven:
            lines = self.table.get(name)
            if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
                raise ValueError(f"blob {name[:12]} is not in the table of blobs")
            text = "".join(lines)
            if hashlib.sha256(text.encode()).hexdigest() != name:
                raise ValueError(f"blob {name[:12]} is not what its name says")
            self.proven[name] = text
        self.spend(len(self.proven[name]))
        return self.proven[name]

    def spend(self, characters: int) -> None:
        """Count what was unfolded. Raises OverBudget."""
        self.spent += characters
        self.together += characters
        if self.spent > LARGEST or self.together > TOGETHER:
            most = LARGEST if self.spent > LARGEST else TOGETHER
            raise OverBudget(f"the content unfolds to more than {most >> 20} MB")


def wrap(text: str) -> list[str]:
    """Return `text` cut into lines of `COLUMNS`."""
    return [text[at : at + COLUMNS] for at in range(0, len(text), COLUMNS)]


def unwrap(text: str) -> str:
    """Return the text of a file with the lines that `wrap` has cut in one piece: a line's beginning is no word's."""
    return _ROW_ENDS.sub("", text)


_CODE = re.compile(r"(c|p|i[1-8]|it)(a?)(n?)")
_INDENTED = re.compile(r"[{\[]\n( {1,8}|\t)")
_SPACED = re.compile(r'\[*\{"(?:[^"\\]|\\.)*": ')
_INDENTS = {"c": "", "p": "", "it": "\t", **{f"i{width}": " " * width for width in range(1, 9)}}
_ESCAPED = re.compile(r"\\u(?!00[01])")


class Style(NamedTuple):
    """One way to write JSON. `layout` as in the code, `escape` for ASCII only, `newline` at the end."""

    layout: str = "c"
    escape: bool = False
    newline: bool = False

    @property
    def code(self) -> str:
        """The short code, as stored."""
        return self.layout + "a" * self.escape + "n" * self.newline

    @property
    def indent(self) -> str:
        """What one level is indented by; "" where everything is on one line."""
        return _INDENTS[self.layout]

    def dumps(self, value: Any, depth: int = 0) -> str:
        """Return `value` in this style, without the final newline, as it stands `depth` levels down."""
        if self.indent:
            return self._tall(value, "\n" + self.indent * depth, [LARGEST])
        return _encoder(self.layout, self.escape)(value)

    def _tall(self, value: Any, lead: str, room: list[int]) -> str:
        """Return one item a line. Many servers write so, and the standard library takes more than twice as long for it.

        Indents may take what is left of `room`: a short hostile text could ask for gigabytes of them.
        """
        inner = lead + self.indent
        if isinstance(value, dict | list):
            room[0] -= len(value) * len(inner)
            if room[0] < 0:
                raise ValueError(f"the indents unfold to more than {LARGEST >> 20} MB")
        if isinstance(value, dict) and value:
            items = [f"{self.key(name)}: {self._tall(item, inner, room)}" for name, item in value.items()]
            return f"{{{inner}{f',{inner}'.join(items)}{lead}}}"
        if isinstance(value, list) and value:
            items = [self._tall(item, inner, room) for item in value]
            return f"[{inner}{f',{inner}'.join(items)}{lead}]"
        if isinstance(value, str):
            return self.key(value)
        if type(value) is int:
            return repr(value)
        return _encoder(self.layout, self.escape)(value)

    def key(self, key: str) -> str:
        """Return an object's key in this style, quoted."""
        return encode_basestring_ascii(key) if self.escape else encode_basestring(key)

    def compose(self, fields: Sequence[tuple[str, str | Sequence[str]]]) -> str:
        """Return an object made of keys and the texts of values; a list of texts is an array of these elements."""
        return join_pieces(self.pieces(fields))

    def pieces(self, fields: Sequence[tuple[str, str | Sequence[str]]]) -> Iterator[str | JoinedTexts]:
        """Yield the same in pieces, in which each array is left as its elements."""
        comma, colon = (", ", ": ") if self.layout == "p" else (",", ": " if self.indent else ":")
        pad = "\n" + self.indent if self.indent else ""
        lead = "{" + pad
        for key, value in fields:
            yield f"{lead}{self.key(key)}{colon}"
            if isinstance(value, str):
                yield value
            elif value:
                yield f"[{pad}{self.indent}"
                yield JoinedTexts(value, f"{comma}{pad}{self.indent}")
                yield f"{pad}]"
            else:
                yield "[]"
            lead = f"{comma}{pad}"
        yield ("{" if not fields else pad[:1]) + "}" + "\n" * self.newline


def join_pieces(pieces: Iterable[str | JoinedTexts]) -> str:
    """Return the text that `pieces` make."""
    return "".join(piece if isinstance(piece, str) else piece.separator.join(piece.texts) for piece in pieces)


@lru_cache(maxsize=64)
def _encoder(layout: str, escape: bool) -> Callable[[Any], str]:
    separators = (", ", ": ") if layout == "p" else (",", ":")
    return json.JSONEncoder(ensure_ascii=escape, separators=separators, allow_nan=False, check_circular=False).encode


@lru_cache(maxsize=256)
def parse_style(code: str) -> Style:
    """Return the style that `code` names. Raises ValueError."""
    match = _CODE.fullmatch(code)
    if match is None:
        raise ValueError(f"{code[:20]!r} is not a serialisation style")
    return Style(match[1], bool(match[2]), bool(match[3]))


def escapes(text: str) -> bool:
    """Return whether `text` looks as if its non-ASCII characters were escaped."""
    return text.isascii() and _ESCAPED.search(text) is not None


def guess(text: str) -> Style:
    """Return the style that `text` is likely written in, judged by its beginning and its end."""
    escape = escapes(text)
    newline = text.endswith("\n")
    if indented := _INDENTED.match(text):
        return Style("it" if indented[1] == "\t" else f"i{len(indented[1])}", escape, newline)
    return Style("p" if _SPACED.match(text) else "c", escape, newline)
