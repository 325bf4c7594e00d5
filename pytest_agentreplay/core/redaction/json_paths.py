"""JSON paths: where in the bytes of a body the values stand that a policy names by their path.

A value is a string or a number; a path that names an object or a list means all the values in it. A body that is no
JSON has no paths; of a stream, each line that is JSON does.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.core.selector import Place, Selector

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_JSON_LINE = re.compile(rb"^(?:data:[ \t]?)?(\{.*\}|\[.*\])[ \t]*\r?$", re.MULTILINE)


def find_paths(data: bytes, paths: Iterable[tuple[str, Selector]]) -> Iterator[tuple[int, int, str]]:
    """Where the values of `paths`, (category, path), stand, as (start, end, category); strings without their quotes."""
    whole = parsed(data)
    if whole is not None:
        yield from in_document(data, 0, whole, paths)
        return
    for line in _JSON_LINE.finditer(data):
        if (tree := parsed(line[1])) is not None:
            yield from in_document(line[1], line.start(1), tree, paths)


def parsed(data: bytes) -> Any:
    """The JSON that `data` is, or None."""
    if data.lstrip()[:1] not in {b"{", b"["}:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def in_document(
    data: bytes, offset: int, tree: Any, paths: Iterable[tuple[str, Selector]]
) -> Iterator[tuple[int, int, str]]:
    """The same in one document, which begins at `offset`."""
    wanted = [(place, category) for category, path in paths for place, _ in path.find(tree)]
    if not wanted:
        return
    for place, start, end in values(data):
        category = next((category for top, category in wanted if place[: len(top)] == top), None)
        if category is not None and end > start:
            yield offset + start, offset + end, category


def values(data: bytes) -> Iterator[tuple[Place, int, int]]:
    """Every string and number of a JSON document with its place and its bytes."""
    place: list[str | int] = []
    keyed: list[bool] = []
    is_key = False
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[" as mark:
                keyed.append(mark == b"{")
                place.append(0)
                is_key = mark == b"{"
            case b"}" | b"]":
                keyed.pop()
                place.pop()
                is_key = False
            case b",":
                is_key = keyed[-1]
                if not is_key:
                    place[-1] = int(place[-1]) + 1
            case b":":
                is_key = False
            case text if is_key:
                place[-1] = json.loads(text)
            case text if text[:1] == b'"':
                yield tuple(place), token.start() + 1, token.end() - 1
            case text if text[:1] in b"-0123456789":
                yield tuple(place), token.start(), token.end()
            case _:
                pass
