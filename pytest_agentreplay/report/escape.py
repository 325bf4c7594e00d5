"""The one sink for everything shown: no text of a model, tool or file can move the cursor, hide or reorder itself."""

from __future__ import annotations

import re

# Emoji presentation (fe0e, fe0f) stays: it is common, and shown.
# C0 but \n and \t, DEL, C1, soft hyphen, bidi and zero-width marks, line separators, annotations, tags, surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def safe(text: str) -> str:
    """`text` with every character that a terminal or browser would act on, or not show, as a visible escape.

    Newlines and tabs stay; what comes out can be encoded in UTF-8.
    """
    return _UNSAFE.sub(_escape, text)


def line(text: str) -> str:
    """`safe`, on one line: newlines, tabs and carriage returns become escapes too."""
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")


def github(text: str) -> str:
    """`text` as the data of a GitHub Actions workflow command: safe, and unable to end the command."""
    return safe(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return {0x0D: "\\r"}.get(code) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
