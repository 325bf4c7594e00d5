"""Iterators that a tool is given as arguments: read before the call, so that what they hold can be compared.

In a replay nobody consumes them, so they are read then as they were when recording. The tool gets a generator of the
same items; an exception that the reading ended with is raised where it would have been. What is read by its state
(the iterator of a list) and instances of the user's own iterator classes are left alone.
"""

from __future__ import annotations

import itertools
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.values import ArgumentContent
from pytest_agentreplay.values.hints import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

MOST = 1000
"""Items that are read and compared; an iterator may have no end."""

_READ = (GeneratorType, map, filter, zip, enumerate)


class ReadIterator:
    """What an iterator held: compared by these attributes."""

    def __init__(self, iterator: Any) -> None:
        """Read it, to its end or as far as MOST."""
        self.kind = dotted(type(iterator))
        self.items: list[Any] = []
        self.error: BaseException | None = None
        self.more = False
        self._iterator = iterator
        try:
            for item in itertools.islice(iterator, MOST):
                self.items.append(item)
        except Exception as error:
            self.error = error
        self.more = self.error is None and len(self.items) == MOST

    def again(self) -> Generator[Any, Any, Any]:
        """The same items anew, and what was not read."""
        yield from self.items
        if self.error is not None:
            raise self.error
        if self.more:
            yield from self._iterator


Given: TypeAlias = "tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]"
"""Positional arguments, those of a `*` parameter, and keywords."""


def replaced(values: tuple[Any, ...], star: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Given, Given]:
    """Return the arguments to compare, where iterators have been read, and those to call the tool with."""
    given = values, star, keywords
    if not any(map(is_read, (*values, *star, *keywords.values()))):
        return given, given
    known: dict[int, ReadIterator] = {}

    def read(value: Any) -> Any:
        if not is_read(value):
            return value
        if id(value) not in known:
            known[id(value)] = ReadIterator(value)
        return known[id(value)]

    def again(value: Any) -> Any:
        return value.again() if type(value) is ReadIterator else value

    compared = _each(given, read)
    return compared, _each(compared, again)


def _each(given: Given, change: Callable[[Any], Any]) -> Given:
    values, star, keywords = given
    return (*map(change, values),), (*map(change, star),), {name: change(value) for name, value in keywords.items()}


def is_read(value: Any) -> bool:
    """Whether an argument is an iterator that has to be read to be compared."""
    kind = type(value)
    return kind in _READ or kind.__module__ == "itertools"


def content(value: Any) -> ArgumentContent | None:
    """What an iterator that was read is compared by; None of anything else."""
    if type(value) is not ReadIterator:
        return None
    held: dict[str, Any] = {"items": value.items}
    if value.error is not None:
        held["error"] = [dotted(type(value.error)), str(value.error)]
    return ArgumentContent(held, kind=value.kind, gap=f"goes on after {MOST:,} items" if value.more else "")
