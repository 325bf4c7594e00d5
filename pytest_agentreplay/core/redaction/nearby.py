"""Keys without a form of their own, found by the name of their vendor beside them: `cohere.Client("...")`.

Of letters of both cases and digits the length alone is asked for, since ids and hashes are not written so. What is
written in hexadecimal digits could be any hash, so the word key or token has to stand between.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.secret_names import CATEGORY

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIXED = {b"mistral": 32, b"cohere": 40}
_HEX = {b"datadog": (32, 40), b"deepgram": (40,), b"assemblyai": (32,)}
_APART = 48
"""So many bytes may stand between a name and its key, on one line."""
_LONGEST = 40
_WORD = re.compile(rb"(?<![A-Za-z0-9_/+.-])[A-Za-z0-9]{32,%d}(?![A-Za-z0-9_/+=-])" % _LONGEST)
_SAID = re.compile(rb"(?i:key|token|secret|credential)")
_LINE_END = re.compile(rb"\n|\\[nr]")


def find_nearby(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Where such keys stand, as (start, end, category)."""
    lower = text.lower()
    for name in (*_MIXED, *_HEX):
        at = lower.find(name)
        while at >= 0:
            end = at + len(name)
            for word in _WORD.finditer(text, end, end + _APART + _LONGEST + 1):
                between = text[end : word.start()]
                if len(between) <= _APART and _LINE_END.search(between) is None and is_key_of(name, word[0], between):
                    yield *word.span(), CATEGORY
            at = lower.find(name, end)


def is_key_of(name: bytes, word: bytes, between: bytes) -> bool:
    """Whether a key of that vendor looks like `word`, given what stands `between` the name and it."""
    if name in _MIXED:
        digits = any(48 <= byte < 58 for byte in word)
        return len(word) == _MIXED[name] and digits and word not in (word.lower(), word.upper())
    return (
        len(word) in _HEX[name] and _SAID.search(between) is not None and re.fullmatch(rb"[0-9a-f]+", word) is not None
    )
