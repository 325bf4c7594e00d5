"""What finders of personal data share: what a hit is, where a value may begin, check digits."""

from __future__ import annotations

import re
from typing import TypeAlias

Hit: TypeAlias = tuple[int, int, str]
"""(start, end, category)."""

ESCAPE_TAIL = re.compile(
    r"(?:\x1b|\\{1,4}(?:u001[bB]|x1b))\[[0-9;]{0,12}m|\\(?:u[0-9A-Fa-f]{4}|[bfnrt])|%[0-9A-Fa-f]{2}"
)
"""What ends in letters or digits and is no part of a word: a colour of the terminal, an escape."""


ENDS_ESCAPE = re.compile(rb".*(?:\\[bfnrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})\Z", re.DOTALL)


def begins_at(data: bytes, at: int) -> bool:
    """Whether a value may begin here: no letter, digit or `_` stands before, or they end an escape."""
    before = data[at - 1 : at]
    if not (before.isalnum() or before == b"_"):
        return True
    return ENDS_ESCAPE.match(data[max(at - 6, 0) : at]) is not None


def digits_of(text: bytes) -> bytes:
    """The digits of a number, without what groups them."""
    return bytes(filter(b"0123456789".__contains__, text))


def luhn(digits: bytes) -> bool:
    """Whether the last digit is the check digit by Luhn."""
    values = [digit - 48 for digit in reversed(digits)]
    doubled = [value * 2 - 9 * (value > 4) for value in values[1::2]]
    return (sum(values[::2]) + sum(doubled)) % 10 == 0
