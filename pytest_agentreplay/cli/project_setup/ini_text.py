"""Lines added to a key of an ini file, whose other lines stay as they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

INDENT = "    "


def extended(text: str, name: str, key: str, added: Sequence[str]) -> str:
    """Return `text` with the lines `added` under `key` of section `name`; either is made where it is missing."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    header = next((at for at, line in enumerate(lines) if re.match(rf"\[{re.escape(name)}\]", line)), None)
    if header is None:
        lines += [end] * bool(text.strip()) + [f"[{name}]{end}"]
        header = len(lines) - 1
    stop = next((at for at in range(header + 1, len(lines)) if lines[at].startswith("[")), len(lines))
    start = next((at for at in range(header + 1, stop) if re.match(rf"{re.escape(key)}\s*[=:]", lines[at])), None)
    if start is None:
        at = last_line(lines, header, stop) + 1
        new = [f"{key} ={end}", *(f"{INDENT}{line}{end}" for line in added)]
    else:
        after = next((at for at in range(start + 1, stop) if is_value(lines[at]) and not lines[at][0].isspace()), stop)
        last = last_line(lines, start, after)
        indent = INDENT if last == start else lines[last][: len(lines[last]) - len(lines[last].lstrip())]
        at, new = last + 1, [f"{indent}{line}{end}" for line in added]
    return "".join([*lines[:at], *new, *lines[at:]])


def last_line(lines: Sequence[str], first: int, stop: int) -> int:
    """Return the last line between two that is no comment and not empty."""
    return max((at for at in range(first, stop) if is_value(lines[at])), default=first)


def is_value(line: str) -> bool:
    """Whether a line is neither empty nor a comment."""
    return bool(line.strip()) and line.lstrip()[0] not in "#;"
