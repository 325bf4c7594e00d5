"""Values that whoever shows them has shortened in the middle: pytest's "abc...xyz" gives most of a long key away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.core.redaction.known import Secret

DOTS = "..."
ENDS = 8
"""So many characters of a value in a row are its own."""


def torn(text: str, secrets: Iterable[Secret], instead: Callable[[str, str], str]) -> str:
    """`text` without the heads and tails of `secrets` that stand around an ellipsis."""
    at = text.find(DOTS)
    while at >= 0:
        start, end = at, at + len(DOTS)
        for secret in secrets:
            begin, stop = head(text, at, secret.value), tail(text, end, secret.value)
            if stop - begin > len(DOTS):
                placeholder = instead(secret.category, secret.value)
                text, end = text[:begin] + placeholder + text[stop:], begin + len(placeholder)
                break
        at = text.find(DOTS, max(end, start))
    return text


def head(text: str, at: int, value: str) -> int:
    """Where the beginning of `value` begins that ends at `at`; `at` where there is none."""
    begin = text.rfind(value[:ENDS], max(0, at - len(value)), at)
    return begin if begin >= 0 and value.startswith(text[begin:at]) else at


def tail(text: str, at: int, value: str) -> int:
    """Where the end of `value` ends that begins at `at`; `at` where there is none."""
    found = text.find(value[-ENDS:], at, at + len(value))
    stop = found + ENDS
    return stop if found >= 0 and value.endswith(text[at:stop]) else at
