"""A notice: what the footer of a session says about one subject, and at which verbosity it says it.

The footer is a loop over notices (`footer_lines`). To add a line to it, return a notice where its subject is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(IntEnum):
    """How much a notice matters; the value is the least verbosity of pytest at which it is shown."""

    ERROR = -2
    """Needs a person: always shown."""
    WARNING = -1
    """Also with -q."""
    INFO = 0
    DETAIL = 1
    """Only with -v."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Lines about one subject.

    Attributes:
        severity: From which verbosity on `text` is shown.
        text: The lines; the first begins with a word of at most nine letters, the others with ten spaces.
        verbose: What stands there instead with -v; empty: `text` does.
        brief: What stands there at one step of -q below the severity.
    """

    severity: Severity
    text: tuple[str, ...]
    verbose: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()

    def lines(self, verbosity: int) -> tuple[str, ...]:
        """Return the lines to show at this verbosity of pytest: 1 for -v, -1 for -q."""
        if verbosity == self.severity - 1 and self.brief:
            return self.brief
        if verbosity < self.severity and self.severity is not Severity.ERROR:
            return ()
        return self.verbose if verbosity > 0 and self.verbose else self.text


def error(*lines: str) -> Notice:
    """Return a notice that is always shown."""
    return Notice(Severity.ERROR, lines)


def warning(*lines: str) -> Notice:
    """Return a notice that is shown with -q, too."""
    return Notice(Severity.WARNING, lines)


def info(*lines: str) -> Notice:
    """Return a notice that -q leaves out."""
    return Notice(Severity.INFO, lines)


def footer_lines(notices: Iterable[Notice], verbosity: int) -> list[str]:
    """Return the lines of the footer at this verbosity of pytest."""
    return [line for notice in notices for line in notice.lines(verbosity)]


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 test", "2 tests"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
