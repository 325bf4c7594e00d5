"""The replay kit as text: the grade and its reasons, then every field in its group, captured or not."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pytest_agentreplay.core.diff.texts import shorten
from pytest_agentreplay.report.escape import line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.kit import Kit
    from pytest_agentreplay.core.model import JsonObject

STATUS, NAME = 10, 21  # columns of a field's status and name
ROWS = 3  # lines that one value takes at most


def text(kit: Kit, *, width: int = 80) -> str:
    """The kit in lines of `width` columns."""
    return "\n".join(rows(kit, max(60, width)))


def rows(kit: Kit, width: int) -> Iterator[str]:
    """The lines of a kit."""
    yield f"grade {kit.grade.name.lower() if len(kit.grade.name) > 1 else kit.grade.name}: {kit.grade.value}"
    for reason in kit.reasons:
        yield from wrapped(reason, width, "  - ", "    ")
    group = ""
    for field in kit.fields:
        if field.group != group:
            group = field.group
            yield ""
            yield group
        head = f"  {field.status.value:{STATUS}}{field.name:{NAME}}"
        room = width - len(head)
        yield from wrapped(shorten(line(field.value), ROWS * room * 4 // 5), width, head, " " * len(head))


def wrapped(text: str, width: int, first: str, then: str) -> list[str]:
    """A text behind `first`, going on below itself."""
    rows = textwrap.wrap(line(text), width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)
    return rows or [first.rstrip()]


def plain(kit: Kit) -> JsonObject:
    """The kit as JSON."""
    return {
        "grade": kit.grade.name.lower() if len(kit.grade.name) > 1 else kit.grade.name,
        "says": kit.grade.value,
        "reasons": list(kit.reasons),
        "fields": [
            {"group": field.group, "name": field.name, "status": field.status.value, "value": field.value}
            for field in kit.fields
        ],
    }
