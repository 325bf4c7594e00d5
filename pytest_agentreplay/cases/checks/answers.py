"""What a word of the vocabulary says of a run: whether it holds, and in lines why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class AnswerCheck(NamedTuple):
    """`held` is None where the evidence says nothing; `lines` are then why, else expected, there, nearest."""

    held: bool | None
    lines: tuple[str, ...] = ()


HOLDS = AnswerCheck(held=True)


def fails(head: str, expected: str, there: str, *more: str) -> AnswerCheck:
    """It does not hold."""
    return AnswerCheck(False, (head, f"  expected  {expected}", f"  there     {there}", *more))


def unknown(why: str) -> AnswerCheck:
    """Nobody can say."""
    return AnswerCheck(None, (f"cannot say: {why}",))


def every(found: Iterable[AnswerCheck]) -> AnswerCheck:
    """All of them hold; else the first that fails, else the first of which nobody can say."""
    told = list(found)
    return next((one for one in told if one.held is False), next((one for one in told if one.held is None), HOLDS))
