"""The one sink for everything shown: no text of a model, tool or file can move the cursor, hide or reorder itself.

It cannot speak to a CI server either, whose commands are lines of a log, nor to a Markdown page.

    escape_text, escape_line   for a terminal or a file
    escape_output              as it leaves for a log, which CI may read
    escape_markdown            for Markdown, as a block
    escape_code                for Markdown, within a line or a cell of a table
    escape_html                for HTML, in text and in quoted attributes
"""

from __future__ import annotations

import html
import os
import re
import textwrap
import unicodedata
from functools import lru_cache

# Letters and marks by category, yet not seen: fillers, variation selectors (those of emoji apart) and the like.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]")
_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")
# What a joiner (U+200C, U+200D) stands between as spelling has it: letters of the scripts from Arabic to Mongolian,
# whose form it chooses, and emoji, of which U+200D makes one. Elsewhere it is a letter that nobody sees.
_JOINABLE = re.compile("[\u0600-\u109f\u1780-\u18af\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc]")
_EMOJI = re.compile("[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]")

# https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
# GitHub takes `::name` behind any white space; it and Azure take `##[name]` and `##vso[name]` wherever they stand.
_COMMAND = re.compile(r"^([^\S\n]*):(?=:[a-z])|()#(?=#[a-z]*\[)", re.IGNORECASE | re.MULTILINE)
_MARKER = re.compile(r"^([^\S\n]*)([:#])(?=\2)", re.MULTILINE)
_BAR = re.compile(r"(\\*)\|")
_CI = ("CI", "GITHUB_ACTIONS", "TF_BUILD")


def escape_text(text: str) -> str:
    """`text` with every character that a terminal or browser would act on, or not show, as a visible escape.

    Newlines and tabs stay; what comes out can be encoded in UTF-8. What a CI server would obey has its mark broken.
    """
    seen = text if text.isascii() and text.isprintable() else _SUSPECT.sub(_escape_match, text)
    return _COMMAND.sub(_break_mark, seen) if "::" in seen or "##" in seen else seen


def escape_output(text: str) -> str:
    """As `escape_text`, as it is printed: on a CI server no line begins with the mark of a command, or of a heading."""
    seen = escape_text(text)
    return _MARKER.sub(_break_mark, seen) if any(os.environ.get(name) for name in _CI) else seen


def escape_line(text: str) -> str:
    """As `escape_text`, on one line: newlines, tabs and carriage returns become escapes too."""
    return escape_text(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_markdown(text: str, language: str = "text") -> str:
    """`text` as a block of Markdown code that it cannot end: no link, picture, table or mention comes of it."""
    seen = escape_text(text)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", seen)), default=0))
    return f"{fence}{language}\n{seen}\n{fence}"


def escape_code(text: str, *, cell: bool = False) -> str:
    """`text` as Markdown code within a line, or in the `cell` of a table: no link, mention or markup comes of it."""
    seen = escape_line(text)
    if cell:  # a renderer reads a bar behind backslashes in one of two ways
        seen = _BAR.sub(lambda match: f"{match[1]}\\x7c" if match[1] else r"\|", seen)
    ticks = max(map(len, re.findall("`+", seen)), default=0)
    return f"{'`' * (ticks + 1)} {seen} {'`' * (ticks + 1)}" if ticks else f"`{seen or ' '}`"


def escape_html(text: str) -> str:
    """As `escape_line`, as it stands in the text or in a quoted attribute of an HTML page; no element comes of it."""
    return html.escape(escape_line(text))


def wrap_text(text: str, width: int, first: str, then: str = "") -> list[str]:
    """Return `escape_line` in lines of `width` columns, behind `first`, going on behind `then`, or below itself."""
    then = then or " " * len(first)
    rows = textwrap.wrap(escape_line(text), width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)
    return rows or [first.rstrip()]


def _break_mark(match: re.Match[str]) -> str:
    mark = match[0][-1]
    return f"{match[1] or ''}\\x{ord(mark):02x}"


def _escape_match(match: re.Match[str]) -> str:
    char, around = match[0], match.string[max(0, match.start() - 1) : match.end() + 1]
    return char if char in "\u200c\u200d" and len(around) == 3 and _is_joining(around) else _escape_char(char)


@lru_cache(maxsize=4096)
def _is_joining(around: str) -> bool:
    """Return whether the joiner in the middle of three characters joins what is beside it, and both are seen."""
    before, joiner, after = around[0], around[1], around[2]
    kinds = (_JOINABLE, _EMOJI) if joiner == "\u200d" else (_JOINABLE,)
    is_seen = all(_escape_char(char) == char for char in (before, after))
    return is_seen and any(kind.match(before) and kind.match(after) for kind in kinds)


@lru_cache(maxsize=4096)
def _escape_char(char: str) -> str:
    """Return the character itself where it is seen and only that, else its escape."""
    if (char.isprintable() or unicodedata.category(char) == "Zs") and not _UNSEEN.match(char):
        return char
    code = ord(char)
    if code < 0x100:
        return "\\r" if char == "\r" else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
