"""A pattern of a policy, ready to search bytes: by RE2 where it is installed, else by `re` if `linear` lets it.

What stands to be replaced is the group `value`, or the whole match where there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.redaction import linear, regexes
from pytest_agentreplay.redaction.policy import SecretShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GROUP = "value"
ENDLESS = 1 << 16
"""How far a match is taken to reach that may be as long as the text."""
WIDEST = 4
"""Bytes of a character in UTF-8."""


@dataclass(frozen=True, slots=True)
class PatternHit:
    """A value that was found."""

    text: bytes
    start: int

    def __getitem__(self, group: int | str) -> bytes:
        return self.text

    def span(self, group: int | str = 0) -> tuple[int, int]:  # noqa: ARG002  every group is the value
        """Where it stands."""
        return self.start, self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Searching:
    """A compiled pattern as the redaction asks for one; its only group is the value."""

    regex: str
    spans: Callable[[bytes], Iterator[tuple[int, int]]]
    groupindex: tuple[()] = ()

    def finditer(self, data: bytes, /) -> Iterator[PatternHit]:
        """Every value in `data`, in order."""
        return (PatternHit(data[start:end], start) for start, end in self.spans(data) if start < end)


def shape(category: str, regex: str, *, engine: str = "") -> SecretShape:
    """The shape of one rule. Raises Refused or Slow, which say what to write instead.

    `engine` is "re" or "re2"; "" takes the better of those that are there.
    """
    node = regexes.tree(regex)
    compiled = by_re2(regex) if engine in {"", "re2"} else None
    if compiled is None:
        linear.check(node)
        compiled = by_re(regex)
    reach = linear.longest(node) * WIDEST
    return SecretShape(category, Searching(regex, compiled), int(min(reach, ENDLESS)))


def by_re2(regex: str) -> Callable[[bytes], Iterator[tuple[int, int]]] | None:
    """The search by RE2; None where it is not installed. Raises Refused."""
    try:
        import re2  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(regex.encode(), options)
    except re2.error as wrong:
        message = wrong.args[0] if wrong.args else ""
        told = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        raise regexes.RefusedPattern(f"is not taken by RE2: {told}") from None
    names = {str(name, "ascii") if isinstance(name, bytes) else name: at for name, at in pattern.groupindex.items()}
    group = int(names.get(GROUP, 0))
    return lambda data: (span_of(hit, group) for hit in pattern.finditer(data))


def by_re(regex: str) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """The search by `re`. Text beyond ASCII is searched as text, so that no character is cut in two."""
    quick = re.compile(regex.encode()) if regex.isascii() else None
    pattern = re.compile(regex, re.ASCII)
    group = pattern.groupindex.get(GROUP, 0)

    def spans(data: bytes) -> Iterator[tuple[int, int]]:
        if quick is not None and data.isascii():
            yield from (span_of(hit, group) for hit in quick.finditer(data))
            return
        text = data.decode(errors="surrogateescape")
        offset = at = 0
        for hit in pattern.finditer(text):
            start, end = span_of(hit, group)
            offset += width(text[at:start])
            size = width(text[start:end])
            yield offset, offset + size
            offset, at = offset + size, end

    return spans


def span_of(hit: Any, group: int) -> tuple[int, int]:
    """Where the group stands; the whole match where the group took no part."""
    start, end = hit.span(group)
    return (start, end) if start >= 0 else hit.span(0)


def width(text: str) -> int:
    """How many bytes a part of a decoded text was."""
    return len(text.encode(errors="surrogateescape"))
