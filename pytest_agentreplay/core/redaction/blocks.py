r"""Blocks: the lines below a name, in a block of YAML (`password: |`) or between three quotes.

Lines may end in escapes (`\n`) and quotes be escaped, as in JSON strings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.fields import believed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.redaction.fields import Strength

_HEAD = re.compile(rb"(?:![\w!]{1,16}[ \t]{1,4})?[|>][0-9+-]{0,2}[ \t]{0,8}(?:\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)")
_LINE = re.compile(rb"(?P<indent>[ \t]*)(?P<line>[^\r\n\\]*)(?P<end>\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)?")
_MOST = 64
"""So many lines of one block are looked at."""


def find_block(text: bytes, at: int, said: Strength, opened: bytes | None) -> Iterator[tuple[int, int]]:
    """The lines that look like a secret of a block that begins at `at`; behind an `opened` quote, two more make one."""
    if opened is not None:
        if text.startswith(opened * 2, at):
            yield from secret_lines(text, at + 2 * len(opened), said, opened * 3)
    elif (head := _HEAD.match(text, at)) is not None:
        yield from secret_lines(text, head.end(), said, None)


def secret_lines(text: bytes, at: int, said: Strength, closing: bytes | None) -> Iterator[tuple[int, int]]:
    """Lines that look like a secret: up to `closing`, or as long as they are indented."""
    for _ in range(_MOST):
        line = _LINE.match(text, at)
        assert line is not None
        if closing is None and not line["indent"]:
            return
        start, stop = line.span("line")
        # An escaped quote begins with a backslash, at which the line has ended.
        end = text.find(closing, start, stop + len(closing)) if closing is not None else -1
        value = text[start : stop if end < 0 else end].rstrip()
        if closing is None:
            value = value.split(b'"')[0]
        if believed(said, value, quoted=True):
            yield start, start + len(value)
        if end >= 0 or line["end"] is None:
            return
        at = line.end()
