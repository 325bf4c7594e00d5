"""What finders of personal data share: what a hit is, and where a value may begin."""

from __future__ import annotations

import re
from typing import TypeAlias

Hit: TypeAlias = tuple[int, int, str]
"""(start, end, category)."""

BEGIN = rb"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
"""No letter, digit or `_` stands before, or they end an escape."""

ESCAPE_TAIL = re.compile(r"(?:\\(?:u[0-9A-Fa-f]{4}|[bfnrt])|%[0-9A-Fa-f]{2})")


def digits_of(text: bytes) -> bytes:
    """The digits of a number, without what groups them."""
    return bytes(filter(b"0123456789".__contains__, text))


def luhn(digits: bytes) -> bool:
    """Whether the last digit is the check digit by Luhn."""
    values = [digit - 48 for digit in reversed(digits)]
    doubled = [value * 2 - 9 * (value > 4) for value in values[1::2]]
    return (sum(values[::2]) + sum(doubled)) % 10 == 0
