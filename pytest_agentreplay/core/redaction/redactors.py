"""Redactors: functions of a project's own that say where in a text something stands that nobody else may read.

Each becomes a shape, so that it is asked wherever the shipped shapes are. One that raises is not asked to explain: the
whole text goes, and the run is not written, since nobody knows what it would have found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias, cast

from pytest_agentreplay.core.redaction.shapes import SecretShape

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

Redactor: TypeAlias = Callable[[str], "Iterable[tuple[int, int]] | str | None"]
"""Takes a text; gives (start, end) of what must go, or the text without it, or None where there is nothing."""

EVERYWHERE = 1 << 40
"""A redactor may look at all of a text, so no part of it can be judged alone."""
ALIKE = 4096


@dataclass(frozen=True, slots=True)
class RedactorHit:
    """One place, as a match of a regular expression tells it."""

    text: bytes = field(repr=False)
    begin: int
    finish: int

    def span(self, group: int | str = 0) -> tuple[int, int]:
        """Where it stands."""
        del group
        return self.begin, self.finish

    def start(self, group: int | str = 0) -> int:
        """Where it begins."""
        return self.span(group)[0]

    def end(self, group: int | str = 0) -> int:
        """Where it ends."""
        return self.span(group)[1]

    def __getitem__(self, group: int | str) -> bytes:
        return self.text[self.begin : self.finish]


class Called:
    """A redactor, asked as a pattern is. `broken` is the type of what it raised, "" as long as it never did."""

    def __init__(self, redactor: Redactor) -> None:
        """Begin unbroken."""
        self._redactor = redactor
        self.broken = ""

    @property
    def groupindex(self) -> object:
        """There are no groups."""
        return {}

    def finditer(self, text: bytes, /) -> Iterator[re.Match[bytes]]:
        """What the redactor finds; the whole text when it raises, or gives what is no answer."""
        readable = text.decode(errors="surrogateescape")
        try:
            spans = spans_of(self._redactor(readable), readable)
        except Exception as error:  # whatever it is: the text of an error repeats what it was about
            self.broken = self.broken or type(error).__name__
            spans = [(0, len(readable))]
        size = at = 0
        for start, end in spans:
            begin = size + len(readable[at:start].encode(errors="surrogateescape"))
            size = begin + len(readable[start:end].encode(errors="surrogateescape"))
            at = end
            if begin < size:
                yield cast("re.Match[bytes]", RedactorHit(text, begin, size))


def shapes_of(redactors: Mapping[str, Redactor]) -> tuple[SecretShape, ...]:
    """The shapes of functions by category; new ones for each run, since they remember what went wrong."""
    return tuple(SecretShape(category, Called(redactor), EVERYWHERE) for category, redactor in redactors.items())


def broken(shapes: Iterable[SecretShape]) -> dict[str, str]:
    """By category, the type of what its redactor has raised."""
    return {shape.category: why for shape in shapes if (why := getattr(shape.pattern, "broken", ""))}


def spans_of(answer: Iterable[tuple[int, int]] | str | None, text: str) -> list[tuple[int, int]]:
    """What a redactor answered, as places in `text` in order. Raises ValueError and its kin for what is none."""
    if answer is None:
        return []
    if isinstance(answer, str):
        return changed(text, answer)
    spans = sorted((int(start), int(end)) for start, end in answer)
    at = 0
    for start, end in spans:
        if not at <= start <= end <= len(text):
            msg = "spans lie in the text and do not overlap"
            raise ValueError(msg)
        at = end
    return spans


def changed(text: str, now: str) -> list[tuple[int, int]]:
    """What of `text` is no longer there in `now`."""
    if text == now:
        return []
    if len(text) > ALIKE or len(now) > ALIKE:
        return [(0, len(text))]
    steps = SequenceMatcher(None, text, now, autojunk=False).get_opcodes()
    return [(start, end) for what, start, end, *_ in steps if what in {"replace", "delete"}] or [(0, len(text))]
