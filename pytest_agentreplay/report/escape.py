"""The one sink for everything shown: no text of a model, tool or file can move the cursor, hide or reorder itself."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Letters and marks by category, yet not seen: fillers, variation selectors (those of emoji apart) and the like.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]")
_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")


def safe(text: str) -> str:
    """`text` with every character that a terminal or browser would act on, or not show, as a visible escape.

    Newlines and tabs stay; what comes out can be encoded in UTF-8.
    """
    return text if text.isascii() and text.isprintable() else _SUSPECT.sub(_escape, text)


def line(text: str) -> str:
    """`safe`, on one line: newlines, tabs and carriage returns become escapes too."""
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")


def github(text: str) -> str:
    """`text` as the data of a GitHub Actions workflow command: safe, and unable to end the command."""
    return safe(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape(found: re.Match[str]) -> str:
    return _shown(found[0])


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    """The character itself where it is seen and only that, else its escape."""
    if (char.isprintable() or unicodedata.category(char) == "Zs") and not _UNSEEN.match(char):
        return char
    code = ord(char)
    if code < 0x100:
        return "\\r" if char == "\r" else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
