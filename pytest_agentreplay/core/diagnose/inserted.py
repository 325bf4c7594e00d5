"""Whether a model call is a changed one, or one of its own that somebody has put in: a guard, a title, a summary.

A changed call differs in one respect and keeps the others: an agent whose prompt is edited has its tools, one whose
tools are dropped has its prompt and its messages. A call that was put in shares at most what the user has said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.diagnose.provenance import strings
from pytest_agentreplay.core.diagnose.sections import name_of_tool, role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.core.model import Json
    from pytest_agentreplay.core.reading import CallReading

ALIKE = 1 / 3
"""The share of its words that the longer of two system texts has in common with the other, if one became the other."""

_WORD = re.compile(r"\w+")


def is_inserted(now: CallReading, due: CallReading) -> bool:
    """Return whether the call `now` is not what became of the recorded call `due`."""
    system, tools = _system_alike(now, due), _tools_alike(now.tools, due.tools)
    if system or tools:
        return False
    shared = len(_spoken(now) & _spoken(due))
    if system is None and tools is None:
        return not shared and now.name != due.name
    return shared < 2 if system is False and tools is False else not shared


def _system_alike(now: CallReading, due: CallReading) -> bool | None:
    """Whether two calls have much the same system text; None where neither has any."""
    words, others = _system_words(now), _system_words(due)
    if not words and not others:
        return None
    return len(words & others) >= ALIKE * max(len(words), len(others))


def _system_words(reading: CallReading) -> set[str]:
    texts = [text for part in (*reading.system, *_of_system(reading)) for text in strings(part)]
    return {word for text in texts for word in _WORD.findall(text.casefold())} - {"system", "developer"}


def _of_system(reading: CallReading) -> list[Json]:
    return [message for message in reading.messages if role(message) == "system"]


def _tools_alike(now: Sequence[Json], due: Sequence[Json]) -> bool | None:
    """Whether two calls offer a tool of the same name; None where neither offers any."""
    if not now and not due:
        return None
    return not {name_of_tool(tool) for tool in now}.isdisjoint(name_of_tool(tool) for tool in due)


def _spoken(reading: CallReading) -> set[str]:
    """The messages that are no system text, as comparable texts."""
    return {canonical(message) for message in reading.messages if role(message) != "system"}
