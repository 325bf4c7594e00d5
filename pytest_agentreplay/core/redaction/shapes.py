"""Shapes: text that is a secret, or personal, by its looks alone.

A shape is a category and a pattern over bytes; a match, or its group `value` where it has one, stands to be replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ShapeHit(Protocol):
    """What is asked of a match: the bytes of a group, and where they stand."""

    def __getitem__(self, group: int | str, /) -> bytes:
        """What the group has matched."""

    def span(self, group: int | str = 0, /) -> tuple[int, int]:
        """Where it has."""


class SecretPattern(Protocol):
    """What is asked of a compiled regular expression over bytes, of whichever engine."""

    @property
    def groupindex(self) -> object:
        """Its named groups."""

    def finditer(self, text: bytes, /) -> Iterator[ShapeHit]:
        """Every match in order; matches do not overlap."""


@dataclass(frozen=True, slots=True)
class SecretShape:
    """One kind of value. `reach` is how long a match may be at most, in bytes; `check` has the last word on a value."""

    category: str
    pattern: SecretPattern
    reach: int = 512
    check: Callable[[bytes], bool] | None = None

    def find(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        """Where values of this kind stand, each as (start, end, category)."""
        group = "value" if "value" in dict(self.pattern.groupindex) else 0  # type: ignore[call-overload]
        for hit in self.pattern.finditer(data):
            if self.check is None or self.check(hit[group]):
                yield *hit.span(group), self.category


def shape(
    category: str, pattern: bytes, *, reach: int = 512, check: Callable[[bytes], bool] | None = None
) -> SecretShape:
    """A shape from the text of a pattern, compiled by `re`."""
    return SecretShape(category, re.compile(pattern), reach, check)
